//! The measures: each is a metric in one of its conventions.

/// Each line: a measure, its key in logs and tables, and its human-readable name.
macro_rules! measures {
    ($($(#[$doc:meta])* $Measure:ident: $name:literal, $title:literal;)*) => {
        /// A measure of a block: one number for each image.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Measure {
            $($(#[$doc])* $Measure,)*
        }

        impl Measure {
            /// All measures.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$Measure),*];

            /// Its key in logs and tables.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Measure => $name,)*
                }
            }

            /// Its human-readable name.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$Measure => $title,)*
                }
            }
        }
    };
}

measures! {
    /// Cosine similarity between all tokens that leave the block.
    Cosine: "cosine", "cosine similarity of tokens";
    /// The same between patches, without class and distillation token.
    CosinePatches: "cosine_patches", "cosine similarity of patches";
    /// Standard deviation of a query's attention weights over all keys, dropped ones with weight 0, divided by `n - 1` as in `torch.std`.
    Std: "std", "std of attention weights";
    /// The same, divided by `n`.
    StdPopulation: "std_population", "std of attention weights (population)";
    /// Standard deviation over the keys with a weight above 0, divided by `k - 1`.
    StdKept: "std_kept", "std of kept weights";
    /// The same, divided by `k`.
    StdKeptPopulation: "std_kept_population", "std of kept weights (population)";
    /// Number of keys of a query with a weight above 0.
    Kept: "kept", "keys with a weight";
    /// Norm of the attention branch's output divided by the norm of the stream that enters it, averaged over the tokens.
    AttentionRatio: "attention_ratio", "attention branch / stream";
    /// The same, averaged over the patches.
    AttentionRatioPatches: "attention_ratio_patches", "attention branch / stream (patches)";
    /// The same ratio, with norms over all tokens of an image.
    AttentionRatioWhole: "attention_ratio_whole", "attention branch / stream (whole)";
    /// Norm of the MLP's output divided by the norm of the stream that enters it, averaged over the tokens.
    MlpRatio: "mlp_ratio", "MLP branch / stream";
    /// The same, averaged over the patches.
    MlpRatioPatches: "mlp_ratio_patches", "MLP branch / stream (patches)";
    /// The same ratio, with norms over all tokens of an image.
    MlpRatioWhole: "mlp_ratio_whole", "MLP branch / stream (whole)";
    /// Mean distance from a patch to the patches it attends to, in units of patches. Class and distillation tokens are left out as
    /// queries and as keys, and the remaining weights of each query are normalised to sum 1.
    Nonlocality: "nonlocality", "nonlocality in patches";
    /// The same without normalising the remaining weights.
    NonlocalityRaw: "nonlocality_raw", "nonlocality in patches, not renormalised";
}

impl Measure {
    /// The convention of each metric that tables and figures show: panels (a) to (d) of Figure 2, and Figure 3.
    pub const SHOWN: [Self; 5] = [
        Self::Cosine,
        Self::Std,
        Self::AttentionRatio,
        Self::MlpRatio,
        Self::Nonlocality,
    ];
}
