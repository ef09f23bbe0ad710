//! A server of S3 at an address, until its stdin closes.

use s3_check::Server;
use std::io::Read;

fn main() {
    let address = std::env::args().nth(1).expect("s3-server HOST:PORT");
    let server = Server::start_at(&address, tempfile::tempdir().unwrap());
    println!("{}", server.place("kvorum"));
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
