//! Where the nodes spend what they spend, while a load is on them.
//!
//! A profile is fetched as folded stacks, a line `outer;inner;innermost 42`
//! for each stack and its weight. The flame graph is drawn here from the same
//! stacks that the tables count, so that the two agree.

use crate::context::Context;
use crate::measure::Measured;
use crate::nodes::Node;
use crate::{Error, http};
use load::plan::Plan;
use std::time::Duration;

/// What is profiled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// CPU time, by sampling.
    Cpu,
    /// Bytes allocated.
    Alloc,
    /// Time that was waited: for locks, in queues, for the disk and for peers.
    Lock,
}

impl Kind {
    /// Its name in a request.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Alloc => "alloc",
            Self::Lock => "lock",
        }
    }

    /// What is told by it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Alloc => "bytes allocated",
            Self::Lock => "time waited",
        }
    }

    /// What its weights are.
    fn unit(self) -> &'static str {
        match self {
            Self::Cpu => "samples",
            Self::Alloc => "bytes",
            Self::Lock => "microseconds",
        }
    }
}

/// A profile of a node.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    kind: Kind,
    /// Frames from the outermost in, and the weight.
    stacks: Vec<(Vec<String>, u64)>,
}

/// Profiles a node for so many seconds while a load is on its cluster.
///
/// # Errors
/// A stop.
pub(crate) fn under_load(
    context: &Context<'_>,
    node: &Node,
    plan: &Plan,
    kind: Kind,
) -> Result<Measured<Profile>, Error> {
    if !context.has_profiles() {
        return Ok(Err("this build of the nodes cannot be profiled".to_owned()));
    }
    let seconds: u32 = context.effort().pick(1, 4, 10);
    context.tell(&format!("profiles {} for {seconds} s", kind.name()));
    let mut plan = plan.clone();
    plan.seconds = f64::from(seconds);
    let url = format!(
        "{}/debug/profile?kind={}&seconds={seconds}",
        node.url(),
        kind.name()
    );
    let patience = Duration::from_secs(u64::from(seconds) + 30);
    let (answer, load) = std::thread::scope(|scope| {
        let fetch = scope.spawn(|| http::get(&url, Some("text/plain"), patience));
        let load = load::run(&plan, context.stop(), &mut |_| {});
        let answer = fetch
            .join()
            .unwrap_or_else(|_| Err(Error::http(&url, "the thread that asked it panicked")));
        (answer, load)
    });
    context.go_on()?;
    if let Err(error) = load {
        return Ok(Err(error.to_string()));
    }
    Ok(match answer {
        Ok(answer) if answer.status == 200 => Profile::parse(kind, &answer.body),
        Ok(answer) => Err(format!("the node answered {}", answer.status)),
        Err(error) => Err(error.to_string()),
    })
}

impl Profile {
    /// Reads folded stacks.
    ///
    /// # Errors
    /// There are none.
    fn parse(kind: Kind, folded: &str) -> Measured<Self> {
        let stacks = folded.lines().filter_map(|line| {
            let (frames, weight) = line.rsplit_once(' ')?;
            let frames = frames.split(';').map(str::to_owned).collect();
            Some((frames, weight.parse().ok()?))
        });
        let stacks: Vec<(Vec<String>, u64)> = stacks.collect();
        if stacks.is_empty() {
            return Err("the node had nothing to tell".to_owned());
        }
        Ok(Self { kind, stacks })
    }

    /// The share of the weight that lies in or below a frame whose name holds
    /// one of these words.
    pub(crate) fn share(&self, words: &[&str]) -> f64 {
        let holds = |frames: &[String]| {
            let mut frames = frames.iter();
            frames.any(|frame| words.iter().any(|word| frame.contains(word)))
        };
        let found = self.stacks.iter().filter(|(frames, _)| holds(frames));
        let found: u64 = found.map(|(_, weight)| weight).sum();
        found as f64 / (self.weight() as f64).max(1.0)
    }

    /// The weight of all stacks.
    fn weight(&self) -> u64 {
        self.stacks.iter().map(|(_, weight)| weight).sum()
    }

    /// The flame graph as SVG text.
    ///
    /// # Errors
    /// Why it cannot be drawn.
    pub(crate) fn flame_graph(&self, title: &str) -> Measured<String> {
        let mut options = inferno::flamegraph::Options::default();
        title.clone_into(&mut options.title);
        self.kind.unit().clone_into(&mut options.count_name);
        let lines: Vec<String> = self
            .stacks
            .iter()
            .map(|(frames, weight)| format!("{} {weight}", frames.join(";")))
            .collect();
        let mut svg = Vec::new();
        inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
            .map_err(|error| error.to_string())?;
        String::from_utf8(svg).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDED: &str = "\
runtime;http::put;lsm::engine::submit 30
runtime;http::put;write 50
flush;lsm::table::writer 20
not a stack
";

    #[test]
    fn shares_count_a_stack_once() {
        let profile = Profile::parse(Kind::Cpu, FOLDED).unwrap();
        for (words, share) in [
            (&["http::put"][..], 0.8),
            (&["lsm::"], 0.5),
            (&["lsm::", "flush"], 0.5),
            (&["nothing"], 0.0),
        ] {
            assert_eq!(profile.share(words), share, "{words:?}");
        }
        assert!(Profile::parse(Kind::Cpu, "nothing\n").is_err());
    }

    #[test]
    fn the_flame_graph_holds_title_and_frames() {
        let profile = Profile::parse(Kind::Alloc, FOLDED).unwrap();
        let svg = profile.flame_graph("PUT: bytes allocated").unwrap();
        for word in ["PUT: bytes allocated", "lsm::table::writer", "</svg>"] {
            assert!(svg.contains(word), "{word}");
        }
    }
}
