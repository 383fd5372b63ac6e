#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;
use image::{Rgb, RgbImage};
use tempfile::TempDir;

use super::page::{SCRIPT, STYLE, hash};
use super::*;
use crate::events::{epoch, eval};
use crate::probe::HeadMap;
use kvt_data::Batch;
use kvt_train::judge::Guess;
use kvt_train::plot::color;
use kvt_train::run::{Event, JsonlLog, Listener, Note, RunDir, Tables, Topic};
use kvt_train::task::{Evaluation, TaskKind};

/// A class name that tries to break the page.
const NASTY: &str = "<script>alert('\"&')</script>";

/// A folder of runs.
struct Runs(TempDir);

impl Runs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Adds a run with these events; `more` is appended to the configuration of the model.
    fn add(&self, name: &str, more: &str, events: &[Event]) -> PathBuf {
        let path = self.0.path().join(name);
        let run = RunDir::create(&path, false).unwrap();
        let classes = ["cat", NASTY, "dog"].map(str::to_owned);
        run.write_classes(&classes).unwrap();
        let (mut log, _) = JsonlLog::resume(&run.log(), 0, 0).unwrap();
        let metrics = &[Metric::LOSS, Metric::TOP1, Metric::TOP5];
        let mut csv = Tables::new(&run, metrics, &[]).unwrap();
        for event in events {
            log.event(event).unwrap();
            csv.event(event).unwrap();
        }
        let config = format!(
            "{more}\n[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"nowhere\"\n[train]\nepochs = 3\n"
        );
        fs::write(run.config(), config).unwrap();
        path
    }
}

/// Three epochs; the second was not evaluated.
fn events() -> Vec<Event> {
    vec![
        eval(0, "val", 1.0 / 3.0),
        epoch(0, 2.5),
        epoch(1, 2.0),
        eval(2, "val", 60.0),
        epoch(2, 1.0 / 7.0),
    ]
}

fn report(paths: &[PathBuf]) -> Report {
    let records = paths.iter().map(|path| Record::read(path).unwrap());
    Report::new(records.collect(), Some(Metric::TOP1), None).unwrap()
}

/// The values of an attribute, in order.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    let parts = html.split(&*start).skip(1);
    parts.map(|part| part.split('"').next().unwrap()).collect()
}

/// The lines of all charts: names, epochs, values.
fn lines(html: &str) -> Vec<(String, String, String)> {
    let [names, x, y] = ["data-name", "data-x", "data-y"].map(|name| attributes(html, name));
    assert!(names.len() == x.len() && names.len() == y.len());
    let all = names.into_iter().zip(x).zip(y);
    all.map(|((name, x), y)| (name.to_owned(), x.to_owned(), y.to_owned()))
        .collect()
}

/// Compared with `epochs.csv`, which other code writes: each number to the last digit in a curve, and to six digits in the table.
#[test]
fn curves_and_tables_have_the_numbers_of_epochs_csv() {
    let runs = Runs::new();
    let path = runs.add("dense", "", &events());
    let html = report(std::slice::from_ref(&path)).to_html().unwrap();
    let csv = fs::read_to_string(path.join("epochs.csv")).unwrap();
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let rows: Vec<Vec<&str>> = rows.collect();
    assert_eq!(rows.len(), 3);
    let column = |name: &str| {
        let at = header.iter().position(|other| *other == name).unwrap();
        let there = rows.iter().filter(|row| !row[at].is_empty());
        let there = there.map(|row| {
            // The file counts from 0.
            let epoch = row[0].parse::<u32>().unwrap() + 1;
            (epoch.to_string(), row[at].to_owned())
        });
        let (epochs, values): (Vec<String>, Vec<String>) = there.unzip();
        (epochs.join(" "), values.join(" "))
    };
    let drawn = lines(&html);
    assert_eq!(drawn.len(), 5, "{drawn:?}");
    for (at, name) in [
        "val_top1",
        "val_loss",
        "train_loss",
        "lr",
        "images_per_second",
    ]
    .iter()
    .enumerate()
    {
        let (epochs, values) = column(name);
        assert_eq!((&drawn[at].1, &drawn[at].2), (&epochs, &values), "{name}");
        for value in values.split(' ') {
            let value = chart::short_number(value.parse().unwrap());
            assert!(
                html.contains(&format!("<td>{value}</td>")),
                "{name} {value}"
            );
        }
    }
    assert!(html.contains("<td>0.333333</td>") && html.contains("<td>0.142857</td>"));
    assert_eq!(drawn[0].1, "1 3");
    // Every measurement has its place in the picture.
    let dots = html.matches("<circle class=\"dot\"").count();
    assert_eq!(dots, 2 + 2 + 3 + 3 + 3);
    for polyline in html.split("<polyline").skip(1) {
        let points = attributes(polyline, "points")[0];
        for pair in points.split(' ') {
            let (x, y) = pair.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (64.0..=468.0).contains(&x) && (10.0..=256.0).contains(&y),
                "{pair}"
            );
        }
    }
    assert!(html.contains("60.00 %") && html.contains("after epoch 3"));
}

