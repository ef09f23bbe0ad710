//! A session store: sessions URL ...
//!
//! It reads commands and answers each with a line; ../README.md has them. A session is a key of its
//! own that expires, so no node has to be asked whether one is over, and none has to clean up.

use kvorum::{Client, Condition, Error, Node, Replicas, ScanRequest, Scope, Settings};

const PREFIX: &str = "session/";
const TRIES: usize = 5;
const ANY: Replicas = Replicas { ack: None, from: None };

/// A write whose outcome is unknown is repeated. That does no harm here: only this write has this
/// key, or it only says again what it said before.
async fn repeated<T>(write: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..TRIES {
        match write().await {
            Err(error) if error.is_unknown() => {}
            ended => return ended,
        }
    }
    write().await
}

/// What an error with this status stands for, in place of the error.
fn instead<T>(ended: Result<T, Error>, status: u16, value: T) -> Result<T, Error> {
    match ended {
        Err(Error::Refused(refusal)) if refusal.status == status => Ok(value),
        ended => ended,
    }
}

/// The sessions of all users.
struct Sessions(Client, Option<u64>);

impl Sessions {
    /// Begins a session. Its ID is a secret that nobody can guess.
    async fn login(&self, user: &str) -> Result<String, Box<dyn std::error::Error>> {
        let session = format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?);
        let (key, value) = (format!("{PREFIX}{session}"), user.to_owned());
        repeated(async || self.0.put(key.as_bytes(), value.clone().into(), self.1, ANY).await).await?;
        Ok(session)
    }

    /// Whose session it is; none if it is over.
    async fn user(&self, session: &str) -> Result<Option<String>, Error> {
        let found = self.0.get(format!("{PREFIX}{session}").as_bytes(), ANY).await;
        let user = found.map(|found| Some(String::from_utf8_lossy(&found.value).into_owned()));
        instead(user, 404, None)
    }

    /// Makes a session last for its whole time again. False if it is over: a touch cannot bring back
    /// what a logout has ended meanwhile.
    async fn touch(&self, session: &str) -> Result<bool, Error> {
        let (key, always) = (format!("{PREFIX}{session}"), Condition::default());
        let touched = repeated(async || self.0.touch(key.as_bytes(), self.1, ANY, &always).await).await;
        instead(touched.map(|_| true), 412, false)
    }

    /// Ends a session.
    async fn logout(&self, session: &str) -> Result<(), Error> {
        let key = format!("{PREFIX}{session}");
        repeated(async || self.0.delete(key.as_bytes(), ANY).await).await.map(|_| ())
    }

    /// The sessions that are not over: the user and the ID of each.
    async fn live(&self) -> Result<Vec<String>, Error> {
        let mut request = ScanRequest::all(Scope::Cluster);
        request.set_prefix(PREFIX.as_bytes());
        let (mut scan, mut live) = (self.0.scan(request), Vec::new());
        while let Some(entity) = scan.next().await? {
            let (user, session) = (entity.value.unwrap_or_default(), &entity.key[PREFIX.len()..]);
            live.push([&user[..], b":", session].concat());
        }
        Ok(live.iter().map(|each| String::from_utf8_lossy(each).into_owned()).collect())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes: Result<Vec<Node>, _> = std::env::args().skip(1).map(|url| url.parse()).collect();
    let client = Client::new(nodes?, Settings::default()).ok_or("name the URL of a node")?;
    let seconds = std::env::var("SESSION_SECONDS").map_or(Ok(1800), |text| text.parse())?;
    let sessions = Sessions(client, Some(seconds));
    for line in std::io::stdin().lines() {
        let line = line?;
        let (command, argument) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match command {
            "login" => sessions.login(argument).await?,
            "user" => sessions.user(argument).await?.unwrap_or("none".into()),
            "touch" => if sessions.touch(argument).await? { "ok" } else { "none" }.into(),
            "logout" => sessions.logout(argument).await.map(|()| "ok".into())?,
            "list" => sessions.live().await?.join(" "),
            _ => "error: login USER, user ID, touch ID, logout ID or list".into(),
        };
        println!("{answer}");
    }
    Ok(())
}
