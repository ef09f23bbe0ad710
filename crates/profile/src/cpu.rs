//! CPU time, by sampling.
//!
//! The kernel sends SIGPROF for each hundredth of a second of CPU time that the
//! process has used (`ITIMER_PROF`), to the thread that used it; the handler
//! takes that thread's stack. System calls count for whoever made them. A
//! process that does nothing gets no signal.
//!
//! Why a signal and not `perf_event_open`: containers and most distributions
//! forbid the latter to ordinary users, and the kernel can follow stacks only by
//! frame pointers, which C libraries and the standard build have not.
//!
//! The handler stays installed once it was: a signal that comes late finds
//! nothing to do, where the default would be to end the process.

use crate::recorder::{self, ProfileKind};
use crate::stack::{Origin, Stack};
use libc::{c_int, c_void, itimerval, siginfo_t, timeval, ucontext_t};
use std::io;

/// How often a stack is taken in a second of CPU time. Not 100: what works by a
/// clock of its own must not be met always or never.
pub(crate) const SAMPLES_PER_SECOND: i64 = 99;

/// Begins to sample.
///
/// # Errors
/// A system that knows no such signal or timer.
pub(crate) fn start() -> io::Result<()> {
    Stack::prepare();
    install_handler()?;
    set_timer(1_000_000 / SAMPLES_PER_SECOND)
}

/// Ends it.
pub(crate) fn stop() {
    // Clearing a timer that could be set does not fail.
    let _ = set_timer(0);
}

#[expect(unsafe_code, reason = "a signal handler")]
fn install_handler() -> io::Result<()> {
    // SAFETY: all zeros is a sigaction, of no flags and an empty mask. The
    // handler has the signature that SA_SIGINFO asks for, and does only what a
    // handler may: see `on_signal`.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        // Whatever can go on behind the signal does; the rest is told EINTR.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut())
    };
    check(result)
}

#[expect(unsafe_code, reason = "no safe library knows this timer")]
fn set_timer(period_us: i64) -> io::Result<()> {
    let period = timeval {
        tv_sec: 0,
        tv_usec: period_us,
    };
    let timer = itimerval {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the timer is valid for the call, and the old one is not asked for.
    check(unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) })
}

fn check(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes the stack of the thread that was interrupted. It may have been
/// interrupted anywhere, in the allocator too, so nothing here allocates or
/// locks; `errno` is left as it was.
#[expect(unsafe_code, reason = "a signal handler")]
extern "C" fn on_signal(_signal: c_int, _information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: a thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: with SA_SIGINFO the kernel hands over the interrupted context.
    let interrupted = unsafe { &*context.cast::<ucontext_t>() };
    let from = match interrupted_at(interrupted) {
        Some(address) => Origin::Interrupted(address),
        None => Origin::Here,
    };
    recorder::record(ProfileKind::Cpu, 1, || Stack::take(from));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(target_arch = "x86_64")]
fn interrupted_at(context: &ucontext_t) -> Option<usize> {
    let register = context.uc_mcontext.gregs.get(libc::REG_RIP as usize)?;
    Some(*register as usize)
}

#[cfg(target_arch = "aarch64")]
fn interrupted_at(context: &ucontext_t) -> Option<usize> {
    Some(context.uc_mcontext.pc as usize)
}

/// Elsewhere the frames of the handler are told by their names.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn interrupted_at(_context: &ucontext_t) -> Option<usize> {
    None
}
