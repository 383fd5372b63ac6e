//! Curves per epoch as SVG and PNG.
//!
//! One line per label: the mean over its seeds, in a band of one sample standard deviation. The text uses an embedded font, so
//! that a machine without fonts draws the same picture.

use std::io::Write;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontStyle;

use super::looks::paired;
use super::series::{Series, decimals, epoch_range, series, value_range};
use super::{Curve, ReportError};
use kvt_data::escape::lines;
use kvt_data::fs::write_atomic;
use kvt_train::plot::{FONT, register_fonts};
use kvt_train::plot::{GRID, INK, encode_png};
use kvt_train::run::Metric;

/// Size of the picture without the names below, in SVG units.
const SIZE: (u32, u32) = (800, 500);
/// Left edge of the names below the axes, and the distance between their rows.
const NAMES_LEFT: u32 = 62;
const ROW: u32 = 24;
/// Width of a column of names, and about how many letters fit in it.
const COLUMN: u32 = 365;
const COLUMN_LETTERS: usize = 42;
/// Pixels per SVG unit in a PNG, so that it is sharp on dense screens and in print.
const PNG_SCALE: u32 = 2;
/// Up to this many epochs, each measurement gets a dot.
const MAX_DOTTED: i32 = 40;

/// The formats of a plot, by the ends of their files.
pub(crate) const PLOTS: [&str; 2] = ["svg", "png"];

/// What a plot shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plot {
    /// A metric on the validation split, with the EMA of the weights (dashed) where there is one.
    Metric(Metric),
    /// Training loss (dashed) and validation loss.
    Loss,
    /// The learning rate of each epoch's last update.
    LearningRate,
    /// Training images per second.
    Throughput,
}

impl Plot {
    pub(super) fn y_label(self) -> String {
        match self {
            Self::Metric(metric) => {
                let unit = if metric.percent { " (%)" } else { "" };
                format!("validation {}{unit}", metric.title)
            }
            Self::Loss => "loss".to_owned(),
            Self::LearningRate => "learning rate".to_owned(),
            Self::Throughput => "training images per second".to_owned(),
        }
    }
}

/// How many line names fit in a row below the axes, where they hide no line.
fn names_in_a_row(series: &[Series]) -> usize {
    let longest = series.iter().map(|line| line.name.chars().count()).max();
    match longest {
        Some(letters) if letters > COLUMN_LETTERS => 1,
        _ => 2,
    }
}

/// Size of the picture: the axes, and the names below them.
fn size(series: &[Series]) -> (u32, u32) {
    let rows = series.len().div_ceil(names_in_a_row(series));
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    (SIZE.0, SIZE.1.saturating_add(rows.saturating_mul(ROW)))
}

/// Draws lines to `path`, as PNG if that is its extension, else as SVG. The file is written atomically.
///
/// # Errors
/// Failures of drawing and of the file system.
fn draw(series: &[Series], plot: Plot, title: &str, path: &Path) -> Result<(), ReportError> {
    let is_png = path.extension().is_some_and(|ending| ending == "png");
    let drawn = register_fonts().and_then(|()| {
        if is_png {
            png(series, plot, title)
        } else {
            svg(series, plot, title)
        }
    });
    save(drawn, path)
}

/// Writes the file of a picture atomically, if it could be drawn.
pub(super) fn save<T: AsRef<[u8]>>(
    drawn: Result<T, String>,
    path: &Path,
) -> Result<(), ReportError> {
    let bytes = drawn.map_err(|reason| ReportError::Draw {
        path: path.to_owned(),
        reason,
    })?;
    write_atomic(path, |file| file.write_all(bytes.as_ref()))?;
    Ok(())
}

