#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn axis(label: &str, logarithmic: bool, ticks: Vec<f64>) -> Axis<'_> {
    Axis {
        label,
        logarithmic,
        ticks,
    }
}

#[test]
fn a_chart_has_its_lines_and_names() {
    let line = |name: &str, color, factor: f64| Line {
        name: name.to_owned(),
        color,
        dash: (color > 0).then_some((6, 4)),
        points: [256.0, 1024.0, 4096.0].map(|x| (x, factor * x)).into(),
    };
    let chart = Chart {
        title: "A <title>",
        x: axis("tokens", true, vec![256.0, 1024.0, 4096.0, 9e9]),
        y: axis("ms", true, Vec::new()),
        lines: vec![line("full", 0, 0.1), line("less", 1, 0.01)],
        names: Names::Within(SeriesLabelPosition::UpperLeft),
    };
    let svg = chart.svg().unwrap();
    for text in ["A &lt;title&gt;", "tokens", "ms", "full", "less", "1024"] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("9000000000"));
    // One without a name is drawn, and not listed.
    let mut more = chart;
    more.lines.insert(1, line("", 0, 0.05));
    let with_unnamed = more.svg().unwrap();
    assert_eq!(
        with_unnamed.matches("<circle").count(),
        svg.matches("<circle").count() + 3
    );
    assert_eq!(
        with_unnamed.matches("<text").count(),
        svg.matches("<text").count()
    );
    let chart = more;
    for color in ["#0072B2", "#D55E00"] {
        assert!(svg.matches(color).count() > 3, "{color}");
    }
    assert!(svg.contains(r#"width="800" height="500""#));
    // Beside, the names are in rows to the right of all lines.
    let beside = Chart {
        names: Names::Beside,
        ..chart
    };
    let svg = beside.svg().unwrap();
    assert!(svg.contains(r#"width="1000" height="600""#));
    for place in [r#"x="838" y="52""#, r#"x="838" y="76""#] {
        assert!(svg.contains(place), "{place} {svg}");
    }
}

#[test]
fn places_on_a_scale() {
    let values = || [10.0, 1000.0].into_iter();
    let scale = Scale::new(&axis("", true, Vec::new()), values());
    assert_eq!(scale.map(&100.0, (0, 200)), 100);
    assert!(scale.range.start < 10.0 && scale.range.end > 1000.0);
    assert_eq!(scale.ticks, [10.0, 100.0, 1000.0]);
    let scale = Scale::new(&axis("", false, Vec::new()), values());
    assert_eq!(scale.map(&505.0, (300, 100)), 200);
    assert_eq!(scale.ticks, [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
    // Neither nothing nor one value is a range of no length.
    for values in [&[][..], &[0.5], &[f64::NAN]] {
        for logarithmic in [false, true] {
            let scale = Scale::new(&axis("", logarithmic, Vec::new()), values.iter().copied());
            assert!(scale.range.start < scale.range.end);
        }
    }
    assert_eq!(
        decades(&(3.0..700.0)),
        [
            1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3
        ]
    );
}

#[test]
fn whole_numbers_have_whole_ticks() {
    assert_eq!(Axis::whole("layer", 4).ticks, [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        Axis::whole("layer", 12).ticks,
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    );
    // Those outside of the lines are not drawn.
    let scale = Scale::new(&Axis::whole("layer", 2), [1.0, 2.0].into_iter());
    assert_eq!(scale.ticks, [1.0, 2.0]);
}

#[test]
fn numbers_are_short() {
    for (value, text) in [
        (16_384.0, "16384"),
        (0.1 + 0.2, "0.3"),
        (0.05, "0.05"),
        (20.0, "20"),
        (0.0, "0"),
    ] {
        assert_eq!(number(value), text);
    }
}
