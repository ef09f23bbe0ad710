//! A page in a real browser uses a node by `fetch`, where the node lets it: it sends a batch,
//! all of it before it reads an answer, and reads the fields of the store.

use crate::support::{Client, config, start, start_with};
use http_testing::Connection;
use rustix::process::{Pid, Signal, kill_process_group};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How long the browser may take: only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The page. `OPEN` and `CLOSED` stand for the URLs of two nodes, of which the second one
/// serves no page.
const PAGE: &str = r#"<!doctype html><title>A page</title><script>
const expect = (found, wanted) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
};
const batch = async (operations) => {
  const body = operations.map((operation) => JSON.stringify(operation) + "\n").join("");
  const answer = await fetch("OPEN/v0/batch", { method: "POST", headers: { "Content-Type": "application/x-ndjson" }, body });
  expect(answer.status, 200);
  let text = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  return text.trim().split("\n").map((line) => JSON.parse(line));
};
const run = async () => {
  const keys = [...Array(20000).keys()].map((number) => "k" + number), value = "\u20ac".repeat(60);
  const puts = await batch(keys.map((key) => ({ op: "put", key, value })));
  expect(puts.every((answer) => answer.status === 201) && puts.length, keys.length);
  const gets = await batch(keys.map((key) => ({ op: "get", key })));
  expect(gets.every((answer) => answer.value === value) && gets.length, keys.length);
  const url = "OPEN/v0/entity?id=%00%FF%2B";
  const bytes = new Uint8Array([0, 255, 10]);
  const put = await fetch(url + "&ttl=60", { method: "PUT", body: bytes });
  expect([put.status, put.headers.get("Kvorum-Acks")], [201, "1/1"]);
  const get = await fetch(url);
  expect([...new Uint8Array(await get.arrayBuffer())], [...bytes]);
  expect(get.headers.get("Kvorum-Version"), put.headers.get("Kvorum-Version"));
  expect(get.headers.get("Kvorum-Expires").endsWith("Z"), true);
  const same = await fetch(url, { headers: { "If-None-Match": put.headers.get("ETag") }, cache: "no-store" });
  expect(same.status, 304);
  expect((await fetch(url, { method: "DELETE" })).status, 202);
  const gone = await fetch(url, { cache: "no-store" });
  expect([gone.status, (await gone.json()).title], [404, "No Such Entity"]);
  for (const init of [{}, { method: "PUT", body: "x" }, { method: "POST", mode: "no-cors", body: "x" }]) {
    const refused = await fetch("CLOSED/v0/entity?id=a", init).then((answer) => answer.type, () => "refused");
    expect(["refused", "opaque"].includes(refused), true);
  }
};
run().then(() => "ok", (error) => String(error.stack)).then((end) => fetch("/end", { method: "POST", body: end }));
</script>"#;

/// A browser that ends with the test, all of its processes.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Opens a page, if there is a browser.
fn open(url: &str, folder: &std::path::Path) -> Option<Browser> {
    let start = |program: &&str| {
        Command::new(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--remote-debugging-port=0",
                url,
            ])
            .arg(format!("--user-data-dir={}", folder.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()
    };
    PROGRAMS.iter().find_map(start).map(Browser)
}

/// Serves the page, and returns what it sends at its end; an error if nothing comes.
#[expect(
    clippy::disallowed_methods,
    reason = "the browser has a server of its own"
)]
fn serve_page(listener: TcpListener, page: String) -> Result<String, RecvTimeoutError> {
    let (sender, end) = channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            if let Some(end) = answer(stream, &page) {
                return drop(sender.send(end));
            }
        }
    });
    end.recv_timeout(PATIENCE)
}

/// Answers a request of the browser with the page, unless it tells the end.
fn answer(stream: TcpStream, page: &str) -> Option<String> {
    let mut connection = Connection::over(stream).unwrap();
    let request = connection.receive().ok()?;
    if (&*request.method, &*request.target) == ("POST", "/end") {
        return Some(String::from_utf8(request.body).unwrap());
    }
    let bytes = page.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n"
    );
    // A connection that the browser opened in vain has gone.
    let _ = connection.send(head + page);
    None
}

#[test]
fn a_page_of_an_allowed_origin_uses_the_node_by_fetch() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut config = config();
    config.cors_origins = vec![origin.clone()];
    let (open_node, closed_node) = (start_with(config), start());
    let folder = tempfile::tempdir().unwrap();
    let Some(_browser) = open(&origin, folder.path()) else {
        // The test harness shows it with --nocapture.
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let url = |node: &server::Server| format!("http://{}", node.addresses()[0]);
    let page = PAGE
        .replace("OPEN", &url(&open_node))
        .replace("CLOSED", &url(&closed_node));
    assert_eq!(serve_page(listener, page).as_deref(), Ok("ok"));
    let mut client = Client::connect(&closed_node);
    assert_eq!(client.get("/v0/entity?id=a").status, 404);
}
