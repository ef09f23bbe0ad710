//! What can be said of the files without a browser. The tests of `server` open the console
//! in one.

use super::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most bytes that opening the console takes.
const BYTES_MAX: usize = 250 << 10;

#[test]
fn the_console_is_small() {
    let opened = Asset::ALL
        .into_iter()
        .filter(|asset| *asset != Asset::Handbook);
    let bytes: usize = opened.map(|asset| asset.body().len()).sum();
    assert!(
        bytes <= BYTES_MAX,
        "{bytes} bytes, and {BYTES_MAX} are allowed"
    );
}

#[test]
fn each_file_is_in_the_module_or_the_style_sheet_once() {
    for (folder, whole) in [("script", SCRIPT), ("style", STYLE)] {
        let mut bytes = 0;
        for path in files_below(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("assets")
                .join(folder),
        ) {
            let text = read(&path);
            assert_eq!(whole.matches(&text).count(), 1, "{}", path.display());
            assert!(text.lines().count() < 500, "{} is too long", path.display());
            bytes += text.len();
        }
        assert_eq!(bytes, whole.len(), "{folder}");
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "sources, not a store")]
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn no_text_becomes_markup_and_no_markup_a_script() {
    for sink in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "srcdoc",
        "createContextualFragment",
        "setHTML",
        "eval(",
        "new Function",
        "localStorage",
        "document.cookie",
        "indexedDB",
        "import(",
    ] {
        assert!(!SCRIPT.contains(sink), "{sink}");
    }
    // Only what has no secret of a node is kept, and by one file.
    let keeper = include_str!("../assets/script/base/tab.js");
    let uses = |text: &str| text.matches("sessionStorage").count();
    assert_eq!(uses(SCRIPT), uses(keeper));
    let page = Asset::Page.body();
    for inline in ["<style", "style=", " on", "javascript:"] {
        let tags = page
            .split('<')
            .skip(1)
            .map(|tag| tag.split('>').next().unwrap());
        let found = tags
            .filter(|tag| format!("<{tag}").contains(inline))
            .count();
        assert_eq!(found, 0, "{inline}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!POLICY.contains("unsafe"), "{POLICY}");
}

#[test]
fn only_the_page_of_a_supervisor_has_its_mark() {
    let mark = "<html data-dev=\"2\" lang=";
    assert_eq!(supervisor_page(2).matches(mark).count(), 1);
    assert!(!Asset::Page.body().contains("<html data-dev"));
}

#[test]
fn nothing_comes_from_elsewhere() {
    for asset in Asset::ALL
        .into_iter()
        .filter(|asset| *asset != Asset::Handbook)
    {
        let known = ["http://www.w3.org/2000/svg"];
        let text = known.iter().fold(asset.body().to_owned(), |text, known| {
            text.replace(known, "")
        });
        for elsewhere in ["http://", "https://", "url(", "@import", "\"//"] {
            assert!(!text.contains(elsewhere), "{asset:?} has {elsewhere}");
        }
    }
    for asset in Asset::ALL {
        let is_named = Asset::Page
            .body()
            .contains(&format!("\"{}\"", asset.path()));
        let is_asked_for = SCRIPT.contains(&format!("\"{}\"", asset.path()));
        assert!(
            is_named || is_asked_for || asset == Asset::Page,
            "{asset:?}"
        );
    }
}

#[test]
fn each_runbook_that_is_linked_is_a_heading() {
    let headings: BTreeSet<&str> = Asset::Handbook
        .body()
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim())
        .collect();
    let parts = SCRIPT.split("runbookLink(\"").skip(1);
    let linked: Vec<_> = parts
        .filter_map(|part| part.split_once('"').map(|(name, _)| name))
        .collect();
    assert!(!linked.is_empty());
    for name in linked {
        assert!(
            headings.contains(name),
            "the handbook has no heading {name}"
        );
    }
}

/// The console finds the page that a link leads to by its title.
#[test]
fn each_page_of_the_handbook_is_named_as_its_title() {
    let anchors: BTreeSet<String> = Asset::Handbook
        .body()
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .replace(' ', "-")
        })
        .collect();
    let pages = include_str!("lib.rs")
        .split("/docs/")
        .skip(1)
        .filter_map(|rest| rest.split_once(".md\""))
        .map(|(path, _)| path.rsplit('/').next().unwrap_or(path));
    let mut count = 0;
    for page in pages {
        assert!(
            anchors.contains(page),
            "{page}.md has another title than its name"
        );
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_tag_is_named_by_itself_and_by_a_star() {
    let tag = Asset::Script.tag();
    for (named, is_named) in [
        (tag.to_string(), true),
        (format!("W/{tag}"), true),
        (format!("\"a\", {tag} ,\"b\""), true),
        ("*".to_owned(), true),
        (Asset::Style.tag().to_string(), false),
        (tag.to_string().replace('"', ""), false),
        (String::new(), false),
    ] {
        assert_eq!(tag.is_named_by(&named), is_named, "{named}");
    }
}
