//! The names of what is measured, each a metric with one of its conventions.

/// What is measured in a block: a number for each image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Cosine similarity between all tokens that leave the block.
    Cosine,
    /// The same between patches, without class and distillation token.
    CosinePatches,
    /// Standard deviation of the attention weights of a query over all keys, those that are not kept with weight 0; divided by
    /// `n - 1`, as `torch.std` does.
    Std,
    /// The same, divided by `n`.
    StdPopulation,
    /// Standard deviation over the keys with a weight above 0, divided by `k - 1`.
    StdKept,
    /// The same, divided by `k`.
    StdKeptPopulation,
    /// Keys of a query with a weight above 0.
    Kept,
    /// Norm of the output of the attention branch through the norm of the stream that enters it: mean over the tokens.
    AttentionRatio,
    /// The same, mean over the patches.
    AttentionRatioPatches,
    /// The same ratio of the norms of all tokens together.
    AttentionRatioWhole,
    /// Norm of the output of the MLP through the norm of the stream that enters it: mean over the tokens.
    MlpRatio,
    /// The same, mean over the patches.
    MlpRatioPatches,
    /// The same ratio of the norms of all tokens together.
    MlpRatioWhole,
    /// Distance from a patch to what it looks at, in patches: class and distillation token are left out as queries and as keys,
    /// and what is left of the weights of a query is divided by its sum.
    Nonlocality,
    /// The same, where what is left of the weights stays as it is.
    NonlocalityRaw,
}

impl Measure {
    /// All of them.
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

    /// One convention of each metric, which tables and pictures show: panels (a) to (d) of Figure 2, and Figure 3.
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

    /// Its name for people.
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
