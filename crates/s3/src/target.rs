//! The objects of a bucket.

use crate::credentials::S3Credentials;
use crate::http::Connector;
use crate::place::S3Place;
use backup::{ObjectInfo, ObjectReader, ObjectWriter, Target};
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, RetryConfig,
};
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tls::Authorities;
use tokio::runtime::{Handle, Runtime};

/// The length of a part of a long object, in bytes, and of what is read at once. S3 allows 10,000
/// parts of at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// How often a request is repeated, and for how long; whoever uses the target tries again, too.
const RETRIES_MAX: usize = 3;
const RETRY_MAX: Duration = Duration::from_secs(20);

/// How long a call may take, all repetitions of its request included. A node waits a little longer for
/// its target.
const CALL_MAX: Duration = Duration::from_secs(100);

/// A bucket.
pub struct S3Target {
    inner: Arc<Inner>,
}

struct Inner {
    store: AmazonS3,
    folder: Path,
    /// Runs requests while a call blocks. It is there until the end.
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It may end within another runtime, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for S3Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "S3Target({})", self.inner.folder)
    }
}

impl S3Target {
    /// A bucket, with these rights, or those that the environment gives. Sends nothing yet.
    ///
    /// # Errors
    /// The place cannot be used; the system has no authorities to trust.
    pub fn new(place: &S3Place, credentials: Option<S3Credentials>) -> io::Result<Self> {
        let mut builder = match credentials {
            None => AmazonS3Builder::from_env(),
            Some(S3Credentials { id, secret, token }) => {
                let builder = AmazonS3Builder::new()
                    .with_access_key_id(id)
                    .with_secret_access_key(secret);
                match token {
                    None => builder,
                    Some(token) => builder.with_token(token),
                }
            }
        };
        builder = builder.with_bucket_name(&place.bucket);
        if let Some(region) = &place.region {
            builder = builder.with_region(region);
        }
        let is_plain = match &place.endpoint {
            Some(endpoint) => {
                let is_plain = endpoint.starts_with("http://");
                builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
                is_plain
            }
            None => false,
        };
        let tls = if is_plain {
            None
        } else {
            let authorities = Authorities::of_system().map_err(io::Error::other)?;
            Some(tls::client_config(&authorities, None).map_err(io::Error::other)?)
        };
        let store = builder
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: RETRIES_MAX,
                retry_timeout: RETRY_MAX,
            })
            .with_http_connector(Connector {
                resolver: Arc::default(),
                tls,
            })
            .build()
            .map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                folder: Path::from(place.folder.as_str()),
                runtime: Some(runtime),
            }),
        })
    }
}

impl Inner {
    fn path(&self, name: &str) -> Path {
        let name = Path::from(name);
        self.folder.parts().chain(name.parts()).collect()
    }

    /// Waits for requests.
    fn wait<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
        let ended = || io::Error::other("the target was given up");
        let runtime = self.runtime.as_ref().ok_or_else(ended)?;
        runtime.block_on(async {
            let done = tokio::time::timeout(CALL_MAX, work).await;
            done.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
                .map_err(|error| error_of(&error))
        })
    }
}

fn error_of(error: &object_store::Error) -> io::Error {
    let kind = match error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        object_store::Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        object_store::Error::NotImplemented { .. } => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    // It may quote an answer of the server.
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    io::Error::new(kind, words.join(" "))
}

impl Target for S3Target {
    fn create(&self, name: &str) -> io::Result<Box<dyn ObjectWriter>> {
        Ok(Box::new(Writer {
            inner: Arc::clone(&self.inner),
            path: self.inner.path(name),
            part: BytesMut::new(),
            upload: None,
        }))
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let (path, bytes) = (self.inner.path(name), Bytes::copy_from_slice(bytes));
        let store = &self.inner.store;
        let put = store.put_opts(&path, bytes.clone().into(), PutMode::Create.into());
        match self.inner.wait(put) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // A server without conditions.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                match self.inner.wait(store.head(&path)) {
                    Ok(_) => return Ok(false),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                self.inner.wait(store.put(&path, bytes.into()))?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ObjectReader>> {
        let path = self.inner.path(name);
        let head = self.inner.wait(self.inner.store.head(&path))?;
        Ok(Box::new(Reader {
            inner: Arc::clone(&self.inner),
            path,
            bytes: head.size,
            begin: 0,
            piece: Bytes::new(),
        }))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ObjectInfo>> {
        let (inner, path) = (&self.inner, self.inner.path(folder));
        let listed = inner.wait(inner.store.list(Some(&path)).try_collect::<Vec<_>>())?;
        let objects = listed.into_iter().filter_map(|object| {
            let name = object.location.filename()?;
            Some(ObjectInfo {
                name: format!("{folder}/{name}"),
                bytes: object.size,
            })
        });
        let mut objects: Vec<ObjectInfo> = objects.collect();
        objects.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(objects)
    }

    /// What was begun in parts and never completed is not listed by the requests that are known here: a
    /// rule of the bucket removes it.
    fn remove_unfinished(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.inner.path(name);
        match self.inner.wait(self.inner.store.delete(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// An object that is being uploaded: at once if it is short, otherwise in parts.
struct Writer {
    inner: Arc<Inner>,
    path: Path,
    /// What was not uploaded yet.
    part: BytesMut,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl Writer {
    fn put_part(&mut self) -> io::Result<()> {
        let Self {
            inner,
            path,
            part,
            upload,
        } = self;
        let upload = match upload {
            Some(upload) => upload,
            None => upload.insert(inner.wait(inner.store.put_multipart(path))?),
        };
        let part = part.split().freeze();
        inner.wait(upload.put_part(part.into()))
    }
}

impl ObjectWriter for Writer {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = PART_BYTES - self.part.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.part.extend_from_slice(now);
            bytes = later;
            if self.part.len() == PART_BYTES {
                self.put_part()?;
            }
        }
        Ok(())
    }

    fn complete(mut self: Box<Self>) -> io::Result<()> {
        if self.upload.is_none() {
            let bytes = self.part.split().freeze();
            let put = self.inner.store.put(&self.path, bytes.into());
            return self.inner.wait(put).map(|_| ());
        }
        if !self.part.is_empty() {
            self.put_part()?;
        }
        if let Some(upload) = &mut self.upload {
            self.inner.wait(upload.complete())?;
        }
        self.upload = None;
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Where it cannot wait, it leaves that to the rule of the bucket.
        if let Some(upload) = &mut self.upload
            && Handle::try_current().is_err()
            && let Err(error) = self.inner.wait(upload.abort())
        {
            tracing::debug!(%error, "could not end an incomplete upload of a backup");
        }
    }
}

/// An object that is read in long pieces.
struct Reader {
    inner: Arc<Inner>,
    path: Path,
    bytes: u64,
    /// The piece that was read last, and where it begins.
    begin: u64,
    piece: Bytes,
}

impl ObjectReader for Reader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset + buffer.len() as u64;
        if end > self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let piece_end = self.begin + self.piece.len() as u64;
        if offset < self.begin || end > piece_end {
            let until = (offset + PART_BYTES as u64).max(end).min(self.bytes);
            let range = self.inner.store.get_range(&self.path, offset..until);
            self.piece = self.inner.wait(range)?;
            self.begin = offset;
        }
        let from = (offset - self.begin) as usize;
        let found = self.piece.get(from..from + buffer.len());
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
