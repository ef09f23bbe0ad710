//! Which stamps are pending, and the bound for tombstones that follows.

use super::*;

#[test]
fn nothing_is_stamped_or_dropped_before_the_store_is_open() {
    let machine = Machine::alone();
    let stamping = machine.closed();
    assert_eq!(refusal(&stamping), NoStamp::Closed);
    assert!(!stamping.observe(at(5)));
    assert_eq!(stamping.drop_bound(), Timestamp::ZERO);
}

#[test]
fn the_drop_bound_is_the_least_pending_stamp_or_else_the_greatest_issued() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    machine.stamp(&stamping);
    let first = stamping.stamp().ok().unwrap();
    let second = stamping.stamp().ok().unwrap();
    let (least, greatest) = (first.timestamp(), second.timestamp());
    assert_eq!(stamping.drop_bound(), least);
    drop(second);
    assert_eq!(stamping.drop_bound(), least, "the first is still pending");
    drop(first);
    assert_eq!(stamping.drop_bound(), greatest);
}

#[test]
fn stamps_that_end_together_are_no_longer_pending_whatever_their_order() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    machine.stamp(&stamping);
    for order in [[0, 2], [2, 0]] {
        let mut stamps: Vec<_> = (0..4).map(|_| stamping.stamp().ok()).collect();
        let between = stamps[1].as_ref().unwrap().timestamp();
        let ended: Vec<_> = order.map(|number| stamps[number].take().unwrap()).into();
        Stamp::end_all(ended.into_iter());
        assert_eq!(stamping.drop_bound(), between);
        Stamp::end_all(stamps.into_iter().flatten());
        assert_eq!(stamping.drop_bound(), stamping.greatest());
    }
}
