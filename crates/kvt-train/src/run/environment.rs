//! The machine, time and software of a run's start.
//!
//! Nothing here may stop a run: unknown facts are left empty.

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::RunError;
use kvt_data::fs::{free_path, write_atomic};
use kvt_data::regular;

/// The version of Burn, for the record. A test compares it with `Cargo.toml`.
const BURN: &str = "0.22.1";

/// The machine and program of one start of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of this program.
    pub kvt: String,
    /// Version of Burn.
    pub burn: String,
    /// A description of the training device.
    pub device: String,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// The working directory, from which relative paths of the configuration start; `None` in the files of older versions.
    #[serde(default)]
    pub working_dir: Option<PathBuf>,
    /// Commit of the working directory's git repository.
    pub git_commit: Option<String>,
    /// Whether tracked files differ from that commit.
    pub git_dirty: Option<bool>,
    /// Operating system and version.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Name of the machine.
    pub hostname: Option<String>,
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Cores this process may use.
    pub cores: Option<usize>,
    /// Main memory in bytes.
    pub memory: u64,
    /// Instruction sets that the program was compiled for.
    pub target_features: Vec<String>,
}

impl Environment {
    /// Collects the facts. `device` describes the training device.
    pub fn collect(device: impl Into<String>) -> Self {
        let system = System::new_with_specifics(
            RefreshKind::nothing()
                .with_cpu(CpuRefreshKind::nothing())
                .with_memory(MemoryRefreshKind::nothing().with_ram()),
        );
        let git_commit = git(&["rev-parse", "HEAD"]);
        let git_dirty = git_commit.as_ref().and_then(|_| {
            git(&["status", "--porcelain", "--untracked-files=no"]).map(|out| !out.is_empty())
        });
        Self {
            kvt: env!("CARGO_PKG_VERSION").to_owned(),
            burn: BURN.to_owned(),
            device: device.into(),
            started: jiff::Timestamp::now().to_string(),
            command: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
            // A name that is not UTF-8 cannot be written as JSON.
            working_dir: std::env::current_dir()
                .ok()
                .filter(|dir| dir.to_str().is_some()),
            git_commit,
            git_dirty,
            os: System::long_os_version().unwrap_or_else(|| std::env::consts::OS.to_owned()),
            arch: std::env::consts::ARCH.to_owned(),
            hostname: System::host_name(),
            cpu: system
                .cpus()
                .first()
                .map(|cpu| cpu.brand().trim().to_owned())
                .filter(|brand| !brand.is_empty()),
            cores: std::thread::available_parallelism()
                .ok()
                .map(std::num::NonZero::get),
            memory: system.total_memory(),
            target_features: target_features(),
        }
    }

    /// Writes `environment.json`. Earlier starts in it (a resumed run may have moved to another machine) are kept under
    /// `earlier`, oldest first. A file that does not parse is kept under another name: the run does not depend on it.
    ///
    /// # Errors
    /// If the new file cannot be written.
    pub fn record(&self, path: &Path) -> Result<Option<String>, RunError> {
        let mut earlier = Vec::new();
        let mut warning = None;
        if path.exists() {
            match parse::<Recorded<serde_json::Value>>(path) {
                Ok(old) => {
                    earlier = old.earlier;
                    earlier.push(old.latest);
                }
                Err(error) => {
                    let kept = free_path(path);
                    fs::rename(path, &kept)?;
                    warning = Some(format!(
                        "`{}` cannot be read ({error}): it was renamed to `{}`, and a new one was started",
                        path.display(),
                        kept.display()
                    ));
                }
            }
        }
        let recorded = Recorded {
            latest: self,
            earlier,
        };
        write_atomic(path, |file| {
            serde_json::to_writer_pretty(file, &recorded).map_err(Into::into)
        })?;
        Ok(warning)
    }

    /// Device, processor, version, commit and day, for a table of results.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut text = self.device.clone();
        if let Some(cpu) = &self.cpu {
            text += &format!(", {cpu}");
        }
        text += &format!(", kvt {}", self.kvt);
        if let Some(commit) = &self.git_commit {
            let commit: String = commit.chars().take(7).collect();
            text += &format!(" in a folder at commit {commit}");
            if self.git_dirty == Some(true) {
                text += " with changes";
            }
        }
        let day: String = self.started.chars().take("2000-01-01".len()).collect();
        format!("{text}, {day}")
    }

    /// Reads the latest start back from `environment.json`.
    ///
    /// # Errors
    /// If the file is missing or does not parse.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        Ok(parse::<Recorded<Self>>(path)?.latest)
    }
}

