//! One run of a sweep.

use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use super::Known;
use crate::probe::Crops;
use kvt_data::text::shell;
use kvt_train::config::Plan;

/// A configuration with overrides and a seed, and the folder of its run.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The row that it belongs to; cells of one name differ only in their seed.
    pub name: String,
    /// Its configuration.
    pub config: PathBuf,
    /// Overrides of the configuration, as for `--set`, without the seed and the folder. They are for display: the plan includes them.
    pub overrides: Vec<String>,
    /// The complete plan; its seed and its `run.dir` are the cell's.
    pub plan: Plan,
    /// For runs without labels: whether their features are judged by a linear classifier at the end, and how images are cropped for it.
    pub linear: Option<Crops>,
    /// Its result in the table of an earlier sweep, if there is one.
    pub known: Option<Known>,
}

impl Cell {
    /// The name of its folder, unique in the sweep.
    #[must_use]
    pub fn label(&self) -> String {
        label(&self.name, self.plan.seed)
    }

    /// The folder of its run.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.plan.run.dir
    }

    /// The command that trains only this run.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = format!("kvt train {}", shown(&self.config));
        let seed = format!("seed={}", self.plan.seed);
        let own = self.overrides.iter().map(String::as_str);
        for text in own.chain([seed.as_str()]) {
            command += &format!(" --set {}", shell(text));
        }
        command += &format!(" --run-dir {}", shown(self.dir()));
        if let Some(crops) = self.linear {
            command += &format!(
                "; kvt probe --run {} --checkpoint last --method linear --crops {}",
                shown(self.dir()),
                crops.name()
            );
        }
        command
    }
}

/// The folder name for a row and a seed; `kvt compare` splits it again.
pub(super) fn label(name: &str, seed: u64) -> String {
    format!("{name}-seed{seed}")
}

/// A path in a command: quoted, and with forward slashes on every system.
fn shown(path: &Path) -> String {
    shell(&path.display().to_string().replace(MAIN_SEPARATOR, "/"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_command_can_be_typed() {
        let plan = "seed = 3\n[run]\ndir = \"runs/a-seed3\"\n";
        let plan: Plan = toml::from_str(plan).unwrap();
        let overrides = [
            "train.epochs=2",
            "data.path=DATA",
            "model.attention.neighbors=[8, 2]",
        ];
        let cell = Cell {
            name: "a".to_owned(),
            config: "configs/a.toml".into(),
            overrides: overrides.map(str::to_owned).into(),
            plan,
            linear: None,
            known: None,
        };
        assert_eq!(cell.label(), "a-seed3");
        assert_eq!(
            cell.command(),
            "kvt train configs/a.toml --set train.epochs=2 --set data.path=DATA \
             --set 'model.attention.neighbors=[8, 2]' --set seed=3 --run-dir runs/a-seed3"
        );
        let mut other = cell;
        other.config = "my configs/a.toml".into();
        other.overrides = vec!["data.path=it's".to_owned()];
        other.plan.run.dir = "my runs/a-seed3".into();
        other.linear = Some(Crops::None);
        assert_eq!(
            other.command(),
            "kvt train 'my configs/a.toml' --set 'data.path=it'\\''s' --set seed=3 --run-dir 'my runs/a-seed3'; \
             kvt probe --run 'my runs/a-seed3' --checkpoint last --method linear --crops none"
        );
    }
}
