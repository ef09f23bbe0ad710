//! The clocks of the system that a recording reads.

/// Nanoseconds of the system's monotonic clock (`CLOCK_MONOTONIC`), which all processes of
/// a machine share.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of CPU time that the calling thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The number of the calling thread, as `/proc` names it.
pub(crate) fn thread_number() -> u32 {
    thread_local! {
        static NUMBER: u32 = own_thread_number();
    }
    NUMBER.with(|number| *number)
}

fn own_thread_number() -> u32 {
    #[expect(
        unsafe_code,
        reason = "a system call without arguments, which cannot fail"
    )]
    // SAFETY: it takes no pointer and changes nothing.
    let number = unsafe { libc::gettid() };
    u32::try_from(number).unwrap_or(0)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(unsafe_code, reason = "std has no absolute time of these clocks")]
    // SAFETY: `time` is a valid place for the result. Both clocks exist on every Linux, and
    // if the call failed, the time would stay 0.
    unsafe {
        libc::clock_gettime(clock, &raw mut time);
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_go_on_and_threads_differ() {
        let (before, cpu_before) = (monotonic_ns(), thread_cpu_ns());
        while thread_cpu_ns() == cpu_before {}
        assert!(monotonic_ns() > before);
        let other = std::thread::spawn(thread_number).join();
        assert!(other.is_ok_and(|other| other != thread_number()));
    }
}
