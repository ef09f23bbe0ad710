//! The crate `s3` as a target of backups.

#![allow(clippy::disallowed_methods, reason = "files and threads of a test")]

use backup::Target;
use s3::{S3Credentials, S3Place, S3Target};
use s3_check::{KEY, SECRET, Server};
use std::io;
use std::sync::atomic::Ordering;

fn target(server: &Server, folder: &str, secret: &str) -> S3Target {
    let place: S3Place = server.place(folder).parse().unwrap();
    let credentials = format!("AWS_ACCESS_KEY_ID={KEY}\nAWS_SECRET_ACCESS_KEY={secret}\n");
    let credentials: S3Credentials = credentials.parse().unwrap();
    S3Target::new(&place, Some(credentials)).unwrap()
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

fn put(target: &dyn Target, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut writer = target.create(name)?;
    for piece in bytes.chunks(1_000_003) {
        writer.write(piece)?;
    }
    writer.complete()
}

#[test]
fn objects_of_any_length_come_back_and_are_listed() {
    let server = Server::start();
    let target_ = target(&server, "one", SECRET);
    assert_eq!(target_.list("tables").unwrap(), []);
    let lengths = [0, 1, 5 << 20, 8 << 20, (8 << 20) + 1, (20 << 20) + 7];
    for length in lengths {
        put(&target_, &format!("tables/{length:09}.sst"), &bytes(length)).unwrap();
    }
    let listed = target_.list("tables").unwrap();
    let listed: Vec<_> = listed.into_iter().map(|it| (it.name, it.bytes)).collect();
    let expected = lengths.map(|length| (format!("tables/{length:09}.sst"), length as u64));
    assert_eq!(listed, expected);
    for length in lengths {
        let mut reader = target_.open(&format!("tables/{length:09}.sst")).unwrap();
        assert_eq!(reader.bytes(), length as u64);
        let mut read = vec![0; length];
        for (number, piece) in read.chunks_mut(1 << 20).enumerate() {
            reader.read((number << 20) as u64, piece).unwrap();
        }
        assert!(read == bytes(length), "{length}");
        let beyond = reader.read(length as u64, &mut [0]);
        assert_eq!(beyond.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
    // Another folder of the bucket is another target.
    let other = target(&server, "other", SECRET);
    assert_eq!(other.list("tables").unwrap(), []);
    let none = other.open("tables/000000001.sst").err().unwrap();
    assert_eq!(none.kind(), io::ErrorKind::NotFound);
    put(&target_, "tables/000000001.sst", b"later").unwrap();
    assert_eq!(target_.open("tables/000000001.sst").unwrap().bytes(), 5);
    for _ in 0..2 {
        target_.remove("tables/000000001.sst").unwrap();
    }
    assert_eq!(target_.list("tables").unwrap().len(), lengths.len() - 1);
}

#[test]
fn an_object_is_put_once_by_whoever_is_first() {
    let server = Server::start();
    let target = target(&server, "one", SECRET);
    assert!(target.put_new("cluster.json", b"one").unwrap());
    assert!(!target.put_new("cluster.json", b"other").unwrap());
    let mut reader = target.open("cluster.json").unwrap();
    let mut read = [0; 3];
    reader.read(0, &mut read).unwrap();
    assert_eq!(&read, b"one");
}

#[test]
fn an_object_that_is_not_complete_is_none() {
    let server = Server::start();
    let target = target(&server, "one", SECRET);
    for length in [100, 20 << 20] {
        let mut writer = target.create("nodes/x.json").unwrap();
        writer.write(&bytes(length)).unwrap();
        drop(writer);
        assert_eq!(target.list("nodes").unwrap(), []);
        assert!(target.open("nodes/x.json").is_err());
    }
}

#[test]
fn a_connection_that_breaks_is_made_anew_and_a_wrong_secret_is_refused() {
    let server = Server::start();
    let own = target(&server, "one", SECRET);
    let mut writer = own.create("tables/x.sst").unwrap();
    for piece in bytes(20 << 20).chunks(4 << 20) {
        server.drops.store(1, Ordering::SeqCst);
        writer.write(piece).unwrap();
    }
    server.drops.store(1, Ordering::SeqCst);
    writer.complete().unwrap();
    assert_eq!(own.list("tables").unwrap()[0].bytes, 20 << 20);
    let stranger = target(&server, "one", "a guess");
    for result in [
        put(&stranger, "tables/y.sst", b"y"),
        stranger.list("tables").map(|_| ()),
        stranger.open("tables/x.sst").map(|_| ()),
    ] {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("403 Forbidden"), "{text}");
        assert!(!text.contains(SECRET) && !text.contains('\n'), "{text}");
    }
    drop(server);
    assert!(own.list("tables").is_err());
}
