//! Hash, compare and append keys eight bytes at a time. Most keys are so short that a call of memcmp or memcpy costs more
//! than the work itself.

const WORD: usize = 8;

/// A hash of a key. Its upper bits are the better ones.
#[inline(always)]
pub fn hash(key: &[u8], seed: u64) -> u64 {
    let (words, rest) = key.as_chunks::<WORD>();
    let hash = words.iter().fold(seed ^ key.len() as u64, |hash, word| mixed(hash ^ u64::from_le_bytes(*word)));
    if rest.is_empty() { hash } else { mixed(hash ^ last_word(key)) }
}

#[inline(always)]
fn mixed(value: u64) -> u64 {
    let product = u128::from(value) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// The last eight bytes of a key. A shorter key is padded with zeros.
#[inline(always)]
fn last_word(key: &[u8]) -> u64 {
    if let Some(last) = key.last_chunk::<WORD>() {
        return u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let shift = 8 * (key.len() - 4);
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift;
    }
    key.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Whether two keys are equal.
#[inline(always)]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if let (Some(first), Some(other), 9..=16) = (a.first_chunk::<WORD>(), b.first_chunk::<WORD>(), a.len()) {
        return a.len() == b.len() && first == other && last_word(a) == last_word(b);
    }
    let (words, others) = (a.as_chunks::<WORD>().0, b.as_chunks::<WORD>().0);
    a.len() == b.len()
        && words.iter().zip(others).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b))
        && last_word(a) == last_word(b)
}

/// Appends up to eight bytes of `head`, and a key.
#[inline(always)]
pub fn append(bytes: &mut Vec<u8>, head: u64, head_bytes: usize, key: &[u8]) {
    let (end, grown) = (bytes.len(), head_bytes.min(WORD) + key.len());
    if bytes.capacity() - end < grown + WORD {
        grow(bytes, grown + WORD);
    }
    let (words, rest) = key.as_chunks::<WORD>();
    // SAFETY: there is room for `grown` bytes and one more word after the end. The word of the head is written at the end,
    // the words of the key after it. The last word ends at the end of the key, or begins at the beginning of a key that
    // is shorter than a word. So all of the `grown` bytes are written, and at most one word after them.
    unsafe {
        let start = bytes.as_mut_ptr().add(end);
        start.cast::<u64>().write_unaligned(head.to_le());
        let mut to = start.add(head_bytes.min(WORD));
        for word in words {
            to.cast::<[u8; WORD]>().write(*word);
            to = to.add(WORD);
        }
        if !rest.is_empty() {
            let back = if words.is_empty() { 0 } else { WORD - rest.len() };
            to.sub(back).cast::<u64>().write_unaligned(last_word(key).to_le());
        }
        bytes.set_len(end + grown);
    }
}

/// Grows by a quarter, so that many buckets waste little memory.
#[cold]
#[inline(never)]
fn grow(bytes: &mut Vec<u8>, least: usize) {
    bytes.reserve_exact(least.max(bytes.len() / 4).max(128));
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Common shapes of keys, made from a number.
    pub const SHAPES: [fn(u64) -> Vec<u8>; 4] = [
        |number| format!("key-{number:012}").into_bytes(),
        |number| number.to_string().into_bytes(),
        |number| number.to_be_bytes().to_vec(),
        |number| (number as u32).to_le_bytes().to_vec(),
    ];

    #[test]
    fn keys_of_any_length() {
        let bytes: Vec<u8> = (1..=255).collect();
        let mut all = Vec::new();
        for length in 0..40 {
            let key = &bytes[length..2 * length];
            let mut padded = key.to_vec();
            padded.resize(length.max(8), 0);
            assert_eq!(last_word(key).to_le_bytes(), padded[padded.len() - 8..], "{length}");
            for head_bytes in [0, 5, 8] {
                let before = all.len();
                append(&mut all, 0x0807_0605_0403_0201, head_bytes, key);
                assert_eq!(all[before..], [&bytes[..head_bytes], key].concat(), "{length} {head_bytes}");
            }
            assert!(same(key, &padded[..length]));
            for at in 0..length {
                let mut other = key.to_vec();
                other[at] ^= 0x80;
                assert!(!same(key, &other), "{length} {at}");
                assert_ne!(hash(key, 7), hash(&other, 7), "{length} {at}");
            }
            assert!(!same(key, &bytes[length..2 * length + 1]));
        }
    }

    #[test]
    fn hashes_are_even() {
        for (shape, key) in SHAPES.iter().enumerate() {
            let mut buckets = [0; 64];
            for number in 0..64_000 {
                buckets[(hash(&key(number), 0) >> 58) as usize] += 1;
            }
            assert!(buckets.iter().all(|&keys| (800..1200).contains(&keys)), "{shape} {buckets:?}");
        }
    }
}
