//! Checksums, and other numbers that are written as digits.

use std::fmt;
use std::io;
use std::path::Path;

use fs_err as fs;
use sha2::{Digest as _, Sha256};

/// A number of `N` bytes, which is written in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digits<const N: usize>([u8; N]);

/// The SHA-256 of a file, by which it is named.
pub(super) type Sum = Digits<32>;
/// The commit of a repository.
pub(super) type Commit = Digits<20>;

impl<const N: usize> Digits<N> {
    /// Reads exactly as many digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
        let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
        let digits = digits.filter(|digits| digits.len() == 2 * N)?;
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Some(Self(bytes))
    }
}

impl<const N: usize> fmt::Display for Digits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The SHA-256 of a file.
pub(super) fn of_file(path: &Path) -> io::Result<Sum> {
    let mut digest = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut digest)?;
    Ok(Digits(digest.finalize().into()))
}
