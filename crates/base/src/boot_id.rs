//! Which boot of the kernel this is.

/// The random number that the kernel draws when it boots. Two runs of a process with
/// the same number had no power cut between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootId(pub u128);

impl BootId {
    /// Reads a number as the kernel prints it: hexadecimal digits with dashes. `None`
    /// for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().replace('-', "");
        let is_whole = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok()?;
        is_whole.then_some(Self(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_as_the_kernel_prints_it() {
        let printed = "0189abcd-0000-4000-8000-00000000000f\n";
        let number = 0x0189_abcd_0000_4000_8000_0000_0000_000f;
        assert_eq!(BootId::parse(printed), Some(BootId(number)));
        for other in [
            "",
            "0189abcd",
            "+189abcd-0000-4000-8000-00000000000f",
            "none\n",
        ] {
            assert_eq!(BootId::parse(other), None, "{other}");
        }
    }
}
