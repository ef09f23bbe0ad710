//! Resolves addresses to names.
//!
//! An address may stand for several frames, because the line tables name
//! functions that were inlined. Frames that are the same in all stacks are left
//! out: those that start a thread, and those of this crate that capture the
//! stack.

use crate::recorder::ProfileKind;
use crate::stack::table::StackSum;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;

/// The frames outside of the one with this name are the same for all threads.
const THREAD_BEGINS: &str = "__rust_begin_short_backtrace";

/// Prefixes of inner frames that do not belong to the program.
const OWN_FRAMES: [&str; 7] = [
    "backtrace::",
    "profile::",
    "<profile::",
    "__rust_alloc",
    "__rust_realloc",
    "__rustc::__rust_alloc",
    "__rustc::__rust_realloc",
];

/// The sums by the names of their frames, outermost first and separated by `;`.
/// The outermost frame is the thread's name without its number, so threads of
/// the same kind are merged.
pub(crate) fn fold(kind: ProfileKind, sums: &[StackSum]) -> BTreeMap<String, u64> {
    let mut names = SymbolNames::default();
    let mut lines = BTreeMap::new();
    for sum in sums.iter().filter(|sum| sum.weight > 0) {
        *lines.entry(names.line(kind, sum)).or_default() += sum.weight;
    }
    // The debug information that was read takes up memory.
    backtrace::clear_symbol_cache();
    lines
}

#[derive(Default)]
struct SymbolNames {
    /// The names of the frames of each address, innermost first.
    known: HashMap<usize, Vec<String>>,
}

impl SymbolNames {
    fn line(&mut self, kind: ProfileKind, sum: &StackSum) -> String {
        let mut frames: Vec<String> = Vec::new();
        for address in &sum.frames {
            frames.extend_from_slice(self.of(*address));
        }
        let inner = match kind {
            // The stack begins at the interrupted frame.
            ProfileKind::Cpu => 0,
            ProfileKind::Allocations | ProfileKind::Waits => {
                frames.iter().take_while(|name| is_own(name)).count()
            }
        };
        let begins = frames.iter().rposition(|name| name.contains(THREAD_BEGINS));
        let outer = begins.unwrap_or(frames.len());
        let frames = frames.get(inner..outer.max(inner)).unwrap_or_default();

        let mut line = String::new();
        if kind == ProfileKind::Waits {
            line.push_str("lock;");
        }
        line.push_str(kind_of_thread(&sum.thread));
        if sum.is_cut {
            line.push_str(";(deeper)");
        }
        for name in frames.iter().rev() {
            line.push(';');
            line.push_str(name);
        }
        line
    }

    fn of(&mut self, address: usize) -> &[String] {
        self.known.entry(address).or_insert_with(|| {
            let mut names = Vec::new();
            backtrace::resolve(address as *mut c_void, |symbol| {
                if let Some(name) = symbol.name() {
                    // Without the hash. `;` separates frames.
                    names.push(format!("{name:#}").replace(';', ","));
                }
            });
            if names.is_empty() {
                names.push("(unknown)".to_owned());
            }
            names
        })
    }
}

fn is_own(name: &str) -> bool {
    OWN_FRAMES.iter().any(|own| name.starts_with(own))
}

/// A thread's name without its number.
fn kind_of_thread(name: &str) -> &str {
    let kind = name.trim_end_matches(|last: char| last.is_ascii_digit());
    match kind.strip_suffix('-') {
        Some(kind) if kind.len() + 1 < name.len() => kind,
        _ if name.is_empty() => "(no name)",
        _ => name,
    }
}
