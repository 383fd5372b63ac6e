//! `[run]`, `[log]`, `[report]` and `[checkpoint]`: where and when a run writes its files. A resumed run may change all of them.

use std::path::{Path, PathBuf};

use serde::Serializer;

use kvt_data::schema::section;

section! {
    /// The folder of the run.
    #[schemars(extend("x-resume" = "free"))]
    pub struct RunConfig {
        /// Folder that the run writes into, relative to the working directory.
        #[serde(serialize_with = "lossy")]
        pub dir: PathBuf = PathBuf::new(),
            "minLength" = 1, "x-default" = "`runs/` and the name of the configuration file";
    }
}

/// A path from the command line may not be representable in TOML; a resumed run may have another path.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

section! {
    /// What a run writes down about itself.
    #[schemars(extend("x-resume" = "free"))]
    pub struct LogConfig {
        /// Updates from one line of `log.jsonl` to the next; a line holds their means.
        pub every_steps: u64 = 1, "x-range" = "[1, inf)";
        /// Whether TensorBoard event files are written.
        pub tensorboard: bool = true;
    }
}

section! {
    /// When the state of a run is saved.
    #[schemars(extend("x-resume" = "free"))]
    pub struct CheckpointConfig {
        /// Epochs from one checkpoint to the next; 0 saves only at the end and after the best evaluations.
        pub every_epochs: u32 = 1;
        /// Updates from one checkpoint to the next, besides those of the epochs; 0 is off.
        pub every_steps: u64 = 0;
        /// How many of the latest checkpoints are kept, besides the best.
        pub keep_last: usize = 2, "x-range" = "[1, inf)";
    }
}

section! {
    /// What a run makes for readers at its end.
    #[schemars(extend("x-resume" = "free"))]
    pub struct ReportConfig {
        /// Whether a run draws its curves when it ends or is stopped (`report.html`, and pictures in `report/`), and, of a classifier
        /// at its end, also the confusion matrix of its best checkpoint on the validation images; of segmentation and detection its classes and some painted images.
        pub auto: bool = true;
    }
}
