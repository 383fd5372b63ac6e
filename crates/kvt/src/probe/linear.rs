//! `kvt probe --method linear`

use super::{Args, Results, rows};
use crate::common::bar;
use crate::output;
use kvt_data::fs::write_text;
use kvt_data::text::counted;
use kvt_tools::probe::{LinearEpoch, LinearRecipe, Subject, draw_loss};
use kvt_tools::report::interval_of;
use kvt_train::data::Split;

pub(super) fn linear_probe(probe: &Subject, args: &Args) -> anyhow::Result<Results> {
    let recipe = LinearRecipe {
        epochs: args.epochs,
        batch_size: args.batch_size,
        lr: args.lr,
    };
    let val = rows(probe, Split::Val, args.val_images)?;
    let progress = bar("epochs", recipe.epochs as usize);
    let tell = |epoch: &LinearEpoch| {
        progress.inc(1);
        if !output::is_watched() {
            output::status(&format!(
                "epoch {}  loss {:.4}  top-1 {:.2} %",
                epoch.epoch + 1,
                epoch.loss,
                epoch.top1
            ));
        }
        true
    };
    let bank = || rows(probe, Split::Train, args.train_images);
    let done = probe.linear(&recipe, args.crops, &val, bank, tell)?;
    progress.finish_and_clear();
    if let Some(folder) = &args.output {
        let svg = draw_loss(&done).map_err(anyhow::Error::msg)?;
        write_text(&folder.join("linear.svg"), &svg)?;
    }
    let best = LinearEpoch::best(&done);
    output::status(&format!(
        "best top-1 {best:.2} %{} of {}",
        interval_of(best, val.len()),
        counted(done.len(), "epoch")
    ));
    Ok(Results {
        header: &LinearEpoch::HEADER,
        rows: done.iter().map(|epoch| epoch.row().into()).collect(),
    })
}
