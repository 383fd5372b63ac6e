//! How far a cell is, as its folder tells.

use std::fmt;
use std::path::PathBuf;

use super::Cell;
use crate::config::{Effect, Plan, diff, load_plan};
use crate::run::{Event, RunDir, RunError, read_log};

/// The file in a run's folder that says that its training broke down, and how: its numbers were no numbers any more. With the
/// same configuration it would break down again, so it is not tried again as long as the file is there.
pub const CRASH: &str = "crash.txt";

/// How far a cell is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// There is no run yet.
    Missing,
    /// It was begun, and so many of its epochs are done.
    Begun(u32),
    /// It is trained to its end.
    Finished,
    /// Its training broke down: this is what was said of it.
    Crashed(String),
    /// Its folder holds the run of another configuration, or none that can be read: why.
    Foreign(String),
}

impl State {
    /// The state of a cell.
    #[must_use]
    pub fn of(cell: &Cell) -> Self {
        let run = match RunDir::open(cell.dir()) {
            Ok(run) => run,
            Err(RunError::NotARun { .. }) => return Self::Missing,
            Err(error) => return Self::Foreign(error.to_string()),
        };
        let started = match load_plan(&run.config(), &[]) {
            Ok(started) => started,
            Err(error) => return Self::Foreign(error.to_string()),
        };
        match differences(&started, &cell.plan) {
            Ok(differences) if differences.is_empty() => {}
            Ok(differences) => {
                return Self::Foreign(format!(
                    "run `{}` was started with another configuration ({differences}): give it another name or \
                     output, or remove the run",
                    cell.dir().display()
                ));
            }
            Err(problem) => return Self::Foreign(problem),
        }
        if let Ok(message) = fs_err::read_to_string(cell.dir().join(CRASH)) {
            return Self::Crashed(message.trim().to_owned());
        }
        let Ok(log) = read_log(&run.log()) else {
            return Self::Begun(0);
        };
        let mut done = 0;
        for event in &log.events {
            let Event::Epoch(epoch) = event else { continue };
            done = epoch.epoch + 1;
            let enough = cell
                .plan
                .train
                .max_steps
                .is_some_and(|max| epoch.step >= max);
            // It is logged after its checkpoint was saved.
            if done >= cell.plan.epochs() || enough {
                return Self::Finished;
            }
        }
        Self::Begun(done)
    }
}

/// The data set of a run that is there, if it is in another place than the cell's: whether it holds the same images is known only
/// when training goes on.
pub(super) fn other_data(cell: &Cell) -> Option<PathBuf> {
    let run = RunDir::open(cell.dir()).ok()?;
    let started = load_plan(&run.config(), &[]).ok()?;
    (started.data.path != cell.plan.data.path).then_some(started.data.path)
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.pad("to be trained"),
            Self::Begun(epochs) => f.pad(&format!("stopped after {epochs} epochs")),
            Self::Finished => f.pad("finished"),
            Self::Crashed(_) => f.pad("crashed"),
            Self::Foreign(_) => f.pad("another run"),
        }
    }
}

/// What makes a cell another run than the one that was started, in words; empty if nothing does.
fn differences(started: &Plan, plan: &Plan) -> Result<String, String> {
    let all = diff(started, plan).map_err(|error| error.to_string())?;
    let refused = all.iter().filter(|one| one.effect == Effect::Refused);
    let refused: Vec<String> = refused.map(ToString::to_string).collect();
    Ok(refused.join(", "))
}
