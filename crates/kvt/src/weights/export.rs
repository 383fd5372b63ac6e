//! `kvt weights export`

use std::path::PathBuf;

use crate::{output, trained};
use kvt_tools::trained::Trained;

/// `kvt weights export --run RUN FOLDER`
///
/// FOLDER gets `model.safetensors` and `config.json`, as on the Hub: `timm.create_model("local-dir:FOLDER", pretrained=True)` makes the
/// model, and `timm.data.resolve_model_data_config` knows how its images are prepared.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt weights export --run runs/photos photos-timm\n  kvt weights export --config photos.toml --weights w.safetensors photos-timm"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: trained::Args,
    /// The folder to write; it may exist if it is empty.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = &args.folder;
    // Known before a model is read.
    if folder.exists() && fs_err::read_dir(folder)?.next().is_some() {
        anyhow::bail!("`{}` is not empty: choose another folder", folder.display());
    }
    let trained = Trained::load(&args.trained.origin()?, false, &mut output::warning)?;
    trained.write_timm(folder)?;
    output::print(&format!(
        "wrote {} to `{}`: timm.create_model(\"local-dir:{}\", pretrained=True)",
        trained.model.config().name(),
        folder.display(),
        folder.display()
    ))
}
