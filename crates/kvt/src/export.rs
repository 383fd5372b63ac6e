//! `kvt export`

use std::num::{NonZeroU16, NonZeroUsize};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::common::check_new_of;
use super::trained;

/// `kvt export --run RUN FILE.onnx` and `kvt export --config CONFIG --weights W FILE.onnx`
///
/// The file has the operators of ONNX's opset 17, in f32: `images` `[batch, channels, height, width]`, normalised, become `logits`
/// `[batch, classes]`. The names of the classes and how images are prepared are in its metadata, as JSON.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt export --run runs/photos photos.onnx\n  kvt export --config photos.toml --weights w.safetensors photos.onnx --batch 1"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: trained::Args,
    /// The file to write.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format.
    #[arg(long, value_enum, default_value_t = Format::Onnx)]
    format: Format,
    /// Images of a batch; without it, the file takes any number.
    #[arg(long, value_name = "N")]
    batch: Option<NonZeroU16>,
    /// Replace FILE if it exists.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For onnxruntime, in the browser too, and many others.
    Onnx,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (path, Format::Onnx) = (&args.file, args.format);
    check_new_of(path, "onnx", args.force)?;
    write(&args.trained, args.batch.map(NonZeroUsize::from), path)
}

#[cfg(feature = "export")]
fn write(args: &trained::Args, batch: Option<NonZeroUsize>, path: &Path) -> anyhow::Result<()> {
    use std::io::Write;

    let warn = &mut super::output::warning;
    let trained = kvt_tools::trained::Trained::load(&args.origin()?, false, warn)?;
    let name = trained.model.config().name();
    let facts = trained.facts();
    let onnx = kvt_export::onnx(trained.model, batch, &facts)?;
    kvt_data::fs::write_atomic(path, |file| file.write_all(&onnx.bytes))?;
    let checked = match onnx.difference {
        Some(difference) => {
            format!(
                "tract runs it, and no logit of eight images differs from {name}'s by more than {difference:.1e}"
            )
        }
        None => {
            "not checked: no program ran it (a kvt with the feature `export-check` does)".to_owned()
        }
    };
    super::output::print(&format!(
        "wrote {name} to `{}`: opset {}, {} operators; {checked}",
        path.display(),
        kvt_export::OPSET,
        onnx.operators,
    ))
}

#[cfg(not(feature = "export"))]
fn write(_: &trained::Args, _: Option<NonZeroUsize>, _: &Path) -> anyhow::Result<()> {
    anyhow::bail!("this kvt cannot write ONNX files: it was built without the feature `export`")
}