/// Draws every plot that the curves have data for: `loss` and `metric`, such as `top1`, each as `.svg` and `.png` in
/// `folder`.
///
/// # Errors
/// As [`draw`].
pub(crate) fn save_plots(
    curves: &[Curve],
    metric: Metric,
    title: &str,
    folder: &Path,
) -> Result<Vec<PathBuf>, ReportError> {
    let mut paths = Vec::new();
    let mut plots = vec![(Plot::Metric(metric), metric.name), (Plot::Loss, "loss")];
    // The loss plot includes the training loss too.
    plots.retain(|(plot, stem)| *plot == Plot::Loss || *stem != "loss");
    for (plot, stem) in plots {
        let series = paired(series(plot, curves));
        if series.is_empty() {
            continue;
        }
        for extension in PLOTS {
            let path = folder.join(stem).with_extension(extension);
            draw(&series, plot, title, &path)?;
            paths.push(path);
        }
    }
    Ok(paths)
}

fn svg(series: &[Series], plot: Plot, title: &str) -> Result<Vec<u8>, String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size(series)).into_drawing_area();
        chart(&root, series, plot, title, 1).map_err(|error| error.to_string())?;
    }
    // Names may have what XML forbids.
    Ok(lines(&text).into_owned().into_bytes())
}

fn png(series: &[Series], plot: Plot, title: &str) -> Result<Vec<u8>, String> {
    let (width, height) = size(series);
    let (width, height) = (width * PNG_SCALE, height * PNG_SCALE);
    let mut pixels = vec![0; (width * height * 3) as usize];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        chart(&root, series, plot, title, PNG_SCALE).map_err(|error| error.to_string())?;
    }
    encode_png(&pixels, width, height)
}

