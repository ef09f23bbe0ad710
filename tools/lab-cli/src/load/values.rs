//! Options for rates, operation mixes and size distributions.

use cli::values::{ByteSize, TimeSpan};
use load::plan::{self, Operation};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Requests per second, or `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateOption(pub(crate) plan::Rate);

impl FromStr for RateOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(plan::Rate::Max));
        }
        match text.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(Self(plan::Rate::PerSecond(rate))),
            _ => Err("write requests per second, such as 30000, or max".to_owned()),
        }
    }
}

impl fmt::Display for RateOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            plan::Rate::Max => f.write_str("max"),
            plan::Rate::PerSecond(rate) => write!(f, "{rate}"),
        }
    }
}

/// A time that may be 0: `0`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PauseOption(pub(crate) Duration);

impl FromStr for PauseOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "0" | "0s" | "0ms" => Ok(Self(Duration::ZERO)),
            text => Ok(Self(text.parse::<TimeSpan>()?.0)),
        }
    }
}

impl fmt::Display for PauseOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            f.write_str("0")
        } else {
            TimeSpan(self.0).fmt(f)
        }
    }
}

/// Operations and their weights: `get=95,put=5`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MixOption(pub(crate) Vec<(Operation, f64)>);

impl FromStr for MixOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut operations: Vec<(Operation, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part
                .split_once('=')
                .ok_or("write operations and their weights: get=95,put=5")?;
            let known = Operation::ALL.into_iter();
            let Some(operation) = known.clone().find(|operation| operation.name() == name) else {
                let names: Vec<&str> = known.map(Operation::name).collect();
                return Err(format!("{name} is none of {}", names.join(", ")));
            };
            if operations.iter().any(|(given, _)| *given == operation) {
                return Err(format!("{name} occurs twice"));
            }
            let weight = weight
                .parse()
                .ok()
                .filter(|weight: &f64| weight.is_finite() && *weight >= 0.0);
            let weight = weight.ok_or_else(|| {
                format!(
                    "the weight of {name} is not a number of at \
                                                       least 0"
                )
            })?;
            operations.push((operation, weight));
        }
        if operations.iter().all(|(_, weight)| *weight == 0.0) {
            return Err("at least one weight must be above 0".to_owned());
        }
        Ok(Self(operations))
    }
}

/// A size distribution: `64`, `64..1KiB`, `1KiB~64KiB`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SizesOption(pub(crate) plan::SizeDistribution);

impl FromStr for SizesOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = |text: &str| -> Result<usize, String> {
            let size: ByteSize = text.parse()?;
            usize::try_from(size.0).map_err(|_| format!("this machine cannot address {size}"))
        };
        let size = if let Some((least, most)) = text.split_once("..") {
            let (least, most) = (bytes(least)?, bytes(most)?);
            if least > most {
                return Err("write the smaller size first: 64..1KiB".to_owned());
            }
            plan::SizeDistribution::Uniform(least, most)
        } else if let Some((mean, most)) = text.split_once('~') {
            let (mean, most) = (bytes(mean)?, bytes(most)?);
            if mean > most {
                return Err("write the mean first, then the maximum: 1KiB~64KiB".to_owned());
            }
            plan::SizeDistribution::Exponential(mean, most)
        } else {
            plan::SizeDistribution::Fixed(bytes(text)?)
        };
        Ok(Self(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!("max".parse(), Ok(RateOption(plan::Rate::Max)));
        assert_eq!(
            "30000".parse(),
            Ok(RateOption(plan::Rate::PerSecond(30_000.0)))
        );
        assert_eq!("0.5".parse(), Ok(RateOption(plan::Rate::PerSecond(0.5))));
        for text in ["", "0", "-1", "fast", "inf", "NaN", "1k"] {
            assert!(text.parse::<RateOption>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_may_be_zero() {
        for (text, ms) in [("0", 0), ("0s", 0), ("2s", 2_000)] {
            assert_eq!(
                text.parse(),
                Ok(PauseOption(Duration::from_millis(ms))),
                "{text}"
            );
        }
        assert!("1".parse::<PauseOption>().is_err());
        assert_eq!(PauseOption(Duration::ZERO).to_string(), "0");
    }

    #[test]
    fn mixes() {
        let mix = MixOption(vec![
            (Operation::Get, 95.0),
            (Operation::ReadModifyWrite, 5.0),
        ]);
        assert_eq!("get=95,read-modify-write=5".parse(), Ok(mix));
        for (text, word) in [
            ("", "get=95"),
            ("get", "get=95"),
            ("fetch=1", "fetch is none of put"),
            ("get=1,get=2", "twice"),
            ("get=-1", "not a number"),
            ("get=x", "not a number"),
            ("get=0,put=0", "above 0"),
        ] {
            let refusal = text.parse::<MixOption>().unwrap_err();
            assert!(refusal.contains(word), "{text}: {refusal}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(
            "64".parse(),
            Ok(SizesOption(plan::SizeDistribution::Fixed(64)))
        );
        assert_eq!(
            "64..1KiB".parse(),
            Ok(SizesOption(plan::SizeDistribution::Uniform(64, 1024)))
        );
        let exponential = plan::SizeDistribution::Exponential(1024, 65_536);
        assert_eq!("1KiB~64KiB".parse(), Ok(SizesOption(exponential)));
        for text in ["", "x", "2..1", "..", "1..", "2~1", "~"] {
            assert!(text.parse::<SizesOption>().is_err(), "{text}");
        }
    }
}
