//! Every order in which the messages of a few requests can arrive.

use crate::message::Message;
use crate::world::{ClientRequest, World};
use cluster::{ReplicaIndex, Replicas};

/// Goes through all sequences of choices, one sequence a run, as an odometer counts.
#[derive(Default)]
struct Choices {
    /// The choices and of how many each was, in this sequence and in the one before.
    row: Vec<(usize, usize)>,
    next: usize,
}

impl Choices {
    fn choose(&mut self, of: usize) -> usize {
        if self.next == self.row.len() {
            self.row.push((0, of));
        }
        let (chosen, was_of) = self.row[self.next];
        assert_eq!(of, was_of, "the same choices lead elsewhere");
        self.next += 1;
        chosen
    }

    /// Begins the next sequence; returns whether there is one.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((chosen, of)) = self.row.pop() {
            if chosen + 1 < of {
                self.row.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

struct Plan {
    /// A request begins when the one before it is answered; the messages of the earlier
    /// request stay on their way.
    requests: &'static [(u8, ClientRequest, &'static str)],
    /// How many messages may be lost.
    losses: usize,
}

/// Runs a plan in every order of its messages; returns the number of orders.
fn orders_of(plan: &Plan) -> usize {
    let mut choices = Choices::default();
    let mut orders = 0;
    loop {
        let world = run(plan, &mut choices);
        let violations = world.violations();
        assert!(violations.is_empty(), "{violations}\n{}", world.describe());
        orders += 1;
        if !choices.advance() {
            return orders;
        }
    }
}

fn run(plan: &Plan, choices: &mut Choices) -> World {
    let mut world = World::new(3);
    world.merges_clocks = false;
    for (node, number) in world.nodes.iter_mut().zip(0..) {
        // The greater a node's ID, the further is its clock behind.
        node.skew_ms = -300_000 * number;
    }
    let mut losses = plan.losses;
    for (coordinator, asked, replicas) in plan.requests {
        let replicas: Replicas = crate::script::replicas(replicas);
        // Each read prefers other replicas than the one before.
        let mut preference: Vec<ReplicaIndex> = replicas.indexes().collect();
        preference.rotate_right(world.operations.len() % usize::from(replicas.from));
        let operation = world.invoke(*coordinator, *asked, replicas, &preference);
        while world.operations[operation].answer.is_none() {
            // Hints are not delivered, because nothing promises when they are.
            let messages: Vec<usize> = (0..world.messages.len())
                .filter(|message| !matches!(world.messages[*message], Message::Hint { .. }))
                .collect();
            if messages.is_empty() {
                world.deadline(operation);
                continue;
            }
            let ways = if losses > 0 { 2 } else { 1 };
            let choice = choices.choose(ways * messages.len());
            let message = messages[choice / ways];
            if choice.is_multiple_of(ways) {
                world.deliver(message);
            } else {
                losses -= 1;
                world.lose(message, false);
            }
        }
    }
    world
}

#[test]
fn promises_hold_in_every_order_of_messages() {
    use ClientRequest::{Delete, Get, Put};
    let two_writes_and_a_read: [&[(u8, ClientRequest, &str)]; 2] = [
        &[(0, Put('a'), "2/2"), (1, Put('b'), "2/2"), (0, Get, "1/2")],
        &[(0, Put('a'), "1/2"), (1, Delete, "2/2"), (1, Get, "1/2")],
    ];
    let reads_of_a_write: [&[(u8, ClientRequest, &str)]; 3] = [
        &[
            (0, Put('a'), "1/1"),
            (1, Get, "2/3"),
            (1, Get, "2/3"),
            (1, Get, "2/3"),
        ],
        &[(0, Put('a'), "1/2"), (0, Get, "2/2"), (1, Get, "2/2")],
        &[(0, Put('a'), "2/3"), (1, Get, "2/3")],
    ];
    let with_a_loss: [&[(u8, ClientRequest, &str)]; 3] = [
        &[(0, Put('a'), "1/1"), (1, Put('b'), "2/2"), (1, Get, "2/2")],
        &[(0, Put('a'), "1/1"), (1, Get, "2/2"), (1, Get, "2/2")],
        &[(0, Put('a'), "1/1"), (1, Get, "2/3"), (1, Get, "2/3")],
    ];
    let without = two_writes_and_a_read.iter().chain(&reads_of_a_write);
    let plans = without.map(|requests| (*requests, 0));
    let mut orders = 0;
    for (requests, losses) in plans.chain(with_a_loss.map(|requests| (requests, 1))) {
        orders += orders_of(&Plan { requests, losses });
    }
    assert!(orders > 30_000, "{orders}");
}
