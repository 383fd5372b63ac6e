//! `kvt probe`

mod linear;

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use serde_json::Value;

use self::linear::linear_probe;
use super::common::{counting, generating, named, number};
use super::table::table;
use super::{output, trained};
use kvt_data::fs::write_text;
use kvt_tools::probe::{Crops, Extractor, LinearRecipe, Subject, draw_neighbors};
use kvt_tools::report::interval_of;
use kvt_tools::trained::{Images, Trained};
use kvt_train::data::Split;
use kvt_train::error::TrainError;
use kvt_train::knn_vote::{KnnAccuracy, KnnVote, Rows};
use kvt_train::plot::save_png;
use kvt_train::splits::Splits;
use kvt_train::table::Table;

/// `kvt probe --method knn|linear --run RUN`, or `kvt probe --method ... --config CONFIG --weights FILE`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt probe --method knn --run runs/dino\n  kvt probe --method linear --config photos.toml --weights w.pth"
)]
pub(super) struct Args {
    /// How the features are judged.
    #[arg(long, value_enum)]
    method: Method,
    #[command(flatten)]
    trained: trained::Args,
    /// What is judged: the features of the model, those of its random weights, or the pixels themselves.
    #[arg(long, value_enum, default_value_t = Features::Model)]
    features: Features,
    /// knn: how many neighbours vote, a result for each.
    #[arg(long, value_name = "K", value_delimiter = ',', default_values_t = KnnVote::NEIGHBORS,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    neighbors: Vec<usize>,
    /// knn: what cosines are divided by.
    #[arg(long, default_value_t = KnnVote::TEMPERATURE, value_parser = number(is_positive, POSITIVE))]
    temperature: f64,
    /// Training images, at equal distances, that are used; 0 is all of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    train_images: usize,
    /// Validation images, at equal distances, that are judged; 0 is all of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    val_images: usize,
    /// linear: epochs.
    #[arg(long, default_value_t = LinearRecipe::default().epochs, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// linear: images of an update.
    #[arg(long, default_value_t = LinearRecipe::default().batch_size,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    batch_size: usize,
    /// linear: the learning rate of 256 images per update.
    #[arg(long, default_value_t = LinearRecipe::default().lr, value_parser = number(is_positive, POSITIVE))]
    lr: f64,
    /// Judge another image folder, `DIR/<class>/*`, with the classes of the training images, in place of the validation images.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The class tokens of how many of the last blocks are the features: by default 1 with knn, 4 with linear.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    blocks: Option<usize>,
    /// Add the mean of the patches to the features.
    #[arg(long)]
    avgpool: bool,
    /// linear: how training images are cut: as in DINO (area 0.08 to 1, bilinear, flips), by the configuration, or not, so that
    /// their features are computed once.
    #[arg(long, default_value = Crops::Dino.name(), value_parser = named([Crops::Dino, Crops::Config, Crops::None], Crops::name))]
    crops: Crops,
    /// A folder for the table (CSV and JSON), the curves of linear, and with knn a picture of neighbours.
    #[arg(long, alias = "out", value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    Knn,
    Linear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Features {
    Model,
    Random,
    Pixels,
}

/// A table of results.
struct Results {
    header: &'static [&'static str],
    rows: Vec<Vec<f64>>,
}

/// What a temperature and a learning rate are.
const POSITIVE: &str = "a number above 0";

fn is_positive(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.method == Method::Linear && args.crops != Crops::None && args.train_images > 0 {
        bail!(
            "`--train-images` takes `--crops none` with `--method linear`: set `data.subset` instead"
        );
    }
    let probe = prepare(args)?;
    if let Some(folder) = &args.output {
        fs_err::create_dir_all(folder)?;
    }
    let results = match args.method {
        Method::Knn => knn(&probe, args)?,
        Method::Linear => linear_probe(&probe, args)?,
    };
    if let Some(folder) = &args.output {
        write_text(&folder.join("probe.csv"), &results.to_csv())?;
        let json = format!("{:#}\n", results.to_json());
        write_text(&folder.join("probe.json"), &json)?;
        output::status(&format!("results are in `{}`", folder.display()));
    }
    output::print(&if args.json {
        format!("{:#}", results.to_json())
    } else {
        results.to_text()
    })
}

