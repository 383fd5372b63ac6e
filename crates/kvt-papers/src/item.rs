//! A figure or table, and its results.

use super::{Order, ReproduceError, Runs, Scale, Version, Watch, planned};
use kvt_tools::sweep::Sweep;
use kvt_train::run::Metric;

/// A figure or table of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its name on the command line, and of its files.
    pub name: &'static str,
    /// What it shows, in one line.
    pub title: &'static str,
    /// The paper, what it states, and what it leaves open, as Markdown.
    pub(crate) stated: &'static str,
    /// The scales at which it can be computed; empty if it needs neither images nor training.
    pub scales: &'static [Scale],
    /// The versions of the paper that have it; empty if there is only one version.
    pub versions: &'static [Version],
    /// The sweeps that can be trained alone: the first is `<scale>.toml`, another one `<scale>-<part>.toml`, whose rows have its name
    /// in theirs. Empty if it has only one, of which rows can be trained alone.
    pub(crate) parts: &'static [&'static str],
    /// The metrics of its runs in `<name>-runs.csv`; empty if it has no such file.
    pub(crate) metrics: &'static [Metric],
    /// Whether it is made of these metrics alone, so that the runs of such a file need not be trained again.
    pub(crate) takes_known: bool,
    /// Whether configuration settings affect it although it has no training runs.
    pub(crate) takes_overrides: bool,
    /// The training runs of all its parts: by default those of `configs/reproduce/<name>/<scale>.toml`.
    pub(crate) sweep: fn(&Self, &Order) -> Result<Sweep, ReproduceError>,
    /// Computes it. The watch receives the progress in steps.
    pub(crate) make: Make,
}

/// How an item is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Make {
    /// From training runs, of which the finished ones have results.
    OfRuns(fn(&Runs, &Order, &dyn Watch) -> Result<Outcome, ReproduceError>),
    /// From what it draws or measures itself.
    Alone(fn(&Order, &dyn Watch) -> Result<Outcome, ReproduceError>),
}

impl Item {
    /// One of nothing: what most items have in common.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        title: "",
        stated: "",
        scales: &[],
        versions: &[],
        parts: &[],
        metrics: &[],
        takes_known: false,
        takes_overrides: false,
        sweep: planned::sweep,
        make: Make::Alone(|_, _| Ok(Outcome::default())),
    };

    /// Whether it is made of training runs.
    pub(crate) fn takes_runs(&self) -> bool {
        !self.scales.is_empty()
    }

    /// Whether a row of its runs is in a part: in a sweep, or where there is only one, among the rows whose names begin with these words.
    pub(crate) fn is_in(&self, row: &str, part: &str) -> bool {
        if self.parts.is_empty() {
            let rest = row.strip_prefix(part);
            return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        }
        let named = self.parts.iter().skip(1).find(|part| row.contains(*part));
        named.or(self.parts.first()) == Some(&part)
    }
}

/// What an item computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// What the results say, for the top of the page, as Markdown; empty if nothing is said there.
    pub(crate) verdict: String,
    /// All numbers, with a header.
    pub(crate) csv: String,
    /// A figure of them.
    pub(crate) svg: String,
    /// How it was computed, and the results, as Markdown.
    pub(crate) found: String,
    /// Further files, by name.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Outcome {
    /// Numbers, their figure as far as it could be drawn, and what is said of them.
    pub(crate) fn of(
        csv: String,
        svg: Result<String, String>,
        found: String,
    ) -> Result<Self, ReproduceError> {
        Ok(Self {
            verdict: String::new(),
            csv,
            svg: svg.map_err(ReproduceError::Draw)?,
            found,
            files: Vec::new(),
        })
    }
    /// The same with a verdict.
    pub(crate) fn that_says(self, verdict: String) -> Self {
        Self { verdict, ..self }
    }
}
