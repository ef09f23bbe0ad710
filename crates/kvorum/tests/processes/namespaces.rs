//! Network namespaces for nodes, with cables that can be pulled.
//!
//! A network namespace exists as long as a process is in it, so each has a
//! process that waits for the end of its stdin. The process ends with these
//! tests, however they end, and the namespace and its cables with it. So
//! nothing is left on the machine.

#![expect(
    clippy::disallowed_methods,
    reason = "the namespaces of processes are looked up in /proc"
)]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

/// A network namespace.
pub(crate) struct Namespace {
    holder: Child,
}

impl Namespace {
    /// # Errors
    /// Usually, why this machine has no namespaces.
    pub(crate) fn new() -> Result<Self, String> {
        let command = ["unshare", "--net", "sh", "-c", "echo; exec cat >&2"];
        let mut command = command_of(&command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let stdout = holder.stdout.take();
        let namespace = Self { holder };
        // The process writes a line when the namespace exists.
        let mut line = String::new();
        let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
        match read {
            Some(Ok(1)) => {}
            _ => return Err("unshare --net makes no namespace".to_owned()),
        }
        namespace.run(&["ip", "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The command prefix that starts a program in the namespace.
    pub(crate) fn launcher(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net={}", self.file())]
    }

    /// Runs a program in the namespace to its end.
    ///
    /// # Errors
    /// The output of a program that failed.
    pub(crate) fn run(&self, words: &[&str]) -> Result<(), String> {
        let launcher = self.launcher();
        let mut command = command_of(&launcher);
        let output = command.args(words).output();
        let output = output.map_err(|error| format!("{}: {error}", launcher[0]))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}", words.join(" "), said.trim()))
    }

    /// Runs `work` on a thread in the namespace; the threads and processes that
    /// it starts are in it too.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let entered = || -> io::Result<()> {
            let file = File::open(self.file())?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(())
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                entered().unwrap();
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.pid())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Hosts that are connected by a switch, which is a host itself.
pub(crate) struct Network {
    pub(crate) switch: Namespace,
    pub(crate) hosts: [Namespace; 3],
}

impl Network {
    /// # Errors
    /// Usually, why this machine has no namespaces.
    pub(crate) fn new() -> Result<Self, String> {
        let network = Self {
            switch: Namespace::new()?,
            hosts: [Namespace::new()?, Namespace::new()?, Namespace::new()?],
        };
        let switch = |words: &str| network.switch.run(&split(words));
        switch("ip link add switch type bridge")?;
        switch("ip address add 10.0.0.254/24 dev switch")?;
        switch("ip link set switch up")?;
        for (index, host) in network.hosts.iter().enumerate() {
            let (port, pid) = (port(index), host.pid());
            switch(&format!(
                "ip link add {port} type veth peer name cable netns {pid}"
            ))?;
            switch(&format!("ip link set {port} master switch up"))?;
            let address = Self::address(index);
            host.run(&split(&format!("ip address add {address}/24 dev cable")))?;
            host.run(&split("ip link set cable up"))?;
        }
        Ok(network)
    }

    /// The address of a host.
    pub(crate) fn address(index: usize) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, index as u8 + 1).into()
    }

    /// Disconnects a host from the switch.
    pub(crate) fn cut(&self, index: usize) {
        self.set(index, "down");
    }

    /// Reconnects a host to the switch.
    pub(crate) fn join(&self, index: usize) {
        self.set(index, "up");
    }

    fn set(&self, index: usize, state: &str) {
        let words = format!("ip link set {} {state}", port(index));
        self.switch.run(&split(&words)).unwrap();
    }
}

fn port(index: usize) -> String {
    format!("port-{index}")
}

fn split(words: &str) -> Vec<&str> {
    words.split(' ').collect()
}

fn command_of<S: AsRef<str>>(words: &[S]) -> Command {
    let mut command = Command::new(words[0].as_ref());
    command.args(words[1..].iter().map(AsRef::as_ref));
    command
}
