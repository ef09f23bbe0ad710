//! Why a private key cannot be used: rustls only says that it is none of those that can.
//!
//! This reads no more of the key than tells its kind:
//!
//! ```text
//! PKCS #8  = SEQUENCE { version, SEQUENCE { algorithm, curve (ECDSA) }, OCTET STRING { key } }
//! PKCS #1  = SEQUENCE { version, modulus, … }                        a key of RSA
//! SEC 1    = SEQUENCE { version, OCTET STRING, [0] { curve }, … }    a key of ECDSA
//! ```

use crate::validity::{SEQUENCE, element};
use rustls::pki_types::PrivateKeyDer;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const PARAMETERS: u8 = 0xa0;

const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const RSA_PSS: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
const ECDSA: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
const ED448: &[u8] = b"\x2b\x65\x71";

const P_256: &[u8] = b"\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P_384: &[u8] = b"\x2b\x81\x04\x00\x22";

/// Curves that are in use and cannot be used here.
const OTHER_CURVES: [(&[u8], &str); 3] = [
    (b"\x2b\x81\x04\x00\x23", "P-521"),
    (b"\x2b\x81\x04\x00\x21", "P-224"),
    (b"\x2b\x81\x04\x00\x0a", "secp256k1"),
];

/// How long keys of RSA may be, in bits: what ring signs with.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// What keys can be used.
pub(crate) const USABLE: &str =
    "a key of ECDSA on P-256 or P-384, of Ed25519, or of RSA with 2048 to 4096 bits";

