//! The stack of the calling thread, as bare addresses.
//!
//! It is walked by the tables that exceptions use: no frame pointers, so the
//! release build needs no flags and C code is seen through. glibc 2.35 and later
//! find these tables without a lock (`_dl_find_object`), which makes the walk
//! safe in a signal handler; the first walk, which loads the unwinder, is made
//! before there can be a signal ([`Stack::prepare`]).

use std::hash::{DefaultHasher, Hasher};

/// How many frames are kept, from the innermost on.
pub(crate) const DEPTH_MAX: usize = 96;

/// The length of a thread's name, in bytes: the kernel keeps no more.
pub(crate) const NAME_BYTES: usize = 16;

/// The stack of a thread at some moment.
pub(crate) struct Stack {
    /// Addresses behind the calls, innermost first; those beyond `depth` are 0.
    frames: [usize; DEPTH_MAX],
    depth: usize,
    /// The thread's name, padded with zeros.
    thread: [u8; NAME_BYTES],
}

/// The frames with which a stack begins.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// Those of this crate; their names tell them apart later.
    Here,
    /// The one that was interrupted at this address: what is inside of it is
    /// the signal handler.
    Interrupted(usize),
}

impl Stack {
    /// Loads what the first walk would load.
    pub(crate) fn prepare() {
        std::hint::black_box(Self::take(Origin::Here));
    }

    /// The stack of the calling thread. Does not allocate, and takes no lock.
    pub(crate) fn take(from: Origin) -> Self {
        let mut stack = Self {
            frames: [0; DEPTH_MAX],
            depth: 0,
            thread: thread_name(),
        };
        let mut begun = matches!(from, Origin::Here);
        walk(|address| {
            if let Origin::Interrupted(at) = from
                && !begun
            {
                begun = address == at;
                // Where it was interrupted is the instruction itself, not the
                // one behind a call.
                return !begun || stack.push(address.wrapping_add(1));
            }
            stack.push(address)
        });
        if let Origin::Interrupted(at) = from
            && stack.depth == 0
        {
            // Better the place alone than nothing.
            stack.push(at.wrapping_add(1));
        }
        stack
    }

    /// Adds a frame; says whether there is room for more.
    fn push(&mut self, address: usize) -> bool {
        if let Some(slot) = self.frames.get_mut(self.depth) {
            *slot = address;
            self.depth += 1;
        }
        self.depth < DEPTH_MAX
    }

    /// The frames, innermost first.
    pub(crate) fn frames(&self) -> &[usize] {
        &self.frames[..self.depth]
    }

    /// The thread's name, padded with zeros.
    pub(crate) fn thread(&self) -> [u8; NAME_BYTES] {
        self.thread
    }

    /// A number that equal stacks share and, for all practical purposes, no
    /// others; never 0.
    pub(crate) fn fingerprint(&self) -> u64 {
        // Made like this it has always the same seed, and it does not allocate.
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.thread);
        for frame in self.frames() {
            hasher.write_usize(*frame);
        }
        hasher.finish().max(1)
    }
}

#[expect(
    unsafe_code,
    reason = "the safe walk takes a lock, which a signal handler must not"
)]
fn walk(mut visit: impl FnMut(usize) -> bool) {
    // SAFETY: what the lock of the safe walk protects is Windows' debugging
    // library. On Linux a walk works on the calling thread's own stack, and its
    // tables are found without a lock and never change under it.
    unsafe {
        backtrace::trace_unsynchronized(|frame| visit(frame.ip() as usize));
    }
}

#[expect(unsafe_code, reason = "the safe way to ask the kernel allocates")]
fn thread_name() -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, its closing zero among them.
    // It fails only for a bad address, and then the name stays empty.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
    }
    name
}
