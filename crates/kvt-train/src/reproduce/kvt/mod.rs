//! [KVT](https://arxiv.org/abs/2106.00515): k-NN attention for boosting vision transformers (Wang et al., ECCV 2022).

mod fig1;
mod fig2;
mod fig3;
mod fig4;
mod fig5;
mod inside;
mod lemmas;
mod paper;
mod pictures;
mod speed;
mod table1;
mod table2;
mod table3;

pub(super) use fig1::Fig1;
pub(super) use fig2::Fig2;
pub(super) use fig3::Fig3;
pub(super) use fig4::Fig4;
pub(super) use fig5::Fig5;
pub(super) use lemmas::Lemmas;
pub(super) use speed::Speed;
pub(super) use table1::Table1;
pub(super) use table2::Table2;
pub(super) use table3::Table3;

use super::Version;
use crate::report::Statistic;

/// The paper, and a version of it.
const ECCV: &str = "[KVT](https://arxiv.org/abs/2106.00515), ECCV 2022";

/// Where a number of the paper stands, by its version.
fn cited(version: Version, place: &str) -> String {
    match version {
        Version::Eccv => format!("{ECCV}, {place}"),
        Version::V1 => format!("[KVT, version 1](https://arxiv.org/abs/2106.00515v1), {place}"),
    }
}

/// A number of the paper with its decimals, or an empty cell.
fn stated(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// The mean of a statistic and its spread with the number of seeds, in percent; empty cells where there is none.
fn ours(statistic: Option<&Statistic>) -> [String; 2] {
    let Some(statistic) = statistic else {
        return [String::new(), String::new()];
    };
    let runs = statistic.runs;
    let spread = match statistic.spread {
        Some(spread) => format!("{spread:.2} (n = {runs})"),
        None => format!("(n = {runs})"),
    };
    [format!("{:.2}", statistic.mean), spread]
}

/// A statistic in three fields of CSV: mean, spread, runs.
fn fields(statistic: Option<&Statistic>) -> String {
    let Some(statistic) = statistic else {
        return ",,".to_owned();
    };
    let spread = statistic
        .spread
        .map_or_else(String::new, |spread| spread.to_string());
    format!("{},{spread},{}", statistic.mean, statistic.runs)
}
