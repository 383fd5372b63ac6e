//! Properties of all items, and how their files are written.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use kvt_data::fs::TEMPORARY_PREFIX;
use kvt_tools::sweep::{Sweep, SweepError};
use kvt_train::engine::Workload;
use kvt_train::run::{Event, Listener, Metric, RunError};

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
    // Which rows there are its sweep says.
    assert_eq!(refused("table2", Scale::Cifar, only("cvt")), None);
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

/// Rows whose names begin with the words of a part are trained alone, with other seeds, too; the page keeps the others as they are.
#[test]
fn rows_are_parts_of_a_single_sweep() {
    let of = |name: &str, only: &str, seeds| {
        let order = Order {
            only: Some(only.to_owned()),
            seeds,
            as_is: true,
            ..Order::default()
        };
        planned(find(name).unwrap(), &order)
    };
    let labels = |sweep: &Sweep| {
        let labels = sweep.cells.iter().map(|cell| cell.label());
        labels.collect::<Vec<_>>().join(" ")
    };
    let [all, chosen] = of("table2", "cvt", Some(1)).unwrap();
    assert_eq!(labels(&chosen), "cvt-dense-seed0 cvt-knn-seed0");
    assert_eq!(all.cells.len(), 12 + 2 + 2);
    assert!(all.cells.iter().all(|cell| {
        cell.dir().ends_with(cell.label()) && cell.dir().starts_with("runs/reproduce/table2")
    }));
    let [_, chosen] = of("table2", "deit-small-knn", None).unwrap();
    assert_eq!(chosen.cells.len(), 6);
    // Words are whole.
    let [_, chosen] = of("fig1", "deit-tiny-k4", None).unwrap();
    assert_eq!(labels(&chosen), "deit-tiny-k4-seed0 deit-tiny-k4-seed1");
    for part in ["deit-tiny-k", "half", ""] {
        let error = of("table2", part, None).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "`table2` has no part `{part}` to train alone: `--only` can be the first words of `deit-small-dense`, \
                 `deit-small-knn`, `cvt-dense`, `cvt-knn`, `t2t-dense`, `t2t-knn`"
            )
        );
    }
}

/// A half precision in which the device is slower than in f32 gives way, unless it was asked for, or a run has begun in it.
#[test]
fn a_slow_precision_gives_way() {
    let folder = tempfile::tempdir().unwrap();
    let configs = folder.path().join("reproduce").join("fig5");
    fs_err::create_dir_all(&configs).unwrap();
    let base = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"nowhere\"\n[train]\nepochs = 5\ndevice = \"cpu\"\n";
    fs_err::write(folder.path().join("base.toml"), base).unwrap();
    let order = |set: &[&str]| Order {
        configs: Some(folder.path().to_owned()),
        runs: Some(folder.path().join("runs")),
        data: Some(folder.path().to_owned()),
        overrides: set.iter().map(|text| (*text).to_owned()).collect(),
        ..Order::default()
    };
    let precision = |of: &str, order: &Order| {
        let sweep = format!(
            "set = [\"train.precision={of}\"]\n[[run]]\nname = \"dense\"\nconfig = \"../../base.toml\"\n"
        );
        fs_err::write(configs.join("cifar-short.toml"), sweep).unwrap();
        let [all, _] = planned(find("fig5").unwrap(), order).unwrap();
        let cell = &all.cells[0];
        let own = cell.plan.train.precision.name();
        // What the page shows.
        let shown = cell.overrides.iter().rev();
        let mut shown = shown.filter_map(|text| text.strip_prefix("train.precision="));
        assert_eq!(shown.next(), Some(own));
        own
    };
    // No CPU multiplies f16.
    assert_eq!(precision("f16", &order(&[])), "f32");
    assert_eq!(precision("f32", &order(&[])), "f32");
    let bf16 = if kvt_ops::cpu_multiplies_bf16() {
        "bf16"
    } else {
        "f32"
    };
    assert_eq!(precision("bf16", &order(&[])), bf16);
    assert_eq!(precision("f16", &order(&["train.precision=f16"])), "f16");
    // Nothing is trained.
    let as_is = Order {
        as_is: true,
        ..order(&[])
    };
    assert_eq!(precision("f16", &as_is), "f16");
    // An earlier table has one, too.
    for own in ["f16", "f32"] {
        let asked = order(&[&format!("train.precision={own}")]);
        let [all, _] = planned(find("fig5").unwrap(), &asked).unwrap();
        let table = folder.path().join("known.csv");
        let csv = cells_csv(&all.cells, &all.found().unwrap(), &[Metric::TOP1]);
        fs_err::write(&table, csv).unwrap();
        let known = Order {
            known: vec![table],
            ..order(&[])
        };
        assert_eq!(precision("f16", &known), own);
    }
    let begun = order(&[]);
    let run = folder.path().join("runs").join("runs").join("dense-seed0");
    fs_err::create_dir_all(&run).unwrap();
    for own in ["f16", "f32"] {
        let text = format!("{base}precision = \"{own}\"\n");
        fs_err::write(run.join("config.toml"), text).unwrap();
        assert_eq!(precision("f16", &begun), own);
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
