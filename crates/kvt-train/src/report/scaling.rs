//! Lines over a size, both axes logarithmic, as SVG: how time or memory grows.

use std::path::Path;

use super::ReportError;
use crate::plot::PALETTE;
use crate::plot::{Axis, Chart, Line, Names};
use kvt_data::fs::write_text;

/// Dash and gap lengths for lines that repeat a colour; the first lines are solid.
const DASHES: [(u32, u32); 3] = [(8, 4), (3, 3), (14, 6)];

/// A line of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingLine {
    /// What it is called.
    pub name: String,
    /// Sizes and values, both positive, by size.
    pub points: Vec<(f64, f64)>,
}

/// Draws lines over `x` to an SVG file, atomically. Lines without points are left out; this does not change how the others look.
///
/// # Errors
/// Failures of drawing and of the file system.
pub fn draw_scaling(
    lines: &[ScalingLine],
    [x, y]: [&str; 2],
    title: &str,
    path: &Path,
) -> Result<(), ReportError> {
    let svg = chart(lines, [x, y], title)
        .svg()
        .map_err(|reason| ReportError::Draw {
            path: path.to_owned(),
            reason,
        })?;
    Ok(write_text(path, &svg)?)
}

/// The chart of lines, with a tick at each size.
fn chart<'a>(lines: &[ScalingLine], [x, y]: [&'a str; 2], title: &'a str) -> Chart<'a> {
    let sizes = lines.iter().flat_map(|line| &line.points);
    let mut sizes: Vec<f64> = sizes.map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let axis = |label, ticks| Axis {
        label,
        logarithmic: true,
        ticks,
    };
    let drawn = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.points.is_empty())
        .map(|(number, line)| Line {
            name: line.name.clone(),
            color: number,
            dash: dash(number),
            points: line.points.clone(),
        });
    Chart {
        title,
        x: axis(x, sizes),
        y: axis(y, Vec::new()),
        lines: drawn.collect(),
        names: Names::Beside,
    }
}

/// The dash of a line: solid lines in all colours first, then each dash in all colours.
fn dash(number: usize) -> Option<(u32, u32)> {
    let round = (number / PALETTE.len()).checked_sub(1)?;
    Some(DASHES[round % DASHES.len()])
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_line_with_points_has_its_name_and_its_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("time.svg");
        let line = |number: usize| ScalingLine {
            name: format!("kind {number}"),
            points: vec![(197.0, 1.0 + number as f64), (16384.0, 1e4)],
        };
        let mut lines: Vec<_> = (0..18).map(line).collect();
        lines.insert(
            1,
            ScalingLine {
                name: "nowhere".to_owned(),
                points: Vec::new(),
            },
        );
        draw_scaling(&lines, ["tokens", "ms"], "Time & space", &path).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        for expected in ["Time &amp; space", "tokens", "kind 0", "kind 17", "16384"] {
            assert!(text.contains(expected), "{expected}");
        }
        assert!(!text.contains("nowhere"));
        let chart = chart(&lines, ["tokens", "ms"], "Time");
        assert_eq!(chart.x.ticks, [197.0, 16384.0]);
        let looks = chart
            .lines
            .iter()
            .map(|line| (line.color % PALETTE.len(), line.dash));
        let looks: std::collections::BTreeSet<_> = looks.collect();
        assert_eq!(looks.len(), 18);
        // A line without points keeps its colour for pictures in which it has points.
        assert_eq!((chart.lines[1].color, chart.lines[1].dash), (2, None));
        assert_eq!(chart.lines[6].dash, Some(DASHES[0]));
        draw_scaling(&[], ["tokens", "ms"], "nothing", &path).unwrap();
    }
}
