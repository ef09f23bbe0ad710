//! A headless Chromium, driven by the DevTools protocol.
//!
//! Chromium speaks it over two pipes, messages of JSON that each end with a zero byte, so
//! that neither a port nor a WebSocket is needed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The names that distributions give the program.
const PROGRAMS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// How long a test waits for something on a page. It is long, because only a test that
/// fails waits for all of it.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// How long a test sleeps between two looks at a page.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The widths at which every page must work, in pixels: those of a phone, a tablet and a desk;
/// each with the colours that it is looked at in.
pub(crate) const PAGE_WIDTHS: [(u32, &str); 3] = [(360, "dark"), (800, "light"), (1400, "dark")];

/// The variable that names the file of axe-core.
const AXE: &str = "KVORUM_AXE";

/// Chromium has its pipes at 3 and 4; the shell moves them there.
const SHELL: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"#;

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    requests: ChildStdin,
    messages: Receiver<Vec<u8>>,
    session: Option<String>,
    last_id: u64,
    /// What went wrong in the page: exceptions, violations of its policy, messages.
    errors: Vec<String>,
    /// The URLs that the page has asked for.
    asked: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser. `None`, and a line that says so, if none is installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = installed() else {
            eprintln!("no Chromium is installed: the console is not tested in a browser");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut folder = std::ffi::OsString::from("--user-data-dir=");
        folder.push(profile.path());
        let mut process = Command::new("sh")
            .args(["-c", SHELL])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--disable-gpu"])
            // It is a test's own page, and tests may run as root or without namespaces.
            .args([
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut browser = Self {
            requests: process.stdin.take().unwrap(),
            messages: messages_from(process.stdout.take().unwrap()),
            process,
            session: None,
            last_id: 0,
            errors: Vec::new(),
            asked: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            &json!({"targetId": page["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut request = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&request).unwrap();
        bytes.push(0);
        self.requests.write_all(&bytes).unwrap();
        loop {
            let message = self.next_message();
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn next_message(&mut self) -> Value {
        let bytes = self.messages.recv_timeout(WAIT_MAX);
        serde_json::from_slice(&bytes.expect("the browser answers in time")).unwrap()
    }

    /// Notes an event.
    fn note(&mut self, message: &Value) {
        let what = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(what.to_string()),
            Some("Runtime.consoleAPICalled") => self.errors.push(what.to_string()),
            // That a request was answered 404 or 504 is no error of the page.
            Some("Log.entryAdded") if what["entry"]["source"] != "network" => {
                self.errors.push(what.to_string());
            }
            Some("Network.requestWillBeSent") => {
                let url = what["request"]["url"].as_str().unwrap();
                self.asked.push(url.to_owned());
            }
            _ => {}
        }
    }

    /// Opens a page, and waits until the console has drawn it.
    pub(crate) fn open(&mut self, url: &str) {
        // A change of the fragment alone would not load the page anew.
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.call("Page.navigate", &json!({"url": url}));
        self.wait_for("document.querySelector('header .served.good') !== null");
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", &parameters);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        // While a page loads there may be no element to ask.
        let safe = format!(
            "(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        );
        until(expression, || self.evaluate(&safe) == true);
    }

    /// Waits until an element has this text.
    pub(crate) fn wait_for_text(&mut self, selector: &str, text: &str) {
        let expression = format!(
            "document.querySelector({}).textContent.includes({})",
            json!(selector),
            json!(text)
        );
        self.wait_for(&expression);
    }

    /// Clicks an element.
    pub(crate) fn click(&mut self, selector: &str) {
        self.wait_for(&format!(
            "document.querySelector({}) !== null",
            json!(selector)
        ));
        self.evaluate(&format!(
            "document.querySelector({}).click()",
            json!(selector)
        ));
    }

    /// Chooses a value of a list.
    pub(crate) fn choose(&mut self, selector: &str, value: &str) {
        self.evaluate(&format!(
            "(() => {{ const list = document.querySelector({}); list.value = {}; \
             list.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()",
            json!(selector),
            json!(value)
        ));
    }

    /// Types text where the focus is.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Presses a key: `Tab`, `Enter`, `Escape` or an arrow.
    pub(crate) fn press(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Gives the page a size, in pixels.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Prefers dark or light pages.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// What axe-core finds on the page that is serious: names of rules and elements.
    pub(crate) fn judge(&mut self, axe: &str) -> Value {
        // The protocol may run what the page's policy forbids the page.
        self.evaluate(&format!("{axe}; window.found = undefined; 0"));
        self.evaluate("axe.run().then((found) => (window.found = found)); 0");
        self.wait_for("window.found !== undefined");
        self.evaluate(
            "found.violations.filter((rule) => ['serious', 'critical'].includes(rule.impact))\
             .map((rule) => [rule.id, rule.nodes.map((node) => node.html)])",
        )
    }

    /// Takes a picture of what is seen, as the bytes of a file in a format: `webp` or `png`.
    pub(crate) fn picture(&mut self, format: &str) -> Vec<u8> {
        let fading = "document.getAnimations().some((each) => each instanceof CSSTransition)";
        self.wait_for(&format!("!{fading}"));
        let parameters = match format {
            "png" => json!({"format": format}),
            _ => json!({"format": format, "quality": 60}),
        };
        let picture = self.call("Page.captureScreenshot", &parameters);
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// Checks that nothing went wrong, and that the page asked only this origin.
    pub(crate) fn assert_calm(&mut self, origin: &str) {
        // Events that are on their way come before this answer.
        self.evaluate("0");
        assert_eq!(self.errors, Vec::<String>::new());
        let own = |url: &String| {
            url.strip_prefix(origin)
                .is_some_and(|rest| rest.starts_with('/'))
                || url.starts_with("about:")
        };
        let elsewhere: Vec<_> = self.asked.iter().filter(|url| !own(url)).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
        assert!(self.asked.len() > 3, "{:?}", self.asked);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// The text of axe-core. None, and a line that says so, if no file of it is named.
pub(crate) fn axe() -> Option<String> {
    let file = std::env::var_os(AXE);
    if file.is_none() {
        eprintln!("{AXE} names no axe-core: run checks/accessibility");
    }
    file.map(|file| std::fs::read_to_string(file).unwrap())
}

/// The messages of a browser, up to its end. A thread reads them, because a pipe that is
/// silent would block a test for ever.
#[expect(clippy::disallowed_methods, reason = "the browser runs in real time")]
fn messages_from(stdout: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut bytes = Vec::new();
            let read = stdout.read_until(0, &mut bytes);
            if read.is_err() || bytes.pop() != Some(0) || sender.send(bytes).is_err() {
                return;
            }
        }
    });
    messages
}

/// The browser of this machine, if it has one.
fn installed() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let all = PROGRAMS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let mut all = all.filter(|path| path.is_file());
    all.next()
}

/// Waits until a condition holds; `what` names it.
#[expect(
    clippy::disallowed_methods,
    reason = "these tests watch a browser that runs in real time"
)]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < WAIT_MAX, "gave up waiting until {what}");
        std::thread::sleep(LOOK_INTERVAL);
    }
}
