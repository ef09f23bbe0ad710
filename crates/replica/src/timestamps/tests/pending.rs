//! Which timestamps are pending, and the bound for tombstones that follows.

use super::*;

#[test]
fn nothing_is_stamped_or_dropped_before_the_store_is_open() {
    let machine = Machine::alone();
    let timestamps = machine.closed();
    assert_eq!(refusal(&timestamps), NoTimestamp::Closed);
    assert!(!timestamps.observe(at(5)));
    assert_eq!(timestamps.drop_bound(), Timestamp::ZERO);
}

#[test]
fn the_drop_bound_is_the_least_pending_timestamp_or_else_the_greatest_issued() {
    let machine = Machine::alone();
    let timestamps = machine.open(Timestamp::ZERO);
    machine.allocated(&timestamps);
    let first = timestamps.allocate().ok().unwrap();
    let second = timestamps.allocate().ok().unwrap();
    let (least, greatest) = (first.timestamp(), second.timestamp());
    assert_eq!(timestamps.drop_bound(), least);
    drop(second);
    assert_eq!(timestamps.drop_bound(), least, "the first is still pending");
    drop(first);
    assert_eq!(timestamps.drop_bound(), greatest);
}

#[test]
fn timestamps_that_end_together_are_no_longer_pending_whatever_their_order() {
    let machine = Machine::alone();
    let timestamps = machine.open(Timestamp::ZERO);
    machine.allocated(&timestamps);
    for order in [[0, 2], [2, 0]] {
        let mut allocated: Vec<_> = (0..4).map(|_| timestamps.allocate().ok()).collect();
        let between = allocated[1].as_ref().unwrap().timestamp();
        let ended: Vec<_> = order.map(|number| allocated[number].take().unwrap()).into();
        AllocatedTimestamp::end_all(ended.into_iter());
        assert_eq!(timestamps.drop_bound(), between);
        AllocatedTimestamp::end_all(allocated.into_iter().flatten());
        assert_eq!(timestamps.drop_bound(), timestamps.greatest());
    }
}
