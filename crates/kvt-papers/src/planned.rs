//! Which runs an item is made of, before any of them is trained: its sweeps, the seeds and rows of an order, and their precision.

use std::path::Path;

use super::configs::Configs;
use super::error::quoted;
use super::{Item, Order, ReproduceError, Version, no_part};
use kvt_data::regular;
use kvt_models::Precision;
use kvt_tools::sweep::{Cell, State, Sweep};
use kvt_train::config::load_plan;
use kvt_train::device;
use kvt_train::run::RunDir;

/// The sweep of an item: `reproduce/<name>/<scale>.toml` in the folder of configurations, or `<scale>-v1.toml` for
/// version 1 of the paper if that file exists; for each part but the first, the runs of `<scale>-<part>.toml` are added. Data of the
/// order are for the sweeps to train, seeds for the rows.
///
/// # Errors
/// If a file or one of its configurations is missing or wrong.
pub(crate) fn sweep(item: &Item, order: &Order) -> Result<Sweep, ReproduceError> {
    let configs = Configs::find(order.configs.as_deref())?;
    let folder = configs.path.join("reproduce").join(item.name);
    let of_version = folder.join(format!("{}-{}.toml", order.scale, order.version.name()));
    let first = match order.version {
        Version::V1 if of_version.exists() => of_version,
        _ => folder.join(format!("{}.toml", order.scale)),
    };
    let is_chosen = |part: &&str| order.only.as_ref().is_none_or(|only| only == part);
    let mut sweep = load(
        &configs,
        &first,
        order,
        item.parts.first().is_none_or(is_chosen),
    )?;
    for part in item.parts.iter().skip(1) {
        let path = folder.join(format!("{}-{part}.toml", order.scale));
        let more = load(&configs, &path, order, is_chosen(part))?;
        sweep.cells.extend(more.cells);
        sweep.pairs.extend(more.pairs);
    }
    let Some(count) = order.seeds else {
        return Ok(sweep);
    };
    let is_trained = |row: &str| {
        let only = order.only.as_ref();
        only.is_none_or(|part| item.is_in(row, part))
    };
    Ok(sweep.with_seeds(count, is_trained))
}

fn load(
    configs: &Configs,
    path: &Path,
    order: &Order,
    is_chosen: bool,
) -> Result<Sweep, ReproduceError> {
    if !path.exists() {
        return Err(ReproduceError::NoSweep(configs.shown(path)));
    }
    let mut overrides = order.overrides.clone();
    let data = order.data.as_ref().filter(|_| is_chosen);
    if let Some(data) = data {
        let data = toml::Value::String(data.display().to_string());
        overrides.push(format!("data.path={data}"));
    }
    let mut sweep = Sweep::load(path, &overrides, order.runs.as_deref())?;
    if let Some(precision) = precision_instead(&sweep, order) {
        // Ahead of the data set, whose place is the last.
        overrides.insert(0, format!("{PRECISION}={}", precision.name()));
        sweep = Sweep::load(path, &overrides, order.runs.as_deref())?;
    }
    for cell in &mut sweep.cells {
        cell.config = configs.shown(&cell.config);
        // Pages are read by others, whose data has another path.
        if let Some(last) = cell.overrides.last_mut().filter(|_| data.is_some()) {
            "data.path=DATA".clone_into(last);
        }
    }
    Ok(sweep)
}

/// The precision that the runs of a sweep take in place of a half one, if they do. A table has one precision: that of a run that is
/// begun, or else of an earlier table, or else f32 if a device is slower in the half one or does not have it. One that was asked
/// for stays.
fn precision_instead(sweep: &Sweep, order: &Order) -> Option<Precision> {
    let train = &sweep.cells.first()?.plan.train;
    let half = train.precision;
    let mut asked = order.overrides.iter();
    if half == Precision::F32 || asked.any(|text| text.trim().starts_with(PRECISION)) {
        return None;
    }
    let begun = |cell: &Cell| load_plan(&RunDir::open(cell.dir()).ok()?.config(), &[]).ok();
    if let Some(begun) = sweep.cells.iter().find_map(begun) {
        return Some(begun.train.precision).filter(|own| *own != half);
    }
    if let Some(table) = order.known.first() {
        // What is wrong with it is said when its runs are taken.
        let known = regular::read_to_string(table).ok()?;
        let is_f32 = known.contains(&format!("{PRECISION}={}", Precision::F32.name()));
        return is_f32.then_some(Precision::F32);
    }
    if order.as_is {
        return None;
    }
    let own = std::slice::from_ref(&train.device);
    let devices = if order.devices.is_empty() {
        own
    } else {
        &order.devices
    };
    // A device that is not there is an error of the training.
    let mut found = devices.iter().filter_map(|name| device::resolve(name).ok());
    let suits = found.all(|device| matches!(device.check_precision(half), Ok(None)));
    (!suits).then_some(Precision::F32)
}

/// The key of the precision.
const PRECISION: &str = "train.precision";

/// The runs of an item, with what is known of them, and those that are to be trained.
///
/// # Errors
/// [`ReproduceError::Refused`] if it is not made of runs. Other errors if a file is missing or wrong, or the data set of a run that is to be trained is missing, unless the order is `as_is`.
pub fn planned(item: &Item, order: &Order) -> Result<[Sweep; 2], ReproduceError> {
    if !item.takes_runs() {
        let reason = "is not made of training runs, so there is nothing to plan: without `--dry-run` it is computed at once";
        return Err(ReproduceError::Refused {
            name: item.name,
            reason: reason.to_owned(),
        });
    }
    let mut all = (item.sweep)(item, order)?;
    if !order.known.is_empty() {
        all = all.with_known(&order.known, item.metrics)?;
    }
    let mut chosen = all.clone();
    if let Some(part) = &order.only {
        chosen.cells.retain(|cell| item.is_in(&cell.name, part));
        if chosen.cells.is_empty() {
            let rows = format!("the first words of {}", quoted(all.rows()));
            return Err(ReproduceError::Refused {
                name: item.name,
                reason: no_part(part, &rows),
            });
        }
    }
    if !order.as_is {
        check_data(&chosen)?;
    }
    Ok([all, chosen])
}

/// Refuses a data set that is not there and that a run needs to be trained: else every run would find out.
fn check_data(sweep: &Sweep) -> Result<(), ReproduceError> {
    let lacking = sweep.cells.iter().find(|cell| {
        let data = &cell.plan.data;
        let is_made = data.shapes.is_some();
        !is_made && !data.path.exists() && !State::of(cell).is_finished()
    });
    match lacking {
        Some(cell) => Err(ReproduceError::NoData(cell.plan.data.path.clone())),
        None => Ok(()),
    }
}
