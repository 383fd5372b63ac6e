//! `kvt compare SWEEP.toml`: many runs as one job.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;

use super::compare::{Args, save};
use super::table::table;
use super::watch::Terminal;
use super::{interrupt, output};
use kvt_data::escape::markdown;
use kvt_data::fs::write_text;
use kvt_train::report::{Comparison, Curve};
use kvt_train::report::{best_metric, named_metric};
use kvt_train::run::Metric;
use kvt_train::sweep::{
    Cell, Costs, End, Found, PLAN_HEADER, PairRow, State, Sweep, SweepError, Watch as _, carry_out,
    cells_csv, commands_markdown, conditions, is_sweep, pairs, pairs_csv, pairs_markdown,
    plan_rows,
};
use kvt_train::task::{Classify, Dino, Task, TaskKind};

/// The sweep among the inputs; it must then be the only input.
pub(super) fn among(args: &Args) -> anyhow::Result<Option<&Path>> {
    for input in args.inputs.iter().filter(|input| input.is_file()) {
        // Errors of reading the file are reported when it is loaded as a configuration.
        if !is_sweep(input).unwrap_or(false) {
            continue;
        }
        if args.inputs.len() > 1 {
            bail!(
                "`{}` is a sweep, which is compared by itself: write the other runs into it",
                input.display()
            );
        }
        return Ok(Some(input));
    }
    for (option, is_given) in [
        ("--devices", !args.devices.is_empty()),
        ("--dry-run", args.dry_run),
        ("--as-is", args.as_is),
    ] {
        if is_given {
            bail!("`{option}` is for a sweep: a file with a list of runs, `[[run]]`");
        }
    }
    Ok(None)
}

pub(super) fn run(path: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let mut sweep = Sweep::load(path, &args.overrides.all(), args.output.as_deref())?;
    if let Some(count) = args.seeds {
        sweep = sweep.with_seeds(count);
    }
    let named = match &sweep.metric {
        Some(name) => Some(named_metric(name).map_err(|reason| SweepError::File {
            path: path.to_owned(),
            reason: format!("`metric` is `{name}`: {reason}"),
        })?),
        None => None,
    };
    if args.dry_run {
        return dry_run(&sweep.cells);
    }
    let mut failures = Vec::new();
    if !args.as_is {
        interrupt::listen();
        let watch = Terminal::new("images");
        let ends = carry_out(&sweep, &args.devices, &watch);
        drop(watch);
        if ends.contains(&End::Stopped) {
            output::status("stopped; the same command continues from here");
            return Ok(interrupt::exit_code());
        }
        let busy = ends.iter().filter(|end| **end == End::Busy).count();
        if busy > 0 {
            output::status(&format!(
                "{busy} runs are trained by other processes: the same command finishes the tables when they are done"
            ));
        }
        failures = failed(&sweep.cells, &ends);
    }
    let found = found(&sweep.cells)?;
    let curves: Vec<Curve> = found
        .iter()
        // A run may end within its first epoch.
        .filter(|found| found.is_finished() && !found.curve.epochs.is_empty())
        .map(|found| found.curve.clone())
        .collect();
    let metric = args.metric.or(named).unwrap_or_else(|| {
        if curves.is_empty() {
            metric_of(&sweep.cells)
        } else {
            best_metric(&curves)
        }
    });
    let is_crashed = |found: &Found| matches!(found.state, State::Crashed(_));
    let any_crashed = found.iter().any(is_crashed);
    if !curves.is_empty() || any_crashed {
        fs_err::create_dir_all(&sweep.output)?;
        write_text(
            &sweep.output.join("cells.csv"),
            &cells_csv(&sweep.cells, &found, metric),
        )?;
    }
    if !curves.is_empty() {
        let comparison = Comparison::new(&curves, metric);
        let pairs = pairs(&sweep, &found, metric);
        let tests = pairs_markdown(&pairs, metric);
        let markdown = format!(
            "# {}\n\n{}\n## Pairs\n\n{tests}\n## Images, epochs, seeds\n\n{}\n## Commands\n\n{}",
            markdown(&sweep.title),
            comparison.to_markdown(),
            conditions(&sweep.cells, &found),
            commands_markdown(&sweep.cells, &found),
        );
        let markdown = if pairs.is_empty() {
            markdown.replace("## Pairs\n\n\n", "")
        } else {
            markdown
        };
        save(&comparison, &curves, &markdown, &sweep.title, &sweep.output)?;
        write_text(&sweep.output.join("pairs.csv"), &pairs_csv(&pairs))?;
        let width = comfy_table::Table::new().width();
        output::print(&comparison.to_text(width))?;
        if !pairs.is_empty() {
            let rows = pairs.iter().map(|pair| {
                let [first, second] = &pair.names;
                vec![
                    format!("{second} minus {first}"),
                    PairRow::text(pair.last.as_ref(), metric),
                    pair.images_text(),
                ]
            });
            let header = [
                "pair",
                "last epoch, paired t test",
                "alone right, McNemar's test",
            ];
            output::print(&table(&header, rows))?;
        }
        output::status(&format!(
            "tables and plots are in `{}`",
            sweep.output.display()
        ));
    }
    for (cell, found) in sweep.cells.iter().zip(&found) {
        if let State::Crashed(message) = &found.state {
            output::warning(&format!("{} crashed: {message}", cell.label()));
        }
    }
    for failure in &failures {
        output::error(failure);
    }
    if !failures.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if curves.is_empty() {
        if !any_crashed {
            bail!(
                "none of the runs is finished, or none with an epoch: there is nothing to compare"
            );
        }
        output::status(&format!(
            "no run is finished, because runs crashed: there is no table but `{}`",
            sweep.output.join("cells.csv").display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The metric for runs, none of which is finished.
fn metric_of(cells: &[Cell]) -> Metric {
    if cells.iter().all(|cell| cell.plan.task == TaskKind::Dino) {
        Dino::BEST
    } else {
        Classify::BEST
    }
}

/// A line for each cell that could not be trained.
fn failed(cells: &[Cell], ends: &[End]) -> Vec<String> {
    let lines = cells.iter().zip(ends).filter_map(|(cell, end)| match end {
        End::Failed(reason) => Some(format!("run `{}` failed: {reason}", cell.label())),
        _ => None,
    });
    lines.collect()
}

fn found(cells: &[Cell]) -> Result<Vec<Found>, SweepError> {
    cells.iter().map(Found::of).collect()
}

/// Prints the progress and the cost of each cell.
pub(super) fn dry_run(cells: &[Cell]) -> anyhow::Result<ExitCode> {
    let found = found(cells)?;
    let watch = Terminal::new("models measured");
    let costs = Costs::of(cells, &found, |done, of| watch.progress(done, of))?;
    drop(watch);
    output::print(&table(PLAN_HEADER, plan_rows(cells, &found, &costs)))?;
    output::status(
        "TMAC: 10^12 multiplications and additions of training and evaluation. Times are estimated from finished runs of the same \
         sweep, or else from one measured step of each model; loading, checkpoints and start-up are extra",
    );
    Ok(ExitCode::SUCCESS)
}
