//! Conditions on records: those that do not meet all of them are dropped before anything is copied.

use std::collections::HashSet;

use regex::bytes::{Regex, RegexBuilder};

use crate::header::V2Header;
use crate::record::{Record, RecordHeader};

/// Conditions that a record must meet, all of them.
pub struct RecordConditions {
    /// Inclusive, in epoch ms.
    pub min_timestamp_ms: i64,
    /// Inclusive, in epoch ms.
    pub max_timestamp_ms: i64,
    /// None: any producer. Messages of v0 and v1 have the producer -1.
    pub producer_ids: Option<Vec<i64>>,
    /// None: any key.
    pub keys: Option<Keys>,
    pub patterns: Vec<Pattern>,
}

impl RecordConditions {
    /// Whether the header shows that no record of the batch meets the conditions. The header's largest timestamp is
    /// trusted, so its CRC must have been checked if CRCs are checked at all.
    pub fn skips_v2(&self, header: &V2Header) -> bool {
        let latest = header.max_timestamp;
        latest < self.min_timestamp_ms
            || (header.log_append_time() && latest > self.max_timestamp_ms)
            || !self.has_producer(header.producer_id)
    }

    /// Whether the records of a v2 batch, decompressed, have the bytes that keys and patterns look for.
    pub fn may_match(&self, section: &[u8]) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.may_be_in(section))
            && self.patterns.iter().all(|pattern| pattern.is_anchored || pattern.regex.is_match(section))
    }

    /// Whether the records of this producer meet the condition on producers.
    pub fn has_producer(&self, producer_id: i64) -> bool {
        self.producer_ids.as_ref().is_none_or(|ids| ids.contains(&producer_id))
    }

    /// Whether `matches` needs the headers of records.
    pub fn needs_headers(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.in_headers)
    }

    /// Whether a record meets the conditions, but for the one on its producer.
    #[inline(always)]
    pub fn matches(&self, record: &Record, headers: &[RecordHeader]) -> bool {
        self.min_timestamp_ms <= record.timestamp_ms
            && record.timestamp_ms <= self.max_timestamp_ms
            && self.keys.as_ref().is_none_or(|keys| keys.contains(record.key))
            && self.patterns.iter().all(|pattern| pattern.matches(record, headers))
    }
}

/// A set of keys.
pub struct Keys {
    has_null: bool,
    values: HashSet<Box<[u8]>>,
    /// The bits of the fingerprints of all keys. Nearly every other key is told apart by them.
    fingerprints: Box<[u64; FINGERPRINTS / 64]>,
    /// Finds the bytes of any of the keys. None: they are too many or too short.
    finder: Option<Regex>,
}

const FINGERPRINTS: usize = 1 << 16;
/// Searching a batch for the bytes of up to this many keys, none of them shorter, takes less time than reading its records.
/// The reference has the same limits.
const MOST_FOUND: usize = 16;
const LEAST_FOUND_BYTES: usize = 4;

impl Keys {
    /// None is the null key.
    pub fn new(keys: impl IntoIterator<Item = Option<Vec<u8>>>) -> Self {
        let fingerprints = Box::new([0; FINGERPRINTS / 64]);
        let mut set = Keys { has_null: false, values: HashSet::new(), fingerprints, finder: None };
        for key in keys {
            let Some(key) = key else {
                set.has_null = true;
                continue;
            };
            let bit = fingerprint(&key);
            set.fingerprints[bit / 64] |= 1 << (bit % 64);
            set.values.insert(key.into_boxed_slice());
        }
        set.finder = set.compile_finder();
        set
    }

    fn compile_finder(&self) -> Option<Regex> {
        let is_found = |key: &[u8]| key.len() >= LEAST_FOUND_BYTES;
        let all_found = !self.has_null && self.values.iter().all(|key| is_found(key));
        if !all_found || !(1..=MOST_FOUND).contains(&self.values.len()) {
            return None;
        }
        let keys: Vec<_> = self.values.iter().map(|key| literal(key)).collect();
        RegexBuilder::new(&keys.join("|")).unicode(false).build().ok()
    }

    /// Whether a record in these bytes may have one of the keys.
    fn may_be_in(&self, section: &[u8]) -> bool {
        self.finder.as_ref().is_none_or(|finder| finder.is_match(section))
    }

    #[inline(always)]
    pub fn contains(&self, key: Option<&[u8]>) -> bool {
        let Some(key) = key else { return self.has_null };
        let bit = fingerprint(key);
        self.fingerprints[bit / 64] & (1 << (bit % 64)) != 0 && self.values.contains(key)
    }
}

/// The regular expression that these bytes match, without Unicode.
pub fn literal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// A hash of a key's length, first and last bytes.
#[inline(always)]
fn fingerprint(key: &[u8]) -> usize {
    let mixed = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(&first), Some(&last)) => u64::from_ne_bytes(first) ^ u64::from_ne_bytes(last).rotate_left(29),
        _ => key.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte)),
    };
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ((mixed ^ key.len() as u64).wrapping_mul(GOLDEN) >> 48) as usize
}

/// A regular expression that one of some fields must match.
pub struct Pattern {
    pub regex: Regex,
    /// Whether a match depends on more than the bytes that match: on where the field begins or ends, or on the bytes
    /// beside them.
    pub is_anchored: bool,
    pub in_key: bool,
    pub in_value: bool,
    /// In the names and the values of headers.
    pub in_headers: bool,
}

impl Pattern {
    fn matches(&self, record: &Record, headers: &[RecordHeader]) -> bool {
        let found = |bytes: Option<&[u8]>| bytes.is_some_and(|bytes| self.regex.is_match(bytes));
        (self.in_key && found(record.key))
            || (self.in_value && found(record.value))
            || (self.in_headers && headers.iter().any(|&(name, value)| found(Some(name)) || found(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_several_lengths() {
        let keys = Keys::new([Some(b"a".to_vec()), Some(vec![b'b'; 70]), Some(vec![])]);
        assert!(keys.contains(Some(b"a")) && keys.contains(Some(&[b'b'; 70])) && keys.contains(Some(b"")));
        assert!(!keys.contains(Some(b"b")) && !keys.contains(Some(&[b'b'; 71])) && !keys.contains(None));
    }

    #[test]
    fn only_the_null_key() {
        let keys = Keys::new([None]);
        assert!(keys.contains(None) && !keys.contains(Some(b"")));
        assert!(keys.may_be_in(b""));
    }

    #[test]
    fn bytes_without_any_of_the_keys() {
        let keys = Keys::new([Some(b"a+b\x00c".to_vec()), Some(b"\xff\xfe\n|".to_vec())]);
        assert!(keys.may_be_in(b"..a+b\x00c") && keys.may_be_in(b"\xff\xfe\n|.."));
        assert!(!keys.may_be_in(b"aab\x00c") && !keys.may_be_in(b"\xff\xfe") && !keys.may_be_in(b""));
        for others in [vec![Some(b"abc".to_vec()), Some(b"abcd".to_vec())], vec![Some(b"abcd".to_vec()), None]] {
            assert!(Keys::new(others).may_be_in(b"-"));
        }
        let many = (0..=MOST_FOUND).map(|number| Some(format!("key {number}").into_bytes()));
        assert!(Keys::new(many.clone()).may_be_in(b"-") && !Keys::new(many.skip(1)).may_be_in(b"-"));
    }
}
