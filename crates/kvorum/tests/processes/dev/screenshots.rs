//! The pictures of the console in the documents, taken of real nodes under load.
//! `checks/screenshots` runs this.

#![expect(clippy::disallowed_methods, reason = "pictures, not a store")]

use crate::browser::{Browser, PAGE_WIDTHS};
use crate::dev::commands::done;
use crate::dev::console::{console_of, take_step};
use crate::dev::started;
use crate::fixtures::generated_load::GeneratedLoad;
use crate::support::{free_ports, request, wait_until};
use load::Plan;
use load::plan::{Operation, Rate};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Where the pictures go.
const FOLDER: &str = "KVORUM_SCREENSHOTS";

/// Whether every page is wanted at three widths, in light and dark.
const ALL: &str = "KVORUM_SCREENSHOTS_ALL";

/// How many samples of ten seconds the charts are to have.
const SAMPLES: [usize; 3] = [5, 10, 15];

#[test]
#[ignore = "it loads a cluster for minutes and writes the pictures of the documents: run checks/screenshots"]
fn screenshots() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let mut browser = Browser::start().unwrap();
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let (_dev, said) = started(3, port, data.path());
    let (url, token) = console_of(&said);
    for user in 1..=24 {
        put_user(port, user, user * user, "3/3");
    }
    let load = loaded(port);
    for samples in SAMPLES {
        wait_for_samples(port, samples);
    }
    done(&["cut", "2"], data.path());
    browser.open(&format!("{url}/#dev={token}"));
    // Whatever moves is seen, so nothing is said of motion here.
    look(&mut browser, "light", false);
    show(&mut browser, "cluster", ".advice li");
    browser.wait_for("document.querySelector('.part-charts .chart') !== null");
    browser.wait_for("document.querySelector('.flow') !== null");
    keep(&mut browser, &folder, "cluster", "light");
    keep_all(&mut browser, &folder, "cluster");
    drop(load);

    put_user(port, 7, 50, "2/3");
    browser.prefer("light");
    show(
        &mut browser,
        "keys?prefix=user&key=user%252F7",
        ".where tbody",
    );
    keep(&mut browser, &folder, "keys", "dark");
    keep_all(&mut browser, &folder, "keys");
    show(&mut browser, "node", ".store li:nth-child(9)");
    keep_all(&mut browser, &folder, "node");
    show(&mut browser, "runbooks?at=full-disk", "#full-disk");
    keep_all(&mut browser, &folder, "runbooks");
    browser.prefer("light");
    take_step(&mut browser, 4, 2);
    keep(&mut browser, &folder, "tour", "light");
    keep_all(&mut browser, &folder, "tour");
}

/// The size of the picture in motion, in pixels.
const MOTION_SIZE: (u32, u32) = (1200, 850);

/// The most bytes of it.
const MOTION_BYTES_MAX: u64 = 1_500_000;

/// How long a frame of it is shown at least.
const FRAME_MIN: Duration = Duration::from_millis(200);

#[test]
#[ignore = "it writes the picture in motion of the README: run checks/screenshots --motion"]
fn motion() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let mut browser = Browser::start().unwrap();
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let (_dev, said) = started(3, port, data.path());
    let (url, token) = console_of(&said);
    let load = loaded(port);
    wait_for_samples(port, SAMPLES[0]);
    browser.open(&format!("{url}/#dev={token}"));
    browser.resize(MOTION_SIZE.0, MOTION_SIZE.1);
    look(&mut browser, "light", false);
    show(&mut browser, "cluster", ".flow");
    browser.wait_for_text(".calm", "Nothing needs attention");
    // A node is stopped, the others go on and keep what it misses, and it catches up.
    let mut film = Film::default();
    film.record(&mut browser, "true", 8);
    browser.evaluate(
        "document.querySelector('[data-node=node-2]').dispatchEvent(new Event('click')); 0",
    );
    film.record(&mut browser, "true", 4);
    browser.click("[data-focus='node-2 stop']");
    let is_missed = "document.querySelector('.card.bad') && document.querySelector('.hints rect')";
    film.record(&mut browser, is_missed, 18);
    browser.click("[data-focus='node-2 stop']");
    let is_whole = "document.querySelectorAll('.card.good').length === 3 \
                    && !document.querySelector('.hints rect')";
    film.record(&mut browser, is_whole, 8);
    film.write(&folder.join("console.webp"));
    drop(load);
}

