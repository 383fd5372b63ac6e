//! `kvt eval`

mod dense;
mod labels;

use std::path::{Path, PathBuf};

use anyhow::bail;
use serde_json::{Value, json};

use super::common::{SPLITS, check_not_read, counting, generating, named, results_folder};
use super::output;
use super::table::table;
use kvt_data::ClassNames;
use kvt_data::fs::{check_writable, write_text};
use kvt_tools::report::{JUDGEMENT_FILES, save_judgement};
use kvt_tools::trained::{Images, Results, Trained, names_in};
use kvt_train::config::Plan;
use kvt_train::data::Split;
use kvt_train::judge::{Judgement, RealLabels};
use kvt_train::task::{TaskKind, check_classes};

/// `kvt eval --run RUN`, or `kvt eval --config CONFIG --weights FILE`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt eval --run runs/photos\n  kvt eval --run runs/photos --data photos/test --per-class --out judged\n  kvt eval --config configs/deit/tiny_dense.toml --weights deit_tiny.pth"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: super::trained::Args,
    /// Which split.
    #[arg(long, default_value = "val", value_parser = named(SPLITS, Split::name))]
    split: Split,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Evaluate another image folder, `DIR/<class>/*`, with the run's classes; images that the run trained on are left out.
    #[arg(long, value_name = "DIR", conflicts_with = "split")]
    data: Option<PathBuf>,
    /// Also tell accuracy, precision and F1 of each class, and the classes that are confused most; of segmentation, IoU and accuracy; of detection, AP; of several labels, AP, precision, recall and F1.
    #[arg(long)]
    per_class: bool,
    /// Also write `classes.csv`, `confusion.csv`, `confusion.png` and `predictions.csv` into this folder; of segmentation, `iou.csv`; of several labels, `labels.csv`.
    /// Of detection: the file of the detections, in COCO's format of results.
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

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let origin = args.trained.origin()?;
    match origin.task()? {
        TaskKind::Segment => return dense::segment(args),
        TaskKind::Detect => return dense::detect(args),
        TaskKind::MultiLabel => return labels::run(args),
        TaskKind::Classify | TaskKind::Dino => {}
    }
    let trained = Trained::load(&origin, true, &mut output::warning)?;
    let trained = trained.named(args.classes.as_deref())?;
    let images = args.images(&trained)?;
    let (config, source) = (trained.model.config(), &images.source);
    check_classes(&config, source)?;
    let mut judged = Judgement::new(source.classes.len());
    if let Some(path) = &args.real {
        let labels = RealLabels::read(path)?;
        let numbers = labels.numbers(source)?;
        let labels = match &images.among {
            Some(among) => labels.among(among),
            None => labels,
        };
        judged = judged.with_real(labels, numbers);
    }
    args.check_out(&trained.plan, &JUDGEMENT_FILES)?;
    let progress = &mut counting("evaluating");
    let evaluation = trained.judge(&images, &mut judged, progress, &mut output::warning)?;
    if let Some(out) = &args.out {
        let title = format!(
            "{}: {:.2} % of {} images right",
            config.name(),
            evaluation.top1_percent(),
            evaluation.images
        );
        save_judgement(&judged, source, &title, out)?;
    }
    let results = Results {
        evaluation: &evaluation,
        judged: &judged,
        images: &images,
    };
    let mut json = results.json(args.per_class);
    json["left_out"] = json!(images.left_out);
    args.show(json, &results.text(), &by_class(&results))?;
    if let Some(out) = &args.out {
        output::status(&format!("tables and a picture are in `{}`", out.display()));
    }
    Ok(())
}

impl Args {
    /// Refuses what has no meaning for other models than `the` ones that are named.
    fn refuse(&self, the: &str) -> anyhow::Result<()> {
        let without = [
            ("--data", self.data.is_some()),
            ("--only", self.only.is_some()),
            ("--real", self.real.is_some()),
        ];
        match without.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => bail!("`{option}` is {the}"),
            None => Ok(()),
        }
    }

    /// Makes the folder of `--out`, and checks its files before images are evaluated: none replaces a table or list that is read.
    fn check_out(&self, plan: &Plan, files: &[&str]) -> anyhow::Result<()> {
        let Some(out) = &self.out else {
            return Ok(());
        };
        results_folder(out)?;
        let (data, only) = (&plan.data, self.only.as_deref().unwrap_or_default());
        let table = (!data.labels.is_empty()).then(|| data.path.join(&data.labels));
        let only = only.strip_prefix('@').map(PathBuf::from);
        let listed = match &data.classes {
            Some(ClassNames::File(file)) => Some(data.path.join(file)),
            _ => None,
        };
        for file in files {
            let file = out.join(file);
            let read = [&self.classes, &self.real, &only, &table, &listed];
            check_not_read(&file, read.into_iter().flatten().map(PathBuf::as_path))?;
            check_writable(&file)?;
        }
        Ok(())
    }

    /// Prints results, and those of each class where they are asked for.
    fn show(&self, mut json: Value, text: &str, classes: &str) -> anyhow::Result<()> {
        if self.json {
            // What the images are: those of a split, or of a folder.
            let split = self.data.is_none().then(|| self.split.name());
            json["split"] = json!(split);
            return output::print(&format!("{json:#}"));
        }
        output::print(text)?;
        if self.per_class {
            output::print(&format!("\n{classes}"))?;
        }
        Ok(())
    }

    /// Writes a table into the folder of `--out`: before results are printed, since a closed stdout must not lose it.
    fn save(&self, table: &str, csv: &str) -> anyhow::Result<()> {
        let out = self.out.as_ref();
        out.map_or(Ok(()), |out| save(&out.join(table), csv))
    }

    /// The images of the split.
    fn of_split(&self, plan: &Plan, classes: Option<&[String]>) -> anyhow::Result<Images> {
        let warn = &mut output::warning;
        let images = Images::of_split(self.split, plan, classes, &mut generating(), warn);
        Ok(images?)
    }

    /// The images that are evaluated.
    fn images(&self, trained: &Trained) -> anyhow::Result<Images> {
        let (plan, classes) = (&trained.plan, trained.classes.as_deref());
        let warn = &mut output::warning;
        let images = match &self.data {
            Some(dir) if self.only_present => Images::of_present(dir, plan, classes, warn)?,
            Some(dir) => Images::of_folder(dir, plan, classes, warn)?,
            None => self.of_split(plan, classes)?,
        };
        let Some(only) = &self.only else {
            return Ok(images);
        };
        let names = match only.strip_prefix('@') {
            Some(path) => names_in(path.as_ref())?,
            None => only.split(',').map(str::to_owned).collect(),
        };
        let names = names.iter().map(|name| name.trim());
        let names = names.filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        Ok(images.only(&names)?)
    }
}

/// Writes a file of results, and says so.
fn save(file: &Path, text: &str) -> anyhow::Result<()> {
    write_text(file, text)?;
    output::status(&format!("wrote `{}`", file.display()));
    Ok(())
}

/// The classes and the most confused pairs.
fn by_class(results: &Results<'_>) -> String {
    let header = ["class", "images", "accuracy", "precision", "F1"];
    let mut text = format!(
        "{}\n\n{}",
        table(header, results.classes()),
        results.mean_accuracy()
    );
    let pairs = results.confused();
    if !pairs.is_empty() {
        let header = ["confused most: class", "taken for", "images"];
        text += &format!("\n\n{}", table(header, pairs));
    }
    text
}
