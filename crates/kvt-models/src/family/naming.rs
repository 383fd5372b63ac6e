//! Whose names weights carry: the origins that are told apart.

/// The origin of the names of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// timm's.
    Timm,
    /// The names in the repository of the model's authors.
    Official,
}
