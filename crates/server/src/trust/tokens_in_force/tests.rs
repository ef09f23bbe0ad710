#![expect(
    clippy::disallowed_methods,
    reason = "a tokens file is not part of a store"
)]

use super::*;
use base::ManualClock;
use lsm::{Disk, RealDisk};
use std::fs::{Permissions, write};
use std::time::Duration;
use tempfile::TempDir;

fn stanza(name: &str, token: &str, rights: &str) -> String {
    let hash = TokenHash::of(token.as_bytes());
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{rights}\n")
}

/// 2026-11-28T00:00:00Z.
const NOW_MS: u64 = 1_795_824_000_000;

struct Fixture {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new(text: &str) -> (Self, TokensInForce) {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::new(NOW_MS)),
        };
        fixture.write(text);
        let tokens = fixture.read(&fixture.file()).unwrap();
        (fixture, tokens)
    }

    /// Reads a file for the first time, with what the nodes share.
    fn read(&self, file: &Path) -> Result<TokensInForce, String> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::default());
        let store = TokensStore::new(&disk, self.folder.path());
        TokensInForce::read(file, store, &self.clock())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
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
        let problem = fixture.read(&fixture.file()).err().unwrap();
        assert!(problem.contains(words), "{problem}");
        assert!(problem.contains("tokens.toml"), "{problem}");
    }
    fixture.write("[[token]]\nnam = \"one\"\n");
    let problem = fixture.read(&fixture.file()).err().unwrap();
    assert!(
        problem.contains("tokens.toml") && problem.contains("nam"),
        "{problem}"
    );
    let missing = fixture.folder.path().join("missing");
    let problem = fixture.read(&missing).err().unwrap();
    assert!(
        problem.contains("missing") && problem.contains("cannot read"),
        "{problem}"
    );
}

#[test]
fn a_token_that_expires_is_superseded_also_while_the_file_is_wrong() {
    let ever = stanza("ever", "1", "read = true");
    let soon = stanza("soon", "2", "expires = \"2026-11-28T00:01:00Z\"");
    let later = stanza("later", "3", "expires = \"2026-11-28T00:02:00Z\"");
    let (fixture, tokens) = Fixture::new(&format!("{ever}{soon}{later}"));
    let held = tokens.find(&TokenHash::of(b"2")).unwrap();
    fixture.clock.advance(Duration::from_millis(59_999));
    tokens.reload(false);
    assert!(knows(&tokens, "2") && !held.is_superseded());
    fixture.clock.advance(Duration::from_millis(1));
    tokens.reload(false);
    assert!(!knows(&tokens, "2") && held.is_superseded());
    assert!(knows(&tokens, "1") && knows(&tokens, "3"));
    fixture.write("broken");
    tokens.reload(false);
    fixture.clock.advance(Duration::from_secs(60));
    tokens.reload(false);
    assert!(!knows(&tokens, "3") && knows(&tokens, "1"));
    assert!(tokens.is_stale());
    // One that has expired before is not there from the start.
    fixture.write(&format!("{ever}{soon}"));
    let again = fixture.read(&fixture.file()).unwrap();
    assert!(knows(&again, "1") && !knows(&again, "2"));
}

fn shared(name: &str, change: u64, token: &str, revoked: bool) -> SharedToken {
    SharedToken {
        name: name.to_owned(),
        change,
        revoked,
        sha256: TokenHash::of(token.as_bytes()).to_string(),
        read: true,
        write: false,
        prefixes_base64: Vec::new(),
        admin: false,
        metrics: false,
        expires: None,
    }
}

#[test]
fn a_shared_token_is_in_force_at_once_and_after_a_start_until_it_is_revoked() {
    let (fixture, tokens) = Fixture::new(&stanza("one", "1", "read = true"));
    tokens.share(shared("shop", 1, "2", false)).unwrap();
    assert!(knows(&tokens, "1") && knows(&tokens, "2"));
    let again = fixture.read(&fixture.file()).unwrap();
    assert!(knows(&again, "1") && knows(&again, "2"));
    let held = tokens.find(&TokenHash::of(b"2")).unwrap();
    tokens.share(shared("shop", 2, "2", true)).unwrap();
    assert!(!knows(&tokens, "2") && held.is_superseded());
    // A record of before, from a command that knew less, brings nothing back.
    tokens.share(shared("shop", 1, "2", false)).unwrap();
    assert!(!knows(&tokens, "2") && knows(&tokens, "1"));
    assert!(!knows(&fixture.read(&fixture.file()).unwrap(), "2"));
    assert_eq!(tokens.list().0, ["one"]);
    // What is wrong changes nothing.
    for wrong in ["", "two words"] {
        tokens.share(shared(wrong, 9, "3", false)).unwrap_err();
    }
    tokens.share(shared("new", 1, "4", false)).unwrap();
    fixture.write("broken");
    tokens.reload(false);
    tokens.share(shared("late", 1, "5", false)).unwrap_err();
    assert!(knows(&tokens, "4") && !knows(&tokens, "3") && !knows(&tokens, "5"));
}
