//! What an operator does about a store that is damaged, so that the node does not start.

use super::seams::OpenError;
use crate::config::NodeConfig;
use std::path::Path;

/// What to do about damage in the data folder of a node.
pub(super) struct DamageRemedy(String);

impl DamageRemedy {
    /// What to do at this node: it ends with a command that moves the damaged files away.
    pub(super) fn of(config: &NodeConfig) -> Self {
        Self::new(
            &config.data,
            config.members.is_single_node(),
            config.expect_data,
        )
    }

    fn new(data: &Path, is_single_node: bool, expects_data: bool) -> Self {
        let option = if expects_data {
            ", once with --expect-data=off"
        } else {
            ""
        };
        let what = if is_single_node {
            "check the disk, then put the last copy of the folder in its place. To move the damaged \
             files away"
                .to_owned()
        } else {
            format!(
                "check the disk, then move the damaged files away and start the node{option}, and \
                 the other nodes rebuild its store. To move them away"
            )
        };
        let data = data.display().to_string();
        let (from, to) = (shell_word(&data), shell_word(&format!("{data}.damaged")));
        Self(format!("{what}: mkdir {to} && mv {from}/* {to}"))
    }

    /// The error with what to do, if the store is damaged.
    pub(super) fn explain(&self, error: impl Into<OpenError>) -> OpenError {
        match error.into() {
            OpenError::Store(error @ lsm::Error::Corrupt { .. }) => OpenError::Damaged {
                error,
                remedy: self.0.clone(),
            },
            error => error,
        }
    }
}

/// A word as a shell reads it.
fn shell_word(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+:@".contains(char);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_ends_with_a_command_that_a_shell_reads() {
        let remedy = |data: &str, is_single_node, expects_data| {
            DamageRemedy::new(Path::new(data), is_single_node, expects_data).0
        };
        let of_cluster = remedy("/var/lib/kvorum", false, true);
        assert!(of_cluster.contains("--expect-data=off"), "{of_cluster}");
        let command =
            ": mkdir /var/lib/kvorum.damaged && mv /var/lib/kvorum/* /var/lib/kvorum.damaged";
        assert!(of_cluster.ends_with(command), "{of_cluster}");
        let alone = remedy("/it's here", true, false);
        let command =
            r": mkdir '/it'\''s here.damaged' && mv '/it'\''s here'/* '/it'\''s here.damaged'";
        assert!(alone.ends_with(command), "{alone}");
        assert!(alone.contains("the last copy"), "{alone}");
    }

    #[test]
    fn only_damage_gets_the_remedy() {
        let remedy = DamageRemedy::new(Path::new("/data"), false, false);
        let corrupt = lsm::Error::Corrupt {
            file: Path::new("/data/1.wal").into(),
            offset: 5,
            what: "the log ends early here".into(),
        };
        let damaged = remedy.explain(corrupt).to_string();
        assert_eq!(
            damaged,
            "cannot open the store: corruption in /data/1.wal at offset 5: the log ends early \
             here; check the disk, then move the damaged files away and start the node, and the \
             other nodes rebuild its store. To move them away: mkdir /data.damaged && mv /data/* /data.damaged"
        );
        let other = remedy.explain(lsm::Error::DiskFull);
        assert!(matches!(other, OpenError::Store(_)), "{other}");
    }
}