/// A report with everything in it, and foreign text everywhere.
fn full(runs: &Runs) -> Report {
    let mut events = events();
    events.push(Event::Note(Note::new(3, Topic::Warning, NASTY)));
    let named = format!("seed = 1 # {NASTY}");
    let paths = [
        runs.add("<b>dense", "", &events),
        runs.add("\"knn' onload=x", &named, &events[..3]),
    ];
    let mut report = report(&paths);
    report.title = NASTY.to_owned();
    let mut judgement = Judgement::new(3);
    let batch = Batch {
        views: Vec::new(),
        indices: vec![0, 1, 2],
        targets: vec![0, 1, 1],
    };
    // The last image of the nasty class is predicted as the first class.
    judgement.hear(&batch, &[3.0, 0.0, 0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0]);
    report.judged.push(Judged {
        run: 0,
        checkpoint: "best".to_owned(),
        images: NASTY.to_owned(),
        classes: ["cat", NASTY, "dog"].map(str::to_owned).to_vec(),
        found: (Evaluation::default(), judgement),
    });
    let guess = |class: &str, probability| Guess {
        class: class.to_owned(),
        probability,
    };
    for run in [0, 1] {
        report.samples.push(Sample {
            run,
            image: format!("{NASTY}.png"),
            classes: vec![NASTY.to_owned()],
            picture: picture(),
            guesses: vec![guess(NASTY, 0.75), guess("cat", 0.25)],
            maps: vec![HeadMap {
                grid: [2, 2],
                weights: vec![0.0, 0.5, 0.25, 0.0],
                kept: 2,
            }],
        });
    }
    report.mistakes.push(Sample {
        run: 1,
        image: "x".to_owned(),
        classes: vec!["cat".to_owned()],
        picture: RgbImage::from_pixel(80, 80, Rgb([9, 99, 199])),
        guesses: vec![guess(NASTY, 1.0)],
        maps: Vec::new(),
    });
    report.remarks.push(NASTY.to_owned());
    report
}

fn picture() -> RgbImage {
    RgbImage::from_fn(8, 8, |x, y| Rgb([30 * x as u8, 30 * y as u8, 7]))
}

#[test]
fn texts_of_others_stay_texts() {
    let runs = Runs::new();
    let html = full(&runs).to_html().unwrap();
    // Only our own script.
    assert_eq!(html.matches("<script").count(), 1);
    assert_eq!(html.matches("</script").count(), 1);
    assert!(!html.contains("<b>") && !html.contains("alert('"));
    let escaped = "&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;";
    // Title and heading, note, configuration, images, classes of the matrix and of the tables, samples, remark.
    assert!(
        html.matches(escaped).count() > 15,
        "{}",
        html.matches(escaped).count()
    );
    // A quote does not end an attribute: only our own attributes are present.
    assert_eq!(elements(&html).1.get("onload"), None);
    assert!(html.contains("&quot;knn&#39; onload=x"));
}

/// How often each name occurs.
type Counts = BTreeMap<String, usize>;

/// The elements of a page, which must all be closed, and the names of all attributes.
fn elements(html: &str) -> (Counts, Counts) {
    let (mut found, mut attributes) = (Counts::new(), Counts::new());
    let mut open: Vec<String> = Vec::new();
    let mut rest = html.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        *found.entry(name.clone()).or_insert(0) += 1;
        // Within quotes there is no quote, so every second part is a value.
        for outside in tag.split('"').step_by(2) {
            for attribute in outside.split_whitespace() {
                if let Some(attribute) = attribute.strip_suffix('=') {
                    *attributes.entry(attribute.to_owned()).or_insert(0) += 1;
                }
            }
        }
        if ["style", "script"].contains(&&*name) {
            rest = &rest[rest.find("</").unwrap()..];
        }
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    (found, attributes)
}

