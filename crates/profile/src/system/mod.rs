//! What the crate asks of the system: clocks, the processor time of threads, a signal, and how
//! hosts are looked up.

mod file_size_signal;
mod host_names;
mod processor_time;
mod time;

pub use file_size_signal::survive_file_size_limit;
pub use host_names::look_up_hosts_without_modules;
pub use processor_time::{ProcessorTime, ProcessorTimes};
pub use time::monotonic_ns;
pub(crate) use time::{thread_cpu_ns, thread_number};
