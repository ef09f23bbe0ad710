//! The console of a local cluster: on a port of its own, so that it survives any of the
//! nodes.
//!
//! ```text
//! GET  /, /console/…            the console, as each node serves it
//! GET  /dev/cluster             the nodes, and what was done to them
//! POST /dev/nodes/2/kill        does something to a node, as 'kvorum dev kill 2' does
//! POST /dev/add                 adds a node; answers once it joins
//! POST /dev/nodes/4/remove      removes a node; answers once it leaves
//! POST /dev/heal                takes back whatever was done to the nodes
//! POST /dev/load/4096           loads the first node for some seconds, over so many connections
//! any  /nodes/2/v0/…            passes a request on to a node
//! ```
//!
//! Everything but the console's files needs a token, which is drawn at each start. The token is in
//! the fragment of the printed URL, which browsers do not send. The page sends it in a header field
//! of its own, so that pages of other sites cannot even try. A page that rebinds its name is
//! refused by its `Host`.
//!
//! Each connection carries one request, which is enough for one reader. When there are too many
//! connections, the oldest one that has not shown the
//! token is closed, so nobody without it can keep the reader out.
//!
//! `passing` forwards a request to a node, as `forwarding` reaches it; `answer` is what the console
//! answers itself, `loading` its overload; `body` and `stream` fit hyper to it.

mod answer;
mod body;
mod forwarding;
mod loading;
mod passing;
mod stream;

use super::actions::{NodeState, Supervisor};
use super::control;
use super::layout::ClusterLayout;
use super::member_orders::{MemberOrder, MemberOrders};
use super::nodes::Nodes;
use crate::failure::Failure;
use answer::Answer;
use base::{OsRandom, Random};
use console::Asset;
use forwarding::{Reach, ReachedNode};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use rustls::ClientConfig;
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stream::HyperStream;
use tokens::TokenHash;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// The field that carries the token.
const TOKEN_FIELD: &str = "kvorum-dev";

/// How many requests are answered at a time. Further ones wait to be accepted while all of
/// these have the token.
const REQUESTS_MAX: usize = 64;

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long a head may take to arrive, as with a node.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a request and its answer may take. Actions wait for a node to stop or start.
const EXCHANGE_TIME: Duration = Duration::from_secs(90);

/// What takes back all that may have been done to a node, in this order.
const HEALING_ACTIONS: [&str; 5] = ["thaw", "start", "join", "unslow", "unskew"];

/// What the supervisor of a node says of one that runs and has no fault.
const WHOLE: &str = "running";

/// How long the listener rests after the system failed to accept a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The console of a local cluster.
pub(super) struct DevConsole {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
    reach: Reach,
}

/// What all requests need to know.
#[derive(Clone)]
struct Cluster {
    address: SocketAddr,
    token: String,
    reach: Reach,
    members: MemberOrders,
}

impl DevConsole {
    /// Begins to listen on a free port, and draws the token. The nodes' ports are free, too,
    /// as long as the nodes have not started. `tls` trusts the authority of the cluster; it is
    /// none without TLS.
    ///
    /// # Errors
    /// Those of the system; the file of the cluster's token cannot be read.
    pub(super) async fn listen(
        layout: &ClusterLayout,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot serve the console: {error}"));
        let nodes = layout.nodes();
        let is_of_a_node = |address: SocketAddr| nodes.iter().any(|node| node.address == address);
        let any_port = (Ipv4Addr::LOCALHOST, 0);
        let mut listener = TcpListener::bind(any_port).await.map_err(failed)?;
        while is_of_a_node(listener.local_addr().map_err(failed)?) {
            listener = TcpListener::bind(any_port).await.map_err(failed)?;
        }
        let random = OsRandom::new().map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
            token: format!("{:016x}{:016x}", random.next_u64(), random.next_u64()),
            reach: Reach::of(layout, tls)?,
        })
    }

    /// The address to open in a browser. It begins with `http`, because no browser trusts the
    /// cluster's authority; it leads to this machine only.
    pub(super) fn url(&self) -> String {
        format!("http://{}/#dev={}", self.address, self.token)
    }

    /// Serves the console, forever.
    pub(super) async fn serve(&self, members: MemberOrders) {
        let cluster = Cluster {
            address: self.address,
            token: self.token.clone(),
            reach: self.reach.clone(),
            members,
        };
        let mut connections = Connections::default();
        loop {
            tokio::select! {
                biased;
                () = connections.end_of_one() => {}
                accepted = self.listener.accept(), if connections.may_begin() => match accepted {
                    Ok((stream, _)) => {
                        let cluster = cluster.clone();
                        connections.begin(|has_token| async move {
                            serve_one(stream, &cluster, &has_token).await;
                        });
                    }
                    // Too many open files, for example, which is temporary.
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
            }
        }
    }
}

