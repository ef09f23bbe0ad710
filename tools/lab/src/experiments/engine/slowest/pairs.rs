//! A load beside nginx: runs in turn, because the speed of a machine changes from minute to
//! minute.

use super::priority;
use crate::context::ExperimentContext;
use crate::measure::Measured;
use crate::{Error, statistics};
use load::Run;
use load::plan::Plan;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long nginx may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A run of nginx, and then one of the nodes, which record nothing.
#[derive(Debug, Serialize)]
pub(super) struct Pair {
    pub(super) nginx: Run,
    pub(super) own: Run,
}

impl Pair {
    /// The p99.9 as a multiple of nginx's; infinite if a run has none.
    pub(super) fn ratio(&self) -> f64 {
        let of = |run: &Run| run.latency.percentile_ms(99.9);
        statistics::ratio(of(&self.own), of(&self.nginx)).unwrap_or(f64::INFINITY)
    }
}

/// Runs a plan so many times, each time after nginx under the same load. The pairs are
/// sorted by their ratios. Says why if there are none.
///
/// # Errors
/// A stop.
pub(super) fn measure(
    context: &ExperimentContext<'_>,
    plan: &Plan,
    count: usize,
) -> Result<Measured<Vec<Pair>>, Error> {
    let stop = context.stop();
    let mut pairs = Vec::new();
    for _ in 0..count {
        let nginx = match nginx_run(context, plan)? {
            Ok(run) => run,
            Err(problem) => return Ok(Err(problem)),
        };
        let own = priority::before_others(|| load::run(plan, stop, &mut |_| {}));
        context.fail_if_stopped()?;
        match own {
            Ok(own) => pairs.push(Pair { nginx, own }),
            Err(error) => return Ok(Err(error.to_string())),
        }
    }
    pairs.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    Ok(Ok(pairs))
}

/// The pair with the median ratio, of sorted pairs; of an even number the greater one.
pub(super) fn median(pairs: &[Pair]) -> Option<&Pair> {
    pairs.get(pairs.len() / 2)
}

/// A running nginx, which answers `201` to everything. It is killed when it is dropped.
struct Nginx {
    process: Child,
    url: String,
    _folder: TempDir,
}

/// The run of a plan against nginx, or why there is none.
///
/// # Errors
/// A stop.
fn nginx_run(context: &ExperimentContext<'_>, plan: &Plan) -> Result<Measured<Run>, Error> {
    let nginx = match Nginx::start(context)? {
        Ok(nginx) => nginx,
        Err(problem) => return Ok(Err(problem)),
    };
    let stop = context.stop();
    let plan = Plan {
        targets: vec![nginx.url.clone()],
        replicas: None,
        ..plan.clone()
    };
    let run = priority::before_others(|| load::run(&plan, stop, &mut |_| {}));
    context.fail_if_stopped()?;
    Ok(run.map_err(|error| error.to_string()))
}

impl Nginx {
    /// Starts it with two workers, or says why it cannot.
    ///
    /// # Errors
    /// A stop, or no temporary folder.
    fn start(context: &ExperimentContext<'_>) -> Result<Measured<Self>, Error> {
        let folder = tempfile::Builder::new()
            .prefix("kvorum-lab-nginx-")
            .tempdir()
            .map_err(Error::system("a temporary folder"))?;
        let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let port = probe.and_then(|probe| probe.local_addr());
        let port = port.map_err(Error::system("a free port"))?.port();
        let file = folder.path().join("nginx.conf");
        std::fs::write(
            &file,
            configuration(&folder.path().display().to_string(), port),
        )
        .map_err(Error::file(&file))?;
        let spawned = Command::new("nginx")
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = match spawned {
            Ok(process) => process,
            Err(error) => return Ok(Err(format!("nginx cannot be started: {error}"))),
        };
        let nginx = Self {
            process,
            url: format!("http://127.0.0.1:{port}"),
            _folder: folder,
        };
        let listens = context.wait_until("nginx", START_TIMEOUT, || {
            Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok())
        });
        match listens {
            Ok(_) => Ok(Ok(nginx)),
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(_) => Ok(Err("nginx did not listen in time".to_owned())),
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Only a graceful end takes its workers along. Both fail if it has ended.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

fn configuration(folder: &str, port: u16) -> String {
    format!(
        "worker_processes 2; daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.err;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body;\n\
         server {{ listen 127.0.0.1:{port} reuseport; location / {{ return 201; }} }}\n\
         }}\n"
    )
}
