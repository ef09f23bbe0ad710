//! How the names of hosts are looked up by a static program.

/// Has a static program look up hosts in `/etc/hosts` and at name servers, whatever
/// `/etc/nsswitch.conf` says: the modules of that file are libraries for programs of the system's own
/// C library, and may crash one that was linked with another. Other programs are left alone. Call
/// it before the first look-up.
pub fn look_up_hosts_without_modules() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    configure_lookup();
}

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
#[expect(
    unsafe_code,
    reason = "only a call of the C library says how hosts are looked up"
)]
fn configure_lookup() {
    unsafe extern "C" {
        fn __nss_configure_lookup(
            database: *const libc::c_char,
            services: *const libc::c_char,
        ) -> libc::c_int;
    }
    // SAFETY: both are C strings that live as long as the program, and no other thread looks up a
    // host yet. If it fails, the file counts as before.
    unsafe {
        __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr());
    }
}
