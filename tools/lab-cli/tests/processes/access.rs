//! `kvorum-lab load` with and without a token.

use crate::kvorum_lab;
use crate::support::{Process, free_port, kvorum, local, run_to_end, serve, wait_until};
use http_testing::Connection;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

fn text(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

#[test]
fn a_load_shows_its_token_to_nodes_and_prints_it_nowhere() {
    let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (tokens, token_file, json) = (path("tokens.toml"), path("token"), path("run.json"));
    let new = [
        "admin", "token", "new", "--name", "load", "--read", "--write",
    ];
    let made = run_to_end(kvorum(&new).args(["--append", &tokens]));
    assert!(made.status.success(), "{}", text(&made));
    std::fs::write(&token_file, &made.stdout).unwrap();
    std::fs::set_permissions(&token_file, Permissions::from_mode(0o600)).unwrap();
    let mut node = serve(port, &folder.path().join("data"));
    let _node = Process::spawn(node.args(["--tokens-file", &tokens]));
    // The status needs a token, and health needs none.
    wait_until("the node to be ready", || {
        let mut connection = Connection::connect(local(port)).ok()?;
        let answer = connection.request("GET", "/health/ready", "", b"").ok()?;
        (answer.status == 200).then_some(())
    });
    let url = format!("http://127.0.0.1:{port}");
    let load = |variables: &[(&str, &str)]| {
        let words = [
            "load",
            "put",
            "--keys",
            "100",
            "--duration",
            "300ms",
            "--warmup",
            "0",
        ];
        let mut command = kvorum_lab(&words);
        command
            .args(["--json", &json])
            .envs(variables.iter().copied());
        run_to_end(&mut command)
    };
    let loaded = load(&[("KVORUM_URL", &url), ("KVORUM_TOKEN_FILE", &token_file)]);
    assert_eq!(loaded.status.code(), Some(0), "{}", text(&loaded));
    let token = String::from_utf8(made.stdout).unwrap();
    let measured = std::fs::read_to_string(&json).unwrap() + &text(&loaded);
    assert!(!measured.contains(token.trim()), "{measured}");
    for (variables, word) in [
        (vec![("KVORUM_URL", &*url)], "--token-file"),
        (
            vec![("KVORUM_URL", &*url), ("KVORUM_TOKEN", "kvorum_wrong")],
            "--token-file",
        ),
        (
            vec![
                ("KVORUM_URL", "http://192.0.2.1:1"),
                ("KVORUM_TOKEN_FILE", &*token_file),
            ],
            "--token-in-clear",
        ),
    ] {
        let refused = load(&variables);
        let said = text(&refused);
        assert_eq!(refused.status.code(), Some(5), "{said}");
        assert!(
            said.contains(word) && !said.contains("kvorum_wrong"),
            "{said}"
        );
    }
}
