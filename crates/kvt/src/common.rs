//! Arguments and steps that several verbs share.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ArgGroup;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{DecimalBytes, ProgressBar};
use kvt_models::weights::{LoadOptions, LoadReport, Outcome, StateDict, recognise};
use kvt_models::{Model, ModelConfig};

use super::output;
use kvt_data::fs::{check_writable, remove_leftovers};
use kvt_train::config::{Document, Plan, load_plan};
use kvt_train::data::Split;
use kvt_train::run::RunDir;

/// A configuration file with overrides.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("configuration").required(true).args(["file", "config"])))]
pub(super) struct ConfigArgs {
    /// Configuration file.
    // Within its group this means: unless `--config` is given. Help shows it as `<CONFIG>`, not as `[CONFIG]`.
    #[arg(value_name = "CONFIG", required = true)]
    file: Option<PathBuf>,
    /// The same, as an option.
    #[arg(long, value_name = "CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) overrides: Overrides,
}

/// A model by name, or that of a configuration. A verb that needs one has a group of them.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArgs {
    /// A model's name, as `kvt models list` has them.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// A configuration file; its `[model]` is used.
    #[arg(long, value_name = "CONFIG", conflicts_with = "model")]
    pub(super) config: Option<PathBuf>,
}

impl ModelArgs {
    /// The configuration, or a minimal one that only names the model.
    pub(super) fn document(&self, overrides: &[String]) -> anyhow::Result<Document> {
        match (&self.config, &self.model) {
            (Some(path), _) => Ok(Document::load(path, overrides)?),
            (None, Some(name)) => {
                let text = format!("[model]\nname = {}\n", toml::Value::from(name.as_str()));
                let words = format!("--model {name}");
                Ok(Document::of_words(&words, text, overrides)?)
            }
            (None, None) => bail!("neither `--model` nor `--config`"),
        }
    }

    /// The plan without data, and the model, by default with as many classes as the names of the weights reveal.
    pub(super) fn plan(
        &self,
        overrides: &[String],
        weights: &StateDict,
    ) -> anyhow::Result<(Plan, ModelConfig)> {
        let plan = self.document(overrides)?.plan_without_data()?;
        let classes = recognise(weights).and_then(|known| known.classes);
        let config = plan.model.config(classes)?;
        Ok((plan, config))
    }
}

/// A model with weights; those that it has no place for are warned of.
pub(super) fn with_weights(
    model: Model,
    weights: StateDict,
) -> anyhow::Result<(Model, LoadReport)> {
    let (model, report) = model.load(&weights, LoadOptions::default())?;
    // The model has its own copy, and what is done with it needs the memory.
    drop(weights);
    let unused = report.names(Outcome::Unused);
    output::warnings(unused.map(|name| format!("`{name}` of the weights is not used")));
    Ok((model, report))
}

/// The exit code of a verb that did its work, or has printed why some of it is missing.
pub(super) fn success_if(is_complete: bool) -> ExitCode {
    if is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What the command line changes about a configuration.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Overrides {
    /// Override one key, as in `--set train.epochs=10`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Device: auto, cpu, wgpu, vulkan, metal, cuda or rocm, with an index as in `cuda:1`; by default that of the configuration, else auto.
    #[arg(long, value_name = "DEVICE")]
    pub(super) device: Option<String>,
}

impl Overrides {
    /// All overrides in the form of `--set`, with the shorthands last.
    pub(super) fn all(&self) -> Vec<String> {
        let mut all = self.set.clone();
        all.extend(self.device.iter().map(|d| format!("train.device={d}")));
        all
    }
}

impl ConfigArgs {
    pub(super) fn path(&self) -> anyhow::Result<PathBuf> {
        let path = self.file.as_ref().or(self.config.as_ref());
        path.cloned().context("no configuration file")
    }

    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        Ok(load_plan(&self.path()?, &self.overrides.all())?)
    }
}

/// Makes the folder for results that have the names of a run's own files, and refuses that of a run.
pub(super) fn results_folder(path: &Path) -> anyhow::Result<()> {
    if RunDir::open(path).is_ok() {
        bail!(
            "`{}` is the folder of a run, whose own files would be overwritten: choose another, such as `{}`",
            path.display(),
            path.join("results").display()
        );
    }
    fs_err::create_dir_all(path)?;
    remove_leftovers(path);
    Ok(())
}

