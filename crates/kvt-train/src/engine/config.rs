//! `[train]` and `[eval]`: settings of the training loop.

use kvt_models::Precision;

use kvt_data::schema::section;

section! {
    /// Length, batch and device of training.
    pub struct TrainConfig {
        /// Times that training goes through the data.
        pub epochs: u32 = 300, "x-range" = "[1, inf)";
        /// Length of the run in updates instead of epochs: the schedule ends with them. 0 counts epochs.
        pub updates: u64 = 0;
        /// Images of one forward pass, a micro-batch; an update sees `batch_size * accumulate` images.
        pub batch_size: usize = 64, "x-range" = "[1, 65536]";
        /// Forward passes whose gradients are averaged into one update, over all processes: their number must divide it.
        pub accumulate: usize = 1, "x-range" = "[1, 65536]";
        /// Ends the run after this many updates, wherever that is.
        pub max_steps: Option<u64> = None,
            "x-range" = "[1, inf)", "x-default" = "none: all epochs", "x-resume" = "free";
        /// Ends the run as finished after this many evaluations in a row without a better value of the metric that chooses the best checkpoint.
        pub patience: Option<u32> = None,
            "x-range" = "[1, inf)", "x-default" = "none: all epochs", "x-resume" = "free";
        /// Hours after which training stops as with Ctrl-C: after an update, with its state saved. They count from each start
        /// of the command, for all runs of a comparison together.
        pub max_hours: Option<f64> = None,
            "x-range" = "[1e-9, 1e6]", "x-default" = "none", "x-resume" = "free";
        /// Device to train on, such as `auto`, `cpu`, `wgpu`, `vulkan:0` or `cuda`; `kvt devices` lists them.
        pub device: String = "auto".to_owned(), "x-resume" = "free";
        /// With several processes, whether batch norms (of CvT, So-ViT, Visformer and VOLO) normalise by the images of all of
        /// them, one micro-batch each, as if they were one micro-batch. Without it each normalises by its own, and the run is
        /// the one of a single process.
        pub sync_batch_norm: bool = true;
        /// Type of the operands of matrix products, convolutions and attention, in training and in evaluation. Weights, moments,
        /// residual stream, norms, head and loss are `f32`, and so are checkpoints. With `f16` the loss is scaled.
        pub precision: Precision = Precision::F32, "x-resume" = "free";
        /// Epochs from one evaluation to the next; 0 evaluates only at the end.
        pub eval_every: u32 = 1;
        /// Updates from one evaluation to the next, instead of epochs; 0 is off. The state is saved there, too.
        pub eval_every_updates: u64 = 0;
    }
}

section! {
    /// Evaluation.
    pub struct EvalConfig {
        /// Images of one forward pass.
        pub batch_size: usize = 2 * TrainConfig::default().batch_size,
            "x-range" = "[1, 131072]", "x-default" = "2 x `train.batch_size`", "x-resume" = "free";
    }
}