/// The connections that are under way.
#[derive(Default)]
struct Connections {
    under_way: JoinSet<()>,
    /// Those that had not shown the token when last looked at, oldest first.
    unauthenticated: VecDeque<Unauthenticated>,
}

/// A connection that may be shed.
struct Unauthenticated {
    task: AbortHandle,
    /// Whether it has shown the token.
    has_token: Arc<AtomicBool>,
}

impl Unauthenticated {
    fn may_be_shed(&self) -> bool {
        !self.task.is_finished() && !self.has_token.load(Ordering::Relaxed)
    }
}

impl Connections {
    /// Whether another connection may begin.
    fn may_begin(&self) -> bool {
        self.under_way.len() < REQUESTS_MAX
            || self
                .unauthenticated
                .iter()
                .any(Unauthenticated::may_be_shed)
    }

    /// Begins a connection, which sets its flag once it has shown the token.
    fn begin<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        serve: impl FnOnce(Arc<AtomicBool>) -> F,
    ) {
        self.unauthenticated.retain(Unauthenticated::may_be_shed);
        if self.under_way.len() >= REQUESTS_MAX
            && let Some(oldest) = self.unauthenticated.pop_front()
        {
            oldest.task.abort();
        }
        let has_token = Arc::new(AtomicBool::new(false));
        let task = self.under_way.spawn(serve(Arc::clone(&has_token)));
        self.unauthenticated
            .push_back(Unauthenticated { task, has_token });
    }

    /// Waits until a connection has ended; forever if there is none.
    async fn end_of_one(&mut self) {
        if self.under_way.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Serves the one request of a connection. Sets the flag once it has shown the token.
async fn serve_one(stream: TcpStream, cluster: &Cluster, has_token: &AtomicBool) {
    let has_head = &AtomicBool::new(false);
    let service = service_fn(move |request| async move {
        has_head.store(true, Ordering::Relaxed);
        has_token.store(cluster.is_own(request.headers()), Ordering::Relaxed);
        Ok::<_, Infallible>(match cluster.refusal(&request) {
            Some(refused) => refused,
            None => cluster.answer(request).await,
        })
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES_MAX)
        .header_read_timeout(None)
        .serve_connection(HyperStream(stream), service);
    let mut served = pin!(served);
    // The browser may have gone, and a request that takes too long ends with its connection.
    let is_done = tokio::time::timeout(HEAD_TIME, &mut served).await.is_ok();
    if !is_done && has_head.load(Ordering::Relaxed) {
        let _ended = tokio::time::timeout(EXCHANGE_TIME, served).await;
    }
}

impl Cluster {
    /// Why a request is not answered, if it is not.
    fn refusal(&self, request: &Request<Incoming>) -> Option<Answer> {
        let port = self.address.port();
        let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
        if !own.iter().any(|known| Some(known.as_bytes()) == host) {
            return Some(answer::problem(
                StatusCode::MISDIRECTED_REQUEST,
                "this is not the address that 'kvorum dev' has printed",
            ));
        }
        if asset_of(request).is_some() || self.is_own(request.headers()) {
            return None;
        }
        Some(answer::problem(
            StatusCode::FORBIDDEN,
            "the console has no token: open the address that 'kvorum dev' has printed",
        ))
    }

    /// Whether the head of a request has the token.
    fn is_own(&self, fields: &HeaderMap) -> bool {
        // Hashes are compared, so that the time that it takes tells nothing of the token.
        let is_own = |token: &HeaderValue| {
            TokenHash::of(token.as_bytes()) == TokenHash::of(self.token.as_bytes())
        };
        fields.get(TOKEN_FIELD).is_some_and(is_own)
    }

    /// Answers a request, or has a node answer it.
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if let Some(asset) = asset_of(&request) {
            return answer::file(asset, self.nodes().list().len());
        }
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.splitn(4, '/').skip(1).collect();
        match (request.method().as_str(), parts.as_slice()) {
            ("GET", ["dev", "cluster"]) => self.nodes_page(),
            ("POST", ["dev", "nodes", order]) => self.carry_out(order).await,
            ("POST", ["dev", "add"]) => self.change_members(MemberOrder::Add).await,
            ("POST", ["dev", "heal"]) => self.heal().await,
            ("POST", ["dev", "load", connections]) => self.load(connections).await,
            (_, ["nodes", number, _]) => {
                match number.parse().ok().and_then(|number| self.node(number)) {
                    Some(node) => {
                        let target = &path["/nodes/".len() + number.len()..];
                        passing::pass_on(request, target, &self.reach, &node).await
                    }
                    None => answer::problem(StatusCode::NOT_FOUND, "there is no such node"),
                }
            }
            _ => answer::nothing(),
        }
    }

    fn nodes(&self) -> &Nodes {
        self.members.nodes()
    }

    /// A node by its number, from 1.
    fn node(&self, number: usize) -> Option<ReachedNode> {
        self.nodes().get(number).map(ReachedNode::from)
    }

    /// The nodes, and what was done to them.
    fn nodes_page(&self) -> Answer {
        let nodes = self.nodes().list();
        let nodes: Vec<NodeState> = nodes.iter().map(Supervisor::state).collect();
        answer::json(&json!({"nodes": nodes}))
    }

    /// Has the members change, and answers once the change has begun. It goes on meanwhile.
    async fn change_members(&self, order: MemberOrder) -> Answer {
        let mut change = match self.members.begin(order) {
            Ok(change) => change,
            Err(why) => return answer::problem(StatusCode::CONFLICT, &why),
        };
        let ended = tokio::select! {
            end = &mut change.end => end.unwrap_or_else(|_| Err("the cluster is stopping".to_owned())),
            Ok(said) = change.said.wait_for(|said| !said.is_empty()) => Ok(said.clone()),
        };
        match ended {
            Ok(line) => answer::json(&json!({"done": line})),
            Err(why) => answer::problem(StatusCode::CONFLICT, &why),
        }
    }

    /// Loads the first node, and answers when that has ended.
    async fn load(&self, connections: &str) -> Answer {
        let Some(node) = self.nodes().list().into_iter().next() else {
            return answer::problem(StatusCode::NOT_FOUND, "there is no node");
        };
        match loading::load(&self.reach, &node.into(), connections).await {
            Ok(()) => answer::json(&json!({"done": "the load has ended"})),
            Err(why) => answer::problem(StatusCode::CONFLICT, &why),
        }
    }

    /// Takes back whatever was done to the nodes. It goes on if the browser leaves meanwhile,
    /// because who closes the tour asks for it and does not wait.
    async fn heal(&self) -> Answer {
        let nodes = self.nodes().clone();
        // A task that was aborted has healed nothing for sure, and what the nodes are says so.
        let _aborted = tokio::spawn(async move { heal_all(&nodes).await }).await;
        let all = self.nodes().list().into_iter();
        let broken: Vec<String> = all
            .map(|node| (node.shown.borrow().clone(), node.name))
            .filter(|(shown, _)| shown != WHOLE)
            .map(|(shown, name)| format!("{name} is {shown}"))
            .collect();
        if broken.is_empty() {
            answer::json(&json!({"done": "all faults are undone"}))
        } else {
            answer::problem(StatusCode::CONFLICT, &broken.join(", "))
        }
    }

    /// Does something to a node: `order` is its number, a slash, and the word of the action.
    async fn carry_out(&self, order: &str) -> Answer {
        let Some((number, word)) = order.split_once('/') else {
            return answer::nothing();
        };
        if word == "remove" {
            return match number.parse() {
                Ok(number) => self.change_members(MemberOrder::Remove(Some(number))).await,
                Err(_) => answer::nothing(),
            };
        }
        match control::carry_out(&format!("{word} {number}"), self.nodes()).await {
            Ok(line) => answer::json(&json!({"done": line})),
            Err(line) => answer::problem(StatusCode::CONFLICT, &line),
        }
    }
}

/// Has the supervisors take back whatever was done to their nodes. What does not apply to a node
/// is refused, so that a command that is still on its way to it is taken back as well.
async fn heal_all(nodes: &Nodes) {
    for node in nodes.list() {
        for word in HEALING_ACTIONS {
            let request = format!("{word} {}", node.number);
            let _refused = control::carry_out(&request, nodes).await;
        }
    }
}

/// The file of the console that a request asks for.
fn asset_of(request: &Request<Incoming>) -> Option<Asset> {
    let mut all = Asset::ALL.into_iter();
    all.find(|asset| request.method() == Method::GET && request.uri().path() == asset.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins a connection that lasts until it is aborted; `has_token` says what it shows.
    fn begin(connections: &mut Connections, has_token: bool) -> AbortHandle {
        connections.begin(|flag| async move {
            flag.store(has_token, Ordering::Relaxed);
            std::future::pending::<()>().await;
        });
        connections.unauthenticated.back().unwrap().task.clone()
    }

    #[tokio::test]
    async fn the_oldest_without_the_token_is_shed_and_none_that_has_it() {
        let mut connections = Connections::default();
        let owner = begin(&mut connections, true);
        let unauthenticated: Vec<_> = (1..REQUESTS_MAX)
            .map(|_| begin(&mut connections, false))
            .collect();
        tokio::task::yield_now().await;
        assert!(connections.may_begin(), "unauthenticated ones are shed");
        for connection in unauthenticated {
            begin(&mut connections, true);
            tokio::task::yield_now().await;
            assert!(connection.is_finished());
            connections.end_of_one().await;
        }
        tokio::task::yield_now().await;
        assert_eq!(connections.under_way.len(), REQUESTS_MAX);
        assert!(!connections.may_begin(), "none is left that may be shed");
        assert!(!owner.is_finished());
        owner.abort();
        connections.end_of_one().await;
        assert!(connections.may_begin());
    }
}