#[test]
fn the_page_is_whole() {
    let runs = Runs::new();
    let html = full(&runs).to_html().unwrap();
    let (found, _) = elements(&html);
    for name in ["html", "head", "body", "main", "style", "script"] {
        assert_eq!(found.get(name), Some(&1), "{name}");
    }
    assert_eq!(found.get("section"), Some(&10), "{found:?}");
    // Ids are unique, and every link leads to one.
    let ids = attributes(&html, "id");
    let links = attributes(&html, "href");
    let targets: Vec<&str> = links
        .iter()
        .filter_map(|link| link.strip_prefix('#'))
        .collect();
    assert_eq!(ids, targets);
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
}

/// The page loads nothing: no address, and a policy that allows only what the page contains.
#[test]
fn the_page_needs_nothing_else() {
    let runs = Runs::new();
    let html = full(&runs).to_html().unwrap();
    for part in [
        "http:", "https:", "url(", "@import", "<iframe", "<object", "<base",
    ] {
        assert!(!html.contains(part), "{part}");
    }
    for source in attributes(&html, "src") {
        assert!(source.starts_with("data:image/"), "{source}");
    }
    let policy = html
        .split("Content-Security-Policy\" content=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert!(
        policy.starts_with("default-src &#39;none&#39;; img-src data:; style-src &#39;sha256-")
    );
    assert!(!policy.contains("unsafe") && !policy.contains('*'));
    // The policy contains the hashes of what is in the file.
    let within = |tag: &str| {
        let part = html.split(&format!("<{tag}>")).nth(1).unwrap();
        part.split(&format!("</{tag}>")).next().unwrap()
    };
    assert_eq!((within("style"), within("script")), (STYLE, SCRIPT));
    for tag in ["style", "script"] {
        let known = format!("{tag}-src &#39;{}&#39;;", hash(within(tag)));
        assert!(policy.contains(&known), "{policy}");
    }
    // No inline style or event handler, which the policy would refuse.
    let (_, found) = elements(&html);
    let refused = |name: &String| name == "style" || name.starts_with("on");
    assert!(!found.keys().any(refused), "{found:?}");
}

#[test]
fn the_same_runs_make_the_same_file() {
    let runs = Runs::new();
    let first = full(&runs);
    let paths: Vec<PathBuf> = first.records.iter().map(|run| run.path.clone()).collect();
    assert_eq!(first.to_html().unwrap(), first.to_html().unwrap());
    let file = runs.0.path().join("a.html");
    report(&paths).save(&file).unwrap();
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        report(&paths).to_html().unwrap()
    );
}

/// The embedded picture equals the original; an image that two runs saw appears once, with the predictions of both.
#[test]
fn pictures_are_within() {
    let runs = Runs::new();
    let html = full(&runs).to_html().unwrap();
    let small = attributes(&html, "src");
    let png = small[0].strip_prefix("data:image/png;base64,").unwrap();
    let decode = |text: &str| {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap();
        image::load_from_memory(&bytes).unwrap().to_rgb8()
    };
    assert_eq!(decode(png), picture());
    // The image once, a map for each run, and the mistake in colours that JPEG changes little.
    assert_eq!(small.len(), 4);
    let map = decode(small[1].strip_prefix("data:image/png;base64,").unwrap());
    assert_eq!(map.dimensions(), (2, 2));
    // Two kept patches with a mean of 0.375: 0.5 is four ninths of 1.125, which is white.
    assert_eq!(map.get_pixel(1, 0), &Rgb([255, 85, 0]));
    assert_eq!(map.get_pixel(0, 0), map.get_pixel(1, 1));
    let large = decode(small[3].strip_prefix("data:image/jpeg;base64,").unwrap());
    assert_eq!(large.dimensions(), (80, 80));
    assert!(large.get_pixel(40, 40).0[2].abs_diff(199) < 6);
}

/// Names of images, wrong classes and heads are text of the page, not only of tooltips.
#[test]
fn names_can_be_read_without_a_pointer() {
    let runs = Runs::new();
    let html = full(&runs).to_html().unwrap();
    for text in [
        ">x</span>",
        ">✗ taken for &lt;script&gt;",
        ">head 1: 2 of 4</span>",
        "checkpoint <code>best</code>",
    ] {
        assert!(html.contains(text), "{text}");
    }
    // A model with one stage has no stages to go through.
    let one = runs.add("one", "", &events());
    let html = report(&[one]).to_html().unwrap();
    assert!(html.contains("197 of 197") && !html.contains("stage by stage"));
}

