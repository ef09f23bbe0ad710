//! Keys and values as text: percent form and base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;

/// Bytes as one line of text, which [`parse_percent`] reads again: what is no printable
/// UTF-8, and `%`, is written as `%XX`.
///
/// ```
/// assert_eq!(client::percent_form("tab\t, \u{e4} and 5%".as_bytes()), "tab%09, \u{e4} and 5%25");
/// assert_eq!(client::percent_form(b"\xff"), "%FF");
/// ```
pub fn percent_form(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let escape = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            // Writing to memory does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character == '%' || character.is_control() {
                true => escape(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(character),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// The bytes of a text in percent form; `None` for a broken escape.
///
/// ```
/// assert_eq!(client::parse_percent(b"a%00+%25").as_deref(), Some(&b"a\0+%"[..]));
/// assert_eq!(client::parse_percent(b"50%"), None);
/// ```
pub fn parse_percent(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let number = digit(*rest.next()?)? << 4 | digit(*rest.next()?)?;
                u8::try_from(number).ok()?
            }
            byte => *byte,
        });
    }
    Some(bytes)
}

/// Bytes in base64, with padding.
pub fn base64_form(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a text in base64, with padding; `None` for any other text.
pub fn parse_base64(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_survive_both_forms_in_one_line() {
        let every: Vec<u8> = (0..=u8::MAX).chain("\u{2028}\u{1f980}".bytes()).collect();
        let percent = percent_form(&every);
        assert!(!percent.contains(['\n', '\t', '\u{7f}']));
        assert_eq!(parse_percent(percent.as_bytes()).unwrap(), every);
        assert_eq!(parse_base64(base64_form(&every).as_bytes()).unwrap(), every);
        for broken in ["%", "%4", "%4g", "%+4"] {
            assert_eq!(parse_percent(broken.as_bytes()), None, "{broken}");
        }
        assert_eq!(parse_base64(b"YQ"), None);
    }
}
