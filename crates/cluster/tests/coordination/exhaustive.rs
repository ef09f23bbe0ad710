//! Every order in which the messages of a few requests can arrive.

use crate::checker::{Asked, broken};
use crate::world::World;
use cluster::Replicas;

/// Walks all rows of choices, one row a run, as an odometer counts.
#[derive(Default)]
struct Choices {
    /// What was chosen, of how many, in the row so far and in the one before.
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

    /// Begins the next row; whether there is one.
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
    nodes: u8,
    /// A request begins when the one before it was answered; what that one has
    /// left on its way goes on.
    requests: &'static [(u8, Asked, &'static str)],
    /// How many messages may be lost.
    losses: usize,
}

/// Runs a plan in every order; gives the number of orders.
fn run_all(plan: &Plan) -> usize {
    let mut choices = Choices::default();
    let mut runs = 0;
    loop {
        let world = run(plan, &mut choices);
        let broken = broken(&world.history, 0);
        assert!(broken.is_empty(), "{broken:?}\n{:#?}", world.history);
        runs += 1;
        if runs >= 200_000 {
            return runs;
        }
        if !choices.advance() {
            return runs;
        }
    }
}

fn run(plan: &Plan, choices: &mut Choices) -> World {
    let mut world = World::new(plan.nodes);
    world.merges_clocks = false;
    for (node, place) in world.nodes.iter_mut().zip(0..) {
        // The later a node's place, the further is its clock behind.
        node.skew_ms = -300_000 * place;
    }
    let mut losses = plan.losses;
    for (coordinator, asked, replicas) in plan.requests {
        let replicas: Replicas = crate::script::replicas(replicas);
        let preference: Vec<u8> = (0..replicas.from).rev().collect();
        let operation = world.invoke(*coordinator, *asked, replicas, &preference);
        while world.history[operation].replied.is_none() {
            let messages = world.messages.len();
            if messages == 0 {
                world.deadline(operation);
                continue;
            }
            let may_lose = losses > 0;
            let choice = choices.choose(if may_lose { 2 * messages } else { messages });
            if choice < messages {
                world.deliver(choice);
            } else {
                losses -= 1;
                world.lose(choice - messages, false);
            }
        }
    }
    world
}

#[test]
fn two_writes_and_a_read_in_any_order_of_messages() {
    use Asked::{Delete, Get, Put};
    let plans: [&[(u8, Asked, &str)]; 6] = [
        &[(0, Put('a'), "2/2"), (1, Put('b'), "2/2"), (0, Get, "1/2")],
        &[(0, Put('a'), "1/2"), (1, Delete, "2/2"), (1, Get, "1/2")],
        &[(0, Put('a'), "2/2"), (1, Put('b'), "1/2"), (0, Get, "2/2")],
        &[(0, Put('a'), "1/2"), (0, Get, "2/2"), (1, Get, "2/2")],
        &[
            (0, Put('a'), "1/1"),
            (1, Put('b'), "2/2"),
            (0, Get, "2/2"),
            (1, Get, "2/2"),
        ],
        &[(0, Put('a'), "2/3"), (2, Get, "2/3"), (1, Get, "2/3")],
    ];
    let mut runs = 0;
    for requests in plans {
        for losses in 0..=1 {
            let nodes = 3;
            let plan = Plan {
                nodes,
                requests,
                losses,
            };
            let n = run_all(&plan);
            println!("{requests:?} {losses}: {n}");
            runs += n;
        }
    }
    assert!(runs > 1_000, "{runs}");
}