/// Draws one chart on an area `scale` times as large as its [`size`].
fn chart<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    series: &[Series],
    plot: Plot,
    title: &str,
    scale: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let px = |units: u32| units * scale;
    let text = |units: u32| (FONT, px(units)).into_font().color(&INK);
    root.fill(&WHITE)?;
    let (area, below) = root.split_vertically(px(SIZE.1));
    let epochs = epoch_range(series);
    let is_dotted = epochs.end <= MAX_DOTTED;
    let values = value_range(plot, series);
    let decimals = decimals(&values);
    let mut chart = ChartBuilder::on(&area)
        .caption(
            title,
            (FONT, px(20), FontStyle::Bold).into_font().color(&INK),
        )
        .margin(px(14))
        .margin_right(px(24))
        .x_label_area_size(px(46))
        .y_label_area_size(px(62))
        .build_cartesian_2d(epochs, values)?;
    chart
        .configure_mesh()
        .x_desc("epoch")
        .y_desc(plot.y_label())
        .axis_desc_style(text(16))
        .label_style(text(14))
        .axis_style(INK.stroke_width(scale))
        .bold_line_style(GRID.stroke_width(scale))
        .light_line_style(TRANSPARENT)
        .x_labels(11)
        .y_labels(8)
        .y_label_formatter(&|value| format!("{value:.decimals$}"))
        .draw()?;
    for band in series {
        if !band.band.is_empty() {
            let style = band.color.mix(0.15).filled();
            chart.draw_series(std::iter::once(Polygon::new(band.band.clone(), style)))?;
        }
    }
    let in_a_row = names_in_a_row(series);
    for (number, line) in series.iter().enumerate() {
        let style = line.color.stroke_width(px(2));
        let color = line.color;
        let points = line.line.iter().copied();
        // A sample of the line before its name.
        let column = px(NAMES_LEFT) + px(COLUMN) * (number % in_a_row) as u32;
        let row = px(ROW) * (number / in_a_row) as u32 + px(ROW / 2) - px(4);
        let [x, y] = [column as i32, row as i32];
        let sample = vec![(x, y), (x + px(26) as i32, y)];
        let (dash, gap) = (px(6), px(4));
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(points, dash, gap, style))?;
            below.draw(&DashedPathElement::new(sample, dash, gap, style))?;
        } else {
            chart.draw_series(LineSeries::new(points, style))?;
            below.draw(&PathElement::new(sample, style))?;
        }
        let at = (x + px(34) as i32, y - px(6) as i32);
        below.draw(&Text::new(line.name.clone(), at, text(15)))?;
        if is_dotted {
            let dots = line.line.iter();
            chart.draw_series(dots.map(|dot| Circle::new(*dot, px(3), color.filled())))?;
        }
    }
    root.present()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use fs_err as fs;

    use super::super::EpochPoint;
    use super::*;
    use kvt_train::plot::PALETTE;
    use kvt_train::run::Metrics;

    const TOP1: Plot = Plot::Metric(Metric::TOP1);

    fn curves() -> Vec<Curve> {
        let mut curves = Vec::new();
        for (label, gain) in [("dense", 0.0), ("k-NN, k = n/2 & <more>", 4.0)] {
            for seed in 0..3 {
                let epochs = (0..20)
                    .map(|epoch| {
                        let t = f64::from(epoch) / 6.0;
                        let noise = f64::sin(f64::from(epoch * 7) + seed as f64 * 2.0);
                        EpochPoint {
                            epoch,
                            train_loss: Some(
                                2.3 * (-t * 0.6).exp() + 0.3 - gain * 0.01 + 0.03 * noise,
                            ),
                            val: Metrics::from([
                                (
                                    "loss",
                                    2.2 * (-t * 0.5).exp() + 0.7 - gain * 0.02 + 0.04 * noise,
                                ),
                                (
                                    "top1",
                                    (80.0 + gain) * (1.0 - (-t).exp()) + 10.0 + 1.5 * noise,
                                ),
                            ]),
                            ..EpochPoint::default()
                        }
                    })
                    .collect();
                curves.push(Curve {
                    label: label.to_owned(),
                    seed,
                    epochs,
                });
            }
        }
        curves
    }

    #[test]
    fn both_formats_of_both_plots_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let paths = save_plots(&curves(), Metric::TOP1, "Convergence", folder.path()).unwrap();
        assert_eq!(paths.len(), 4);
        for path in paths {
            if path.extension().unwrap() == "png" {
                let picture = image::open(&path).unwrap().to_rgb8();
                assert_eq!(picture.dimensions(), (SIZE.0 * PNG_SCALE, picture.height()));
                // The names are below: one row for the metric, and one row per label for the two losses.
                let rows = if path.file_stem().unwrap() == "loss" {
                    2
                } else {
                    1
                };
                assert_eq!(picture.height(), (SIZE.1 + rows * ROW) * PNG_SCALE);
                // Both labels' lines are there.
                for color in PALETTE.iter().take(2) {
                    let color = image::Rgb([color.0, color.1, color.2]);
                    let count = picture.pixels().filter(|pixel| **pixel == color).count();
                    assert!(count > 1000, "{}: {count} pixels", path.display());
                }
            } else {
                let text = fs::read_to_string(&path).unwrap();
                assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
                for expected in ["Convergence", "epoch", "k-NN, k = n/2 &amp; &lt;more&gt;"] {
                    assert!(text.contains(expected), "{expected}");
                }
                assert!(text.contains("font-family=\"sans-serif\""));
            }
        }
    }

    #[test]
    fn text_needs_no_font_of_the_system() {
        // Glyphs come from the embedded font: without a title there is less ink.
        let folder = tempfile::tempdir().unwrap();
        let ink = |title: &str| {
            let path = folder.path().join("a.png");
            draw(&series(TOP1, &curves()), TOP1, title, &path).unwrap();
            let picture = image::open(&path).unwrap().to_luma8();
            let top = picture.rows().take(70);
            top.flatten().filter(|pixel| pixel.0[0] < 128).count()
        };
        assert_eq!(ink(" "), 0);
        assert!(ink("Convergence of DeiT") > 500);
    }

    #[test]
    fn one_epoch_and_no_data_can_be_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let mut short = curves();
        for curve in &mut short {
            curve.epochs.truncate(1);
        }
        assert_eq!(
            save_plots(&short, Metric::TOP1, "one", folder.path())
                .unwrap()
                .len(),
            4
        );
        // A loss has one plot.
        assert_eq!(
            save_plots(&short, Metric::LOSS, "one", folder.path())
                .unwrap()
                .len(),
            2
        );
        let empty = folder.path().join("empty.svg");
        draw(&[], TOP1, "none", &empty).unwrap();
        assert!(empty.exists());
        assert_eq!(
            save_plots(&[], Metric::TOP1, "none", folder.path()).unwrap(),
            Vec::<PathBuf>::new()
        );
    }
}
