//! The measures: each is a metric in one of its conventions.

/// A measure of a block: one number for each image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Cosine similarity between all tokens that leave the block.
    Cosine,
    /// The same between patches, without class and distillation token.
    CosinePatches,
    /// Standard deviation of a query's attention weights over all keys, dropped ones with weight 0, divided by `n - 1` as in `torch.std`.
    Std,
    /// The same, divided by `n`.
    StdPopulation,
    /// Standard deviation over the keys with a weight above 0, divided by `k - 1`.
    StdKept,
    /// The same, divided by `k`.
    StdKeptPopulation,
    /// Number of keys of a query with a weight above 0.
    Kept,
    /// Norm of the attention branch's output divided by the norm of the stream that enters it, averaged over the tokens.
    AttentionRatio,
    /// The same, averaged over the patches.
    AttentionRatioPatches,
    /// The same ratio, with norms over all tokens of an image.
    AttentionRatioWhole,
    /// Norm of the MLP's output divided by the norm of the stream that enters it, averaged over the tokens.
    MlpRatio,
    /// The same, averaged over the patches.
    MlpRatioPatches,
    /// The same ratio, with norms over all tokens of an image.
    MlpRatioWhole,
    /// Mean distance from a patch to the patches it attends to, in units of patches. Class and distillation tokens are left out as
    /// queries and as keys, and the remaining weights of each query are normalised to sum 1.
    Nonlocality,
    /// The same without normalising the remaining weights.
    NonlocalityRaw,
}

impl Measure {
    /// All measures.
    pub const ALL: [Self; 15] = [
        Self::Cosine,
        Self::CosinePatches,
        Self::Std,
        Self::StdPopulation,
        Self::StdKept,
        Self::StdKeptPopulation,
        Self::Kept,
        Self::AttentionRatio,
        Self::AttentionRatioPatches,
        Self::AttentionRatioWhole,
        Self::MlpRatio,
        Self::MlpRatioPatches,
        Self::MlpRatioWhole,
        Self::Nonlocality,
        Self::NonlocalityRaw,
    ];

    /// The convention of each metric that tables and figures show: panels (a) to (d) of Figure 2, and Figure 3.
    pub const SHOWN: [Self; 5] = [
        Self::Cosine,
        Self::Std,
        Self::AttentionRatio,
        Self::MlpRatio,
        Self::Nonlocality,
    ];

    /// Its key in logs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::CosinePatches => "cosine_patches",
            Self::Std => "std",
            Self::StdPopulation => "std_population",
            Self::StdKept => "std_kept",
            Self::StdKeptPopulation => "std_kept_population",
            Self::Kept => "kept",
            Self::AttentionRatio => "attention_ratio",
            Self::AttentionRatioPatches => "attention_ratio_patches",
            Self::AttentionRatioWhole => "attention_ratio_whole",
            Self::MlpRatio => "mlp_ratio",
            Self::MlpRatioPatches => "mlp_ratio_patches",
            Self::MlpRatioWhole => "mlp_ratio_whole",
            Self::Nonlocality => "nonlocality",
            Self::NonlocalityRaw => "nonlocality_raw",
        }
    }

    /// Its human-readable name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cosine => "cosine similarity of tokens",
            Self::CosinePatches => "cosine similarity of patches",
            Self::Std => "std of attention weights",
            Self::StdPopulation => "std of attention weights (population)",
            Self::StdKept => "std of kept weights",
            Self::StdKeptPopulation => "std of kept weights (population)",
            Self::Kept => "keys with a weight",
            Self::AttentionRatio => "attention branch / stream",
            Self::AttentionRatioPatches => "attention branch / stream (patches)",
            Self::AttentionRatioWhole => "attention branch / stream (whole)",
            Self::MlpRatio => "MLP branch / stream",
            Self::MlpRatioPatches => "MLP branch / stream (patches)",
            Self::MlpRatioWhole => "MLP branch / stream (whole)",
            Self::Nonlocality => "nonlocality in patches",
            Self::NonlocalityRaw => "nonlocality in patches, not renormalised",
        }
    }

    /// The measure of a [name](Self::name).
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.name() == name)
    }
}
