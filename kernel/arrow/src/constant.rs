//! Buffers that repeat one value, for columns such as topic and partition. They are cached: every column is a slice of the
//! cached buffer and costs nothing, however many rows it has.

use std::sync::Mutex;

use arrow_buffer::Buffer;

/// Larger buffers are not cached.
const CACHED_BYTES: usize = 4 << 20;
const CACHED_BUFFERS: usize = 16;

#[derive(PartialEq, Eq)]
enum Content {
    Repeated(Vec<u8>),
    Offsets(usize),
}

static CACHE: Mutex<Vec<(Content, Buffer)>> = Mutex::new(Vec::new());

/// A buffer of `times` copies of `pattern`.
pub fn repeated(pattern: &[u8], times: usize) -> Buffer {
    // from_slice_ref aligns for any type, which from_vec of bytes does not.
    let make = |times: usize| Buffer::from_slice_ref(pattern.repeat(times));
    cached(Content::Repeated(pattern.to_vec()), pattern.len(), times, make)
}

/// The Arrow offsets of `times` strings of `step` bytes: 0, step, 2 step, ...
pub fn offsets(step: usize, times: usize) -> Buffer {
    let make =
        |count: usize| Buffer::from_slice_ref((0..count).map(|index| (index * step) as i32).collect::<Vec<i32>>());
    cached(Content::Offsets(step), size_of::<i32>(), times + 1, make)
}

fn cached(content: Content, element_bytes: usize, count: usize, make: impl Fn(usize) -> Buffer) -> Buffer {
    let bytes = element_bytes * count;
    let rounded = count.next_power_of_two().max(1 << 10);
    if bytes == 0 || element_bytes * rounded > CACHED_BYTES {
        return make(count);
    }
    // try_lock: see pool.rs.
    let Ok(mut cache) = CACHE.try_lock() else { return make(count) };
    if let Some((_, buffer)) = cache.iter().find(|(cached, buffer)| *cached == content && buffer.len() >= bytes) {
        return buffer.slice_with_length(0, bytes);
    }
    let buffer = make(rounded);
    cache.retain(|(cached, _)| *cached != content);
    if cache.len() == CACHED_BUFFERS {
        cache.remove(0);
    }
    cache.push((content, buffer.clone()));
    buffer.slice_with_length(0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_the_right_content() {
        for times in [0, 1, 5, 3000, 2_000_000] {
            assert_eq!(repeated(b"abc", times).as_slice(), b"abc".repeat(times));
            let expected: Vec<i32> = (0..=times as i32).map(|index| index * 3).collect();
            assert_eq!(offsets(3, times).typed_data::<i32>(), expected);
        }
    }
}
