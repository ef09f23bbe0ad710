//! Waits until a change of the members has ended.
//!
//! The node that was asked may leave with the change, or die meanwhile. Then the other members of
//! its last list are asked, one after another.

use super::Order;
use super::asking::{ListAnswer, ask_list};
use super::lines::waits_for;
use crate::access::Access;

use crate::failure::Failure;
use crate::stdout::{print_json, print_lines};
use api::members::MemberList;
use cluster::NodeUrl;
use std::thread::park_timeout;
use std::time::Duration;
use tokio::time::Instant;

/// How often a node is asked how far a change is.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long no member may answer.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// A wait for the end of a change.
pub(super) struct Wait<'a> {
    pub(super) access: &'a Access,
    pub(super) order: &'a Order<'a>,
    /// The epoch with which the change begins.
    pub(super) epoch: u64,
    pub(super) is_json: bool,
}

/// The members that can be asked, of which the first one is.
struct Asking(Vec<NodeUrl>);

impl Asking {
    /// Asks another one next time.
    fn turn(&mut self) {
        self.0.rotate_left(1);
    }

    /// Knows the members of a list, but goes on with the one that has given it.
    fn learn(&mut self, list: &MemberList) {
        let members = list.members.iter().filter(|member| !member.dead);
        for url in members.filter_map(|member| member.url.parse().ok()) {
            if !self.0.contains(&url) {
                self.0.push(url);
            }
        }
    }
}

impl Wait<'_> {
    /// Waits; `node` has taken the order.
    ///
    /// # Errors
    /// The change was undone, a member refuses to say how far it is, or none answers for long.
    pub(super) fn run(&self, node: NodeUrl) -> Result<(), Failure> {
        let mut asking = Asking(vec![node]);
        let mut said = String::new();
        let mut answered = Instant::now();
        while let Some(node) = asking.0.first() {
            match ask_list(node, self.access) {
                // What a node knows that has left is not the end of the change.
                ListAnswer::List(list) if list.removed => {
                    asking.learn(&list);
                    asking.turn();
                }
                ListAnswer::List(list) => {
                    answered = Instant::now();
                    if list.phase == "stable" && list.epoch >= self.epoch {
                        return self.end(&list);
                    }
                    asking.learn(&list);
                    self.say(&list, &mut said)?;
                }
                ListAnswer::Refused(failure) => {
                    return Err(failure.with_more("the change goes on meanwhile"));
                }
                ListAnswer::Silent(_) => asking.turn(),
            }
            if answered.elapsed() >= SILENCE_MAX {
                break;
            }
            park_timeout(INTERVAL);
        }
        Err(Failure::failed(
            "no member has said for minutes how far the change is: see 'kvorum admin members'",
        ))
    }

    fn say(&self, list: &MemberList, said: &mut String) -> Result<(), Failure> {
        let line = format!("{}: {}", list.phase, waits_for(list));
        if !self.is_json && line != *said {
            print_lines([&line])?;
            *said = line;
        }
        Ok(())
    }

    fn end(&self, list: &MemberList) -> Result<(), Failure> {
        if !self.order.is_fulfilled_by(list) {
            return Err(Failure::failed(format!(
                "the change was undone: epoch {} has other members, see 'kvorum admin members'",
                list.epoch
            )));
        }
        if self.is_json {
            return print_json(list);
        }
        let names: Vec<&str> = list.members.iter().map(|it| it.name.as_str()).collect();
        print_lines([format!(
            "the change has ended: the members are {} (epoch {})",
            names.join(", "),
            list.epoch
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{list, member};
    use super::*;
    use crate::access::AccessOptions;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    #[test]
    fn the_other_members_are_asked_once_the_asked_one_says_nothing_more() {
        let mut asking = Asking(vec!["http://a:1".parse().unwrap()]);
        let mut dead = member("b", "old");
        dead.dead = true;
        asking.learn(&list(
            "copying",
            vec![member("a", "old"), dead, member("c", "both")],
        ));
        asking.learn(&list("copying", vec![member("c", "both")]));
        let names = |asking: &Asking| asking.0.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&asking), ["http://a:1", "http://c:1"]);
        asking.turn();
        assert_eq!(names(&asking), ["http://c:1", "http://a:1"]);
    }

    #[test]
    fn a_node_that_refuses_ends_the_wait_and_one_that_is_not_there_does_not() {
        let node = TcpListener::bind("127.0.0.1:0").unwrap();
        let url: NodeUrl = format!("http://{}", node.local_addr().unwrap())
            .parse()
            .unwrap();
        let (_, access) = AccessOptions::default()
            .reach(std::slice::from_ref(&url))
            .unwrap();
        let order = Order::of("abort=true".to_owned());
        let wait = Wait {
            access: &access,
            order: &order,
            epoch: 1,
            is_json: false,
        };
        let failure = std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut client, _) = node.accept().unwrap();
                let mut head = BufReader::new(client.try_clone().unwrap());
                while head.read_line(&mut String::new()).unwrap() > 2 {}
                let answer = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
                client.write_all(answer).unwrap();
            });
            wait.run(url.clone()).unwrap_err()
        });
        assert!(failure.line().contains("403"), "{}", failure.line());
        assert!(matches!(ask_list(&url, &access), ListAnswer::Silent(_)));
    }
}
