//! `kvorum admin members`: shows the list of members, and changes it while the cluster serves.
//!
//! Each change is planned first: the node says what it would do, and the operator confirms that.

mod asking;
mod lines;
mod waiting;

use super::target::{Target, is_written, query_form};
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::refusal;
use crate::stdout::{print_json, print_lines};
use crate::values::url;
use api::members::{MemberList, MembersPlan};
use asking::{ask, fetch_list, parse};
use clap::{Args, Subcommand};
use cluster::{NodeUrl, Replicas};
use lines::lines_of;
pub(crate) use lines::waits_for;
use std::io::{self, IsTerminal};
use waiting::Wait;

const HELP: &str = "\
Without a command it shows the list, and how far a change is.

Examples:
  kvorum admin members                        the list, and what a change waits for
  kvorum admin members join d --dry-run       what it would do
  kvorum admin members join d e --wait        two nodes at once move less data than one after another
  kvorum admin members leave b                b keeps serving until the others have its data
  kvorum admin members leave b --dead         b never comes back: nothing waits for it
  kvorum admin members replace b --by d       d takes the place of b, which is dead
  kvorum admin members move b --new-url http://b2:8080
  kvorum admin members pair 3/5               what requests use that name no pair
  kvorum admin members abort                  undo the change that is under way
  kvorum admin members force a b              all others are lost for good, and they were a majority";

/// The options of `admin members`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = HELP)]
pub(super) struct MembersOptions {
    #[command(subcommand)]
    command: Option<MembersCommand>,
    #[command(flatten)]
    list: ListOptions,
}