/// What is wrong with a key that cannot be used, and what to do; `None` if its kind does not
/// tell it.
pub(crate) fn problem_of(key: &PrivateKeyDer<'_>) -> Option<String> {
    match key {
        PrivateKeyDer::Pkcs1(key) => of_rsa(key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => {
            let (fields, _) = element(key.secret_sec1_der(), SEQUENCE)?;
            let (_, fields) = element(fields, INTEGER)?;
            let (_, fields) = element(fields, OCTET_STRING)?;
            let (parameters, _) = element(fields, PARAMETERS)?;
            of_curve(element(parameters, OBJECT_IDENTIFIER)?.0)
        }
        PrivateKeyDer::Pkcs8(key) => of_pkcs8(key.secret_pkcs8_der()),
        _ => None,
    }
}

fn of_pkcs8(key: &[u8]) -> Option<String> {
    let (fields, _) = element(key, SEQUENCE)?;
    let (_, fields) = element(fields, INTEGER)?;
    let (algorithm, fields) = element(fields, SEQUENCE)?;
    let (algorithm, parameters) = element(algorithm, OBJECT_IDENTIFIER)?;
    match algorithm {
        RSA => of_rsa(element(fields, OCTET_STRING)?.0),
        ECDSA => of_curve(element(parameters, OBJECT_IDENTIFIER)?.0),
        RSA_PSS => Some(format!(
            "is a key for RSA-PSS alone, which is not supported: use {USABLE}"
        )),
        ED448 => Some(format!(
            "is a key of Ed448, which is not supported: use {USABLE}"
        )),
        _ => None,
    }
}

fn of_rsa(key: &[u8]) -> Option<String> {
    let (fields, _) = element(key, SEQUENCE)?;
    let (_, fields) = element(fields, INTEGER)?;
    let (modulus, _) = element(fields, INTEGER)?;
    let first = modulus.iter().position(|byte| *byte != 0)?;
    let modulus = modulus.get(first..)?;
    let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
    (!RSA_BITS.contains(&bits))
        .then(|| format!("is a key of RSA with {bits} bits, which is not supported: use {USABLE}"))
}

fn of_curve(curve: &[u8]) -> Option<String> {
    if [P_256, P_384].contains(&curve) {
        return None;
    }
    let known = OTHER_CURVES.iter().find(|(known, _)| *known == curve);
    let name = known.map_or("another curve", |(_, name)| name);
    Some(format!(
        "is a key of ECDSA on {name}, which is not supported: use {USABLE}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::material::Identity;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{PrivatePkcs1KeyDer, PrivatePkcs8KeyDer};
    use std::path::Path;

    // Made with openssl.
    const P_521: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIAsmxVCxSePA6J9UjO\n\
        l8yrmyVOskqvn8VxC7r160yEFMSeIM327h6PNY7EAvKSy3puS4Ex1c+3MP8aLdNX\n\
        ZjYHGf6hgYkDgYYABAEfzMO1W+s0z9I665kEGpX1J/WkF+yQc8C2SXtayoOyEQ+W\n\
        1Fa+LtJz0aauFeEMJHrb+0Mu55Cu1neJoLMZCYGmogDMy7Jzn9AUVPoiqurmFFGc\n\
        uf9zENmy5AlQllp7Cjh224fqe5UCYgqkBTn4+Q4qJ4xtvPNQP7kJwdgPzP4YpnS3\n\
        UQ==\n\
        -----END PRIVATE KEY-----";
    const P_521_SEC1: &str = "-----BEGIN EC PRIVATE KEY-----\n\
        MIHcAgEBBEIAsmxVCxSePA6J9UjOl8yrmyVOskqvn8VxC7r160yEFMSeIM327h6P\n\
        NY7EAvKSy3puS4Ex1c+3MP8aLdNXZjYHGf6gBwYFK4EEACOhgYkDgYYABAEfzMO1\n\
        W+s0z9I665kEGpX1J/WkF+yQc8C2SXtayoOyEQ+W1Fa+LtJz0aauFeEMJHrb+0Mu\n\
        55Cu1neJoLMZCYGmogDMy7Jzn9AUVPoiqurmFFGcuf9zENmy5AlQllp7Cjh224fq\n\
        e5UCYgqkBTn4+Q4qJ4xtvPNQP7kJwdgPzP4YpnS3UQ==\n\
        -----END EC PRIVATE KEY-----";
    const RSA_1024: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBALzreAU72AlXuh6O\n\
        SMWv9fNhBbzDerML6ovIGL+0Rdqh8dEJtZxK54WB5PP36tvDE5XdmZ1C9NBXwqzI\n\
        ME4Oj9BU+ndLE+7n5AyoNy2WJlxBywN2nQwwQ2veSEZGMpJDP33OMzdOm66+DW83\n\
        17we/dM2JFhDF/DFup6BhE1yxzerAgMBAAECgYA6dElApVGlImXOSowtztI1KhIS\n\
        ZBG1ELzT32f4+RicG3utCGoPIAYfAyAKdO1Qbj3DIzwCstL5HA56U77OiCbq8O+X\n\
        AYDMXFd5aXY4IdXlR703P0TuYFkfcr6UxSWJkT+Ti2bNnW1f61r5yQgQRl0Zyu4O\n\
        ch6GX6P3SOczDP2DAQJBAOjdeiU7DIvEy7C8k1azHgT3zbEc6L/InJ2fANUqMXbc\n\
        ms0f3EhadEQUkmJvf9WytzneGNekd5FwrQNclfcjLUECQQDPsFFW7w35ze4DBbrX\n\
        +rCrvOCgJ6uXXpvl0JcTOon4OrsSuGVMQgT26xZmvhdKg2Mv9goXb21pLmkCwcl1\n\
        OG3rAkEA21hjydYJR06kH2JB1xT5XeydkAuPIbex7rbrbd9EoJXEKxurv2uUwNwv\n\
        1xD39S9Wb+fItrdw+UqNbfE0QYqdAQJAFaG9txpLEFu8kKAGJ/y6bgjMNKItIyT9\n\
        g+BH+/665Bnp5jdChcDSl41A1g6yilZI/HPZ9Trr4GqvEVRx0T3BZQJAPSEYW3Iu\n\
        lXc3BCjIzwGsBJ+6i3eUbBCw4HsLRZ/mq/yB8zhCV/PGkj/j8eRS+7i3hn7XKg2e\n\
        EBOqBmgVop2IXw==\n\
        -----END PRIVATE KEY-----";
    const RSA_1024_PKCS1: &str = "-----BEGIN RSA PRIVATE KEY-----\n\
        MIICXAIBAAKBgQC863gFO9gJV7oejkjFr/XzYQW8w3qzC+qLyBi/tEXaofHRCbWc\n\
        SueFgeTz9+rbwxOV3ZmdQvTQV8KsyDBODo/QVPp3SxPu5+QMqDctliZcQcsDdp0M\n\
        MENr3khGRjKSQz99zjM3Tpuuvg1vN9e8Hv3TNiRYQxfwxbqegYRNcsc3qwIDAQAB\n\
        AoGAOnRJQKVRpSJlzkqMLc7SNSoSEmQRtRC8099n+PkYnBt7rQhqDyAGHwMgCnTt\n\
        UG49wyM8ArLS+RwOelO+zogm6vDvlwGAzFxXeWl2OCHV5Ue9Nz9E7mBZH3K+lMUl\n\
        iZE/k4tmzZ1tX+ta+ckIEEZdGcruDnIehl+j90jnMwz9gwECQQDo3XolOwyLxMuw\n\
        vJNWsx4E982xHOi/yJydnwDVKjF23JrNH9xIWnREFJJib3/Vsrc53hjXpHeRcK0D\n\
        XJX3Iy1BAkEAz7BRVu8N+c3uAwW61/qwq7zgoCerl16b5dCXEzqJ+Dq7ErhlTEIE\n\
        9usWZr4XSoNjL/YKF29taS5pAsHJdTht6wJBANtYY8nWCUdOpB9iQdcU+V3snZAL\n\
        jyG3se62623fRKCVxCsbq79rlMDcL9cQ9/UvVm/nyLa3cPlKjW3xNEGKnQECQBWh\n\
        vbcaSxBbvJCgBif8um4IzDSiLSMk/YPgR/v+uuQZ6eY3QoXA0peNQNYOsopWSPxz\n\
        2fU66+BqrxFUcdE9wWUCQD0hGFtyLpV3NwQoyM8BrASfuot3lGwQsOB7C0Wf5qv8\n\
        gfM4QlfzxpI/4/HkUvu4t4Z+1yoNnhATqgZoFaKdiF8=\n\
        -----END RSA PRIVATE KEY-----";
    const SECP256K1: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQge/Q4ama1pMSXokn6a38W\n\
        Kt1NwRyNTtfkgjtTp+LrTouhRANCAAQ85pnUsnpMikHia3Xp/XuNlO1A20ioPA4C\n\
        jL13P15TvTCLWIkzHPZnLbxFo2BFwxyP9VkvoTEslcCH7JeJI1F9\n\
        -----END PRIVATE KEY-----";

    /// An element, with a length in three bytes.
    fn of_tag(tag: u8, contents: &[u8]) -> Vec<u8> {
        let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
        [&[tag, 0x82], &length[..], contents].concat()
    }

    fn rsa(bits: usize) -> Vec<u8> {
        let mut modulus = vec![0xff; bits.div_ceil(8)];
        modulus[0] = 0xff >> (8 * modulus.len() - bits);
        // Integers have a sign.
        modulus.insert(0, 0);
        let fields = [of_tag(INTEGER, &[0]), of_tag(INTEGER, &modulus)].concat();
        of_tag(SEQUENCE, &fields)
    }

    #[test]
    fn what_is_wrong_with_a_key_is_named() {
        for (key, words) in [
            (P_521, "ECDSA on P-521"),
            (P_521_SEC1, "ECDSA on P-521"),
            (SECP256K1, "ECDSA on secp256k1"),
            (RSA_1024, "RSA with 1024 bits"),
            (RSA_1024_PKCS1, "RSA with 1024 bits"),
        ] {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            let problem = problem_of(&key).unwrap();
            assert!(problem.contains(words), "{words}: {problem}");
            assert!(problem.contains("use a key of ECDSA on P-256 or P-384"));
        }
        for (algorithm, words) in [
            (RSA_PSS, Some("RSA-PSS")),
            (ED448, Some("Ed448")),
            (b"", None),
        ] {
            let algorithm = of_tag(OBJECT_IDENTIFIER, algorithm);
            let fields = [
                of_tag(INTEGER, &[0]),
                of_tag(SEQUENCE, &algorithm),
                of_tag(OCTET_STRING, &[]),
            ];
            let key = of_tag(SEQUENCE, &fields.concat());
            let problem = problem_of(&PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)));
            let has_words = problem.as_ref().zip(words);
            assert!(has_words.is_none_or(|(problem, words)| problem.contains(words)));
            assert_eq!(problem.is_some(), words.is_some());
        }
    }

    #[test]
    fn an_identity_is_refused_with_what_is_wrong() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default()
            .self_signed(&key)
            .unwrap()
            .pem();
        let certificate = (Path::new("c.pem"), certificate.as_bytes());
        let refused = Identity::from_pem(certificate, (Path::new("k.pem"), P_521.as_bytes()));
        let problem = refused.err().unwrap().to_string();
        assert!(problem.starts_with("k.pem is a key of ECDSA on P-521"));
    }

    #[test]
    fn keys_of_rsa_have_bounds() {
        for (bits, is_named) in [(2047, true), (2048, false), (4096, false), (4097, true)] {
            let key = PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(rsa(bits)));
            let problem = problem_of(&key);
            assert_eq!(problem.is_some(), is_named, "{bits}");
            let named = problem.is_none_or(|problem| problem.contains(&format!("{bits} bits")));
            assert!(named, "{bits}");
        }
    }

    #[test]
    fn a_key_that_can_be_used_or_is_damaged_has_no_such_problem() {
        let key = rcgen::KeyPair::generate().unwrap().serialize_der();
        let problem = |key: &[u8]| problem_of(&PrivateKeyDer::Pkcs8(key.to_vec().into()));
        assert_eq!(problem(&key), None);
        for end in 0..key.len() {
            assert_eq!(problem(&key[..end]), None, "{end}");
        }
    }
}
