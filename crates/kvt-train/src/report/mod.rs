//! Results of runs for readers: tables and curves, made only from the logs.

mod alike;
mod columns;
mod compare;
mod confusion;
mod curves;
mod error;
mod format;
pub mod html;
mod judged;
mod labels;
mod metric;
mod plot;
mod read;
mod render;
mod scaling;
mod series;
mod significance;
mod statistic;

pub use alike::RunFacts;
pub(crate) use alike::unlike;
pub use compare::{Comparison, Difference, Row};
pub(crate) use confusion::draw_confusion;
pub use curves::{Curve, EpochPoint};
pub use error::ReportError;
pub use format::{difference as difference_text, interval as interval_text};
pub(crate) use labels::{RunNames, heading, labels, title};
pub use metric::{best_metric, named_metric};
pub(crate) use plot::{PLOTS, save_plots};
pub use plot::{Plot, draw};
pub(crate) use read::{label_of, read_curve};
pub use scaling::{ScalingLine, draw_scaling};
pub use significance::{PairedT, interval_of, mcnemar, wilson};
pub use statistic::Statistic;
