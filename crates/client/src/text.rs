//! Keys and values as text: percent form and base64; and text for people, in one line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character steers a terminal rather than being shown: all controls, and what breaks
/// lines or reverses the direction of text.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Text as one line that a terminal only shows: what would steer it is written as an escape. The
/// text may come from a node, and whoever answers at its address may be somebody else.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return text.into();
    }
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            // It escapes no others: a backslash stays one.
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.into()
}

/// Bytes as one line of text, which [`parse_percent`] reads again: what is no printable
/// UTF-8, and `%`, is written as `%XX`.
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
            if character == '%' || steers(character) {
                escape(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(character);
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// The bytes of a text in percent form; `None` for a broken escape.
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

/// The bytes of a text in base64, with padding; `None` for any other text.
pub fn parse_base64(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_nothing_that_steers_a_terminal() {
        let every: String = (0..0x3000).filter_map(char::from_u32).collect();
        let line = one_line(&every);
        assert!(!line.contains(steers) && !line.contains(['\n', '\x1b', '\u{9b}', '\u{202e}']));
        assert_eq!(one_line(&line), line, "an escaped line stays as it is");
        let text = "C:\\ 100% \u{5d0}\u{1f980}";
        assert_eq!(one_line(text), text);
    }

    #[test]
    fn forms_are_what_people_expect() {
        assert_eq!(one_line("a\x1b[31m\nb \u{e4}"), "a\\u{1b}[31m\\nb \u{e4}");
        let percent = percent_form("tab\t, \u{e4} and 5%".as_bytes());
        assert_eq!(percent, "tab%09, \u{e4} and 5%25");
        assert_eq!(percent_form(b"\xff"), "%FF");
        assert_eq!(parse_percent(b"a%00+%25").unwrap(), b"a\0+%");
    }

    #[test]
    fn all_bytes_survive_both_forms_in_one_line() {
        let every: Vec<u8> = (0..=u8::MAX).chain("\u{2028}\u{1f980}".bytes()).collect();
        let percent = percent_form(&every);
        assert!(!percent.contains(steers));
        assert_eq!(parse_percent(percent.as_bytes()).unwrap(), every);
        assert_eq!(
            parse_base64(STANDARD.encode(&every).as_bytes()).unwrap(),
            every
        );
        for broken in ["%", "%4", "%4g", "%+4", "50%"] {
            assert_eq!(parse_percent(broken.as_bytes()), None, "{broken}");
        }
        assert_eq!(parse_base64(b"YQ"), None);
    }
}
