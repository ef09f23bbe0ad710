//! The pages for supervisors and load balancers.

use crate::support::{Client, config, gated_disk, seams, start, wait_for_metric};
use server::Server;

#[test]
fn a_node_alone_is_alive_and_ready() {
    let node = start();
    let mut client = Client::connect(&node);
    let live = client.get("/health/live");
    assert_eq!((live.status, &live.json()["state"]), (200, &"live".into()));
    let ready = client.get("/health/ready");
    assert_eq!(ready.status, 200);
    assert_eq!(
        ready.json(),
        serde_json::json!({"state": "ready", "warnings": []})
    );
    for page in ["/health/live", "/health/ready"] {
        assert_eq!(client.request("HEAD", page, "", b"").status, 200);
        assert_eq!(client.get(&format!("{page}?a=b")).status, 400);
        assert_eq!(client.request("PUT", page, "", b"").status, 405);
    }
    assert_eq!(client.get("/health").status, 400);
}

#[test]
fn health_is_outside_admission() {
    let mut config = config();
    config.requests_in_flight_max = 1;
    config.requests_queued_max = 1;
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config, seams(disk)).unwrap();
    gate.close();
    let mut waiting: Vec<Client> = (0..2).map(|_| Client::connect(&node)).collect();
    for client in &mut waiting {
        client
            .send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nv");
    }
    wait_for_metric(&node, "kvorum_requests_queued", "1.0");
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/entity?id=a").status, 503);
    for page in ["/health/live", "/health/ready", "/openapi.json"] {
        assert_eq!(Client::connect(&node).get(page).status, 200, "{page}");
    }
    gate.open();
}
