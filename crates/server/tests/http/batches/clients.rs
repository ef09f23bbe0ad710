//! `/v0/batch` as clients in other languages use it: here Python's `requests`, which sends
//! all of a request before it reads the answer.

use crate::support::start;
use std::process::Command;

/// Sends batches, and checks the answers. Exits with 77 without the library.
const SCRIPT: &str = r#"
import json, sys
try:
    import requests
except ImportError:
    sys.exit(77)
url = sys.argv[1] + "/v0/batch"
headers = {"Content-Type": "application/x-ndjson"}
count = 20_000
lines = [json.dumps({"op": "put", "key": f"k{n}", "value": "v" * 100}) for n in range(count)]
body = ("\n".join(lines) + "\n").encode()
answer = requests.post(url, data=body, headers=headers, timeout=60)
assert answer.status_code == 200, answer.text
assert [json.loads(line)["status"] for line in answer.text.splitlines()] == [201] * count
gets = "".join(json.dumps({"op": "get", "key": f"k{n}"}) + "\n" for n in range(count))
answer = requests.post(url, data=gets.encode(), headers=headers, timeout=60)
values = [json.loads(line)["value"] for line in answer.text.splitlines()]
assert values == ["v" * 100] * count
# A generator is sent in chunks; its answers fit into the buffers of the connection.
chunked = requests.post(url, data=(line.encode() + b"\n" for line in lines[:200]), headers=headers, timeout=60)
assert len(chunked.text.splitlines()) == 200
refused = requests.post(url, data=body, timeout=60)
assert refused.status_code == 415, refused.status_code
"#;

#[test]
fn python_requests_sends_a_batch_and_reads_its_answers() {
    let node = start();
    let url = format!("http://{}", node.addresses()[0]);
    let run = Command::new("python3").args(["-c", SCRIPT, &url]).output();
    match run {
        Ok(run) if run.status.success() => {}
        Ok(run) if run.status.code() != Some(77) => {
            panic!("{}", String::from_utf8_lossy(&run.stderr));
        }
        // The test harness shows it with --nocapture.
        _ => eprintln!("skipped: python3 with the package requests is not installed"),
    }
}
