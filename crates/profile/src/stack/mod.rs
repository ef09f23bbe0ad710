//! Captures the stack of the calling thread as addresses.
//!
//! The walk uses the unwind tables of exceptions, so it needs neither frame
//! pointers nor special build flags, and it can walk through C code. glibc 2.35
//! and later find these tables without a lock (`_dl_find_object`), which makes
//! the walk safe in a signal handler. The first walk loads the unwinder, so
//! [`Stack::prepare`] makes it before any signal can arrive.

pub(crate) mod table;

use std::hash::{DefaultHasher, Hasher};

/// The most frames that are kept, from the innermost on.
pub(crate) const DEPTH_MAX: usize = 96;

/// The length of a thread's name in bytes; the kernel keeps no more.
pub(crate) const NAME_BYTES: usize = 16;

/// A captured stack of a thread.
pub(crate) struct Stack {
    /// Return addresses, innermost first; those beyond `depth` are 0.
    frames: [usize; DEPTH_MAX],
    depth: usize,
    /// The thread's name, padded with zeros.
    thread: [u8; NAME_BYTES],
}

/// Where a stack begins.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// With the frames of this crate, which are recognized by their names
    /// later.
    Here,
    /// At the frame that was interrupted at this address; the frames inside of
    /// it belong to the signal handler.
    Interrupted(usize),
}

impl Stack {
    /// Makes the first walk, which loads the unwinder.
    pub(crate) fn prepare() {
        std::hint::black_box(Self::take(Origin::Here));
    }

    /// Captures the stack of the calling thread. Neither allocates nor locks.
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
                // The address is the interrupted instruction itself, not one
                // after a call.
                return !begun || stack.push(address.wrapping_add(1));
            }
            stack.push(address)
        });
        if let Origin::Interrupted(at) = from
            && stack.depth == 0
        {
            // The walk did not find the interrupted frame, so the address
            // stands alone.
            stack.push(at.wrapping_add(1));
        }
        stack
    }

    /// Adds a frame, and returns whether there is room for more.
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

    /// A hash that equal stacks share and that different stacks practically
    /// never share; never 0.
    pub(crate) fn fingerprint(&self) -> u64 {
        // This hasher has a fixed seed and does not allocate.
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
    // SAFETY: the lock of the safe walk protects the debugging library of
    // Windows. On Linux a walk only reads the calling thread's own stack, and
    // the unwind tables are found without a lock and do not change during the
    // walk.
    unsafe {
        backtrace::trace_unsynchronized(|frame| visit(frame.ip() as usize));
    }
}

#[expect(unsafe_code, reason = "the safe way to ask the kernel allocates")]
fn thread_name() -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, including the final zero. It
    // fails only for a bad address, and then the name stays empty.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
    }
    name
}
