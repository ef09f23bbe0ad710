use super::*;
use std::path::Path;

fn page_in(directory: &Path) -> String {
    std::fs::read_to_string(directory.join(PAGE)).unwrap()
}

fn plots_in(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut plots: Vec<String> = names.filter(|name| name.ends_with(".svg")).collect();
    plots.sort();
    plots
}

#[test]
fn a_page_shows_runs_side_by_side_and_escapes_their_labels() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("new/report");
    let runs = [
        samples::run("first", 1.0),
        samples::run("<script>second", 3.0),
    ];
    write(&directory, "PUT & GET", &runs).unwrap();
    let page = page_in(&directory);
    assert!(page.contains("<title>PUT &amp; GET</title>"));
    assert!(page.contains("<th>first</th><th>&lt;script&gt;second</th>"));
    assert!(!page.contains("<script"));
    // The failures and the plans of both runs.
    assert!(page.contains("<td>503</td><td>1,300</td><td>1,300</td>"));
    assert!(page.contains("<td>connections</td><td>64</td><td>64</td>"));
    assert_eq!(page.matches("<svg").count(), 4);
    // When and with which version.
    assert!(page.contains("<td>2023-11-14 22:13:20 UTC</td>"), "{page}");
    assert!(page.contains("<td>kvorum</td><td>0.1.0</td><td>0.1.0</td>"));
    let plots = ["failures", "latency", "percentiles", "throughput"];
    assert_eq!(
        plots_in(&directory),
        plots.map(|plot| format!("{plot}.svg"))
    );
}

#[test]
fn a_page_is_self_contained() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "alone", &[samples::run("run", 1.0)]).unwrap();
    let page = page_in(folder.path());
    for reference in [" src=", "<link", "<script", "@import", "url("] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn a_run_that_was_cut_short_says_so_and_an_empty_one_makes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "nothing", &[samples::empty()]).unwrap();
    let page = page_in(folder.path());
    assert!(page.contains("connection refused"));
    assert!(page.contains("No request failed."));
    assert!(!page.contains("NaN"));
}

#[test]
fn a_search_shows_its_probes_and_its_best_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut search = samples::search();
    write_search(folder.path(), "search", &search).unwrap();
    let page = page_in(folder.path());
    assert!(page.contains("<strong>42,000/s</strong>"));
    assert!(page.contains("Started 2023-11-14 22:13:20 UTC with kvorum 0.1.0."));
    let rows = page.matches("<td>yes</td>").count() + page.matches("<td>no</td>").count();
    assert_eq!(rows, search.probes.len());
    assert!(plots_in(folder.path()).contains(&"percentiles.svg".to_owned()));

    search.rate = None;
    search.best = None;
    let folder = tempfile::tempdir().unwrap();
    write_search(folder.path(), "search", &search).unwrap();
    assert!(page_in(folder.path()).contains("No rate held"));
    assert_eq!(
        plots_in(folder.path()),
        ["probe-latencies.svg", "probes.svg"]
    );
}
