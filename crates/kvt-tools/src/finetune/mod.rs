//! A plan for a user's own classes: from a folder of images and trained weights to a configuration.
//!
//! Classes, number of images, model and normalisation are read from the images and the weights. The rest is a recipe
//! for small data. The result is an ordinary [`Document`], so that the run has a complete `config.toml`,
//! and every other command works with it.

mod error;
mod images;
mod named;
mod recipe;
mod small;
mod source;
mod text;
mod timm;

use std::path::{Path, PathBuf};

use kvt_models::ImgSize;
use toml::{Table, Value};

pub use self::error::FinetuneError;
use kvt_train::config::{Document, Plan, load_plan};
use kvt_train::run::RunDir;
use kvt_train::task::{check_positions, run_of};

use self::images::Images;
use self::recipe::Recipe;
use self::small::Small;
use self::source::Source;

/// The origin of the plan in messages, since it has no file.
const NAME: &str = "kvt finetune";

/// The first comment of a configuration.
const HEAD: &str = "A configuration for `kvt train`, with settings for small data. Keys that are not here have their defaults: \
                    `kvt config print FILE` shows all, `kvt config check FILE` checks them.";

/// Why a model for grey images may have one channel.
const GREY: &str = "All images that were looked at are grey. They become three equal channels; one channel is less work for the first \
                    layer, to which weights for three are adapted, and changes little else.";

/// The request of a user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The images: `<folder>/<class>/*`, or the same in `train` and `val` below it; or any other kind of data.
    pub folder: PathBuf,
    /// A weight file, or the folder of a run; without it, random weights.
    pub weights: Option<PathBuf>,
    /// The model's name, timm's or ours; if it is not given, it is detected from the weights.
    pub model: Option<String>,
    /// Whether only the head is trained.
    pub probe: bool,
    /// The rank of low-rank adaptation, if the weights themselves are not trained.
    pub lora: Option<usize>,
    /// Settings that replace those of the recipe.
    pub choices: Choices,
}

/// Settings that a user chooses without a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    /// Number of epochs.
    pub epochs: Option<u32>,
    /// The learning rate of the head, not scaled by the batch size.
    pub lr: Option<f64>,
    /// Images per update.
    pub batch_size: Option<usize>,
    /// Size of the images.
    pub img_size: Option<ImgSize>,
    /// The run's folder.
    pub out: Option<PathBuf>,
    /// Overrides of the form `section.key=value`, which have the highest priority.
    pub set: Vec<String>,
}

/// A plan, and its sources.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The complete plan.
    pub plan: Plan,
    /// The sources of its model, its images and its numbers, one line each.
    pub notes: Vec<String>,
    /// A file with everything except [`Choices`], with comments: the output of `kvt config init`.
    pub text: String,
}

/// The plan of a new run.
///
/// # Errors
/// If the images or the weights cannot be read, the weights belong to an unknown model, or a value is out of range.
pub fn propose(request: &Request) -> Result<Proposal, FinetuneError> {
    let choices = &request.choices;
    let chosen = choices.document()?;
    // Its labels would be read as those of classes, and what is wrong with them said first.
    let task = chosen.value("task").and_then(Value::as_str);
    if task.is_some_and(|task| task != "classify") {
        return Err(FinetuneError::OtherTask);
    }
    let images = Images::of(&request.folder, &chosen)?;
    let model = request.model.as_deref();
    let small = images.side.and_then(Small::of).filter(|_| model.is_none());
    let source = match &request.weights {
        Some(weights) => Source::of(weights, model, choices.img_size)?,
        None => Source::random(model, small),
    };
    let recipe = Recipe::of(request, &images, source.params()?, small.is_some());
    // An invalid number of epochs is rejected with the other keys.
    let epochs = chosen.value("train.epochs").and_then(Value::as_integer);
    let recipe = match epochs.and_then(|epochs| u32::try_from(epochs).ok()) {
        Some(epochs) => recipe.with_epochs(epochs),
        None => recipe,
    };

    let mut head = vec![
        HEAD.to_owned(),
        images.describe(),
        recipe.length(images.train),
    ];
    head.extend(source.notes.iter().cloned());
    let mut text = text::commented(&sections(request, &images, &source, &recipe)?, &head);
    let document = Document::of_words(NAME, text.clone(), &choices.overrides()?);
    let plan = document.and_then(|document| document.plan());
    let plan = plan.map_err(Box::new)?;
    // As timm, kvt gives a model three channels unless it is told otherwise: weights were trained on them. T2T-ViT's cannot be adapted.
    if images.is_grey
        && plan.model.overrides.in_chans.is_none()
        && !plan.model.name.starts_with("t2t_")
    {
        text = text::with_choice(&text, "model", GREY, "in_chans = 1");
    }
    // This also checks conditions that only the model knows, such as an image size that is not a multiple of its patch size.
    let config = plan.model.config(Some(images.classes))?;
    if let Some(run) = source.file.as_deref().and_then(run_of) {
        check_positions(&run, &config)?;
    }
    let mut notes = source.notes;
    notes.extend([images.describe(), Recipe::describe(&plan)]);
    Ok(Proposal { plan, notes, text })
}

