//! Samples CPU time.
//!
//! The kernel sends SIGPROF for each hundredth of a second of CPU time that the
//! process has used (`ITIMER_PROF`), to the thread that used it, and the
//! handler captures that thread's stack. System calls count for their callers.
//! An idle process gets no signal.
//!
//! A signal is used rather than `perf_event_open`, because containers and most
//! distributions forbid the latter to ordinary users. Also, the kernel can walk
//! stacks only by frame pointers, which C libraries and the standard build do
//! not have.
//!
//! The handler stays installed: a late signal then does nothing, while the
//! default action would end the process.

use crate::recorder::{self, ProfileKind};
use crate::stack::{Origin, Stack};
use libc::{c_int, c_void, itimerval, siginfo_t, timeval, ucontext_t};
use std::io;

/// The number of samples per second of CPU time. It is not 100, so that
/// periodic work is not sampled always or never.
pub(crate) const SAMPLES_PER_SECOND: i64 = 99;

/// Starts sampling.
///
/// # Errors
/// The system does not support the signal or the timer.
pub(crate) fn start() -> io::Result<()> {
    Stack::prepare();
    install_handler()?;
    set_timer(1_000_000 / SAMPLES_PER_SECOND)
}

/// Stops sampling.
pub(crate) fn stop() {
    // Clearing a timer that could be set does not fail.
    let _ = set_timer(0);
}

#[expect(unsafe_code, reason = "a signal handler")]
fn install_handler() -> io::Result<()> {
    // SAFETY: a zeroed sigaction is valid: no flags and an empty mask. The
    // handler has the signature that SA_SIGINFO requires, and does only what a
    // handler may do: see `on_signal`.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        // Interrupted system calls are restarted if possible; the others return
        // EINTR.
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
    // SAFETY: the timer is valid during the call, and the old one is not
    // requested.
    check(unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) })
}

fn check(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Captures the stack of the interrupted thread. The thread may have been
/// interrupted anywhere, also in the allocator, so the handler neither
/// allocates nor locks. It preserves `errno`.
#[expect(unsafe_code, reason = "a signal handler")]
extern "C" fn on_signal(_signal: c_int, _information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the errno of this thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: with SA_SIGINFO the kernel passes the interrupted context.
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

/// On other processors the frames of the handler are recognized by their names.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn interrupted_at(_context: &ucontext_t) -> Option<usize> {
    None
}
