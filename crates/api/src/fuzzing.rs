//! What fuzzers call. Each function has to return, whatever the bytes are.

use crate::Entity;

/// Takes bytes as a line of an entity. What is read is what was meant: written again it is the
/// same. Returns the line of a batch that puts the entity, if it has a value; each node takes
/// such a line.
pub fn entity(line: &[u8]) -> Option<Vec<u8>> {
    let entity = Entity::parse(line).ok()?;
    let mut written = Vec::new();
    entity.write_line(true, &mut written);
    let line_ends = written.iter().filter(|byte| **byte == b'\n').count();
    assert!(line_ends == 1 && written.ends_with(b"\n"));
    assert_eq!(Entity::parse(&written).as_ref(), Ok(&entity));
    entity.value.as_ref()?;
    let mut put = Vec::new();
    entity.write_put(&mut put);
    Some(put)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNS: &[u8] = b"{}[]\",:\\ \r0e9-u\xff\xc3=\0";

    #[test]
    fn lines_of_entities_survive_mutations() {
        let lines = include_bytes!("../tests/fixtures/entities.ndjson");
        let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
        assert!(entity(lines[0]).is_some());
        let mut random = fastrand::Rng::with_seed(18);
        for number in 0..20_000 {
            let mut line = lines[number % lines.len()].to_vec();
            for _ in 0..random.usize(0..4) {
                let at = random.usize(0..=line.len());
                match random.u8(0..3) {
                    0 => line.truncate(at),
                    1 => line.insert(at, random.u8(..)),
                    _ => line.insert(at, SIGNS[random.usize(0..SIGNS.len())]),
                }
            }
            entity(&line);
        }
    }
}
