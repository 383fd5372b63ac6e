//! Many runs as one job: configurations times seeds times overrides, and their joint results.
//!
//! A [`Sweep`] is a TOML file, or the configurations that a command line names. Each of its [`Cell`]s is an ordinary run in its own folder:
//! a finished cell is not trained again, a stopped one resumes, and `kvt eval`, `kvt probe` and `kvt compare` take it like any other run.
//! A cell's [`State`] and results ([`Found`]) are read only from its folder.

mod carry_out;
mod cell;
mod conditions;
mod cost;
mod error;
mod file;
mod found;
mod given;
mod judged;
mod known;
mod linear;
mod outcome;
mod state;
mod table;
mod watch;

pub use self::carry_out::{End, carry_out, check_devices};
pub use self::cell::Cell;
pub use self::conditions::conditions;
pub use self::cost::{Cost, costs};
pub use self::error::SweepError;
pub use self::file::{Sweep, is_sweep};
pub use self::found::Found;
pub use self::judged::Predictions;
pub use self::known::Known;
pub use self::outcome::{LeftOut, Outcome};
pub use self::state::{CRASH, State};
pub use self::table::{
    OfSeed, PLAN_HEADER, PairRow, cells_csv, commands_markdown, p_is, pairs, pairs_markdown,
    plan_rows,
};
pub use self::watch::Watch;

use self::table::pairs_csv;
