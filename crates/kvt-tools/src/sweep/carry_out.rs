//! Trains the unfinished runs of a sweep.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::state::unlike;
use super::{CRASH, Cell, State, Sweep, SweepError, Watch, judged};
use crate::report::report_itself;
use kvt_data::fs::write_text;
use kvt_train::config::Plan;
use kvt_train::device;
use kvt_train::engine::{self, Session, Start};
use kvt_train::error::{TrainError, chain};
use kvt_train::run::{REPORT, RunDir, RunError};
use kvt_train::splits::ensure_data;
use kvt_train::task::{Classify, Detect, Dino, MultiLabel, Segment, Task, TaskKind};

/// The outcome of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is trained now, and judged.
    Finished,
    /// Its training crashed now: a result, not an error of kvt.
    Crashed,
    /// It was trained to its end before, and is judged, or crashed before.
    Before,
    /// It could not be trained or judged, for this reason.
    Failed(String),
    /// Another process trains it: this one, as far as its lock shows.
    Busy(String),
    /// Its `train.max_hours` were over before it was done; or a stop was requested, which ends the work on all of them.
    Stopped,
}

/// What the cells have in common: when the hours of `train.max_hours` began, and whether one cell trains at a time.
#[derive(Clone, Copy)]
struct Way {
    began: Instant,
    alone: bool,
}

/// Trains the cells of a sweep in order, one at a time on each of the `devices`; without `devices`, each cell on the device of its
/// configuration. Finished cells stay as they are, stopped ones resume, and cells that another process trains are skipped. A failed cell
/// does not stop the others. The outcomes are in the order of the cells. The hours of `train.max_hours` count from now, for all of them.
///
/// # Errors
/// As [`check_devices`]; [`SweepError::Stopped`] if a stop was requested before all cells were done.
pub fn carry_out(
    sweep: &Sweep,
    devices: &[String],
    watch: &dyn Watch,
) -> Result<Vec<End>, SweepError> {
    check_devices(sweep, devices)?;
    let (next, total) = (AtomicUsize::new(0), sweep.cells.len());
    let ends = Mutex::new(vec![End::Stopped; total]);
    let way = Way {
        began: Instant::now(),
        alone: devices.len() < 2,
    };
    if !way.alone {
        // Images are generated first, because two cells that generate the same ones at once would conflict. An error is ignored here: it
        // occurs again in its cell.
        for cell in &sweep.cells {
            let _ = ensure_data(&cell.plan, &mut |done, of| watch.generating(done, of));
        }
    }
    let work = |device: Option<&String>| {
        while !watch.stop().load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = sweep.cells.get(number) else {
                break;
            };
            let name = format!("{} ({} of {total})", cell.label(), number + 1);
            let end = train(cell, &name, device, way, watch);
            match &end {
                // At the end all of these are listed.
                _ if total == 1 => {}
                End::Failed(reason) => watch.warn(&format!("{name} failed: {reason}")),
                End::Busy(holder) => watch.say(&format!("{name}: {holder} trains it")),
                End::Finished | End::Crashed | End::Before | End::Stopped => {}
            }
            let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
            ends[number] = end;
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        for device in devices.iter().skip(1) {
            scope.spawn(move || work(Some(device)));
        }
        work(devices.first());
    });
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    if ends.contains(&End::Stopped) && watch.stop().load(Ordering::Relaxed) {
        return Err(SweepError::Stopped);
    }
    Ok(ends)
}

/// Refuses devices that cannot train what is left, which else every cell would find out. Where nothing is left, none is asked for. A cell
/// that is only left to judge finds out by itself: its numbers are there without its judgement.
///
/// # Errors
/// If this machine lacks one of the `devices`, or without them, the device of a cell that is left to train, or if it cannot compute in the
/// precision of such a cell.
pub fn check_devices(sweep: &Sweep, devices: &[String]) -> Result<(), SweepError> {
    let is_left = |cell: &&Cell| matches!(State::of(cell), State::Missing | State::Begun(_));
    let left = sweep.cells.iter().filter(is_left);
    for ((name, _), cell) in needed(left, devices) {
        let device = device::resolve(name)?;
        let precision = device.check_precision(cell.plan.train.precision);
        precision.map_err(|problem| SweepError::Device {
            run: cell.label(),
            problem,
        })?;
    }
    Ok(())
}

/// The devices that may train these cells, each with the precisions of the cells, and the first cell of each pair.
fn needed<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    devices: &'a [String],
) -> BTreeMap<(&'a str, &'static str), &'a Cell> {
    let mut needed = BTreeMap::new();
    for cell in cells {
        let own = std::slice::from_ref(&cell.plan.train.device);
        let names = if devices.is_empty() { own } else { devices };
        for name in names {
            let precision = cell.plan.train.precision.name();
            needed.entry((name.as_str(), precision)).or_insert(cell);
        }
    }
    needed
}