/// `environment.json`. Earlier starts stay plain JSON, so that a newer program can resume an older one's run.
#[derive(Serialize, Deserialize)]
struct Recorded<T> {
    #[serde(flatten)]
    latest: T,
    #[serde(default)]
    earlier: Vec<serde_json::Value>,
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    serde_json::from_slice(&regular::read(path)?).map_err(|error| RunError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        reason: error.to_string(),
    })
}

/// The trimmed output of `git`; `None` without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        // Reading must not modify the repository's index.
        .arg("--no-optional-locks")
        .args(arguments)
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn target_features() -> Vec<String> {
    macro_rules! compiled_in {
        ($($name:tt),* $(,)?) => {
            [$(($name, cfg!(target_feature = $name))),*]
        };
    }
    compiled_in!(
        "sse2", "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "neon", "sve",
        "simd128",
    )
    .into_iter()
    .filter(|(_, enabled)| *enabled)
    .map(|(name, _)| name.to_owned())
    .collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn burns_version_is_the_one_that_is_built() {
        let manifest = include_str!("../../../../Cargo.toml");
        let manifest: toml::Table = manifest.parse().unwrap();
        let version = &manifest["workspace"]["dependencies"]["burn"]["version"];
        assert_eq!(version.as_str(), Some(format!("={BURN}").as_str()));
    }

    #[test]
    fn what_is_collected_agrees_with_the_standard_library() {
        let environment = Environment::collect("flex");
        assert_eq!(environment.device, "flex");
        assert_eq!(environment.arch, std::env::consts::ARCH);
        assert!(environment.memory > 0);
        assert_eq!(environment.working_dir, std::env::current_dir().ok());
        assert_eq!(environment.command.len(), std::env::args().count());
        let started: jiff::Timestamp = environment.started.parse().unwrap();
        assert!(started <= jiff::Timestamp::now());
        if cfg!(target_arch = "x86_64") {
            assert!(
                environment
                    .target_features
                    .iter()
                    .any(|name| name == "sse2")
            );
        }
    }

    #[test]
    fn the_facts_of_a_table() {
        let mut environment = Environment {
            cpu: Some("AMD EPYC".to_owned()),
            git_commit: Some("0123456789abcdef".to_owned()),
            git_dirty: Some(true),
            started: "2026-11-25T04:44:02.976Z".to_owned(),
            kvt: "1.2.3".to_owned(),
            ..Environment::collect("cpu (2 threads)")
        };
        let text = "cpu (2 threads), AMD EPYC, kvt 1.2.3 in a folder at commit 0123456 with changes, 2026-11-25";
        assert_eq!(environment.in_words(), text);
        (environment.cpu, environment.git_commit) = (None, None);
        let text = "cpu (2 threads), kvt 1.2.3, 2026-11-25";
        assert_eq!(environment.in_words(), text);
    }

    #[test]
    fn a_resumed_run_keeps_the_earlier_starts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("environment.json");
        for device in ["first", "second", "third"] {
            assert_eq!(Environment::collect(device).record(&path).unwrap(), None);
        }
        assert_eq!(Environment::read(&path).unwrap().device, "third");
        let value: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(value["device"], "third");
        assert_eq!(value["earlier"][0]["device"], "first");
        assert_eq!(value["earlier"][1]["device"], "second");
        assert_eq!(value["earlier"].as_array().unwrap().len(), 2);
        assert!(value["earlier"][1].get("earlier").is_none());
    }

    #[test]
    fn a_broken_file_is_kept_and_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("environment.json");
        for (broken, kept) in [("", "environment.json.1"), ("{", "environment.json.2")] {
            fs::write(&path, broken).unwrap();
            let text = Environment::collect("x").record(&path).unwrap().unwrap();
            assert!(
                text.contains("environment.json`") && text.contains(kept),
                "{text}"
            );
            assert_eq!(
                fs::read_to_string(folder.path().join(kept)).unwrap(),
                broken
            );
            assert_eq!(Environment::read(&path).unwrap().device, "x");
        }
    }
}
