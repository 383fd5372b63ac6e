//! A figure or table, and its results.

use super::{Order, ReproduceError, Scale, Version, Watch, runs};
use kvt_tools::sweep::Sweep;
use kvt_train::run::Metric;

/// What a figure or table is.
#[derive(Clone, Copy, Debug, Default)]
pub struct About {
    /// Its name on the command line, and of its files.
    pub name: &'static str,
    /// What it shows, in one line.
    pub title: &'static str,
    /// The paper, what it states, and what it leaves open, as Markdown.
    pub stated: &'static str,
    /// The scales at which it can be computed; empty if it needs neither images nor training.
    pub scales: &'static [Scale],
    /// The versions of the paper that have it; empty if there is only one version.
    pub versions: &'static [Version],
    /// The parts that can be trained alone, each a sweep: the first is `<scale>.toml`, another one `<scale>-<part>.toml`. Empty if it
    /// has only one.
    pub parts: &'static [&'static str],
    /// The metrics of its runs from which it is made; empty if it is made of more than such numbers.
    pub metrics: &'static [Metric],
}

/// A figure or table of a paper.
pub trait Item: Sync {
    /// What it is.
    fn about(&self) -> About;

    /// Whether a row of its runs is in a part.
    fn is_in(&self, _row: &str, _part: &str) -> bool {
        true
    }

    /// Whether configuration settings affect it: by default, if it has training runs.
    fn takes_overrides(&self) -> bool {
        !self.about().scales.is_empty()
    }

    /// The training runs of all its parts: by default those of `configs/reproduce/<name>/<scale>.toml`, if it has scales.
    ///
    /// # Errors
    /// If the file or one of its configurations is missing or wrong.
    fn sweep(&self, order: &Order) -> Result<Option<Sweep>, ReproduceError> {
        let about = self.about();
        if about.scales.is_empty() {
            Ok(None)
        } else {
            runs::sweep(about.name, about.parts, order).map(Some)
        }
    }

    /// Computes it. `watch` receives the progress in steps, and the events of training runs.
    ///
    /// # Errors
    /// Whatever prevents the computation.
    fn compute(&self, order: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError>;
}

/// What an item computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// All numbers, with a header.
    pub csv: String,
    /// A figure of them; empty where there is nothing to draw.
    pub svg: String,
    /// How it was computed, and the results, as Markdown.
    pub found: String,
    /// Further files, by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// Runs that could not be trained, a line for each reason: the result lacks their numbers.
    pub failures: Vec<String>,
}
