//! `[report]`: what a run makes for readers at its end.

use kvt_data::schema::section;

section! {
    /// What a run makes for readers at its end.
    #[schemars(extend("x-resume" = "free"))]
    pub struct ReportConfig {
        /// Whether a run draws its curves when it ends or is stopped (`report.html`, and pictures in `report/`), and, of a classifier
        /// at its end, also the confusion matrix of its best checkpoint on the validation images; of segmentation and detection its classes and some painted images.
        pub auto: bool = true;
    }
}