/// The frames of a picture in motion, each with how long it is shown.
#[derive(Default)]
struct Film {
    frames: Vec<(Vec<u8>, Duration)>,
}

impl Film {
    /// Records what is seen until a condition holds in the page, and then so many frames more.
    #[expect(clippy::disallowed_methods, reason = "the browser runs in real time")]
    fn record(&mut self, browser: &mut Browser, until: &str, more: usize) {
        let mut left = more;
        while left > 0 {
            let begun = Instant::now();
            let picture = browser.picture("png");
            if browser.evaluate(&format!("Boolean({until})")) == true {
                left -= 1;
            }
            let shown = FRAME_MIN.max(begun.elapsed());
            std::thread::sleep(shown.saturating_sub(begun.elapsed()));
            self.frames.push((picture, shown));
        }
    }

    /// Writes the film as an animated WebP, with the program of libwebp.
    fn write(&self, file: &Path) {
        let folder = tempfile::tempdir().unwrap();
        let mut encoder = Command::new("img2webp");
        encoder.args(["-loop", "0", "-min_size", "-lossy", "-q", "70", "-m", "6"]);
        for (index, (picture, shown)) in self.frames.iter().enumerate() {
            let frame = folder.path().join(format!("{index}.png"));
            std::fs::write(&frame, picture).unwrap();
            encoder
                .arg("-d")
                .arg(shown.as_millis().to_string())
                .arg(frame);
        }
        let status = encoder.arg("-o").arg(file).status().unwrap();
        assert!(status.success(), "img2webp: {status}");
        let bytes = file.metadata().unwrap().len();
        assert!(
            bytes <= MOTION_BYTES_MAX,
            "{bytes} bytes are too many for a README"
        );
    }
}

/// Loads a cluster whose nodes have these ports, until this is dropped.
fn loaded(port: u16) -> GeneratedLoad {
    let targets = (0..3).map(|node| format!("http://127.0.0.1:{}", port + node));
    let plan = Plan {
        targets: targets.collect(),
        operations: vec![(Operation::Get, 50.0), (Operation::Put, 50.0)],
        seconds: 600.0,
        keys: 2000,
        ..Plan::new("", Operation::Get, Rate::PerSecond(300.0))
    };
    load::fill(&plan, &AtomicBool::new(false), &mut |_second| {}).unwrap();
    GeneratedLoad::start(plan)
}

/// Waits until the first node has so many samples.
fn wait_for_samples(port: u16, samples: usize) {
    wait_until("the node to have samples", || {
        let (_, history) = request(port, "GET", "/v0/history", b"")?;
        let history: Value = serde_json::from_slice(&history).ok()?;
        (history["samples"].as_array()?.len() >= samples).then_some(())
    });
}

fn put_user(port: u16, user: u32, visits: u32, pair: &str) {
    let value = format!("{{\"name\":\"user {user}\",\"visits\":{visits}}}");
    let target = format!("/v0/entity?id=user%2F{user}&replicas={pair}");
    let put = request(port, "PUT", &target, value.as_bytes());
    assert_eq!(put.unwrap().0, 201);
}

/// Shows a page, which has an element once it is drawn.
fn show(browser: &mut Browser, page: &str, drawn: &str) {
    browser.evaluate(&format!("location.hash = '#/{page}'"));
    browser.wait_for(&format!("document.querySelector('{drawn}') !== null"));
}

/// Prefers light or dark pages, on which things move or do not.
fn look(browser: &mut Browser, scheme: &str, is_still: bool) {
    browser.prefer(scheme);
    if !is_still {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        browser.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }
}

/// Takes the picture of a page for the documents.
fn keep(browser: &mut Browser, folder: &Path, name: &str, scheme: &str) {
    browser.resize(1280, 800);
    look(browser, scheme, false);
    let picture = browser.picture("webp");
    std::fs::write(folder.join(format!("console-{name}.webp")), picture).unwrap();
}

/// Takes pictures of a page at each width, in light and dark, where they are wanted.
fn keep_all(browser: &mut Browser, folder: &Path, name: &str) {
    if std::env::var_os(ALL).is_none() {
        return;
    }
    for (width, _) in PAGE_WIDTHS {
        browser.resize(width, 1600);
        for scheme in ["light", "dark"] {
            look(browser, scheme, false);
            let picture = browser.picture("png");
            let file = format!("{name}-{width}-{scheme}.png");
            std::fs::write(folder.join(file), picture).unwrap();
        }
    }
}
