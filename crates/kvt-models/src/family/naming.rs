//! Names of weights: the origins that are told apart, and the numbers of modules.

/// The origin of the names of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// timm's.
    Timm,
    /// The names in the repository of the model's authors.
    Official,
}

/// The number before the first dot of a name, and what follows it.
pub(crate) fn numbered(name: &str) -> Option<(usize, &str)> {
    let (number, rest) = name.split_once('.')?;
    Some((number.parse().ok()?, rest))
}
