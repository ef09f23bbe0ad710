//! The file of `--cluster-secret-file`.

use crate::layers::ReadFile;
use node::Secret;
use std::path::Path;

/// Reads the secret in a file: its first line, without the space around it.
/// What follows is for people.
///
/// # Errors
/// A sentence that names the file, and never what stands in it.
pub(crate) fn read(file: &Path, read_file: ReadFile<'_>) -> Result<Secret, String> {
    let name = file.display();
    let text = read_file(file).map_err(|error| format!("cannot read {name}: {error}"))?;
    let line = text.lines().next().unwrap_or_default().trim();
    Secret::new(line.as_bytes())
        .map_err(|error| format!("the first line of {name} is no secret: {}", error.problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_secret_is_the_first_line() {
        for text in [
            "0123456789abcdef",
            "0123456789abcdef\n",
            " \t0123456789abcdef \r\nnot this",
        ] {
            let secret = read(Path::new("s"), &|_| Ok(text.to_owned())).unwrap();
            assert_eq!(secret.as_bytes(), b"0123456789abcdef", "{text:?}");
        }
    }

    #[test]
    fn what_is_no_secret_is_said_without_showing_it() {
        let long = "0123456789abcdef".repeat(1000);
        for (text, words) in [
            ("", "0 bytes"),
            ("\n0123456789abcdef", "0 bytes"),
            ("0123456789abcde", "15 bytes"),
            (&long, "16000 bytes"),
        ] {
            let error = read(Path::new("s.txt"), &|_| Ok(text.to_owned())).unwrap_err();
            for word in ["s.txt", words, "give 16 to 4096"] {
                assert!(error.contains(word), "{text:?}: {error}");
            }
            assert!(!error.contains("01234"), "{error}");
        }
        let error = read(Path::new("s.txt"), &|_| Err(io::ErrorKind::NotFound.into()));
        assert!(error.unwrap_err().contains("cannot read s.txt"));
    }
}
