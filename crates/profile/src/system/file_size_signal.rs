//! The signal with which the system ends a process that writes beyond its limit of the size
//! of files.

/// Ignores SIGXFSZ, so that the write fails instead (EFBIG), which its caller can report.
/// Processes that this one starts ignore it, too.
pub fn survive_file_size_limit() {
    // SAFETY: SIG_IGN is no handler, so no code of this process runs on the signal.
    // The result is the disposition that it had before, which is of no interest.
    #[expect(unsafe_code, reason = "std cannot change what a signal does")]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
