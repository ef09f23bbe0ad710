//! A node joins a cluster that serves.

use super::{KEYS, PATIENCE, four, list_at, name_of, order, serves, until_list};
use crate::host::{Copy, Crash, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::world::World;
use crate::world::staged::{run, until};
use checker::{Action, Outcome, Request};
use cluster::layout::{Phase, Placements};
use node::{ChangeOrder, ChangeRefusal};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// The host that joins.
pub(super) const JOINER: HostNumber = 3;
pub(super) const MEMBERS: [HostNumber; 3] = [0, 1, 2];
pub(super) const ALL: [HostNumber; 4] = [0, 1, 2, 3];

pub(super) fn three_and_one() -> Scenario {
    Scenario {
        joiners: 1,
        ..four()
    }
}

pub(super) fn join() -> ChangeOrder {
    ChangeOrder::Members {
        join: vec![name_of(JOINER)],
        leave: Vec::new(),
        are_dead: false,
    }
}

pub(super) async fn begin(world: &Rc<World>) {
    until_list(world, &MEMBERS, 0, Phase::Stable).await;
    spawn_local(Rc::clone(world).start_joined_forever());
    until("the joiner waits, and was reached", || {
        let status = world.hosts[0].changes().unwrap();
        !status.waiting.is_empty() && world.hosts[JOINER].waits() == Some(true)
    })
    .await;
    sleep(Duration::from_secs(2)).await;
}

/// Writes and reads at members until it is told to end. Returns how many requests there were.
fn load(world: &Rc<World>, is_over: &Rc<Cell<bool>>) -> tokio::task::JoinHandle<u64> {
    let (world, is_over) = (Rc::clone(world), Rc::clone(is_over));
    spawn_local(async move {
        let mut count = 0;
        while !is_over.get() {
            for action in [Action::Put { ttl_seconds: None }, Action::Get] {
                let request = Request {
                    client: 1,
                    node: MEMBERS[count as usize / 2 % MEMBERS.len()],
                    key: count / 2 % KEYS,
                    action,
                    ack: 2,
                    from: 3,
                };
                let outcome = world.ask(request, PATIENCE).await;
                let is_served = matches!(
                    outcome,
                    Some(Outcome::Written { .. } | Outcome::Found { .. })
                );
                assert!(is_served, "{request}: {outcome:?}");
                count += 1;
            }
            sleep(Duration::from_millis(5)).await;
        }
        count
    })
}

/// The joiner holds all keys of which it is a replica.
fn joiner_has_its_keys(world: &World) {
    let list = world.hosts[JOINER].changes().unwrap().list.unwrap();
    let placements = Placements::from(&*list);
    let joiner = list.named(&name_of(JOINER)).unwrap().id;
    let is_replica = |key: &u64| placements.is_replica(joiner, &key_bytes(*key), 3);
    let own: Vec<u64> = (0..KEYS).filter(is_replica).collect();
    assert!(!own.is_empty() && own.len() < KEYS as usize, "{own:?}");
    for key in own {
        let held = world.hosts[JOINER].held(key).unwrap();
        assert!(held.is_some(), "the joiner lacks key {key}");
    }
}

#[test]
fn a_node_joins_while_the_others_serve_and_takes_its_part() {
    run(three_and_one(), async |world| {
        begin(&world).await;
        serves(&world, &MEMBERS).await;
        assert_eq!(list_at(&world.hosts[JOINER]), None);
        let is_over = Rc::default();
        let load = load(&world, &is_over);
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 1, Phase::Copying).await;
        until("the joiner is a member, and its store counts", || {
            let joiner = &world.hosts[JOINER];
            joiner.waits() == Some(false) && joiner.is_voter() == Some(true)
        })
        .await;
        serves(&world, &[JOINER]).await;
        until_list(&world, &ALL, 3, Phase::Stable).await;
        is_over.set(true);
        assert!(load.await.unwrap() > 100);
        joiner_has_its_keys(&world);
        serves(&world, &ALL).await;
        // It is like any other node from now on: two others are enough with it.
        world.hosts[1].crash(Crash::Kill);
        serves(&world, &[0, 2, JOINER]).await;
    });
}

