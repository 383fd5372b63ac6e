//! `kvt completions` and `kvt man`: shell completions and manual pages, made from the same declaration as the help pages.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};
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
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), NAME, &mut script);
    output::print(&String::from_utf8(script)?)
}

/// Writes the manual pages.
pub(super) fn man(args: &ManArgs) -> anyhow::Result<()> {
    fs_err::create_dir_all(&args.dir)?;
    let mut left = vec![(NAME.to_owned(), command())];
    let mut pages = 0;
    while let Some((name, command)) = left.pop() {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            // A page for `help` would only repeat the others.
            if verb.get_name() != "help" {
                left.push((format!("{name}-{}", verb.get_name()), verb.clone()));
            }
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .title(name.to_uppercase())
            .render(&mut page)?;
        let path = args.dir.join(format!("{name}.1"));
        kvt_data::fs::write_atomic(&path, |file| file.write_all(&page))?;
        pages += 1;
    }
    output::status(&format!(
        "wrote {pages} pages into `{}`: `man {}`",
        args.dir.display(),
        args.dir.join("kvt.1").display()
    ));
    Ok(())
}

const NAME: &str = "kvt";

/// The command line with all its help texts.
fn command() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}
