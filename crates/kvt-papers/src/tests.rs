//! Properties of all items, and how their files are written.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use kvt_data::fs::TEMPORARY_PREFIX;
use kvt_tools::sweep::SweepError;
use kvt_train::engine::Workload;
use kvt_train::run::{Event, Listener, RunError};

/// Records what it receives.
#[derive(Default)]
pub(super) struct Heard {
    steps: Mutex<Vec<(usize, usize)>>,
    lines: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Heard {
    pub(super) fn steps(&self) -> Vec<(usize, usize)> {
        self.steps.lock().unwrap().clone()
    }
}

impl Watch for Heard {
    fn progress(&self, done: usize, of: usize) {
        self.steps.lock().unwrap().push((done, of));
    }

    fn generating(&self, done: usize, of: usize) {
        self.progress(done, of);
    }

    fn say(&self, text: &str) {
        self.lines.lock().unwrap().push(text.to_owned());
    }

    fn warn(&self, text: &str) {
        self.say(text);
    }

    fn training(&self, _: &str, _: Workload, _: bool) -> Box<dyn Listener> {
        struct Deaf;

        impl Listener for Deaf {
            fn event(&mut self, _event: &Event) -> Result<(), RunError> {
                Ok(())
            }
        }

        Box::new(Deaf)
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

const HALF: Item = Item {
    name: "half",
    title: "Half",
    stated: "\nIt is 0.5.\n",
    make: Make::Alone(|_, watch| {
        watch.progress(1, 1);
        Ok(Outcome {
            verdict: "**Half is 0.5.**\n\n".to_owned(),
            csv: "a\n0.5\n".to_owned(),
            svg: "<svg/>".to_owned(),
            found: table(["a", "b"], [["x", "0.5"].map(str::to_owned)]),
            files: vec![("more.txt".to_owned(), b"more".to_vec())],
        })
    }),
    ..Item::PLAIN
};

const FAILS: Item = Item {
    make: Make::Alone(|_, watch| {
        watch.progress(1, 1);
        Err(ReproduceError::Draw("no ink".to_owned()))
    }),
    ..HALF
};

#[test]
fn all_files_are_written_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("a").join("b");
    let heard = Heard::default();
    let order = Order {
        out: at.clone(),
        ..Order::default()
    };
    let error = reproduce(&FAILS, &order, &heard).unwrap_err();
    assert_eq!(error.to_string(), "could not draw the figure: no ink");
    assert_eq!(heard.steps(), [(1, 1)]);
    assert_eq!(fs_err::read_dir(&at).unwrap().count(), 0);
    // Leftovers of a killed process are removed.
    fs_err::write(at.join(format!("{TEMPORARY_PREFIX}a1")), "half").unwrap();
    let paths = reproduce(&HALF, &order, &heard).unwrap().paths;
    assert_eq!(
        paths,
        ["half.csv", "half.svg", "half.md", "more.txt"].map(|name| at.join(name))
    );
    let page = fs_err::read_to_string(&paths[2]).unwrap();
    assert!(
        page.starts_with("# Half\n\n**Half is 0.5.**\n\nMade by `kvt reproduce half`"),
        "{page}"
    );
    assert!(page.contains(
        "states\n\nIt is 0.5.\n\n## What was computed\n\n| a | b |\n| --- | ---: |\n| x | 0.5 |\n"
    ));
    assert_eq!(fs_err::read_dir(&at).unwrap().count(), 4);
    // An unwritable file is noticed before anything is computed.
    fs_err::remove_file(&paths[1]).unwrap();
    fs_err::create_dir(&paths[1]).unwrap();
    let heard = Heard::default();
    assert!(reproduce(&HALF, &order, &heard).is_err());
    assert!(heard.steps().is_empty());
}

/// It is not one of papers: a comparison stops in the same way.
#[test]
fn a_stop_is_one_of_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Heard::default();
    heard.stop.store(true, Ordering::Relaxed);
    let done = demo(folder.path(), &["train.device=cpu".to_owned()], &heard);
    let Err(ReproduceError::Sweep(error)) = done else {
        unreachable!("no run was trained");
    };
    assert!(matches!(error, SweepError::Stopped), "{error}");
}

/// The command on a page has all settings of its order, except for the folder.
#[test]
fn a_page_has_its_command() {
    let made_by = |name: &str, order: &Order| {
        let page = page(find(name).unwrap(), order, &Outcome::default());
        let made_by = page.split("Made by `").nth(1).unwrap();
        made_by.split("`;").next().unwrap().to_owned()
    };
    let mut order = Order::default();
    assert_eq!(
        made_by("table3", &order),
        "kvt reproduce table3 --scale cifar-short"
    );
    order.data = Some(PathBuf::from("/pictures/data"));
    order.seeds = Some(2);
    order.overrides = ["data.kind=cifar", "train.device=\"cpu\"", "a=it's"]
        .map(str::to_owned)
        .into();
    assert_eq!(
        made_by("table2", &order),
        "kvt reproduce table2 --data DATA --scale cifar-short --seeds 2 --version eccv --set data.kind=cifar \
         --set 'train.device=\"cpu\"' --set 'a=it'\\''s'"
    );
    assert_eq!(
        made_by("speed", &order),
        "kvt reproduce speed --set data.kind=cifar --set 'train.device=\"cpu\"' --set 'a=it'\\''s'"
    );
}

#[test]
fn what_means_nothing_to_an_item_is_refused() {
    let refused = |name: &str, scale: Option<Scale>, order: &Order| {
        let checked = check(find(name).unwrap(), scale, None, order);
        checked.err().map(|error| error.to_string())
    };
    let settings = Order {
        overrides: vec!["bogus=1".to_owned()],
        ..Order::default()
    };
    let all = Order {
        data: Some(PathBuf::from("nowhere")),
        seeds: Some(3),
        devices: vec!["nope".to_owned()],
        runs: Some(PathBuf::from("runs")),
        as_is: true,
        ..settings.clone()
    };
    assert_eq!(refused("lemmas", None, &Order::default()), None);
    assert_eq!(
        refused("lemmas", None, &all).unwrap(),
        "`lemmas` is not made of training runs and does not take `--data`, `--set` or `--device`, `--seeds`, `--devices`, \
         `--runs`, `--as-is`"
    );
    // A timed item takes settings of the model, but has no runs.
    assert_eq!(refused("speed", None, &settings), None);
    let error = refused("speed", None, &all).unwrap();
    assert!(
        error.contains("take `--data`, `--seeds`, `--devices`"),
        "{error}"
    );
    // A data set that is not there, which otherwise every run would find out.
    assert_eq!(
        refused("table2", Some(Scale::Cifar), &all).unwrap(),
        "no folder `nowhere`: `--data` names the folder of the data set that the runs train on"
    );
    let here = Order {
        data: Some(PathBuf::from(".")),
        ..all
    };
    assert_eq!(refused("table2", Some(Scale::Cifar), &here), None);
}

#[test]
fn a_part_and_a_table_must_fit_the_item() {
    let refused = |name: &str, scale, order: Order| {
        let checked = check(find(name).unwrap(), Some(scale), None, &order);
        checked.err().map(|error| error.to_string())
    };
    let only = |part: &str| Order {
        only: Some(part.to_owned()),
        ..Order::default()
    };
    for part in ["upernet", "mask_rcnn"] {
        assert_eq!(refused("table4", Scale::Shapes, only(part)), None);
    }
    assert_eq!(
        refused("table4", Scale::Shapes, only("half")).unwrap(),
        "`table4` has no part `half` to train alone: `--only` can be `upernet`, `mask_rcnn`"
    );
    assert_eq!(
        refused("table2", Scale::Cifar, only("half")).unwrap(),
        "`table2` has no part `half` to train alone: leave `--only` out"
    );
    let known = Order {
        known: vec!["runs.csv".into()],
        ..Order::default()
    };
    for item in ["table1", "table3"] {
        assert_eq!(refused(item, Scale::Cifar, known.clone()), None);
    }
    let error = refused("fig2", Scale::Cifar, known).unwrap();
    assert!(error.contains("needs the runs themselves"), "{error}");
    // ADE20K is not COCO, but generated scenes are the same.
    let data = |only: Option<&str>| Order {
        data: Some(".".into()),
        only: only.map(str::to_owned),
        ..Order::default()
    };
    let error = refused("table4", Scale::Paper, data(None)).unwrap();
    assert!(error.contains("train on different data sets"), "{error}");
    assert_eq!(refused("table4", Scale::Paper, data(Some("upernet"))), None);
    assert_eq!(refused("table4", Scale::Shapes, data(None)), None);
}

/// The rows of each sweep of a part are those of the part.
#[test]
fn parts_are_told_by_their_rows() {
    for item in ITEMS.iter().filter(|item| !item.parts.is_empty()) {
        for scale in item.scales {
            let of = |only: Option<&str>| {
                let order = Order {
                    scale: *scale,
                    only: only.map(str::to_owned),
                    as_is: true,
                    ..Order::default()
                };
                planned(item, &order).unwrap()
            };
            let [all, chosen] = of(None);
            assert_eq!(all.cells.len(), chosen.cells.len());
            let parts = item.parts.iter();
            let parts: Vec<usize> = parts.map(|part| of(Some(*part))[1].cells.len()).collect();
            assert!(parts.iter().all(|cells| *cells > 0), "{parts:?}");
            assert_eq!(parts.iter().sum::<usize>(), all.cells.len());
        }
    }
}

/// Otherwise the default version could not be requested by name.
#[test]
fn items_of_runs_name_a_version() {
    for item in ITEMS.iter().filter(|item| item.takes_runs()) {
        assert!(!item.versions.is_empty(), "{}", item.name);
    }
}

#[test]
fn names_are_different_and_found() {
    for (number, item) in ITEMS.iter().enumerate() {
        let Item {
            name,
            title,
            stated,
            ..
        } = *item;
        assert_eq!(find(name).unwrap().title, title);
        assert!(!title.contains('\n') && stated.contains("https://"));
        assert!(ITEMS[..number].iter().all(|other| other.name != name));
    }
    let Err(error) = find("scram-fig9") else {
        unreachable!()
    };
    let error = error.to_string();
    assert!(error.starts_with(
        "there is nothing called `scram-fig9` to reproduce: the names are `table1`, "
    ));
}