fn prepare(args: &Args) -> anyhow::Result<Subject> {
    let random = args.features != Features::Model;
    let origin = args.trained.origin()?;
    let trained = Trained::load_backbone(&origin, random, &mut output::warning)?;
    let (mut plan, size) = (trained.plan, trained.size);
    let blocks = args.blocks.unwrap_or(match args.method {
        Method::Knn => 1,
        Method::Linear => 4,
    });
    let extractor = match args.features {
        Features::Pixels => Extractor::Pixels,
        Features::Model | Features::Random => Extractor::Backbone {
            model: Box::new(trained.model),
            blocks,
            avgpool: args.avgpool,
        },
    };
    plan.train.batch_size = args.batch_size;
    let classes = trained.classes.as_deref();
    let mut splits = Splits::open(&plan, size, classes, &mut generating())?;
    output::warnings(splits.warnings());
    if let Some(dir) = &args.data {
        let classes = Some(splits.classes());
        splits.val = Images::of_folder(dir, &plan, classes, &mut output::warning)?.source;
    }
    if splits.train.has_label_sets() {
        bail!(
            "the images have any number of labels, but features are judged by one class each: `kvt eval` judges the labels of a run"
        );
    }
    if splits.classes().len() < 2 {
        bail!("the data has one class: there is nothing to tell apart");
    }
    Ok(Subject {
        plan,
        splits,
        size,
        device: trained.device.device.inner(),
        extractor,
    })
}

/// The features of a split, without augmentation.
fn rows(probe: &Subject, split: Split, images: usize) -> Result<Rows, TrainError> {
    let progress = &mut counting(match split {
        Split::Train => "training images",
        Split::Val => "validation images",
    });
    probe.rows(split, images, progress, &mut output::warning)
}

fn knn(probe: &Subject, args: &Args) -> anyhow::Result<Results> {
    let bank = rows(probe, Split::Train, args.train_images)?;
    let queries = rows(probe, Split::Val, args.val_images)?;
    let vote = KnnVote {
        neighbors: args.neighbors.clone(),
        temperature: args.temperature,
        classes: probe.classes(),
    };
    let found = vote.classify(&bank, &queries, &probe.device)?;
    if let Some(folder) = &args.output {
        let images = (&probe.plan, &probe.splits, probe.size);
        let sheet = draw_neighbors(images, [&bank, &queries], &probe.device)?;
        save_png(&folder.join("neighbors.png"), &sheet)?;
    }
    let row = |found: &KnnAccuracy| {
        vec![
            found.neighbors as f64,
            found.top1_percent(),
            found.top5_percent(),
            found.images as f64,
        ]
    };
    Ok(Results {
        header: &["neighbors", "top1", "top5", "images"],
        rows: found.iter().map(row).collect(),
    })
}

impl Results {
    fn to_text(&self) -> String {
        // Only the k-NN classifier has a column of images; of a layer each epoch has a row.
        let images = self.header.iter().position(|name| *name == "images");
        let rows = self.rows.iter().map(|row| {
            let images = images.and_then(|place| row.get(place));
            let cells = row.iter().zip(self.header).map(|(value, name)| {
                let interval = images
                    .filter(|_| *name == "top1")
                    .map(|images| interval_of(*value, *images as usize));
                shown((value, name)) + &interval.unwrap_or_default()
            });
            cells.collect()
        });
        table(self.header.iter().copied(), rows)
    }

    fn to_csv(&self) -> String {
        let row = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>();
        Table::new(self.header, self.rows.iter().map(row)).csv()
    }

    fn to_json(&self) -> Value {
        let row = |row: &Vec<f64>| -> Value {
            let cells = self.header.iter().zip(row);
            cells.map(|(name, value)| (*name, *value)).collect()
        };
        self.rows.iter().map(row).collect()
    }
}

/// A formatted cell of the table.
fn shown((value, name): (&f64, &&'static str)) -> String {
    match *name {
        "top1" | "top5" => format!("{value:.2} %"),
        "loss" => format!("{value:.4}"),
        "lr" => format!("{value:.3e}"),
        _ => value.to_string(),
    }
}
