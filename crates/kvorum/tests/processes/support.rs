//! Runs processes of the program, and talks to them over plain sockets.

#![expect(clippy::print_stderr, reason = "a test that hangs says what it kills")]

use http_testing::Connection;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

pub(crate) use crate::PROGRAM;

/// How long a test waits for an event. A full repair that lost a node may wait for it for 20 s,
/// and the next repair as long again, before the cluster is whole.
const EVENT_TIMEOUT: Duration = Duration::from_secs(180);

/// How long a process of a test may run. A test that waits for a process, or for what it
/// writes, ends by then.
const LIFETIME_MAX: Duration = Duration::from_secs(600);

/// The time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The address of the node on a port of 127.0.0.1.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A port of 127.0.0.1 that was free a moment ago, and that no other test of this process is
/// given.
pub(crate) fn free_port() -> u16 {
    free_ports(1)
}

/// The first of `count` ports of 127.0.0.1 in a row that were free a moment ago, and that
/// no other test of this process is given. They are below those that the system chooses for
/// connections, so that no connection takes one while its node is stopped.
pub(crate) fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id().wrapping_mul(61) as u16;
    let free = (0..8_000).find_map(|_| {
        let number = begin.wrapping_add(NEXT.fetch_add(count, Ordering::SeqCst));
        let first = 4_000 + number % 8_000;
        let held: io::Result<Vec<_>> = (first..first + count)
            .map(|port| TcpListener::bind(("127.0.0.1", port)))
            .collect();
        held.is_ok().then_some(first)
    });
    free.unwrap()
}

/// Waits until `check` returns something.
pub(crate) fn wait_until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    wait_until_ok(what, || check().ok_or("nothing yet"))
}

/// Waits until `check` succeeds; the last error is part of the panic.
pub(crate) fn wait_until_ok<T, E: Debug>(what: &str, mut check: impl FnMut() -> Result<T, E>) -> T {
    let begin = Instant::now();
    loop {
        let error = match check() {
            Ok(found) => return found,
            Err(error) => error,
        };
        assert!(
            begin.elapsed() < EVENT_TIMEOUT,
            "timed out while waiting for {what}: {error:?}"
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Sets the flag that ends the other threads of a test, also when its own thread panics.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Kills a process that outlives [`LIFETIME_MAX`]. Nothing happens once this is dropped.
pub(crate) struct Watchdog {
    _ends: Sender<()>,
}

impl Watchdog {
    /// Watches a process; `what` names it.
    pub(crate) fn over(child: &Child, what: String) -> Self {
        let (ends, ended) = channel();
        let pid = Pid::from_child(child);
        std::thread::spawn(move || {
            if ended.recv_timeout(LIFETIME_MAX) == Err(RecvTimeoutError::Timeout) {
                eprintln!("killing a process that has run for {LIFETIME_MAX:?}: {what}");
                // It may have ended already.
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self { _ends: ends }
    }
}

/// Runs a command to its end, and returns what it wrote.
pub(crate) fn run_to_end(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let _watchdog = Watchdog::over(&child, format!("{command:?}"));
    child.wait_with_output().unwrap()
}

/// A pipe that is full, as one becomes that nobody reads. The end to read only has to stay.
pub(crate) fn full_pipe() -> (io::PipeReader, io::PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    // The process that gets it must wait for it again.
    ioctl_fionbio(&writer, true).unwrap();
    while writer.write(b"\n").is_ok() {}
    ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

/// Copies a folder of a process that does not run.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The command for the program with arguments, without variables that set
/// options.
pub(crate) fn kvorum<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    kvorum_by(Command::new(PROGRAM), arguments)
}

/// Like [`kvorum`], but `command` is the program or a launcher of it.
pub(crate) fn kvorum_by<S: AsRef<OsStr>>(mut command: Command, arguments: &[S]) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KVORUM_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The command for a node on `port` of 127.0.0.1 with little memory, which logs
/// warnings only.
pub(crate) fn serve(port: u16, data: &Path) -> Command {
    let url = format!("http://127.0.0.1:{port}");
    let mut command = kvorum(&[
        "serve", "--memory", "128MiB", "--log", "warn", "--url", &url,
    ]);
    command.arg("--data").arg(data);
    command
}

/// Starts a node on `port` and waits until it answers.
pub(crate) fn started(command: &mut Command, port: u16) -> Process {
    let mut process = Process::spawn(command);
    process.wait_until_up(port);
    process
}

/// How a process ended, and what it wrote to stderr.
#[derive(Debug)]
pub(crate) struct ProcessEnd {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

impl ProcessEnd {
    /// The single line of stderr.
    pub(crate) fn line(&self) -> &str {
        let line = self.stderr.strip_suffix('\n').unwrap_or_default();
        assert!(
            !line.is_empty() && !line.contains('\n'),
            "{self:?} is not one line"
        );
        line
    }
}

/// A process of the program. It is killed when it is dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    _watchdog: Watchdog,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let child = command.spawn().unwrap();
        Self {
            _watchdog: Watchdog::over(&child, format!("{command:?}")),
            child,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal. After [`Signal::STOP`] no thread of the process runs any more.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
        if signal == Signal::STOP {
            // Until the thread that takes the signal has its turn, the others run on. The system
            // tells the parent once all of them have stopped.
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            wait_until("the process to stop", || {
                waitid(WaitId::Pid(self.pid()), options).unwrap()
            });
        }
    }

    /// Waits for the end of the process.
    pub(crate) fn end(&mut self) -> ProcessEnd {
        let status: ExitStatus =
            wait_until("the end of the process", || self.child.try_wait().unwrap());
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut stderr).unwrap();
        }
        ProcessEnd {
            code: status.code(),
            stderr,
        }
    }

    /// Waits until the node on `port` answers. Panics with its output if it
    /// ends instead.
    pub(crate) fn wait_until_up(&mut self, port: u16) {
        self.wait_until_up_at(local(port));
    }

    /// Waits until the node at `address` answers. Panics with its output if it
    /// ends instead.
    pub(crate) fn wait_until_up_at(&mut self, address: SocketAddr) {
        self.wait_until_up_by(|| Connection::connect(address));
    }

    /// Waits until the node that `connect` connects to answers. Panics with its output if
    /// it ends instead.
    pub(crate) fn wait_until_up_by(&mut self, connect: impl Fn() -> io::Result<Connection>) {
        wait_until("an answer of the node", || {
            if self.child.try_wait().unwrap().is_some() {
                panic!("the process ended early: {:?}", self.end());
            }
            let answer = connect()
                .and_then(|mut connection| connection.request("GET", "/v0/status", "", b""));
            answer
                .is_ok_and(|answer| answer.status == 200)
                .then_some(())
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until nothing listens on `port`.
pub(crate) fn wait_until_closed(port: u16) {
    wait_until("the port to close", || {
        TcpStream::connect(("127.0.0.1", port))
            .is_err()
            .then_some(())
    });
}

/// Sends one request on a connection of its own. Returns the status and the
/// body of the response, or [`None`] if there is no complete response.
pub(crate) fn request(
    port: u16,
    method: &str,
    target: &str,
    body: &[u8],
) -> Option<(u16, Vec<u8>)> {
    let mut connection = Connection::connect(local(port)).ok()?;
    let response = connection.request(method, target, "", body).ok()?;
    Some((response.status, response.body))
}