#[test]
fn a_joiner_dies_while_it_is_filled_and_goes_on_where_it_was() {
    run(three_and_one(), async |world| {
        begin(&world).await;
        serves(&world, &[0]).await;
        // A restart while it waits is forgotten.
        world.hosts[JOINER].crash(Crash::PowerCut);
        world.start(JOINER);
        sleep(Duration::from_secs(3)).await;
        order(&world, join()).await.unwrap();
        // It is killed again and again, so at some time before it is a member.
        for how in [Crash::Kill, Crash::PowerCut, Crash::Kill] {
            sleep(Duration::from_millis(150)).await;
            world.hosts[JOINER].crash(how);
            serves(&world, &MEMBERS).await;
            world.start(JOINER);
        }
        until_list(&world, &ALL, 1, Phase::Copying).await;
        world.hosts[JOINER].crash(Crash::PowerCut);
        sleep(Duration::from_secs(5)).await;
        // The change waits for it.
        until_list(&world, &MEMBERS, 1, Phase::Copying).await;
        serves(&world, &MEMBERS).await;
        world.start(JOINER);
        until("the joiner's store counts", || {
            world.hosts[JOINER].is_voter() == Some(true)
        })
        .await;
        until_list(&world, &ALL, 3, Phase::Stable).await;
        joiner_has_its_keys(&world);
        serves(&world, &ALL).await;
    });
}

#[test]
fn a_join_is_aborted_without_the_joiner() {
    run(three_and_one(), async |world| {
        begin(&world).await;
        serves(&world, &[0]).await;
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 1, Phase::Copying).await;
        world.hosts[JOINER].crash(Crash::Kill);
        order(&world, ChangeOrder::Abort).await.unwrap();
        until_list(&world, &MEMBERS, 2, Phase::Stable).await;
        serves(&world, &MEMBERS).await;
        world.start(JOINER);
        until("the joiner knows that it was removed", || {
            let changes = world.hosts[JOINER].changes();
            changes.is_some_and(|it| it.is_removed)
        })
        .await;
        // With an empty folder it may join again.
        world.hosts[JOINER].crash(Crash::Kill);
        world.hosts[JOINER].replace_disk(Copy::empty());
        world.start(JOINER);
        sleep(Duration::from_secs(3)).await;
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 5, Phase::Stable).await;
        joiner_has_its_keys(&world);
        serves(&world, &ALL).await;
    });
}

#[test]
fn a_joiner_that_members_cannot_reach_or_that_is_gone_is_refused() {
    run(three_and_one(), async |world| {
        begin(&world).await;
        world.network.cut(0, JOINER);
        let name = || name_of(JOINER);
        sleep(Duration::from_secs(8)).await;
        let from = vec![name_of(0)];
        let unreachable = ChangeRefusal::Unreachable { name: name(), from };
        let refused = order(&world, join()).await;
        let not_waiting = ChangeRefusal::NotWaiting { name: name() };
        // In the network here an answer does not come through, either.
        assert!(
            refused == Err(unreachable) || refused == Err(not_waiting.clone()),
            "{refused:?}"
        );
        world.network.heal(0, JOINER);
        world.hosts[JOINER].crash(Crash::Kill);
        sleep(Duration::from_secs(8)).await;
        assert_eq!(order(&world, join()).await, Err(not_waiting));
        until_list(&world, &MEMBERS, 0, Phase::Stable).await;
    });
}

#[test]
fn a_joiner_that_another_member_cannot_reach_is_refused() {
    run(three_and_one(), async |world| {
        begin(&world).await;
        world.network.cut(2, JOINER);
        sleep(Duration::from_secs(8)).await;
        let refused = order(&world, join()).await;
        // In the network here an answer does not come through, either.
        let without = match &refused {
            Err(ChangeRefusal::NotHeard { members, .. }) => members,
            Err(ChangeRefusal::Unreachable { from, .. }) => from,
            other => panic!("{other:?}"),
        };
        assert_eq!(*without, [name_of(2)]);
        until_list(&world, &MEMBERS, 0, Phase::Stable).await;
        world.network.heal(2, JOINER);
        // It waits until they have met.
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 3, Phase::Stable).await;
    });
}

#[test]
fn a_member_whose_folder_is_lost_comes_back_with_an_empty_one_as_a_learner() {
    run(three_and_one(), async |world| {
        begin(&world).await;
        serves(&world, &[0]).await;
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 3, Phase::Stable).await;
        serves(&world, &ALL).await;
        world.hosts[JOINER].crash(Crash::Kill);
        world.hosts[JOINER].replace_disk(Copy::empty());
        world.start(JOINER);
        until("it is a member again, and does not count", || {
            world.hosts[JOINER].is_voter() == Some(false)
                && world.hosts[JOINER].waits() == Some(false)
        })
        .await;
        until("it is rebuilt", || {
            world.hosts[JOINER].is_voter() == Some(true)
                && world.hosts[JOINER].waits() == Some(false)
        })
        .await;
        joiner_has_its_keys(&world);
        serves(&world, &ALL).await;
    });
}
