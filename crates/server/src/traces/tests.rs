use super::*;
use base::ManualClock;
use cluster::NodeUrl;

/// Traces with this sample, whose collector is not there.
fn traces(sample: f64) -> Traces {
    let url: NodeUrl = "http://localhost:1".parse().unwrap();
    let mut config = ServerConfig::new(url.clone(), "store");
    config.otlp_endpoint = Some(url);
    config.trace_sample = sample;
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(7));
    Traces::start(&config, &clock, &random).unwrap().unwrap()
}

#[test]
fn a_share_of_the_requests_without_a_parent_is_sampled_and_each_has_its_own_trace() {
    for (sample, expected) in [(0.0, 0..=0), (0.01, 50..=150), (1.0, 10_000..=10_000)] {
        let traces = traces(sample);
        let sampled = (0..10_000).filter_map(|_| traces.sample(None));
        let mut ids: Vec<_> = sampled
            .map(|request| {
                assert_eq!(request.parent, None);
                *request.trace.bytes()
            })
            .collect();
        assert!(expected.contains(&ids.len()), "{sample}: {}", ids.len());
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}

#[test]
fn a_parent_decides_whatever_the_sample_is() {
    for sample in [0.0, 1.0] {
        let traces = traces(sample);
        for is_sampled in [false, true] {
            let parent = TraceParent {
                trace: TraceId::of([7; 16]).unwrap(),
                span: NonZeroU64::MIN,
                is_sampled,
            };
            let sampled = traces.sample(Some(parent));
            assert_eq!(sampled.is_some(), is_sampled);
            if let Some(request) = sampled {
                assert_eq!(request.trace, parent.trace);
                assert_eq!(request.parent, Some(parent.span));
                assert_ne!(request.span, parent.span.get());
            }
        }
    }
}

#[test]
fn without_a_collector_there_are_no_traces() {
    let url: NodeUrl = "http://localhost:1".parse().unwrap();
    let config = ServerConfig::new(url, "store");
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(7));
    assert!(Traces::start(&config, &clock, &random).unwrap().is_none());
}

#[test]
fn times_of_spans_are_as_far_apart_as_those_of_the_clock() {
    let times = UnixTimes {
        now: Duration::from_secs(5),
        now_unix_ns: 1_000_000_000_000,
    };
    let ago = Duration::from_micros(1500);
    assert_eq!(times.unix_ns(times.now), times.now_unix_ns);
    assert_eq!(
        times.unix_ns(times.now - ago),
        times.now_unix_ns - 1_500_000
    );
}

#[test]
fn times_of_spans_are_as_exact_as_the_clock() {
    let clock = ManualClock::new(1_000);
    clock.advance(Duration::from_nanos(1_234_567));
    let times = UnixTimes::of(&clock);
    let began = Duration::from_nanos(1_234_000);
    assert_eq!(times.unix_ns(began), 1_001_234_000);
}

#[test]
fn a_method_that_nobody_knows_is_not_kept() {
    assert_eq!(method_of("GET"), ("GET", "GET"));
    assert_eq!(method_of(&"X".repeat(60_000)), ("_OTHER", "HTTP"));
}