/// With several labels an image that has others is not taken for another.
#[test]
fn a_label_that_an_image_lacks_stands_in_place_of_none() {
    let mut report = full(&Runs::new());
    for record in &mut report.records {
        record.plan.task = TaskKind::MultiLabel;
    }
    for sample in &mut report.samples {
        sample.classes = vec!["cat".to_owned(), "dog".to_owned()];
    }
    let html = samples::chosen(&report).unwrap().finish();
    assert!(
        html.contains(">✗ not among its labels: &lt;script&gt;"),
        "{html}"
    );
    assert!(
        html.contains("alt=\"image with the labels cat, dog\""),
        "{html}"
    );
    assert!(!html.contains("taken for"), "{html}");
}

/// By hand: of three images the nasty class has two, one of which is predicted as `cat`.
#[test]
fn the_confusion_matrix_by_hand() {
    let runs = Runs::new();
    let html = full(&runs).to_html().unwrap();
    let matrix = html
        .split("<table class=\"matrix\">")
        .nth(1)
        .unwrap()
        .split("</table>")
        .next()
        .unwrap();
    assert!(matrix.contains("<td class=\"right q10\" title=\"1 of cat taken for cat\">1</td>"));
    // The square root of a half is 0.71.
    assert_eq!(matrix.matches("class=\"wrong q8\"").count(), 1);
    assert_eq!(matrix.matches("class=\"right q8\"").count(), 1);
    assert_eq!(matrix.matches("<td class=\"\"").count(), 6);
    assert!(html.contains("Per class (2)"));
    // Of the class and of the predictions as `cat`, as `kvt eval` has them.
    assert_eq!(html.matches("<td>50.00 %</td>").count(), 2);
}

#[test]
fn runs_that_are_not_finished_are_told_of() {
    let runs = Runs::new();
    let open = runs.add("open", "", &events()[..3]);
    let mut events = vec![epoch(0, 1.0)];
    events.push(Event::Note(Note::new(10, Topic::Stop, "stopped")));
    let stopped = runs.add("stopped", "", &events);
    let begun = runs.add("begun", "", &[]);
    let found = report(&[open, stopped, begun]);
    let warnings = found.warnings();
    let expected = [
        "`open` is still in training, or was killed, after 2 of 3 epochs: its numbers are those of now",
        "`stopped` was stopped after 1 of 3 epochs: its numbers are those of now; `stopped` has not been evaluated yet",
        "`begun` is still in training, or was killed, after 0 of 3 epochs: its numbers are those of now",
    ];
    assert_eq!(warnings[..3], expected);
    // No run has an `environment.json`.
    assert_eq!(warnings.len(), 6, "{warnings:?}");
    assert!(warnings[3].contains("environment.json"), "{warnings:?}");
    let html = found.to_html().unwrap();
    assert!(html.contains("still in training"));
    elements(&html);
}

#[test]
fn what_cannot_be_reported_is_an_error() {
    let runs = Runs::new();
    let none = Report::new(Vec::new(), Some(Metric::TOP1), None).unwrap_err();
    assert!(matches!(none, ReportError::NoRuns));
    let twice = runs.add("twice", "", &events());
    let again = twice.join(".");
    let records = [&twice, &again].map(|path| Record::read(path).unwrap());
    let error = Report::new(records.into(), Some(Metric::TOP1), None).unwrap_err();
    assert!(
        matches!(&error, ReportError::Twice(run) if *run == again),
        "{error}"
    );
    let begun = runs.add("begun", "", &[]);
    let records = vec![Record::read(&begun).unwrap()];
    let error = Report::new(records, Some(Metric::TOP1), None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("begun` has not finished an epoch"),
        "{error}"
    );
    // Its epochs of before are in the table that a resume kept when it found no log.
    fs::copy(twice.join("epochs.csv"), begun.join("epochs.csv.1")).unwrap();
    let records = vec![Record::read(&begun).unwrap()];
    let error = Report::new(records, None, None).unwrap_err().to_string();
    assert!(
        error.contains(
            "begun` has not finished an epoch since its log was lost: the earlier epochs are in `"
        ) && error.ends_with("begun/epochs.csv.1`"),
        "{error}"
    );
    // It was lost again and again, once before another epoch had ended.
    fs::write(begun.join("epochs.csv.2"), "epoch,train_loss\n").unwrap();
    fs::copy(twice.join("epochs.csv"), begun.join("epochs.csv.3")).unwrap();
    let records = vec![Record::read(&begun).unwrap()];
    let error = Report::new(records, None, None).unwrap_err().to_string();
    let tables = ["epochs.csv.1", "epochs.csv.2", "epochs.csv.3"];
    let named = tables.map(|table| error.contains(&format!("begun/{table}`")));
    assert_eq!(named, [true, false, true], "{error}");
    let records = vec![Record::read(&twice).unwrap()];
    let error = Report::new(records, Some(Metric::BOX_AP), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no run is evaluated by `box_ap`, but by `loss`, `top1`, `top5`"
    );
    // Nothing is known of a run that was not evaluated yet.
    let young = runs.add("young", "", &[epoch(0, 1.0)]);
    let records = vec![Record::read(&young).unwrap()];
    assert!(Report::new(records, Some(Metric::BOX_AP), None).is_ok());
    let lost = runs.add("lost", "", &events());
    fs::remove_file(lost.join("log.jsonl")).unwrap();
    let error = Record::read(&lost).unwrap_err().to_string();
    assert!(error.contains("log.jsonl"), "{error}");
    let broken = runs.add("broken", "", &events());
    fs::write(broken.join("config.toml"), "[model\n").unwrap();
    assert!(matches!(Record::read(&broken), Err(ReportError::Config { run, .. }) if run == broken));
    let nothing = Record::read(Path::new("nowhere")).unwrap_err();
    assert!(nothing.to_string().contains("holds no run"), "{nothing}");
}

