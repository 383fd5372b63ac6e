//! The `kvt` command line: one file per verb. It reads arguments and prints, as no other part of the project does, and computes
//! nothing.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use kvt_data::is_guarded;
use kvt_papers::ReproduceError;
use kvt_tools::sweep::SweepError;
use kvt_train::config::keys_named;
use kvt_train::world;

mod analyze;
mod attention_map;
mod attribution_map;
mod bench;
mod common;
mod compare;
mod completions;
mod config;
mod data;
mod demo;
mod devices;
mod each_image;
mod environment;
mod eval;
mod export;
mod finetune;
mod groups;
mod images;
mod interrupt;
mod job;
mod logits;
mod models;
mod output;
mod predict;
mod probe;
mod progress;
mod report;
mod reproduce;
mod table;
mod train;
mod trained;
mod training;
#[cfg(feature = "tui")]
mod tui;
mod watch;
mod weights;

/// A training step allocates and frees the same large blocks repeatedly. mimalloc keeps them, whereas glibc returns
/// them to the system, which costs page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Train vision transformers with dense and k-NN attention.
#[derive(Debug, Parser)]
#[command(
    name = "kvt",
    version,
    propagate_version = true,
    help_template = groups::template(&Command::augment_subcommands(clap::Command::new("kvt"))),
    after_help = "Examples:\n  kvt demo\n  kvt finetune photos --weights deit_small_patch16_224\n  kvt config init photos --output photos.toml\n  kvt train photos.toml\n  kvt eval --run runs/finetune/photos\n  kvt predict --run runs/finetune/photos some.jpg\n\n`kvt VERB --help` has more of each."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show dense and k-NN attention on generated images: two minutes, no download.
    Demo(demo::Args),
    /// Train a model from a configuration file.
    Train(train::Args),
    /// Train a model further, from its weights, on the classes of a folder.
    Finetune(finetune::Args),
    /// Evaluate a run or weights on a labelled split.
    Eval(eval::Args),
    /// Measure how good a model's features are (k-NN classifier or linear probe).
    Probe(probe::Args),
    /// Measure the layers of a model: similarity of tokens, spread and reach of attention.
    Analyze(analyze::Args),
    /// Draw on images where the tokens of a model look, head by head.
    AttentionMap(attention_map::Args),
    /// Draw which patches of images speak for a class (Transformer Attribution).
    AttributionMap(attribution_map::Args),
    /// Classify image files, or paint classes and objects on them.
    Predict(predict::Args),
    /// Write a trained model for other programs, as an ONNX file.
    Export(export::Args),
    /// Train or read several runs and compare them epoch by epoch.
    Compare(compare::Args),
    /// Write a run, or several beside each other, as one HTML file.
    Report(report::Args),
    /// Run weights on prepared images, for checks against other implementations.
    Logits(logits::Args),
    /// Time attention operations, forward passes and training steps.
    Bench(bench::Args),
    /// Rerun a table or figure of a paper.
    Reproduce(reproduce::Args),
    /// List the models, or show one in detail.
    Models(models::Args),
    /// List the devices of this machine.
    #[command(after_help = "Examples:\n  kvt devices")]
    Devices,
    /// Write, print, check or describe configurations.
    Config(config::Args),
    /// Download, generate or check data sets.
    Data(data::Args),
    /// Inspect, convert, average or download weight files.
    Weights(weights::Args),
    /// Print the completions of the command line for a shell.
    Completions(completions::Args),
    /// Write the manual pages.
    Man(completions::ManArgs),
}

fn main() -> ExitCode {
    environment::prepare();
    keep_back_panics();
    kvt_train::fetch::listen(common::downloading);
    match Cli::try_parse_from(joined(std::env::args_os())) {
        Ok(cli) => exit_code(run(&cli.command)),
        Err(error) => refuse(&error),
    }
}

/// Does what a verb says.
fn run(command: &Command) -> anyhow::Result<ExitCode> {
    interrupt::watch()?;
    // A job starts its threads itself, after MPI.
    if !matches!(
        command,
        Command::Train(_) | Command::Finetune(_) | Command::Bench(_)
    ) {
        world::start_threads()?;
    }
    match command {
        Command::Demo(args) => return demo::run(args),
        Command::Train(args) => return train::run(args),
        Command::Finetune(args) => return finetune::run(args),
        Command::Eval(args) => eval::run(args)?,
        Command::Probe(args) => probe::run(args)?,
        Command::Analyze(args) => analyze::run(args)?,
        Command::AttentionMap(args) => return attention_map::run(args),
        Command::AttributionMap(args) => return attribution_map::run(args),
        Command::Predict(args) => return predict::run(args),
        Command::Export(args) => export::run(args)?,
        Command::Compare(args) => return compare::run(args),
        Command::Report(args) => report::run(args)?,
        Command::Logits(args) => logits::run(args)?,
        Command::Bench(args) => bench::run(args)?,
        Command::Reproduce(args) => return reproduce::run(args),
        Command::Models(args) => models::run(args)?,
        Command::Devices => devices::run()?,
        Command::Config(args) => config::run(args)?,
        Command::Data(args) => return data::run(args),
        Command::Weights(args) => return weights::run(args),
        Command::Completions(args) => completions::run(args)?,
        Command::Man(args) => completions::man(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of what was done; an error is printed.
fn exit_code(done: anyhow::Result<ExitCode>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if is_stop(&error) => {
            output::status(&error.to_string());
            interrupt::exit_code()
        }
        Err(error) => {
            output::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The words of a command line, with `--resume auto` as `--resume=auto`: any other word after `kvt train --resume` is the configuration.
fn joined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    for word in words {
        let trains = all.get(1).is_some_and(|verb| *verb == *"train");
        match all.last_mut() {
            Some(last) if trains && *last == *"--resume" && *word == *"auto" => last.push("=auto"),
            _ => all.push(word),
        }
    }
    all
}

/// Prints no message of a panic that becomes an error, which is printed in its place.
fn keep_back_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_guarded() {
            print(panic);
        }
    }));
}

