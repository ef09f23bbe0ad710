//! Random operations on a store, compared with a model.

#[test]
fn a_store_survives_any_operations() {
    let mut random = fastrand::Rng::with_seed(23);
    for _ in 0..100 {
        let mut bytes = vec![0; random.usize(0..1000)];
        random.fill(&mut bytes);
        lsm_testing::fuzz_operations(&bytes);
    }
}
