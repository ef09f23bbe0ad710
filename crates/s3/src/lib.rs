//! A bucket as a target of backups: of S3, or of a server that speaks its protocol.
//!
//! - `place` reads where a bucket is: `s3://BUCKET/FOLDER?region=…&endpoint=…&credentials=FILE`, and
//!   `credentials` what is in that file.
//! - `target` stores, reads and lists objects. Its calls block, as those of each target do.
//! - `http` sends the requests, with the TLS and the look-ups that the rest of the program has:
//!   each on a connection of its own, because parts are long.
//!
//! Without such a file, who may use the bucket is told as to every program for S3: by
//! `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` in the environment, or by what the machine is.
//!
//! An object appears with all of its bytes or not at all, and is listed at once: S3 promises both,
//! and a backup needs both. A long object is uploaded in parts, so that a request that fails costs
//! one part. What a process that ends has uploaded of an object stays invisible: a bucket should
//! have a rule that removes incomplete uploads.

mod credentials;
mod http;
mod place;
mod target;

pub use credentials::{CredentialsError, S3Credentials};
pub use place::{PlaceError, S3Place};
pub use target::S3Target;
