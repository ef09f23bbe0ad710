//! Random expressions over random values: no panic, and the same answer twice.
//!
//! `KVORUM_SEED` repeats one seed, `KVORUM_SEEDS` gives their number.

use fastrand::Rng;

const TOKENS: [&str; 58] = [
    "value",
    ".a",
    ".b",
    "['a']",
    "[0]",
    "key",
    "version",
    "expires",
    "size",
    "now",
    "x",
    "y",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    " in ",
    "1",
    "0",
    "2.5",
    "9223372036854775807",
    "'a'",
    "'\\u00fc'",
    "\"",
    "null",
    "true",
    "false",
    "has(",
    "size(",
    ".exists(x,",
    ".all(y,",
    ".exists_one(x,",
    ".matches('a+')",
    ".contains(",
    "timestamp(",
    "duration('1h')",
    "string(",
    "int(",
    "é",
];

/// An expression that is well formed, though its types may not fit.
fn expression(random: &mut Rng, depth: u8) -> String {
    let mut part = || expression(random, depth.saturating_sub(1));
    let (a, b, c) = match depth {
        0 => Default::default(),
        _ => (part(), part(), part()),
    };
    if depth == 0 {
        let leaves = [
            "value.a",
            "value.b.c",
            "value[1]",
            "value",
            "key",
            "1",
            "2.5",
            "'a'",
            "true",
            "null",
            "[1,'a',null]",
            "{'a':1}",
            "now",
            "expires",
            "version",
            "-3",
            "value.a.b",
        ];
        return leaves[random.usize(..leaves.len())].to_owned();
    }
    match random.u8(..14) {
        0 => format!("({a}) && ({b})"),
        1 => format!("({a}) || ({b})"),
        2 => format!("!({a})"),
        3 => format!("({a}) == ({b})"),
        4 => format!("({a}) < ({b})"),
        5 => format!("({a}) + ({b})"),
        6 => format!("({a}) in ({b})"),
        7 => format!("({a}) ? ({b}) : ({c})"),
        8 => format!("({a}).exists(x, x == ({b}))"),
        9 => format!("({a}).all(x, ({b}) < x)"),
        10 => format!("size({a}) > ({b})"),
        11 => format!("[{a}, {b}] == ({c})"),
        12 => format!("({a})[{b}] == ({c})"),
        _ => format!("string({a}).contains('a') || ({b}) * 2 > ({c})"),
    }
}

fn value(random: &mut Rng, depth: u8) -> String {
    match random.u8(..if depth == 0 { 6 } else { 10 }) {
        0 => "null".to_owned(),
        1 => random.bool().to_string(),
        2 => random.i64(..).to_string(),
        3 => format!("{:e}", random.f64()),
        4 => "\"a\\u00fc\\n\"".to_owned(),
        5 => "\"a\"".to_owned(),
        6 | 7 => {
            let parts = (0..random.usize(..4)).map(|_| value(random, depth - 1));
            format!("[{}]", parts.collect::<Vec<_>>().join(","))
        }
        _ => {
            let names = ["a", "b", "c", "a"];
            let parts = (0..random.usize(..4))
                .map(|at| format!("\"{}\":{}", names[at], value(random, depth - 1)));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
    }
}

#[test]
fn random_expressions_have_one_answer() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("KVORUM_SEED").unwrap_or(1);
    let seeds: u64 = number("KVORUM_SEEDS").unwrap_or(4000);
    let (mut compiled, mut matched) = (0, 0);
    for seed in first..first + seeds {
        let mut random = Rng::with_seed(seed);
        let depth = random.u8(1..4);
        let text = if random.bool() {
            expression(&mut random, depth)
        } else {
            let tokens = (0..random.usize(1..16)).map(|_| TOKENS[random.usize(..TOKENS.len())]);
            tokens.collect()
        };
        let mut value = value(&mut random, 3).into_bytes();
        if random.u8(..4) == 0 && !value.is_empty() {
            let at = random.usize(..value.len());
            value[at] = random.u8(..);
        }
        println!("KVORUM_SEED={seed}: {text}");
        if let Some(answer) = query::fuzzing::expression(&text, &value) {
            compiled += 1;
            matched += usize::from(answer == Ok(true));
        }
    }
    if seeds >= 1000 {
        assert!(compiled > seeds / 20, "{compiled} of {seeds} compile");
        assert!(matched > 0, "none of {compiled} matches");
    }
}