/// Trains or resumes a cell, and judges it.
fn train(cell: &Cell, name: &str, device: Option<&String>, way: Way, watch: &dyn Watch) -> End {
    let mut plan = cell.plan.clone();
    if let Some(device) = device {
        plan.train.device.clone_from(device);
    }
    let start = match State::of(cell) {
        State::Missing => Some(Start::New),
        State::Begun(_) => Some(Start::RESUME),
        State::Finished => None,
        State::Known => {
            watch.say(&format!("{name}: known from an earlier sweep"));
            return End::Before;
        }
        State::Crashed(message) => {
            watch.say(&format!("{name}: crashed before: {message}"));
            return End::Before;
        }
        State::Foreign(reason) => return End::Failed(reason),
    };
    if let Some(start) = start {
        let hours = way.began.elapsed().as_secs_f64() / 3600.0;
        if plan.train.max_hours.is_some_and(|most| hours >= most) {
            return End::Stopped;
        }
        let verb = match start {
            Start::New => "begins",
            Start::Resume(_) => "continues",
        };
        watch.say(&format!("{name} {verb} on {}", plan.train.device));
        let done = match plan.task {
            TaskKind::Classify => session::<Classify>(plan.clone(), start, name, way, watch),
            TaskKind::MultiLabel => session::<MultiLabel>(plan.clone(), start, name, way, watch),
            TaskKind::Dino => session::<Dino>(plan.clone(), start, name, way, watch),
            TaskKind::Segment => session::<Segment>(plan.clone(), start, name, way, watch),
            TaskKind::Detect => session::<Detect>(plan.clone(), start, name, way, watch),
        };
        match done {
            Ok(engine::End::Finished) => {}
            Ok(engine::End::Stopped) => return End::Stopped,
            // Another process has taken it, before or after its state was read.
            Err(TrainError::Run(RunError::Locked { holder, .. })) => return End::Busy(holder),
            Err(TrainError::Run(RunError::Exists(_))) => {
                return End::Busy("another process".to_owned());
            }
            Err(error) if is_crash(&error) => return crashed(cell.dir(), name, &error, watch),
            Err(error) => return End::Failed(chain(&error)),
        }
    } else {
        watch.say(&format!("{name}: already finished"));
        for how in unlike(cell).unwrap_or_default() {
            watch.warn(&format!("{name} was trained {how}"));
        }
    }
    match judged::judge(cell, &plan, watch) {
        Ok(true) => {
            report(&plan, watch);
            if start.is_some() {
                End::Finished
            } else {
                End::Before
            }
        }
        Ok(false) => End::Stopped,
        Err(error) => End::Failed(format!("it is trained, but was not judged: {error}")),
    }
}

/// Writes the cell's own report, unless it has one. A failure is a warning: the cell is finished without it.
fn report(plan: &Plan, watch: &dyn Watch) {
    let run = &plan.run.dir;
    if !plan.report.auto || run.join(REPORT).exists() {
        return;
    }
    if let Err(error) = report_itself(run, true, &mut |_, _| {}, &mut |text| watch.warn(text)) {
        let problem = chain(&error);
        watch.warn(&format!("`{}` has no report: {problem}", run.display()));
    }
}

fn session<T: Task>(
    plan: Plan,
    start: Start<'_>,
    name: &str,
    way: Way,
    watch: &dyn Watch,
) -> Result<engine::End, TrainError> {
    let mut generating = |done, of| watch.generating(done, of);
    let session = Session::<T>::prepare(kvt_train::world::alone(), plan, start, &mut generating)?;
    watch.say(&format!("{name}: {}", session.describe()));
    let mut listener = watch.training(name, session.workload(), way.alone);
    session
        .counting_from(way.began)
        .train(listener.as_mut(), watch.stop())
}

/// Whether training failed numerically, rather than because of the machine or the data.
fn is_crash(error: &TrainError) -> bool {
    match error {
        TrainError::Stopped { cause, .. } => is_crash(cause),
        TrainError::NotFinite { .. } | TrainError::Diverged { .. } => true,
        _ => false,
    }
}

/// Records a crash in the folder of the run, if this exists and still belongs to it.
fn crashed(dir: &Path, name: &str, error: &TrainError, watch: &dyn Watch) -> End {
    let message = chain(error);
    watch.warn(&format!("{name} crashed: {message}"));
    let written = RunDir::create(dir, true).and_then(|_locked| {
        write_text(&dir.join(CRASH), &format!("{message}\n")).map_err(RunError::from)
    });
    match written {
        Ok(()) => End::Crashed,
        Err(error) => End::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn cell(name: &str, train: &str) -> Cell {
        Cell {
            name: name.to_owned(),
            config: "a.toml".into(),
            overrides: Vec::new(),
            plan: toml::from_str(&format!("[train]\n{train}\n")).unwrap(),
            linear: None,
            known: None,
        }
    }

    /// Any of the devices that are given may train any cell; without them each cell has its own.
    #[test]
    fn a_device_is_asked_once_for_each_precision() {
        let cells = [
            cell("a", "device = \"cpu\""),
            cell("b", "device = \"wgpu\"\nprecision = \"bf16\""),
            cell("c", "device = \"cpu\""),
            cell("d", "device = \"cpu\"\nprecision = \"f16\""),
        ];
        for (devices, expected) in [
            (
                &["cuda", "cpu", "cpu"][..],
                "cpu bf16 b, cpu f16 d, cpu f32 a, cuda bf16 b, cuda f16 d, cuda f32 a",
            ),
            (&[], "cpu f16 d, cpu f32 a, wgpu bf16 b"),
        ] {
            let devices: Vec<String> = devices.iter().map(|&name| name.to_owned()).collect();
            let found = needed(cells.iter(), &devices);
            let found = found
                .iter()
                .map(|((device, precision), cell)| format!("{device} {precision} {}", cell.name));
            assert_eq!(found.collect::<Vec<_>>().join(", "), expected);
        }
    }
}