/// Prints clap's message about a command line, which may also be a help page. Users of other programs tend to pass configuration
/// keys as options, so it names the matching keys.
fn refuse(error: &clap::Error) -> ExitCode {
    let printed = error.print().and_then(|()| io::stdout().flush());
    // A page is what was asked for; a closed stderr is not worth another message.
    if let (Err(failure), false) = (printed, error.use_stderr()) {
        return exit_code(Err(failure.into()));
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
    {
        let mut keys = keys_named(&option.trim_start_matches('-').replace('-', "_"));
        // Of several keys, the one in `train` is usually meant.
        keys.sort_by_key(|key| !key.starts_with("train."));
        let takes_set = takes_set(std::env::args_os().skip(1));
        let keys = keys.iter().map(|key| {
            if takes_set {
                format!("`--set {key}=VALUE`")
            } else {
                format!("`{key}`, in the file")
            }
        });
        let keys: Vec<String> = keys.collect();
        if !keys.is_empty() {
            output::status(&format!(
                "help: `{option}` is a key of the configuration: {}",
                keys.join(" or ")
            ));
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// Whether the verb of a command line has the option `--set`.
fn takes_set(words: impl Iterator<Item = OsString>) -> bool {
    let mut verb = Cli::command();
    for word in words {
        if let Some(next) = verb.find_subcommand(&word) {
            verb = next.clone();
        }
    }
    verb.get_arguments()
        .any(|option| option.get_long() == Some("set"))
}

/// Whether the user or the system stopped the training of several runs.
fn is_stop(error: &anyhow::Error) -> bool {
    let of_sweep = match error.downcast_ref::<ReproduceError>() {
        Some(ReproduceError::Sweep(error)) => Some(error),
        _ => error.downcast_ref::<SweepError>(),
    };
    matches!(of_sweep, Some(SweepError::Stopped))
}

/// Whether the reader of our output went away, as `| head` does, which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some verbs call it `--out` and some `--output`, and nobody knows which: both are taken.
    #[test]
    fn out_and_output_are_the_same_everywhere() {
        let mut left = vec![Cli::command()];
        let mut found = 0;
        while let Some(verb) = left.pop() {
            for option in verb.get_arguments() {
                let other = match option.get_long() {
                    Some("out") => "output",
                    Some("output") => "out",
                    _ => continue,
                };
                let aliases = option.get_all_aliases().unwrap_or_default();
                assert_eq!(aliases, [other], "{}", verb.get_name());
                found += 1;
            }
            left.extend(verb.get_subcommands().cloned());
        }
        assert!(found > 10, "{found}");
    }

    #[test]
    fn every_verb_is_in_one_group() {
        let mut grouped: Vec<&str> = groups::GROUPS
            .iter()
            .flat_map(|(_, verbs)| *verbs)
            .copied()
            .collect();
        grouped.sort_unstable();
        let cli = Cli::command();
        let mut verbs: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    /// Below `Examples:` a line that begins with `kvt` is a command line that the program takes.
    #[test]
    fn examples_are_taken() {
        let mut left = vec![Cli::command()];
        let mut tried = 0;
        while let Some(verb) = left.pop() {
            let texts = [verb.get_before_help(), verb.get_after_help()];
            let texts = texts.into_iter().flatten();
            let text: String = texts.map(|text| format!("{text}\n")).collect();
            // Lines that go on after a backslash, as in a shell.
            let text = text.replace("\\\n", " ");
            let lines = text.lines().map(str::trim);
            // What one command prints is not known here.
            let lines = lines.filter(|line| line.starts_with("kvt ") && !line.contains("$("));
            for line in lines {
                let line = line.split(" > ").next().unwrap_or(line).replace('\'', "");
                let taken = Cli::try_parse_from(line.split_whitespace());
                assert!(taken.is_ok(), "{line}: {taken:?}");
                tried += 1;
            }
            left.extend(verb.get_subcommands().cloned());
        }
        assert!(tried > 60, "{tried}");
    }

    #[test]
    fn resume_takes_auto_and_no_configuration() {
        for (line, expected) in [
            (
                "kvt train --resume auto a.toml",
                "kvt train --resume=auto a.toml",
            ),
            ("kvt train --resume a.toml", "kvt train --resume a.toml"),
            ("kvt finetune --resume auto", "kvt finetune --resume auto"),
        ] {
            let words = joined(line.split(' ').map(OsString::from));
            let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(shown.join(" "), expected);
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn only_some_verbs_take_keys() {
        let takes = |line: &str| takes_set(line.split_whitespace().map(OsString::from));
        for line in [
            "train a.toml --lr 1",
            "models show x",
            "bench step",
            "config print a",
            "data check a.toml",
        ] {
            assert!(takes(line), "{line}");
        }
        for line in [
            "",
            "config init photos",
            "models list",
            "data pack train",
            "devices",
        ] {
            assert!(!takes(line), "{line}");
        }
    }
}