/// The options of the list.
#[derive(Args, Clone, Debug)]
struct ListOptions {
    /// Print JSON for programs instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// A change.
#[derive(Clone, Debug, Subcommand)]
enum MembersCommand {
    /// Take in nodes that wait to join: they were started with 'serve --join' on empty folders
    Join {
        /// The names of the nodes
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Have members leave; they serve until the others have their data
    Leave {
        /// The names of the members
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// They are down and never come back: nothing waits for them
        #[arg(long)]
        dead: bool,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Replace a member that is dead, by another node or by the same name at another URL
    Replace {
        /// The name of the member
        #[arg(value_name = "NAME")]
        name: String,
        /// The name of a node that waits to join and takes its place
        #[arg(
            long,
            value_name = "NAME",
            required_unless_present = "new_url",
            conflicts_with = "new_url"
        )]
        by: Option<String>,
        /// Where its replacement is, which has the same name and an empty folder
        #[arg(long = "new-url", value_name = "URL", value_parser = url)]
        new_url: Option<NodeUrl>,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Change the URL of a member; no data moves
    Move {
        /// The name of the member
        #[arg(value_name = "NAME")]
        name: String,
        /// Where it is from now on
        #[arg(long = "new-url", value_name = "URL", value_parser = url)]
        new_url: NodeUrl,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Change what requests use that name no pair: how many replicas have to answer, and of how many
    Pair {
        /// Such as 2/3
        #[arg(value_name = "ACK/FROM")]
        pair: Replicas,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Go on with these members alone, once a majority never comes back: all others are declared dead
    Force {
        /// The names of all members that are left
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Undo the change that is under way
    Abort {
        #[command(flatten)]
        change: ChangeOptions,
    },
}

/// The options of each change.
#[derive(Args, Clone, Debug)]
struct ChangeOptions {
    /// Say what the change would do, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Even if the disk of a node that gains keys would be more than 85% full
    #[arg(long)]
    force: bool,
    /// Wait until the change has ended; exit code 1 if it was undone
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Print JSON for programs instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// A change as a query, and the members that come and go with it.
struct Order<'a> {
    query: String,
    joins: Vec<&'a str>,
    leaves: Vec<&'a str>,
    /// What has to be written to confirm it.
    confirmed_by: String,
}

impl<'a> Order<'a> {
    fn of(query: String) -> Self {
        Self {
            query,
            joins: Vec::new(),
            leaves: Vec::new(),
            confirmed_by: "yes".to_owned(),
        }
    }

    /// Nodes that join, members that leave, or both.
    fn of_members(joins: Vec<&'a str>, leaves: Vec<&'a str>, are_dead: bool) -> Self {
        let mut parts = Vec::new();
        for (name, nodes) in [("join", &joins), ("leave", &leaves)] {
            if !nodes.is_empty() {
                parts.push(format!("{name}={}", names_form(nodes)));
            }
        }
        if are_dead {
            parts.push("dead=true".to_owned());
        }
        Self {
            joins,
            leaves,
            ..Self::of(parts.join("&"))
        }
    }

    fn of_move(name: &str, url: &NodeUrl) -> Self {
        let url = query_form(&url.to_string());
        Self::of(format!("move={}&url={url}", query_form(name)))
    }

    /// Whether the list that a change has ended with is what was ordered.
    fn is_fulfilled_by(&self, list: &MemberList) -> bool {
        let is_member = |name: &&str| list.members.iter().any(|member| member.name == **name);
        self.joins.iter().all(is_member) && !self.leaves.iter().any(is_member)
    }
}

fn names_form(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(query_form).collect();
    names.join(",")
}

/// Shows the list, or does what the command says.
///
/// # Errors
/// The node cannot be reached, or refuses; the change was not confirmed, or was undone.
pub(super) fn run(options: &MembersOptions) -> Result<(), Failure> {
    let Some(command) = &options.command else {
        return show(&options.list);
    };
    match command {
        MembersCommand::Join { names, change } => {
            let joins = names.iter().map(String::as_str).collect();
            make(&Order::of_members(joins, Vec::new(), false), change)
        }
        MembersCommand::Leave {
            names,
            dead,
            change,
        } => {
            let leaves = names.iter().map(String::as_str).collect();
            make(&Order::of_members(Vec::new(), leaves, *dead), change)
        }
        MembersCommand::Replace {
            name,
            by: Some(by),
            change,
            ..
        } => make(
            &Order::of_members(vec![by.as_str()], vec![name.as_str()], true),
            change,
        ),
        MembersCommand::Replace {
            name,
            new_url: Some(url),
            change,
            ..
        }
        | MembersCommand::Move {
            name,
            new_url: url,
            change,
        } => make(&Order::of_move(name, url), change),
        MembersCommand::Replace { .. } => Err(Failure::usage("give --by or --new-url")),
        MembersCommand::Pair { pair, change } => {
            let query = format!("pair={}/{}", pair.ack, pair.from);
            make(&Order::of(query), change)
        }
        MembersCommand::Force { names, change } => {
            let left: Vec<&str> = names.iter().map(String::as_str).collect();
            let order = Order {
                confirmed_by: left.join(" "),
                ..Order::of(format!("force={}", names_form(&left)))
            };
            make(&order, change)
        }
        MembersCommand::Abort { change } => make(&Order::of("abort=true".to_owned()), change),
    }
}

fn show(options: &ListOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let list = fetch_list(&node, &access)?;
    if options.json {
        return print_json(&list);
    }
    print_lines(lines_of(&list))
}

/// Plans a change, asks, and has it made.
fn make(order: &Order<'_>, options: &ChangeOptions) -> Result<(), Failure> {
    if !options.yes && !options.dry_run && !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "a change of the members is asked about, and stdin is no terminal: give --yes or \
             --dry-run",
        ));
    }
    let (node, access) = options.target.choose()?;
    if !options.yes {
        let plan = send((&node, &access), order, options.force, true)?;
        if options.json && options.dry_run {
            return print_json(&plan);
        }
        print_lines(&plan.text)?;
        if options.dry_run {
            return Ok(());
        }
        if !is_written("Change the members?", &order.confirmed_by)? {
            return Err(Failure::failed(format!(
                "nothing was changed: the answer has to be {}, or give --yes",
                order.confirmed_by
            )));
        }
    }
    let plan = send((&node, &access), order, options.force, false)?;
    if options.json {
        print_json(&plan)?;
    } else if options.yes {
        print_lines(&plan.text)?;
    }
    if options.wait {
        let wait = Wait {
            access: &access,
            order,
            epoch: plan.epoch,
            is_json: options.json,
        };
        return wait.run(node);
    }
    if options.json {
        return Ok(());
    }
    print_lines([if plan.phase == "stable" {
        format!("the list of members is changed: epoch {}", plan.epoch)
    } else {
        "the change has begun: 'kvorum admin members' shows how far it is".to_owned()
    }])
}

fn send(
    (node, access): (&NodeUrl, &Access),
    order: &Order<'_>,
    full_disks: bool,
    is_dry_run: bool,
) -> Result<MembersPlan, Failure> {
    let target = format!(
        "/v0/admin/members?{}&full_disks={full_disks}&dry_run={is_dry_run}",
        order.query
    );
    let answer = ask(node, access, "POST", &target)?;
    match answer.status {
        200 | 202 => parse(node, &answer.body),
        status => Err(refusal(node, status, &answer.body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::members::ListedMember;

    pub(super) fn member(name: &str, lists: &str) -> ListedMember {
        ListedMember {
            name: name.to_owned(),
            url: format!("http://{name}:1"),
            zone: None,
            lists: lists.to_owned(),
            dead: false,
            up: true,
            reported: 3,
            has_data_of: Vec::new(),
        }
    }

    pub(super) fn list(phase: &str, members: Vec<ListedMember>) -> MemberList {
        MemberList {
            cluster_id: "00000000000000ab".to_owned(),
            epoch: 3,
            phase: phase.to_owned(),
            default_pair: "2/3".to_owned(),
            members,
            missing_reports: Vec::new(),
            missing_facts: Vec::new(),
            waiting: Vec::new(),
            removed: false,
        }
    }

    #[test]
    fn an_order_is_a_query_and_knows_when_it_is_fulfilled() {
        let order = Order::of_members(vec!["d", "e/1"], vec!["b"], true);
        assert_eq!(order.query, "join=d,e%2F1&leave=b&dead=true");
        let with = |names: &[&str]| {
            let members = names.iter().map(|name| member(name, "both")).collect();
            order.is_fulfilled_by(&list("stable", members))
        };
        assert!(with(&["a", "d", "e/1"]));
        assert!(!with(&["a", "b", "d", "e/1"]) && !with(&["a", "d"]));
        let moved = Order::of_move("b", &"http://b2:1".parse().unwrap());
        assert_eq!(moved.query, "move=b&url=http%3A%2F%2Fb2%3A1");
    }
}