/// Reads one of the values of a library by its name; each has an explanation, or an empty one.
pub(super) fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [(T, &'static str, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    let shown = all.map(|(_, name, help)| match help {
        "" => PossibleValue::new(name),
        help => PossibleValue::new(name).help(help),
    });
    PossibleValuesParser::new(shown).try_map(move |given| {
        let mut all = all.into_iter();
        let found = all.find(|(_, name, _)| *name == given);
        found.map(|(value, ..)| value).ok_or("it has no such value")
    })
}

/// The same of values whose names say enough.
pub(super) fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    one_of(all.map(|one| (one, name(one), "")))
}

/// Reads a number for which `is_fine`; `expected` says which ones those are.
pub(super) fn number(
    is_fine: fn(f64) -> bool,
    expected: &'static str,
) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let found = text.parse::<f64>().ok().filter(|number| is_fine(*number));
        found.ok_or_else(|| format!("expected {expected}"))
    }
}

/// Refuses a file of another ending, and what [`check_new`] refuses.
pub(super) fn check_new_of(path: &Path, ending: &str, force: bool) -> anyhow::Result<()> {
    if path.extension().is_none_or(|other| other != ending) {
        bail!(
            "`{}` has another ending than `.{ending}`, the only format that is written",
            path.display()
        );
    }
    check_new(path, force)
}

/// Refuses a file that cannot be written, or that exists unless `force` is set.
pub(super) fn check_new(path: &Path, force: bool) -> anyhow::Result<()> {
    if path.is_file() && !force {
        bail!("`{}` exists: use `--force` or another name", path.display());
    }
    Ok(check_writable(path)?)
}

/// Refuses a file that cannot be written, or one that does not begin as an earlier result does, which alone may be replaced. An empty
/// file has nothing to lose.
pub(super) fn check_result(path: &Path, beginning: &str) -> anyhow::Result<()> {
    if path.is_file() {
        let mut found = Vec::new();
        let file = fs_err::File::open(path)?;
        file.take(beginning.len() as u64).read_to_end(&mut found)?;
        if !found.is_empty() && found != beginning.as_bytes() {
            bail!(
                "`{}` exists and is no earlier result: choose another name or folder",
                path.display()
            );
        }
    }
    Ok(check_writable(path)?)
}

/// Refuses results in a file that the command reads, or in a folder of such files.
pub(super) fn check_not_read<'a>(
    path: &Path,
    read: impl IntoIterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    let Ok(own) = path.canonicalize() else {
        // There is no such file yet.
        return Ok(());
    };
    for one in read {
        if one.canonicalize().is_ok_and(|one| own.starts_with(one)) {
            bail!(
                "`{}` is read by this command: choose another name or folder for the results",
                path.display()
            );
        }
    }
    Ok(())
}

/// Shows a download: in a line what it is, then a bar.
pub(super) fn downloading(what: &str, total: u64) -> Box<dyn FnMut(u64)> {
    output::status(&format!("downloading {what}, {}", DecimalBytes(total)));
    let form = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} eta {eta}";
    let bar = output::bar("downloading", total, form);
    Box::new(move |done| bar.set_position(done))
}

/// A bar over a known number of items, cleared when it is dropped; hidden in silent processes.
pub(super) fn bar(what: &str, total: usize) -> ProgressBar {
    let form = "{prefix} {wide_bar} {pos}/{len} {per_sec} eta {eta}";
    output::bar(what, total as u64, form)
}

/// The same as what work calls with the number of items that are done.
pub(super) fn done_of(what: &str, total: usize) -> impl FnMut(usize) {
    let bar = bar(what, total);
    move |done| bar.set_position(done as u64)
}

/// A bar over items whose number the work tells with its progress; it is cleared when all are done.
pub(super) fn counting(what: &'static str) -> impl FnMut(usize, usize) + Send {
    let mut shown: Option<ProgressBar> = None;
    move |done, total| {
        let bar = shown.get_or_insert_with(|| bar(what, total));
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        if done >= total {
            shown = None;
        }
    }
}

/// The splits of a run or a configuration; the options that take them explain them.
pub(super) const SPLITS: [Split; 2] = [Split::Val, Split::Train];

/// Shows the progress of a data set that is generated on first use.
pub(super) fn generating() -> impl FnMut(usize, usize) + Send {
    let mut count = counting("generating images");
    let mut is_said = false;
    move |done, total| {
        if !is_said && !output::is_watched() {
            output::status(&format!("generating {total} images"));
        }
        is_said = done < total;
        count(done, total);
    }
}
