//! `kvt weights`

mod export;
mod fetch;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{ArgGroup, Subcommand};
use kvt_models::weights::{
    self, Layout, LoadOptions, LoadReport, LoadRow, Outcome, StateDict, recognise,
};
use kvt_models::{Model, ModelConfig};
use kvt_ops::Key;

use super::common::{ModelArgs, check_new_of, one_of, success_if, with_weights};
use super::output;
use super::table::{grouped, table};
use kvt_data::text::counted;
use kvt_tools::average::average;
use kvt_train::device;
use kvt_train::fetch::locate;
use kvt_train::task::{part_of_backbone, read_weights, write_weights};

/// The ending of the files that are written.
const ENDING: &str = "safetensors";

/// `kvt weights inspect FILE`, `kvt weights convert IN OUT --model NAME`, `kvt weights average FILE... --output FILE`,
/// `kvt weights export --run RUN FOLDER` and `kvt weights fetch NAME`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt weights fetch deit_tiny_patch16_224\n  kvt weights inspect w.pth --model deit_tiny_patch16_224\n  kvt weights convert w.pth w.safetensors --model deit_tiny_patch16_224"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the tensors of a file, or say how they fit a model; the exit code tells whether they do.
    Inspect(Inspect),
    /// Write the weights that a model finds in a file as `.safetensors`.
    Convert(Convert),
    /// Write the mean of the weights of several files, such as the last checkpoints of a run.
    Average(Average),
    /// Write a trained model as a folder that timm loads.
    Export(export::Args),
    /// Download published weights, those of timm's hub, and print where they are.
    Fetch(fetch::Args),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt weights inspect w.pth\n  kvt weights inspect w.pth --model deit_tiny_patch16_224 --all"
)]
struct Inspect {
    /// Weights, `.safetensors` or `.pth`, or a name of `kvt models list --weights`.
    file: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    /// Override a key of `[model]`, as in `--set model.img_size=384`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Show all weights, those that match and those that the model computes itself, too.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("model or configuration").required(true).args(["model", "config"])))]
#[command(
    override_usage = "kvt weights convert [OPTIONS] --model <NAME> <IN> <OUT>\n       kvt weights convert [OPTIONS] --config <CONFIG> <IN> <OUT>",
    after_help = "Examples:\n  kvt weights convert w.pth w.safetensors --model deit_tiny_patch16_224\n  kvt weights convert in.pth out.safetensors --config photos.toml --to official"
)]
struct Convert {
    /// Weights, `.safetensors` or `.pth`, or a name of `kvt models list --weights`.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The `.safetensors` file to write.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    /// Override a key of `[model]`, as in `--set model.img_size=384`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Whose names the weights get.
    #[arg(long, default_value = "timm", value_parser = one_of(NAMES))]
    to: Layout,
    /// Replace OUT if it exists.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt weights average checkpoints/*/model.safetensors --output mean.safetensors\n  kvt weights average a.pth b.pth --output mean.safetensors"
)]
struct Average {
    /// Weights of one model, `.safetensors` or `.pth`, all under the same names.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The `.safetensors` file to write.
    #[arg(long, alias = "out", value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

/// Whose names weights can get.
const NAMES: [(Layout, &str, &str); 2] = [
    (
        Layout::Timm,
        "timm",
        "timm's, under which `kvt` saves weights",
    ),
    (
        Layout::Official,
        "official",
        "Those of the repository the model's authors published",
    ),
];

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Inspect(args) => return inspect(args),
        What::Convert(args) => convert(args)?,
        What::Average(args) => mean(args)?,
        What::Export(args) => export::run(args)?,
        What::Fetch(args) => fetch::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn inspect(args: &Inspect) -> anyhow::Result<ExitCode> {
    let file = locate(&args.file)?;
    if args.model.model.is_none() && args.model.config.is_none() {
        if !args.set.is_empty() {
            bail!("`--set` changes a model: name it with `--model` or `--config`");
        }
        output::print(&list(&weights::read_as_stored(&file)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let weights = read_weights(&file)?;
    let model = build(&args.model, &args.set, &weights)?;
    let config = model.config();
    let layout = model.layout(&weights);
    let options = LoadOptions {
        partial: true,
        ..LoadOptions::default()
    };
    let (_, report) = model.load(&weights, options)?;
    output::print(&describe(&config, layout, &weights, &report, args.all))?;
    Ok(success_if(report.fits()))
}

/// The tensors, and what their names reveal about their origin.
fn list(weights: &StateDict) -> String {
    let rows = weights.iter().map(|(name, data)| {
        vec![
            name.to_owned(),
            shape(Some(&data.shape().to_vec())),
            format!("{:?}", data.dtype()),
        ]
    });
    let numbers: usize = weights.iter().map(|(_, data)| data.num_elements()).sum();
    let backbone = part_of_backbone(weights);
    let names = match recognise(backbone.as_ref().unwrap_or(weights)) {
        Some(known) if backbone.is_some() => {
            format!("the backbone: {}, {}", known.family, names(known.layout))
        }
        Some(known) => format!("{}, {}", known.family, names(known.layout)),
        None => "of no model known here".to_owned(),
    };
    let broken = not_finite(weights).map_or_else(String::new, |text| format!("\nnumbers  {text}"));
    format!(
        "tensors  {}, {} numbers\nnames    {names}{broken}\n\n{}",
        weights.len(),
        grouped(numbers),
        table(["name", "shape", "type"], rows)
    )
}

/// How many numbers are NaN or infinite, and the first tensor with one; `None` if all are finite.
fn not_finite(weights: &StateDict) -> Option<String> {
    let found: Vec<(&str, usize)> = weights.not_finite().collect();
    let (first, _) = found.first()?;
    let numbers: usize = found.iter().map(|(_, count)| count).sum();
    let are = if numbers == 1 { "is" } else { "are" };
    Some(format!(
        "{} {are} NaN or infinite, in {}, the first of them `{first}`",
        grouped(numbers),
        counted(found.len(), "tensor")
    ))
}

fn warn_of_broken(weights: &StateDict) {
    output::warnings(not_finite(weights).map(|text| format!("of the numbers {text}")));
}

/// How weights fit a model, with the rows that explain it.
fn describe(
    config: &ModelConfig,
    layout: Layout,
    weights: &StateDict,
    report: &LoadReport,
    all: bool,
) -> String {
    let fit = if report.fits() { "fit" } else { "do not fit" };
    let mut text = format!(
        "{}, {} px, {} classes\nnames    {}\nweights  {fit}: {report}",
        config.name(),
        config.img_size(),
        config.num_classes(),
        names(layout)
    );
    text.extend(not_finite(weights).map(|numbers| format!("\nnumbers  {numbers}")));
    let is_fine = |row: &&LoadRow| matches!(row.outcome, Outcome::Matched | Outcome::Computed);
    let shown = report.rows.iter().filter(|row| all || !is_fine(row));
    let rows = shown.map(|row| {
        vec![
            row.name.clone(),
            shape(row.expected.as_ref()),
            shape(row.found.as_ref()),
            row.outcome.to_string(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        let header = ["name", "model", "file", "outcome"];
        text += &format!("\n\n{}", table(header, rows));
    }
    text
}

fn shape(shape: Option<&Vec<usize>>) -> String {
    shape.map_or_else(|| "-".to_owned(), |shape| format!("{shape:?}"))
}

fn names(layout: Layout) -> &'static str {
    match layout {
        Layout::Timm => "timm's",
        Layout::Official => "the original's",
    }
}

fn convert(args: &Convert) -> anyhow::Result<()> {
    let path = &args.output;
    check_new_of(path, ENDING, args.force)?;
    let weights = read_weights(&locate(&args.input)?)?;
    warn_of_broken(&weights);
    let model = build(&args.model, &args.set, &weights)?;
    let from = model.layout(&weights);
    let (model, report) = with_weights(model, weights)?;
    let converted = model.rename(&StateDict::from_model(&model)?, args.to);
    write_weights(path, &converted, &Default::default())?;
    output::print(&format!(
        "wrote {} tensors of {} to `{}` under {} names (read under {}: {report})",
        converted.len(),
        model.config().name(),
        path.display(),
        // Not always `--to`: timm has no CvT.
        names(model.layout(&converted)),
        names(from),
    ))
}

/// Writes the mean of the weights of several files.
fn mean(args: &Average) -> anyhow::Result<()> {
    check_new_of(&args.output, ENDING, args.force)?;
    let mean = average(&args.files)?;
    warn_of_broken(&mean);
    write_weights(&args.output, &mean, &Default::default())?;
    output::print(&format!(
        "wrote the mean of {}, {}, to `{}`",
        counted(args.files.len(), "file"),
        counted(mean.len(), "tensor"),
        args.output.display()
    ))
}

/// The model, by default with as many classes as the weights have.
fn build(model: &ModelArgs, set: &[String], weights: &StateDict) -> anyhow::Result<Model> {
    let (_, config) = model.plan(set, weights)?;
    let device = device::resolve("cpu")?.device.inner();
    Ok(config.init(&device, Key::new(0))?)
}
