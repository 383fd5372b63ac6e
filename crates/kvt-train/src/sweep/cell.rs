//! One run of a sweep.

use std::path::{Component, Path, PathBuf};

use crate::config::Plan;
use crate::probe::Crops;

/// A configuration with overrides and a seed, and the folder of its run.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The row that it belongs to; cells of one name differ in their seed alone.
    pub name: String,
    /// Its configuration.
    pub config: PathBuf,
    /// What is set beside it, as of `--set`, the seed and the folder left out: for people, since the plan has it.
    pub overrides: Vec<String>,
    /// The complete plan; its seed and its `run.dir` are the cell's.
    pub plan: Plan,
    /// Runs without labels: whether their features are judged by a linear classifier at the end, and how images are cut for it.
    pub linear: Option<Crops>,
}

impl Cell {
    /// The name of its folder, which is told apart from all others of the sweep.
    #[must_use]
    pub fn label(&self) -> String {
        label(&self.name, self.plan.seed)
    }

    /// The folder of its run.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.plan.run.dir
    }

    /// The command that trains the same run by itself.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = format!("kvt train {}", shown(&self.config));
        let seed = format!("seed={}", self.plan.seed);
        let own = self.overrides.iter().map(String::as_str);
        for text in own.chain([seed.as_str()]) {
            let quoted =
                text.contains(|c: char| !c.is_ascii_alphanumeric() && !"._=-/,".contains(c));
            match quoted {
                true => command += &format!(" --set '{text}'"),
                false => command += &format!(" --set {text}"),
            }
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

/// The folder's name of a row and a seed, which `kvt compare` takes apart again.
pub(super) fn label(name: &str, seed: u64) -> String {
    format!("{name}-seed{seed}")
}

/// A path as a command has it: with slashes everywhere.
fn shown(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}

/// A path relative to a folder, without the detours that `..` would make of it.
pub(super) fn joined(folder: &Path, path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in folder.join(path).components() {
        let above = matches!(short.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::ParentDir if above => drop(short.pop()),
            Component::CurDir => {}
            part => short.push(part),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn paths_have_no_detours() {
        for (folder, path, expected) in [
            (
                "configs/reproduce/a",
                "../../deit/x.toml",
                "configs/deit/x.toml",
            ),
            ("", "x.toml", "x.toml"),
            ("..", "../x.toml", "../../x.toml"),
            ("/a/b", "./../c.toml", "/a/c.toml"),
            ("a", "/b/c.toml", "/b/c.toml"),
        ] {
            assert_eq!(joined(folder.as_ref(), path.as_ref()), Path::new(expected));
        }
    }

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
        };
        assert_eq!(cell.label(), "a-seed3");
        assert_eq!(
            cell.command(),
            "kvt train configs/a.toml --set train.epochs=2 --set data.path=DATA \
             --set 'model.attention.neighbors=[8, 2]' --set seed=3 --run-dir runs/a-seed3"
        );
    }
}