/// All keys of the configuration, by section.
fn sections(
    request: &Request,
    images: &Images,
    source: &Source,
    recipe: &Recipe,
) -> Result<Table, FinetuneError> {
    let mut sections = vec![
        ("run", keys([("dir", text(&images.run_dir())?)])),
        ("data", images.keys()?),
        ("model", source.model.clone()),
        ("augment", source.augment.clone()),
    ];
    if let Some(weights) = &source.file {
        let freeze = if request.probe { "backbone" } else { "none" };
        let init = [
            ("weights", text(weights)?),
            // A different set of classes can have the same size.
            ("reset_head", "always".into()),
            ("freeze", freeze.into()),
        ];
        sections.push(("init", keys(init)));
    }
    if let Some(rank) = request.lora {
        sections.push(("lora", keys([("rank", count(rank))])));
    }
    let recipe = recipe.keys().into_iter();
    sections.extend(recipe.map(|(section, key, value)| (section, keys([(key, value)]))));
    let mut table = Table::new();
    for (name, keys) in sections {
        let section = table.entry(name).or_insert_with(|| Table::new().into());
        if let Value::Table(section) = section {
            section.extend(keys);
        }
    }
    Ok(table)
}

/// The plan of an existing run to resume, with the current settings. Its images can have moved to `folder`.
///
/// # Errors
/// If there is no run in `choices.out`, or its configuration or a setting is invalid.
pub fn resume(folder: Option<&Path>, choices: &Choices) -> Result<Plan, FinetuneError> {
    let images = folder.map(Images::by_layout).transpose()?;
    let dir = match (&choices.out, &images) {
        (Some(out), _) => out.clone(),
        (None, Some(images)) => images.run_dir(),
        (None, None) => return Err(FinetuneError::NoRun),
    };
    let run = RunDir::open(&dir)?;
    let mut overrides = choices.overrides()?;
    if let Some(images) = images {
        overrides.insert(0, set("data.path", &text(&images.data.path)?));
    }
    let mut plan = load_plan(&run.config(), &overrides)?;
    // Even if the folder has moved since the run was started.
    plan.run.dir = dir;
    Ok(plan)
}

impl Choices {
    /// The same for a run that is resumed: with keys that cannot change, so that another value is refused, not ignored.
    #[must_use]
    pub fn resumed(mut self, model: Option<&str>, is_probe: bool, lora: Option<usize>) -> Self {
        let name = model.map(|name| format!("model.name={}", without_tag(name)));
        let freeze = is_probe.then(|| "init.freeze=\"backbone\"".to_owned());
        let rank = lora.map(|rank| format!("lora.rank={rank}"));
        let keys = freeze.into_iter().chain(rank).chain(name);
        self.set.splice(0..0, keys);
        self
    }

    /// A configuration with only the chosen settings.
    fn document(&self) -> Result<Document, FinetuneError> {
        let document = Document::of_words(NAME, String::new(), &self.overrides()?);
        Ok(document.map_err(Box::new)?)
    }

    /// All settings in the form of `--set`, the user's own last.
    fn overrides(&self) -> Result<Vec<String>, FinetuneError> {
        let mut all = Vec::new();
        all.extend(self.epochs.map(|n| format!("train.epochs={n}")));
        if let Some(lr) = self.lr {
            all.push(set("optim.lr", &lr.into()));
            all.push(set("optim.lr_batch", &Value::from(0)));
        }
        all.extend(self.batch_size.map(|n| format!("train.batch_size={n}")));
        let img_size = self.img_size.map(ImgSize::toml);
        all.extend(img_size.map(|size| format!("model.img_size={size}")));
        if let Some(out) = &self.out {
            all.push(set("run.dir", &text(out)?));
        }
        all.extend(self.set.iter().cloned());
        Ok(all)
    }
}

/// A model's name without timm's tag after a dot, which identifies the weights.
fn without_tag(name: &str) -> &str {
    name.split_once('.').map_or(name, |(name, _)| name)
}

/// An override.
fn set(key: &str, value: &Value) -> String {
    format!("{key}={value}")
}

/// The keys of a section.
fn keys<const N: usize>(keys: [(&str, Value); N]) -> Table {
    let named = keys.map(|(key, value)| (key.to_owned(), value));
    Table::from_iter(named)
}

/// A number as a TOML value.
fn count(number: usize) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// A path as a TOML value.
fn text(path: &Path) -> Result<Value, FinetuneError> {
    match path.to_str() {
        Some(path) => Ok(path.into()),
        None => Err(FinetuneError::NotUtf8(path.to_owned())),
    }
}

#[cfg(test)]
mod tests;
