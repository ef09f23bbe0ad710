//! From when until when a certificate is valid.
//!
//! rustls checks the dates of other nodes' certificates, but tells nobody those of a
//! node's own. This reads no more of the certificate than the way to its dates:
//!
//! ```text
//! Certificate    = SEQUENCE { TBSCertificate, … }
//! TBSCertificate = SEQUENCE { [0] version (may be absent), serial number, signature,
//!                             issuer, SEQUENCE { not before, not after }, … }
//! time           = UTCTime YYMMDDhhmmssZ | GeneralizedTime YYYYMMDDhhmmssZ
//! ```

pub(crate) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The span in which a certificate is valid, in seconds of Unix time, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// When it begins.
    pub(crate) not_before_unix_s: u64,
    /// When it ends.
    pub(crate) not_after_unix_s: u64,
}

impl Validity {
    /// The validity of a certificate in DER; `None` if these bytes are no certificate.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        let (mut certificate, _) = element(certificate, SEQUENCE)?;
        let (mut fields, _) = element(certificate, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            (_, fields) = element(fields, VERSION)?;
        }
        // The serial number, the signature and the issuer.
        for _ in 0..3 {
            (_, fields) = element(fields, *fields.first()?)?;
        }
        (certificate, _) = element(fields, SEQUENCE)?;
        let (not_before_unix_s, rest) = time(certificate)?;
        let (not_after_unix_s, _) = time(rest)?;
        Some(Self {
            not_before_unix_s,
            not_after_unix_s,
        })
    }

    /// The time in which both are valid.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            not_before_unix_s: self.not_before_unix_s.max(other.not_before_unix_s),
            not_after_unix_s: self.not_after_unix_s.min(other.not_after_unix_s),
        }
    }
}

/// The contents of the first element, which has this tag, and what follows it.
pub(crate) fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match usize::from(first) {
        length @ 0..=0x7f => (length, rest),
        // The length in so many bytes, the highest first.
        digits @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(digits - 0x80)?;
            let length = digits
                .iter()
                .fold(0, |length, digit| length << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The first element as a time in seconds of Unix time, and what follows it.
fn time(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let tag = *bytes.first()?;
    let (text, rest) = element(bytes, tag)?;
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            // RFC 5280, 4.1.2.5.1.
            (if year < 50 { 2000 + year } else { 1900 + year }, text)
        }
        GENERALIZED_TIME => {
            let (year, text) = text.split_at_checked(4)?;
            (year.parse().ok()?, text)
        }
        _ => return None,
    };
    if text.len() != 10 {
        return None;
    }
    let part = |at: usize| text.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = (days_since_1970(year, month, day) * 24 + hour) * 3600 + minute * 60 + second;
    // What was valid before 1970 was valid in 1970.
    Some((u64::try_from(seconds).unwrap_or(0), rest))
}

/// How many days a date is after 1970-01-01, in the Gregorian calendar. The year is
/// taken to begin in March, so that the leap day is its last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_from_1970() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1970, 3, 1), 59),
            ((1999, 12, 31), 10_956),
            ((2000, 2, 29), 11_016),
            ((2024, 2, 29), 19_782),
            ((2026, 11, 23), 20_780),
            ((9999, 12, 31), 2_932_896),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    #[test]
    fn both_forms_of_times_are_read() {
        let read = |tag: u8, text: &str| {
            let element = [&[tag, text.len() as u8], text.as_bytes()].concat();
            time(&element).map(|(seconds, _)| seconds)
        };
        assert_eq!(read(UTC_TIME, "700101000001Z"), Some(1));
        assert_eq!(read(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(read(UTC_TIME, "500101000000Z"), Some(0));
        assert_eq!(read(GENERALIZED_TIME, "20380119031408Z"), Some(1 << 31));
        for wrong in [
            "",
            "Z",
            "700101000001",
            "70010100000Z",
            "701301000000Z",
            "7001010000+1Z",
        ] {
            assert_eq!(read(UTC_TIME, wrong), None, "{wrong}");
        }
        assert_eq!(read(SEQUENCE, "700101000001Z"), None);
    }

    #[test]
    fn the_dates_of_a_certificate_are_found_and_other_bytes_are_none() {
        let mut parameters = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2020, 2, 29);
        parameters.not_after = rcgen::date_time_ymd(2126, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let sound = certificate.der();
        let validity = Validity::of(sound);
        assert_eq!(
            validity,
            Some(Validity {
                not_before_unix_s: 1_582_934_400,
                not_after_unix_s: 4_927_996_800,
            })
        );
        // Whatever the bytes are, there is neither a panic nor a loop.
        for end in 0..sound.len() {
            assert_eq!(Validity::of(&sound[..end]), None, "{end}");
        }
        for at in 0..sound.len() {
            let mut bytes = sound.to_vec();
            bytes[at] ^= 0xff;
            let _any = Validity::of(&bytes);
        }
    }
}
