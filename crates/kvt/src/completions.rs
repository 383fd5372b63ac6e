//! `kvt completions` and `kvt man`: shell completions and manual pages, made from the same declaration as the help pages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, output};

/// `kvt completions SHELL`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  source <(kvt completions bash)\n  kvt completions zsh > ~/.zfunc/_kvt\n  kvt completions fish > ~/.config/fish/completions/kvt.fish"
)]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// `kvt man DIR`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kvt man ~/.local/share/man/man1\n  kvt man /tmp/pages")]
pub(super) struct ManArgs {
    /// The folder to write the pages into, one for each verb.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the completions of a shell.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut command = Cli::command();
    // With all its help texts.
    command.build();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "kvt", &mut script);
    output::print(&String::from_utf8(script)?)
}

/// Writes the manual pages.
pub(super) fn man(ManArgs { dir }: &ManArgs) -> anyhow::Result<()> {
    fs_err::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("could not write the pages into `{}`", dir.display()))?;
    output::status(&format!(
        "wrote the pages into `{}`: `man {}`",
        dir.display(),
        dir.join("kvt.1").display()
    ));
    Ok(())
}
