use super::*;
use crate::report::samples;
use crate::report::units::Unit;
use crate::results::BreakingPoint;
use crate::{Plan, Run};
use roxmltree::Document;

/// Draws every plot of the runs and the search, with its name.
fn all(runs: &[&Run], search: &BreakingPoint) -> Vec<(&'static str, String)> {
    let curve = search
        .probes
        .iter()
        .map(|probe| (probe.rate, probe.achieved));
    let curves = [(search.label.clone(), curve.collect())];
    vec![
        ("percentiles", percentiles(runs)),
        ("timeline", timeline(runs)),
        ("throughput", throughput(runs)),
        ("failures", failures(runs)),
        ("achieved", achieved_over_requested("Overload", &curves)),
        ("probes", probes(search)),
        ("probe latencies", probe_latencies(search)),
    ]
}

/// The texts of an SVG, whose numbers must be finite.
fn texts(name: &str, svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(document.root_element().tag_name().name(), "svg", "{name}");
    for node in document.descendants() {
        for attribute in node.attributes() {
            let value = attribute.value();
            assert!(
                !value.contains("NaN") && !value.contains("inf"),
                "{name}: {value}"
            );
        }
    }
    let texts = document.descendants().filter_map(|node| node.text());
    let texts: Vec<String> = texts.map(|text| text.trim().to_owned()).collect();
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

#[test]
fn plots_name_what_they_show() {
    let one = samples::run("put", 1.0);
    let two = samples::run("put <slow> & \"late\"", 3.0);
    let plots = all(&[&one, &two], &samples::search());
    let named = |plot: &str, text: &str| {
        let (name, svg) = plots.iter().find(|(name, _)| *name == plot).unwrap();
        let texts = texts(name, svg);
        assert!(texts.iter().any(|shown| shown == text), "{name}: {texts:?}");
    };
    for plot in ["percentiles", "timeline", "throughput", "failures"] {
        named(plot, "put");
        named(plot, "put <slow> & \"late\"");
    }
    named("percentiles", "99.9%");
    named("timeline", "node killed");
    named("failures", "503");
    named("achieved", "one node, PUT");
    named("probes", "held");
    named("probe latencies", "bound: 10.0 ms");
}

#[test]
fn any_measurement_can_be_drawn() {
    let usual = samples::run("usual", 1.0);
    let one_second = Run {
        timeline: usual.timeline[..1].to_vec(),
        ..usual.clone()
    };
    let mut absurd = usual.clone();
    absurd.latency.spectrum = vec![(0.0, 0.0), (50.0, 1e300), (100.0, f64::INFINITY)];
    absurd.timeline[3].p99_ms = f64::NAN;
    absurd.timeline[4].at_seconds = f64::INFINITY;
    absurd.plan = Plan {
        rate: crate::plan::Rate::PerSecond(0.0),
        ..absurd.plan
    };
    let mut nothing = samples::search();
    nothing.probes.clear();
    nothing.rate = None;
    let empty = samples::empty();
    let cases: [&[&Run]; 5] = [
        &[],
        &[&empty],
        &[&one_second],
        &[&absurd],
        &[&usual, &empty, &absurd],
    ];
    for runs in cases {
        for search in [&samples::search(), &nothing] {
            for (name, svg) in all(runs, search) {
                texts(name, &svg);
            }
        }
    }
}

#[test]
fn the_same_figures_make_the_same_text() {
    let run = samples::run("put", 1.0);
    let search = samples::search();
    assert_eq!(all(&[&run], &search), all(&[&run], &search));
}

#[test]
fn bars_show_their_groups_and_their_values() {
    let axis = Axis::linear("bytes", Unit::Bytes);
    let bars = Bars::new("Bytes of each node", ["node 1", "node 2"], axis)
        .with("", [79e6, f64::NAN])
        .bound_line(80e6, "mean");
    let texts = texts("bars", &bars.draw());
    for shown in ["Bytes of each node", "node 1", "node 2", "mean"] {
        assert!(texts.iter().any(|text| text == shown), "{shown}: {texts:?}");
    }
}

#[test]
fn axes_show_their_ticks() {
    let latency = Axis::linear("latency", Unit::Milliseconds);
    let lines = Lines::new(
        "lines",
        Axis::linear("time", Unit::Seconds),
        latency.clone(),
    )
    .with(Series::new("put", [(0.0, 0.0), (10.0, 4.0)]));
    let shown = texts("lines", &lines.draw());
    for tick in ["5 s", "2 ms", "4 ms"] {
        assert!(shown.iter().any(|text| text == tick), "{tick}: {shown:?}");
    }
    // Bars have only a y axis; their groups have names.
    let bars = Bars::new("bars", ["a".to_owned(), "b".to_owned()], latency).with("", [1.0, 4.0]);
    let shown = texts("bars", &bars.draw());
    assert!(shown.iter().any(|text| text == "2 ms"), "{shown:?}");
    assert!(!shown.iter().any(|text| text == "1"), "{shown:?}");
}

/// Draws every plot of a run whose last percentile label is at the very edge.
fn all_samples() -> Vec<(&'static str, String)> {
    let mut run = samples::run("put", 1.0);
    run.latency.count = 100_000;
    run.latency.spectrum = vec![(0.0, 1.0), (50.0, 2.0), (99.999, 40.0), (100.0, 50.0)];
    all(&[&run], &samples::search())
}

#[test]
fn every_colour_has_its_dark_counterpart() {
    let many = (0..8).fold(
        Bars::new("bars", ["a"], Axis::linear("bytes", Unit::Bytes)),
        |bars, number| bars.with(format!("series {number}"), [1.0]),
    );
    let plots = all_samples().into_iter().chain([("bars", many.draw())]);
    for (name, svg) in plots {
        let document = Document::parse(&svg).unwrap();
        assert_eq!(document.root_element().attribute("class"), Some("plot"));
        for node in document.descendants() {
            for paint in ["fill", "stroke"] {
                let Some(color) = node.attribute(paint).filter(|color| *color != "none") else {
                    continue;
                };
                let rule = format!("[{paint}=\"{color}\"]{{{paint}:#");
                assert!(frame::STYLE.contains(&rule), "{name}: {rule}");
            }
        }
    }
}

#[test]
fn no_label_is_cut_off_at_the_edge() {
    for (name, svg) in all_samples() {
        let document = Document::parse(&svg).unwrap();
        for text in document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
        {
            let number = |name: &str| text.attribute(name).unwrap().parse::<f64>().unwrap();
            let shown = text.text().unwrap_or_default().trim();
            // The width of a letter is a little more than half of its height.
            let width = shown.chars().count() as f64 * number("font-size") * 0.55;
            let (left, right) = match text.attribute("text-anchor").unwrap() {
                "start" => (0.0, 1.0),
                "middle" => (0.5, 0.5),
                "end" => (1.0, 0.0),
                other => panic!("{other}"),
            };
            let (from, to) = (number("x") - width * left, number("x") + width * right);
            let edge = f64::from(frame::WIDTH);
            assert!(
                from >= 0.0 && to <= edge,
                "{name}: {shown} from {from} to {to}"
            );
        }
    }
}
