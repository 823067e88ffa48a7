//! Decode UTF-8 as Java does.

use std::borrow::Cow;

/// What Java's `new String(bytes, UTF_8)` returns: bytes that are not UTF-8 become U+FFFD. Java and Rust replace them by the
/// same number of U+FFFD, except encoded surrogates: Java replaces each by one.
pub fn java_utf8(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replaced(bytes)),
    }
}

#[cold]
fn replaced(bytes: &[u8]) -> String {
    let is_surrogate = |at: usize| bytes[at] == 0xed && matches!(bytes.get(at + 1), Some(0xa0..=0xbf));
    let mut text = String::new();
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        if is_surrogate(at) {
            text.push_str(&String::from_utf8_lossy(&bytes[from..at]));
            text.push('\u{fffd}');
            at += 2 + usize::from(matches!(bytes.get(at + 2), Some(0x80..=0xbf)));
            from = at;
        } else {
            at += 1;
        }
    }
    text.push_str(&String::from_utf8_lossy(&bytes[from..]));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surrogate_is_one_replacement_and_other_bytes_are_replaced_one_by_one() {
        assert_eq!(java_utf8("käse".as_bytes()), "käse");
        assert_eq!(java_utf8(b"a\xed\xa0\x80b"), "a\u{fffd}b");
        assert_eq!(java_utf8(b"\xed\xbf"), "\u{fffd}");
        assert_eq!(java_utf8(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        assert_eq!(java_utf8(b"\xf0\x9f\x98"), "\u{fffd}");
    }
}
