//! `kvt eval`

mod details;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

use super::common::{Overrides, bar, results_folder};
use super::labelled::{Folder, Split};
use super::output;
use super::trained::{Trained, names_in};
use kvt_data::fs::{check_writable, write_text};
use kvt_train::augment::Transform;
use kvt_train::data::Source;
use kvt_train::judge::{Judgement, RealLabels};
use kvt_train::report::{draw_confusion, interval_of, wilson};
use kvt_train::splits::{eval_batches, eval_transform};
use kvt_train::task::{Evaluation, check_classes, evaluate_among};

/// The files of `--out`.
const CLASSES: &str = "classes.csv";
const CONFUSION: &str = "confusion.csv";
const PICTURE: &str = "confusion.png";
const PREDICTIONS: &str = "predictions.csv";

/// `kvt eval --run RUN`, or `kvt eval --config CONFIG --weights FILE`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt eval --run runs/photos\n  kvt eval --run runs/photos --data photos/test --per-class --out judged\n  kvt eval --config configs/deit/tiny_dense.toml --weights deit_tiny.pth"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: super::trained::Args,
    #[command(flatten)]
    overrides: Overrides,
    /// Which split.
    #[arg(long, value_enum, default_value_t = Split::Val)]
    split: Split,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Evaluate another image folder, `DIR/<class>/*`, with the run's classes; images that the run trained on are left out.
    #[arg(long, value_name = "DIR", conflicts_with = "split")]
    data: Option<PathBuf>,
    /// Also tell accuracy, precision and F1 of each class, and the classes that are confused most.
    #[arg(long)]
    per_class: bool,
    /// Also write `classes.csv`, `confusion.csv`, `confusion.png` and `predictions.csv` into this folder.
    #[arg(long, alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Let the model choose among these classes alone, and evaluate their images: names with commas between them, or `@FILE`
    /// with one name per line.
    #[arg(long, value_name = "CLASSES")]
    only: Option<String>,
    /// A file of class names, one per line in label order, in place of those of the run or of the training images.
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// As `--only` with the classes that the folder of `--data` has, which may be some of the model's.
    #[arg(long, requires = "data", conflicts_with = "only")]
    only_present: bool,
    /// Also judge by ImageNet's reassessed labels (ReaL), a file `real.json`; with `--only`, by those that name these classes.
    #[arg(long, value_name = "FILE")]
    real: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let trained = args
        .trained
        .load(&args.overrides)?
        .named(args.classes.as_deref())?;
    let Chosen {
        source,
        words,
        left_out,
        among,
    } = args.images(&trained)?;
    let config = trained.model.config();
    check_classes(&config, &source)?;
    let images = Images {
        transform: Arc::new(eval_transform(&trained.plan, trained.size)?),
        source: Arc::new(source),
        words,
    };
    let source = &images.source;
    let mut judged = Judgement::new(source.classes.len());
    if let Some(path) = &args.real {
        let labels = RealLabels::read(path)?;
        let numbers = labels.numbers(source)?;
        let labels = match &among {
            Some(among) => labels.among(among),
            None => labels,
        };
        judged = judged.with_real(labels, numbers);
    }
    if let Some(out) = &args.out {
        // Check the files before evaluating the images.
        results_folder(out)?;
        for file in [CLASSES, CONFUSION, PICTURE, PREDICTIONS] {
            check_writable(&out.join(file))?;
        }
    }
    let evaluation = judge(&trained, &images, among.as_deref(), &mut judged)?;
    if let Some(out) = &args.out {
        let write = |file: &str, text: &str| write_text(&out.join(file), text);
        write(CLASSES, &judged.classes_csv(&source.classes))?;
        write(CONFUSION, &judged.confusion_csv(&source.classes))?;
        write(PREDICTIONS, &judged.predictions_csv(source))?;
        let title = format!(
            "{}: {:.2} % of {} images right",
            config.name(),
            evaluation.top1_percent(),
            evaluation.images
        );
        let cells = judged.cells();
        let cells: Vec<_> = cells
            .map(|cell| ([cell.label, cell.predicted], cell.images))
            .collect();
        draw_confusion(&cells, &source.classes, &title, &out.join(PICTURE))?;
    }
    let chosen = among.map_or(source.classes.len(), |among| {
        among.iter().filter(|is_among| **is_among).count()
    });
    if args.json {
        let mut json = record(&evaluation, &judged, source, args.per_class);
        // What the images are: those of a split, or of a folder.
        let split = args.data.is_none().then(|| args.split.name());
        json.insert("split".to_owned(), json!(split));
        json.insert("left_out".to_owned(), json!(left_out));
        let json = Value::from(json);
        output::print(&format!("{json:#}"))?;
    } else {
        output::print(&text(&evaluation, &judged, &images, chosen))?;
        if args.per_class {
            output::print(&format!("\n{}", details::tables(&judged, &source.classes)))?;
        }
    }
    if let Some(out) = &args.out {
        output::status(&format!("tables and a picture are in `{}`", out.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Labelled images, and the transform applied to each.
pub(super) struct Images {
    pub(super) source: Arc<Source>,
    /// What they are, to be put after their number.
    pub(super) words: String,
    pub(super) transform: Arc<Transform>,
}

/// Evaluates images with a progress bar, and warns of those that were skipped. The model chooses among the classes marked in
/// `among`, or all; `judged` collects the result of each image.
pub(super) fn judge(
    trained: &Trained,
    images: &Images,
    among: Option<&[bool]>,
    judged: &mut Judgement,
) -> anyhow::Result<Evaluation> {
    let Images {
        source, transform, ..
    } = images;
    let mut batches = eval_batches(&trained.plan, source, transform)?;
    let progress = bar("evaluating", source.samples.len());
    let evaluation = evaluate_among(
        &trained.model,
        &mut batches,
        &trained.device.device,
        among,
        |done| progress.set_position(done as u64),
        |batch, logits| judged.hear(batch, logits),
    );
    progress.finish_and_clear();
    for skipped in batches.skipped() {
        output::warning(&format!(
            "skipped `{}`: {}",
            skipped.path.display(),
            skipped.reason
        ));
    }
    let evaluation = evaluation?;
    // The weights are finite, but logits computed from them may overflow.
    if !evaluation.loss().is_finite() {
        bail!(
            "the loss over {} images is {}: the logits are not finite; take other weights",
            evaluation.images,
            evaluation.loss()
        );
    }
    Ok(evaluation)
}

/// What is evaluated.
struct Chosen {
    /// The images, labelled by the model's classes.
    source: Source,
    /// What they are, to be put after their number.
    words: String,
    /// The number of training images that were left out; `None` if that is not known.
    left_out: Option<usize>,
    /// The classes among which the model may choose, if not all.
    among: Option<Vec<bool>>,
}

impl Args {
    fn images(&self, trained: &Trained) -> anyhow::Result<Chosen> {
        let Trained { plan, classes, .. } = trained;
        if let (Some(dir), true) = (&self.data, self.only_present) {
            let known = classes
                .as_deref()
                .context("`--only-present`: the names of the model's classes are not known; give them with `--classes FILE`")?;
            let present = Source::open(dir, plan.data.class_order)?;
            let among = details::among(&present.classes, known)?;
            let folder = Folder::new(details::renumbered(present, known), plan)?;
            return Ok(Chosen {
                words: folder.words(),
                left_out: folder.left_out,
                source: folder.source,
                among: Some(among),
            });
        }
        let (mut source, words, left_out) = match &self.data {
            Some(dir) => {
                let folder = Folder::open(dir, classes.as_deref(), plan)?;
                let words = folder.words();
                (folder.source, words, folder.left_out)
            }
            None => {
                let source = self.split.open(plan, classes.as_deref())?;
                let words = self.split.words(&source);
                (source, words, Some(0))
            }
        };
        let Some(only) = &self.only else {
            return Ok(Chosen {
                source,
                words,
                left_out,
                among: None,
            });
        };
        let names = match only.strip_prefix('@') {
            Some(path) => names_in(path.as_ref())?,
            None => only.split(',').map(str::to_owned).collect(),
        };
        let names = names
            .iter()
            .map(|name| name.trim())
            .filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        let among = details::among(&names, &source.classes)?;
        let is_among = |label: u32| among.get(label as usize).copied().unwrap_or(false);
        source.samples.retain(|sample| is_among(sample.label));
        ensure!(
            !source.samples.is_empty(),
            "`{}` has no image of the classes of `--only`",
            source.root.display()
        );
        Ok(Chosen {
            source,
            words,
            left_out,
            among: Some(among),
        })
    }
}

/// The results as lines of text.
fn text(evaluation: &Evaluation, judged: &Judgement, images: &Images, chosen: usize) -> String {
    // With at most five classes, top-5 is always 100 %.
    let top5 = if chosen > 5 {
        format!("  top-5 {:.2} %", evaluation.top5_percent())
    } else {
        String::new()
    };
    let calibration = judged.calibration();
    let mut text = format!(
        "top-1 {:.2} %{}{top5}  loss {:.4}  ({} {})\n\
         calibration error (ECE) {:.2} %, with a mean confidence of {:.2} %",
        evaluation.top1_percent(),
        interval_of(evaluation.top1_percent(), evaluation.images),
        evaluation.loss(),
        evaluation.images,
        images.words,
        100.0 * calibration.error(),
        100.0 * calibration.confidence(),
    );
    let classes = images.source.classes.len();
    if chosen < classes {
        text += &format!("\nchosen among {chosen} of {classes} classes");
    }
    if let Some((images, top1, top5)) = judged.real() {
        text += &format!(
            "\nreassessed labels (ReaL): top-1 {top1:.2} %{}  top-5 {top5:.2} %  ({images} images)",
            interval_of(top1, images)
        );
    }
    text
}

/// The results as JSON. All shares are in percent.
fn record(
    evaluation: &Evaluation,
    judged: &Judgement,
    source: &Source,
    per_class: bool,
) -> Map<String, Value> {
    let calibration = judged.calibration();
    let mut record = Map::new();
    let mut add = |key: &str, value: Value| record.insert(key.to_owned(), value);
    // JSON cannot hold a path that is not UTF-8.
    add("data", json!(source.root.display().to_string()));
    add("images", json!(evaluation.images));
    add("loss", json!(evaluation.loss()));
    add("unit", json!("percent"));
    add("top1", json!(evaluation.top1_percent()));
    let interval = wilson(evaluation.top1, evaluation.images).map(|end| 100.0 * end);
    add("top1_interval", json!(interval));
    add("top5", json!(evaluation.top5_percent()));
    add("ece", json!(100.0 * calibration.error()));
    add("confidence", json!(100.0 * calibration.confidence()));
    let balanced = 100.0 * judged.balanced_accuracy();
    add("balanced_accuracy", json!(balanced));
    if let Some((images, top1, top5)) = judged.real() {
        let real = json!({ "images": images, "top1": top1, "top5": top5 });
        add("real", real);
    }
    if per_class {
        add("classes", details::classes(judged, &source.classes));
        add("confused", details::confused(judged, &source.classes));
    }
    record
}
