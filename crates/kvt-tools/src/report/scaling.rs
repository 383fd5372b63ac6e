//! Lines over a size, both axes logarithmic, as SVG: how time or memory grows.

use std::path::Path;

use super::ReportError;
use super::plot::save;
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::plot::{PALE, PALETTE, beside};

/// Draws lines over `x` to an SVG file, atomically: names, and by size positive sizes and values; their colours are chosen here. Lines
/// without points are left out; this does not change how the others look.
/// More lines than there are colours are drawn in several charts: each has the first line, which the others are compared with, and
/// all lines that are not its own in grey, so that the charts have one scale.
///
/// # Errors
/// Failures of drawing and of the file system.
pub(crate) fn draw_scaling(
    lines: &[Line],
    axes: [&str; 2],
    title: &str,
    path: &Path,
) -> Result<(), ReportError> {
    save(svg(lines, axes, title), path)
}

fn svg(lines: &[Line], axes: [&str; 2], title: &str) -> Result<String, String> {
    let colors = color_charts(lines.len());
    if let [colors] = colors.as_slice() {
        return chart(lines, colors, axes, title).svg();
    }
    let all = colors.len();
    let charts = (1..).zip(&colors).map(|(number, colors)| {
        let title = format!("{title} ({number} of {all})");
        chart(lines, colors, axes, &title).svg()
    });
    let charts = charts.collect::<Result<Vec<_>, _>>()?;
    Ok(beside(&charts, 1, Names::BESIDE))
}

/// The colour of each line in each chart.
fn color_charts(lines: usize) -> Vec<Vec<usize>> {
    let most = PALETTE.len();
    if lines <= most {
        return vec![(0..lines).collect()];
    }
    // The first line has the last colour, black, in all charts.
    let first = most - 1;
    let of_chart = |chart: usize| {
        let own = 1 + chart * first..1 + (chart + 1) * first;
        let color = |line: usize| match line {
            0 => first,
            line if own.contains(&line) => line - own.start,
            _ => PALE,
        };
        (0..lines).map(color).collect()
    };
    (0..(lines - 1).div_ceil(first)).map(of_chart).collect()
}

/// The chart of lines, with a tick at each size.
fn chart<'a>(lines: &[Line], colors: &[usize], [x, y]: [&'a str; 2], title: &'a str) -> Chart<'a> {
    let sizes = lines.iter().flat_map(|line| &line.points);
    let mut sizes: Vec<f64> = sizes.map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let drawn = lines.iter().zip(colors);
    let drawn = drawn.filter(|(line, _)| !line.points.is_empty());
    let mut drawn: Vec<Line> = drawn
        .map(|(line, &color)| {
            let name = if color == PALE {
                ""
            } else {
                line.name.as_str()
            };
            Line::new(name, color, line.points.clone())
        })
        .collect();
    // Behind the others.
    drawn.sort_by_key(|line| line.color != PALE);
    Chart {
        title,
        x: Axis::logarithmic(x).at(sizes),
        y: Axis::logarithmic(y),
        lines: drawn,
        names: Names::Beside,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_line_with_points_has_its_name_and_its_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("time.svg");
        let line = |number: usize| {
            let points = [(197.0, 1.0 + number as f64), (16384.0, 1e4)];
            Line::new(format!("kind {number}"), 0, points)
        };
        let mut lines: Vec<_> = (0..18).map(line).collect();
        lines.insert(1, Line::new("nowhere", 0, []));
        draw_scaling(&lines, ["tokens", "ms"], "Time & space", &path).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        for expected in ["Time &amp; space", "tokens", "kind 0", "kind 17", "16384"] {
            assert!(text.contains(expected), "{expected}");
        }
        assert!(!text.contains("nowhere"));
        // The first line and 18 others: three charts of six, each line named in one of them, and the first in all.
        assert!(text.starts_with("<svg width=\"1000\" height=\"1800\""));
        let named = |number: usize| text.matches(&format!("\nkind {number}\n")).count();
        assert_eq!((named(0), named(1), named(17)), (3, 1, 1));
        draw_scaling(&[], ["tokens", "ms"], "nothing", &path).unwrap();
    }

    #[test]
    fn every_chart_has_all_lines_and_the_colours_of_its_own() {
        assert_eq!(color_charts(3), [[0, 1, 2]]);
        let charts = color_charts(9);
        assert_eq!(
            charts,
            [
                [6, 0, 1, 2, 3, 4, 5, PALE, PALE],
                [6, PALE, PALE, PALE, PALE, PALE, PALE, 0, 1],
            ]
        );
        let line = |number: u32| {
            // The third line has no points, and the others keep their colours.
            let points = (number != 2).then_some((197.0, 1.0 + f64::from(number)));
            Line::new(format!("kind {number}"), 0, points)
        };
        let lines: Vec<_> = (0..9).map(line).collect();
        let chart = chart(&lines, &charts[0], ["tokens", "ms"], "Time");
        assert_eq!(chart.x.ticks, [197.0]);
        let colors: Vec<usize> = chart.lines.iter().map(|line| line.color).collect();
        assert_eq!(colors, [PALE, PALE, 6, 0, 2, 3, 4, 5]);
        assert!(chart.lines[0].name.is_empty());
    }
}
