//! Terminal output: results to stdout, everything else to stderr.
//!
//! Names of tensors, classes, keys and files come from untrusted files, so what acts on other text is escaped in all that is printed
//! ([`escape`](kvt_data::escape)). A warning or an error about one thing is one line, whatever its name is.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressState, ProgressStyle, WeakProgressBar};

use kvt_data::escape::{lines, one_line};

/// Set in the processes of a job other than the first, which prints for them.
static SILENT: AtomicBool = AtomicBool::new(false);

/// The bars. All output goes above those that are not dropped yet, also from other threads, such as the signal handler. Not indicatif's
/// own list of bars, which panics once the terminal is closed.
static BARS: Mutex<Vec<WeakProgressBar>> = Mutex::new(Vec::new());

/// The warnings so far.
static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A bar of this form over what has this name, hidden in silent processes. It is cleared when it is dropped, so that an error that ends
/// its work is not printed into its line.
pub(super) fn bar(what: &str, total: u64, template: &str) -> ProgressBar {
    let bar = if is_silent() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(total)
    };
    shown(bar, what, template)
}

/// Shows a bar at once, since the first item may take minutes.
fn shown(bar: ProgressBar, what: &str, template: &str) -> ProgressBar {
    if let Some(style) = style(template) {
        bar.set_style(style);
    }
    below_lines(&bar);
    // Also draws it, unlike `with_prefix`.
    bar.set_prefix(what.to_owned());
    bar
}

/// indicatif's own rate has four decimals, however large it is.
fn style(template: &str) -> Option<ProgressStyle> {
    let rate = |state: &ProgressState, to: &mut dyn fmt::Write| {
        let _ = to.write_str(&rate(state.per_sec()));
    };
    let style = ProgressStyle::with_template(template).ok()?;
    Some(style.with_key("per_sec", rate))
}

/// Items per second.
fn rate(per_second: f64) -> String {
    let decimals = if per_second < 10.0 { 2 } else { 0 };
    format!("{per_second:.decimals$}/s")
}

/// Prints results, errors and all other lines above a bar, as long as there is one.
fn below_lines(bar: &ProgressBar) {
    let mut bars = bars();
    bars.retain(|bar| bar.upgrade().is_some());
    bars.push(bar.downgrade());
}

fn bars() -> MutexGuard<'static, Vec<WeakProgressBar>> {
    BARS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `write` while no bar is on the terminal.
fn above_bars(write: &mut dyn FnMut()) {
    // A copy, so that the list is not locked during the write.
    let shown: Vec<ProgressBar> = bars().iter().filter_map(WeakProgressBar::upgrade).collect();
    suspended(&shown, write);
}

/// Calls `write` while none of the bars is shown.
fn suspended(bars: &[ProgressBar], write: &mut dyn FnMut()) {
    match bars.split_first() {
        Some((bar, others)) => bar.suspend(|| suspended(others, write)),
        None => write(),
    }
}

/// From now on, only [`error_of_process`] prints.
pub(super) fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Whether output is silenced.
pub(super) fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Prints an error that only this process of a job has.
pub(super) fn error_of_process(rank: usize, size: usize, text: &str) {
    SILENT.store(false, Ordering::Relaxed);
    error(&format!("process {rank} of {size}: {text}"));
    // The error is also passed up to where errors are printed.
    silence();
}

/// Prints a result, with a line end.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    if text.ends_with('\n') {
        write(text)
    } else {
        write(&format!("{text}\n"))
    }
}

/// Prints a part of a result.
pub(super) fn write(text: &str) -> anyhow::Result<()> {
    if SILENT.load(Ordering::Relaxed) || text.is_empty() {
        return Ok(());
    }
    let text = lines(text);
    let write = || {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    };
    let mut written = Ok(());
    above_bars(&mut || written = write());
    Ok(written?)
}

/// Prints a status line. A closed stderr does not stop the program.
pub(super) fn status(text: &str) {
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    above_bars(&mut || {
        let _ = writeln!(io::stderr(), "{}", lines(text));
    });
}

/// Prints an error.
pub(super) fn error(text: &str) {
    status(&format!("error: {text}"));
}

/// Prints a warning, in one line, and once: a folder that is read twice is warned of once.
pub(super) fn warning(text: &str) {
    let is_new = WARNED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(text.to_owned());
    if is_new {
        status(&format!("warning: {}", one_line(text)));
    }
}

/// Prints several warnings.
pub(super) fn warnings(all: impl IntoIterator<Item: AsRef<str>>) {
    all.into_iter().for_each(|text| warning(text.as_ref()));
}

/// Whether output is not silenced and stderr is a terminal.
pub(super) fn is_watched() -> bool {
    !SILENT.load(Ordering::Relaxed) && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// Records the calls to a terminal.
    #[derive(Clone, Debug, Default)]
    struct Screen(std::sync::Arc<Mutex<Vec<String>>>);

    impl Screen {
        fn note(&self, what: &str) -> io::Result<()> {
            self.0.lock().unwrap().push(what.to_owned());
            Ok(())
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.note(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.note(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            self.note("clear")
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Two bars, one started while the other is visible, each drawn before its first item is done: both are cleared before a line
    /// is written and redrawn after it; a dropped bar is gone.
    #[test]
    fn lines_stand_above_all_bars() {
        let screen = Screen::default();
        let started = |name: &str| {
            let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
            let bar = ProgressBar::with_draw_target(Some(3), target);
            let bar = shown(bar, name, "{prefix}");
            let drawn = screen.0.lock().unwrap();
            assert!(drawn.iter().any(|what| what.trim() == name), "{drawn:?}");
            bar
        };
        let outer = started("outer");
        let inner = started("inner");
        let said = || {
            screen.0.lock().unwrap().clear();
            above_bars(&mut || screen.note("line").unwrap());
            let said = screen.0.lock().unwrap();
            let said = said.iter().filter(|what| !what.trim().is_empty());
            said.map(|what| what.trim().to_owned()).collect::<Vec<_>>()
        };
        let both = said();
        let line = both.iter().position(|what| what == "line").unwrap();
        let (before, behind) = both.split_at(line);
        assert!(
            before.iter().filter(|what| *what == "clear").count() >= 2,
            "{both:?}"
        );
        assert!(!before.iter().any(|what| what.contains("er")), "{both:?}");
        assert!(
            behind.contains(&"inner".to_owned()) && behind.contains(&"outer".to_owned()),
            "{both:?}"
        );
        drop(inner);
        assert!(!said().contains(&"inner".to_owned()));
        drop(outer);
        assert_eq!(said(), ["line"]);
    }

    #[test]
    fn a_bar_shows_whole_items_per_second_unless_they_are_few() {
        assert_eq!(
            [1036.1752, 10.4, 9.876, 0.25].map(rate),
            ["1036/s", "10/s", "9.88/s", "0.25/s"]
        );
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let bar = ProgressBar::with_draw_target(Some(3), target);
        bar.set_style(style("{per_sec} of {len}").unwrap());
        bar.tick();
        let drawn = screen.0.lock().unwrap().join("\n");
        assert!(drawn.contains("0.00/s of 3"), "{drawn}");
    }
}
