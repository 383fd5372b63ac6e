//! What people look at after a run: tables and curves, made from the logs alone.

mod alike;
mod chart;
mod columns;
mod compare;
mod confusion;
mod curves;
mod error;
mod font;
mod format;
mod heat;
pub mod html;
mod plot;
mod read;
mod render;
mod scaling;
mod series;
mod statistic;
mod words;

pub use alike::{RunFacts, unlike};
pub(crate) use chart::{Axis, Chart, Line, Names};
pub use compare::{Comparison, Difference, Row};
pub use confusion::draw_confusion;
pub use curves::{Curve, EpochPoint};
pub use error::ReportError;
pub(crate) use font::{FONT, register_fonts};
pub(crate) use heat::{Panel, heat_maps};
pub(crate) use plot::{GRID, INK, encode_png};
pub use plot::{Plot, draw, save_plots};
pub use read::{label_of, read_curve};
pub(crate) use render::csv_field;
pub use scaling::{ScalingLine, draw_scaling};
pub(crate) use series::PALETTE;
pub use statistic::Statistic;
pub(crate) use words::{duration, grouped, human, with_unit};
