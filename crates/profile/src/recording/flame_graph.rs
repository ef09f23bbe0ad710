//! Draws flame graphs.

use crate::cpu::SAMPLES_PER_SECOND;
use crate::recorder::ProfileKind;
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{Options, from_lines};
use std::collections::BTreeMap;
use std::time::Duration;

/// Draws the sums by stack.
pub(crate) fn draw(kind: ProfileKind, took: Duration, lines: &BTreeMap<String, u64>) -> String {
    if lines.values().all(|weight| *weight == 0) {
        return empty(kind, took);
    }
    let (title, unit, palette) = match kind {
        ProfileKind::Cpu => ("CPU time", "samples", BasicPalette::Hot),
        ProfileKind::Allocations => ("Allocated bytes", "bytes", BasicPalette::Mem),
        ProfileKind::Waits => ("Waits", "microseconds", BasicPalette::Aqua),
    };
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle(kind, took, lines.values().sum()));
    options.count_name = unit.to_owned();
    options.colors = Palette::Basic(palette);
    // Equal profiles give equal pictures.
    options.hash = true;
    // As wide as the browser window.
    options.image_width = None;
    let unit_weight = match kind {
        ProfileKind::Waits => 1000,
        ProfileKind::Cpu | ProfileKind::Allocations => 1,
    };
    let folded: Vec<String> = lines
        .iter()
        .map(|(frames, weight)| format!("{frames} {}", weight.div_ceil(unit_weight)))
        .collect();
    let mut svg = Vec::new();
    match from_lines(&mut options, folded.iter().map(String::as_str), &mut svg) {
        Ok(()) => without_comments(&String::from_utf8_lossy(&svg)),
        // Drawing to memory fails only for malformed lines, which are never
        // written here.
        Err(_) => empty(kind, took),
    }
}

/// Removes the comments of the picture's script, which readers do not need.
fn without_comments(svg: &str) -> String {
    svg.split_inclusive('\n')
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect()
}

fn subtitle(kind: ProfileKind, took: Duration, total: u64) -> String {
    let seconds = took.as_secs_f64();
    match kind {
        ProfileKind::Cpu => {
            let cores = total as f64 / SAMPLES_PER_SECOND as f64 / seconds;
            format!("{total} samples in {seconds:.1} s: {cores:.2} cores busy")
        }
        ProfileKind::Allocations => {
            let mebibytes = total as f64 / f64::from(1 << 20);
            let rate = mebibytes / seconds;
            format!("{mebibytes:.1} MiB in {seconds:.1} s: {rate:.1} MiB/s")
        }
        ProfileKind::Waits => {
            let waited = Duration::from_nanos(total).as_secs_f64();
            let at_a_time = waited / seconds;
            format!("{waited:.3} s waited in {seconds:.1} s: {at_a_time:.2} waiting on average")
        }
    }
}

/// A picture that says that nothing was recorded.
fn empty(kind: ProfileKind, took: Duration) -> String {
    let (word, seconds) = (kind.word(), took.as_secs_f64());
    format!(
        "<?xml version=\"1.0\" standalone=\"no\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"60\">\
         <text x=\"20\" y=\"35\" font-family=\"sans-serif\" font-size=\"16\">\
         Nothing was recorded ({word}, {seconds:.1} s).</text></svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_script_without_comments() {
        let lines = [("main;work".to_owned(), 7)].into();
        let svg = draw(ProfileKind::Cpu, Duration::from_secs(1), &lines);
        assert!(svg.contains("function search("), "{svg}");
        let comments = svg
            .lines()
            .filter(|line| line.trim_start().starts_with("//"));
        assert_eq!(comments.count(), 0);
    }
}
