//! A server of S3 in this process, which keeps buckets in a folder.

#![allow(clippy::disallowed_methods, reason = "files and threads of a test")]

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub const KEY: &str = "kvorum";
pub const SECRET: &str = "its-secret";
/// The only bucket.
pub const BUCKET: &str = "backups";

/// A server, which ends when it is dropped.
pub struct Server {
    pub folder: TempDir,
    pub address: SocketAddr,
    /// How many more connections it drops.
    pub drops: Arc<AtomicU64>,
    _ends: oneshot::Sender<()>,
}

impl Server {
    /// One on a free port of this machine, with a folder of its own.
    pub fn start() -> Self {
        Self::start_at("127.0.0.1:0", tempfile::tempdir().unwrap())
    }

    /// One that listens at this address.
    pub fn start_at(address: &str, folder: TempDir) -> Self {
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let drops = Arc::new(AtomicU64::new(0));
        let (ends, ended) = oneshot::channel::<()>();
        let dropped = Arc::clone(&drops);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let serve = async {
                    loop {
                        let (socket, _) = listener.accept().await.unwrap();
                        let one_less = |left: u64| left.checked_sub(1);
                        let order = Ordering::SeqCst;
                        if dropped.fetch_update(order, order, one_less).is_ok() {
                            continue;
                        }
                        let service = service.clone();
                        tokio::spawn(async move {
                            let served = http1::Builder::new();
                            let served = served.serve_connection(TokioIo::new(socket), service);
                            // A client may leave.
                            let _ended = served.await;
                        });
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = ended => {}
                }
            });
        });
        Self {
            folder,
            address,
            drops,
            _ends: ends,
        }
    }

    /// A folder of the bucket as a place of backups.
    pub fn place(&self, folder: &str) -> String {
        format!(
            "s3://{BUCKET}/{folder}?region=eu-1&endpoint=http://{}",
            self.address
        )
    }
}
