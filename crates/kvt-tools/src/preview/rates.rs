//! The learning rate over a run, as a picture.

use plotters::prelude::*;
use plotters::style::FontStyle;

use kvt_train::plot::{FONT, GRID, INK, PALETTE, encode_png, register_fonts};
use kvt_train::recipe::Schedule;

/// Size in pixels.
const SIZE: (u32, u32) = (1600, 900);
/// Maximum number of points of the curve.
const MOST_POINTS: u64 = 3200;

/// A PNG of the learning rate of every update, over the epochs.
pub(super) fn draw(
    schedule: &Schedule,
    steps_per_epoch: u64,
    epochs: u32,
) -> Result<Vec<u8>, String> {
    register_fonts()?;
    let points = points(schedule, steps_per_epoch, epochs);
    let mut pixels = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    chart(&mut pixels, &points, f64::from(epochs)).map_err(|error| error.to_string())?;
    encode_png(&pixels, SIZE.0, SIZE.1)
}

/// The epochs done and the learning rate at that point, for updates at equal distances.
fn points(schedule: &Schedule, steps_per_epoch: u64, epochs: u32) -> Vec<(f64, f64)> {
    let all = steps_per_epoch * u64::from(epochs);
    let count = all.min(MOST_POINTS);
    let step = |point: u64| point * all.saturating_sub(1) / count.saturating_sub(1).max(1);
    (0..count)
        .map(step)
        .map(|step| {
            let epoch = u32::try_from(step / steps_per_epoch).unwrap_or(u32::MAX);
            let place = step as f64 / steps_per_epoch as f64;
            (place, schedule.lr(step, epoch))
        })
        .collect()
}

fn chart(
    pixels: &mut [u8],
    points: &[(f64, f64)],
    epochs: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let highest = points
        .iter()
        .fold(0.0, |max: f64, (_, rate)| max.max(*rate));
    let root = BitMapBackend::with_buffer(pixels, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: u32| (FONT, size).into_font().color(&INK);
    let title = (FONT, 40, FontStyle::Bold).into_font().color(&INK);
    let mut chart = ChartBuilder::on(&root)
        .caption("Learning rate", title)
        .margin(28)
        .margin_right(48)
        .x_label_area_size(92)
        .y_label_area_size(150)
        .build_cartesian_2d(0.0..epochs, 0.0..highest.max(f64::MIN_POSITIVE) * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("epochs done")
        .axis_desc_style(text(32))
        .label_style(text(28))
        .axis_style(INK.stroke_width(2))
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(TRANSPARENT)
        .x_labels(11)
        .y_labels(8)
        .x_label_formatter(&|epoch| format!("{}", (100.0 * epoch).round() / 100.0))
        .y_label_formatter(&|rate| label(*rate))
        .draw()?;
    let style = PALETTE.first().copied().unwrap_or(BLACK).stroke_width(4);
    chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
    root.present()?;
    Ok(())
}

/// A rate at the axis.
fn label(rate: f64) -> String {
    if rate == 0.0 {
        "0".to_owned()
    } else {
        format!("{rate:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvt_train::recipe::{ScheduleConfig, SchedulePer};

    fn schedule(per: SchedulePer, steps: u64, epochs: u32) -> Schedule {
        let config = ScheduleConfig {
            per,
            warmup_epochs: 1.0,
            ..ScheduleConfig::default()
        };
        Schedule::new(config, 1e-3, steps, epochs)
    }

    #[test]
    fn rates_at_the_axis() {
        assert_eq!([0.0, 5e-4].map(label), ["0", "5.0e-4"]);
    }

    #[test]
    fn the_curve_has_the_rates_of_the_run() {
        for per in [SchedulePer::Step, SchedulePer::Epoch] {
            let schedule = schedule(per, 5, 4);
            let points = points(&schedule, 5, 4);
            assert_eq!(points.len(), 20);
            for (step, (place, rate)) in (0..).zip(points) {
                assert_eq!(place, step as f64 / 5.0);
                assert_eq!(rate, schedule.lr(step, (step / 5) as u32));
            }
        }
    }

    #[test]
    fn a_long_run_is_thinned_from_the_first_update_to_the_last() {
        let schedule = schedule(SchedulePer::Step, 1251, 300);
        let points = points(&schedule, 1251, 300);
        assert_eq!(points.len() as u64, MOST_POINTS);
        let last = 1251 * 300 - 1;
        assert_eq!(points.first(), Some(&(0.0, schedule.lr(0, 0))));
        assert_eq!(
            points.last(),
            Some(&(last as f64 / 1251.0, schedule.lr(last, 299)))
        );
    }
}