/// A line of the log that does not parse is a warning; the other lines count.
#[test]
fn a_damaged_log_is_a_warning() {
    let runs = Runs::new();
    let path = runs.add("dense", "", &events());
    let log = path.join("log.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, format!("{text}{{\"kind\":\"oh\n")).unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!(record.epochs(), 3);
    assert!(
        record.warnings[0].contains("log.jsonl"),
        "{:?}",
        record.warnings
    );
}

#[test]
fn configurations_differ_by_their_mathematics_first() {
    let runs = Runs::new();
    let knn = "seed = 4\nrun.dir = \"a\"\noptim.lr = 0.5\n";
    let paths = [
        runs.add("dense", "run.dir = \"b\"", &events()),
        runs.add("other", "run.dir = \"b\"", &events()),
        runs.add("knn", knn, &events()),
    ];
    let found = settings::differing(&report(&paths).records).unwrap();
    let keys: Vec<(&str, bool)> = found
        .iter()
        .map(|one| (&*one.key, one.is_harmless))
        .collect();
    assert_eq!(
        keys,
        [("optim.lr", false), ("seed", false), ("run.dir", true)]
    );
    let values = found[1].values.iter().map(|value| value.as_deref());
    assert_eq!(
        values.collect::<Vec<_>>(),
        [Some("0"), Some("0"), Some("4")]
    );
}

/// Two folders with the same name are two runs, and seeds of one configuration share a line with a band.
#[test]
fn runs_of_one_name() {
    let runs = Runs::new();
    let seeds = [
        runs.add("dense-seed0", "", &events()),
        runs.add(
            "dense-seed1",
            "seed = 1",
            &[eval(0, "val", 1.0), epoch(0, 1.0)],
        ),
    ];
    let html = report(&seeds).to_html().unwrap();
    let top1 = lines(&html).swap_remove(0);
    // (1/3 + 1) / 2, and 60 for the only run with that epoch.
    assert_eq!(
        top1,
        (
            "dense".to_owned(),
            "1 3".to_owned(),
            format!("{} 60", (1.0 / 3.0 + 1.0) / 2.0)
        )
    );
    assert!(html.contains("class=\"band\""));
    assert_eq!(report(&seeds).label_number(1), 0);
    let same = [
        runs.add("a/dense", "", &events()),
        runs.add("b/dense", "", &events()),
    ];
    let found = report(&same);
    let [one, two] = found.records.as_slice() else {
        panic!("two runs")
    };
    assert!(one.name.ends_with("a/dense") && two.name.ends_with("b/dense"));
    assert_eq!((found.label_number(0), found.label_number(1)), (0, 1));
    // Equal lines are drawn once.
    let drawn = lines(&found.to_html().unwrap());
    assert_eq!(drawn.len(), 5);
    assert!(drawn[0].0.contains("a/dense and ") && drawn[0].0.ends_with("b/dense"));
}

/// The style sheet has the same colours as the plots of `kvt compare`.
#[test]
fn colours_are_those_of_the_plots() {
    for number in 0..chart::COLORS {
        let own = color(number);
        let rule = format!(
            ".s{number} {{ --c: #{:02x}{:02x}{:02x} }}",
            own.0, own.1, own.2
        );
        assert!(STYLE.contains(&rule), "{rule}");
    }
}
