//! How many entities a second one core asks:
//!
//! ```text
//! cargo run --release -p query --example speed [entities]
//! ```
//!
//! The values are JSON of 200 bytes, of which a third match. It prints entities a second of CPU
//! for some conditions and an aggregation, and then how long expressions take that run away: the
//! longest time until one ends for want of fuel.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::disallowed_methods, reason = "it measures")]

use query::{Aggregation, Entity, Expression, Operation, Partial, Plan, Subject};
use std::time::{Duration, Instant};

const CONDITIONS: [&str; 6] = [
    "key.startsWith('order/00')",
    "value.total > 100",
    "value.total > 100 && value.country == 'DE'",
    "value.country in ['DE', 'FR', 'IT']",
    "value.items.exists(x, x.count > 4)",
    "value.customer.name.matches('^[A-M].*son$')",
];

const RUNAWAYS: [&str; 4] = [
    "value.a.all(x, value.a.all(y, value.a.all(z, x + y + z >= 0)))",
    "value.a.all(x, value.a == value.a)",
    "value.a.all(x, value.t.matches('(a|b|ab)*c') || value.t.contains('c') || x >= 0)",
    "value.t + value.t + value.t + value.t + value.t + value.t == value.t",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let entities: usize = std::env::args()
        .nth(1)
        .map_or(Ok(200_000), |text| text.parse())?;
    let entities: Vec<(String, String)> = (0..entities).map(entity).collect();
    let bytes: usize = entities.iter().map(|(_, value)| value.len()).sum();
    println!(
        "{} entities, {} bytes a value",
        entities.len(),
        bytes / entities.len().max(1)
    );
    for condition in CONDITIONS {
        let expression = Expression::condition(condition)?;
        let mut matched = 0;
        let begin = Instant::now();
        for (key, value) in &entities {
            let entity = subject(key, value);
            matched += usize::from(expression.matches(&Subject::new(&entity))?);
        }
        report(condition, entities.len(), matched, begin.elapsed());
    }
    let aggregation = Aggregation::compile(&Plan {
        condition: Some("value.total > 100"),
        by: vec!["value.country"],
        operands: vec![(Operation::Sum, "value.total")],
    })?;
    let mut partial = Partial::default();
    let begin = Instant::now();
    for (key, value) in &entities {
        partial.add(&aggregation, &subject(key, value))?;
    }
    let taken = begin.elapsed();
    let matched = partial.summary(&aggregation).matched as usize;
    report(
        "… sum value.total by value.country",
        entities.len(),
        matched,
        taken,
    );
    for runaway in RUNAWAYS {
        println!("{:>10.2} ms until it ends: {runaway}", runaway_ms(runaway)?);
    }
    Ok(())
}

fn entity(number: usize) -> (String, String) {
    const COUNTRIES: [&str; 5] = ["DE", "FR", "IT", "ES", "PL"];
    let key = format!("order/{number:08}");
    let value = format!(
        r#"{{"id":"{number:08}","customer":{{"name":"Anna Swanson","mail":"anna{:04}@example.com"}},"items":[{{"sku":"A-{:05}","count":{}}}],"country":"{}","paid":true,"note":"leave at the door","total":{}.{:02}}}"#,
        number % 10_000,
        number % 100_000,
        number % 7,
        COUNTRIES[number % COUNTRIES.len()],
        number % 150,
        number % 100,
    );
    (key, value)
}

fn subject<'a>(key: &'a str, value: &'a str) -> Entity<'a> {
    Entity {
        key: key.as_bytes(),
        version: 7,
        expires_unix_ms: None,
        value: value.as_bytes(),
        now_unix_ms: 0,
    }
}

fn report(name: &str, entities: usize, matched: usize, taken: Duration) {
    let per_second = entities as f64 / taken.as_secs_f64();
    println!("{per_second:>10.0} entities/s, {matched} match: {name}");
}

/// The longest of some runs over lists and texts of some lengths, in milliseconds.
fn runaway_ms(text: &str) -> Result<f64, query::ExpressionError> {
    let mut longest = Duration::ZERO;
    for length in [100, 1000, 10_000, 100_000, 300_000] {
        let list = vec!["1"; length].join(",");
        let text_of = "ab".repeat(length);
        let value = format!(r#"{{"t":"{text_of}","a":[{list}]}}"#);
        for _ in 0..3 {
            let begin = Instant::now();
            let expression = Expression::condition(text)?;
            let entity = subject("k", &value);
            let _ = expression.matches(&Subject::new(&entity));
            longest = longest.max(begin.elapsed());
        }
    }
    Ok(longest.as_secs_f64() * 1e3)
}
