#![expect(
    clippy::disallowed_methods,
    reason = "a tokens file is not part of a store"
)]

use super::*;
use std::fs::{Permissions, write};
use tempfile::TempDir;

fn stanza(name: &str, token: &str, rights: &str) -> String {
    let hash = TokenHash::of(token.as_bytes());
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{rights}\n")
}

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new(text: &str) -> (Self, TokensInForce) {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fixture.write(text);
        let tokens = TokensInForce::read(&fixture.file()).unwrap();
        (fixture, tokens)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("tokens.toml")
    }

    fn write(&self, text: &str) {
        write(self.file(), text).unwrap();
        std::fs::set_permissions(self.file(), Permissions::from_mode(0o600)).unwrap();
    }
}

fn knows(tokens: &TokensInForce, token: &str) -> bool {
    tokens.find(&TokenHash::of(token.as_bytes())).is_some()
}

/// Whether the file is stale, and how often tokens were taken from it.
fn state(tokens: &TokensInForce) -> (bool, u64) {
    let is_stale = tokens.is_stale.load(Ordering::Relaxed);
    (is_stale, tokens.loads.load(Ordering::Relaxed))
}

#[test]
fn a_file_is_read_again_when_it_changes() {
    let one = stanza("one", "1", "read = true");
    let (fixture, tokens) = Fixture::new(&one);
    assert!(knows(&tokens, "1") && !knows(&tokens, "2"));
    tokens.reload(false);
    assert_eq!(state(&tokens), (false, 1));

    let held = tokens.find(&TokenHash::of(b"1")).unwrap();
    fixture.write(&format!("{one}{}", stanza("two", "2", "")));
    tokens.reload(false);
    assert!(knows(&tokens, "1") && knows(&tokens, "2"));
    assert!(!held.is_superseded(), "it has not changed");

    fixture.write(&stanza("two", "2", ""));
    tokens.reload(false);
    assert!(!knows(&tokens, "1") && knows(&tokens, "2"));
    assert!(held.is_superseded());
    assert_eq!(state(&tokens), (false, 3));
}

#[test]
fn a_file_that_cannot_be_used_leaves_the_last_tokens_in_force() {
    let right = stanza("one", "1", "read = true");
    let (fixture, tokens) = Fixture::new(&right);
    for (number, break_it) in [
        (&|| std::fs::remove_file(fixture.file()).unwrap()) as &dyn Fn(),
        &|| fixture.write(""),
        &|| fixture.write("[[token]]\nname = \"one\"\n"),
        &|| write(fixture.file(), [0xff, 0xfe]).unwrap(),
        &|| {
            let open = Permissions::from_mode(0o622);
            std::fs::set_permissions(fixture.file(), open).unwrap();
        },
        &|| {
            std::fs::remove_file(fixture.file()).unwrap();
            std::fs::create_dir(fixture.file()).unwrap();
        },
    ]
    .into_iter()
    .enumerate()
    {
        let loads = number as u64 + 1;
        break_it();
        for is_ordered in [false, true] {
            tokens.reload(is_ordered);
            assert!(knows(&tokens, "1"), "{number}");
            assert_eq!(state(&tokens), (true, loads), "{number}");
        }
        let _ = std::fs::remove_dir(fixture.file());
        fixture.write(&right);
        tokens.reload(false);
        assert_eq!(state(&tokens), (false, loads + 1), "{number}");
    }
}

#[test]
fn the_first_file_must_be_right_and_the_refusal_names_it() {
    let (fixture, _) = Fixture::new(&stanza("one", "1", ""));
    for (mode, words) in [(0o660, "mode 660"), (0o602, "chmod go-w")] {
        std::fs::set_permissions(fixture.file(), Permissions::from_mode(mode)).unwrap();
        let problem = TokensInForce::read(&fixture.file()).err().unwrap();
        assert!(problem.contains(words), "{problem}");
        assert!(problem.contains("tokens.toml"), "{problem}");
    }
    fixture.write("[[token]]\nnam = \"one\"\n");
    let problem = TokensInForce::read(&fixture.file()).err().unwrap();
    assert!(
        problem.contains("tokens.toml") && problem.contains("nam"),
        "{problem}"
    );
    let missing = fixture.folder.path().join("missing");
    let problem = TokensInForce::read(&missing).err().unwrap();
    assert!(
        problem.contains("missing") && problem.contains("cannot read"),
        "{problem}"
    );
}
