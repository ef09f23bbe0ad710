//! Contexts: a cluster is saved once, and found by its name or because it is the current one.

use super::keys::url;
use crate::support::{free_port, kvorum, run_to_end, serve, started};
use std::path::Path;
use std::process::Output;

/// Runs a command of a user whose contexts are in `home`.
fn run(home: &Path, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = kvorum(words);
    command.env("XDG_CONFIG_HOME", home);
    run_to_end(command.envs(variables.iter().copied()))
}

#[test]
fn a_saved_cluster_is_asked_unless_another_is_named() {
    let (home, data, port) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        free_port(),
    );
    let _node = started(&mut serve(port, data.path()), port);
    let (node, down) = (&*url(port), "http://127.0.0.1:1");
    for (words, variables, code, said) in [
        (
            &["context", "use", "live"][..],
            &[][..],
            2,
            "there is no context live",
        ),
        (
            &["context", "add", "gone", "--url", down],
            &[],
            0,
            "gone is saved",
        ),
        (&["put", "k", "v", "--retries=0"], &[], 3, down),
        (
            &["context", "add", "live", "--url", node],
            &[],
            0,
            "kvorum context use live",
        ),
        (&["put", "k", "v", "--context=live"], &[], 0, ""),
        (&["put", "k", "v"], &[("KVORUM_CONTEXT", "live")], 0, ""),
        (&["put", "k", "v"], &[("KVORUM_URL", node)], 0, ""),
        (
            &["put", "k", "v", "--url", node],
            &[("KVORUM_CONTEXT", "nowhere")],
            0,
            "",
        ),
        (
            &["get", "k"],
            &[("KVORUM_CONTEXT", "nowhere")],
            2,
            "KVORUM_CONTEXT: there is no context nowhere",
        ),
        (
            &["context", "use", "live"],
            &[],
            0,
            "live is the current context",
        ),
        (
            &["context", "use", "live"],
            &[("KVORUM_URL", down)],
            0,
            "live is the current context, but KVORUM_URL is set",
        ),
        (
            &["context", "list"],
            &[("KVORUM_CONTEXT", "gone")],
            0,
            "commands use gone and not the current context",
        ),
        (&["get", "k"], &[], 0, ""),
        // The token of the environment is for other clusters than that of a context.
        (&["get", "k"], &[("KVORUM_TOKEN", "no token")], 0, ""),
        (
            &["get", "k", "--url", node],
            &[("KVORUM_TOKEN", "no token")],
            2,
            "KVORUM_TOKEN has no token",
        ),
        (&["get", "k", "--context=test"], &[], 2, "only gone, live"),
        (
            &["context", "remove", "live"],
            &[],
            0,
            "no context is current",
        ),
    ] {
        let output = run(home.path(), words, variables);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(said), "{words:?}: {stderr}");
    }
    let listed = run(home.path(), &["context", "list"], &[]);
    assert_eq!(
        String::from_utf8(listed.stdout).unwrap(),
        format!("  gone  {down}\n")
    );
}
