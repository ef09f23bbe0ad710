//! Every engine does what the workloads expect of it.

use super::*;
use crate::data::{Values, is_value_of, present_key};

const VALUE_BYTES: usize = 100;

fn engines_with(durability: Durability, test: impl Fn(&dyn Store)) {
    for name in EngineName::ALL {
        let folder = tempfile::tempdir().unwrap();
        let store = open(name, folder.path(), durability, VALUE_BYTES).unwrap();
        test(&*store);
        store.close().unwrap();
    }
}

fn is_found(store: &dyn Store, index: u64) -> bool {
    let mut right = false;
    let seen = &mut |value: &[u8]| right = is_value_of(value, index, VALUE_BYTES);
    store.get(&present_key(index), seen).unwrap();
    right
}

#[test]
fn what_is_put_is_read_and_scanned_in_order() {
    for durability in [Durability::Os, Durability::Sync] {
        engines_with(durability, |store| {
            let mut values = Values::new(VALUE_BYTES, 1);
            for index in [3, 1, 2] {
                store.put(&present_key(index), values.next(index)).unwrap();
            }
            let batch: Vec<_> = [5, 4]
                .map(|index| (present_key(index), values.next(index).to_vec()))
                .into();
            store.put_batch(&batch).unwrap();
            store.settle().unwrap();
            assert!(is_found(store, 4) && !is_found(store, 6));
            let mut keys = Vec::new();
            let seen = &mut |key: &[u8], _: &[u8]| keys.push(key.to_vec());
            store.scan(&present_key(2), 3, seen).unwrap();
            assert_eq!(keys, [2, 3, 4].map(|index| present_key(index).to_vec()));
        });
    }
}

#[test]
fn a_store_that_is_opened_again_holds_what_was_put() {
    for name in EngineName::ALL {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..3 {
            let store = open(name, folder.path(), Durability::Os, VALUE_BYTES).unwrap();
            assert!((0..index).all(|earlier| is_found(&*store, earlier)));
            let mut values = Values::new(VALUE_BYTES, index);
            store.put(&present_key(index), values.next(index)).unwrap();
            store.close().unwrap();
        }
    }
}

#[test]
fn writers_that_share_a_sync_all_return() {
    engines_with(Durability::Sync, |store| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    let mut values = Values::new(VALUE_BYTES, thread);
                    for index in (thread * 20)..(thread * 20 + 20) {
                        store.put(&present_key(index), values.next(index)).unwrap();
                    }
                });
            }
        });
        assert!((0..160).all(|index| is_found(store, index)));
    });
}
