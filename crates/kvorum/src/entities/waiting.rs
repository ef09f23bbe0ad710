//! Waits for requests.

use crate::failure::Failure;

/// Waits for a request.
///
/// # Errors
/// That of the request; the system refuses a runtime.
pub(super) fn wait_for<T>(request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| Failure::other(format!("cannot start a runtime: {error}")))?;
    let done = runtime.block_on(request);
    // What still reads a slow file must not hold the end of the program back.
    runtime.shutdown_background();
    done
}
