//! Reads the file of `--cluster-secret-file`.

use crate::files::ReadFile;
use crate::private_file;
use server::Secret;
use std::path::Path;

/// Reads the secret of a file: its first line, without the white space around
/// it. The other lines are for people.
///
/// # Errors
/// A sentence that names the file and never its contents.
pub(crate) fn read(file: &Path, read_file: ReadFile<'_>) -> Result<Secret, String> {
    let line = private_file::first_line(file, read_file)?;
    Secret::new(line.as_bytes()).map_err(|error| {
        format!(
            "the first line of {} cannot be the secret: {}",
            file.display(),
            error.problem
        )
    })
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
    fn a_refusal_does_not_show_the_secret() {
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
