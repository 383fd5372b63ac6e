#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn a_chart_has_its_lines_and_names() {
    let line = |name: &str, color, factor: f64| Line {
        name: name.to_owned(),
        color,
        dashed: color > 0,
        points: [256.0, 1024.0, 4096.0].map(|x| (x, factor * x)).into(),
    };
    let chart = Chart {
        title: "A <title>",
        x: Axis::logarithmic("tokens").at(vec![256.0, 1024.0, 4096.0, 9e9]),
        y: Axis::logarithmic("ms"),
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
    assert!(svg.contains(r#"x1="84""#));
    for place in [r#"x="838" y="52""#, r#"x="838" y="76""#] {
        assert!(svg.contains(place), "{place} {svg}");
    }
}

/// The first row is at the top, and the lines begin to the right of the longest name.
#[test]
fn rows_have_their_names_at_the_axis() {
    let names = ["first", "a much longer second"].map(str::to_owned);
    let chart = Chart {
        title: "A title",
        x: Axis::linear("points"),
        y: Axis::rows(names.to_vec()),
        lines: vec![Line::new("both", 0, [(1.0, 0.0), (2.0, -1.0)])],
        names: Names::Beside,
    };
    let svg = chart.svg().unwrap();
    let place = |text: &str| {
        let (before, _) = svg.split_once(&format!("\n{text}\n")).unwrap();
        let tag = before.rsplit("<text ").next().unwrap();
        let number = |name: &str| {
            let (_, behind) = tag.split_once(&format!("{name}=\"")).unwrap();
            behind.split('"').next().unwrap().parse::<i32>().unwrap()
        };
        (number("x"), number("y"))
    };
    let [first, second] = names.each_ref().map(|name| place(name));
    assert_eq!(first.0, second.0);
    assert!(first.1 < second.1, "{first:?} {second:?}");
    assert!(first.0 >= 7 * 20, "{first:?}");
}
