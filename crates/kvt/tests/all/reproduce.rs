//! `kvt reproduce`: figures of papers.

use crate::support::Workspace;

#[test]
fn names_are_listed() {
    let workspace = Workspace::empty();
    let output = workspace.kvt(&["reproduce", "list"]).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    insta::assert_snapshot!(text, @r"
    table1            KVT, table 1: top-1 of every system with dense and with k-NN attention
    table2            KVT, table 2: top-1 by epoch with dense and with k-NN attention
    table3            KVT, table 3: top-1 of dense attention by the temperature of its softmax
    table4            KVT, table 4: mIoU of UPerNet and box AP of Mask R-CNN with dense and with k-NN attention
    speed             KVT version 1, table 3: time of an iteration, slow and fast
    fig1              KVT, figure 1: top-1 by the number of keys that are kept
    fig2              KVT, figure 2: similarity of tokens, spread of attention weights and residual ratios, layer by layer
    fig3              KVT, figure 3: nonlocality of each layer, epoch by epoch
    fig4              KVT, figure 4: attention of the class token in the last layer, head by head
    fig5              KVT, figure 5: patches that speak for the class, by Transformer Attribution
    lemmas            KVT, lemmas 1 to 3 as numbers
    small-k           Small k: top-1 by the seconds of training
    scram-fig2        SCRAM, figure 2: sparse and full attention maps
    scram-fig3        SCRAM, figure 3: the best keys and the modes of one query
    scram-fig4        SCRAM, figure 4: forward time by the number of tokens
    scram-recall      SCRAM: recall and attention mass of the search by the number of tokens
    scram-estimators  SCRAM: bias and spread of the estimators by the number of samples
    ");
}

#[test]
fn a_figure_is_computed_into_a_folder() {
    let workspace = Workspace::empty();
    let output = workspace
        .kvt(&["reproduce", "scram-fig3"])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    insta::assert_snapshot!(text, @r"
    wrote `runs/reproduce/scram-fig3/scram-fig3.csv`
    wrote `runs/reproduce/scram-fig3/scram-fig3.svg`
    wrote `runs/reproduce/scram-fig3/scram-fig3.md`
    ");
    let page = workspace.read("runs/reproduce/scram-fig3/scram-fig3.md");
    assert!(page.starts_with("# SCRAM, figure 3"), "{page}");
    assert!(
        page.contains("Not stated: the size of the map") && page.contains("| 1 2 3 | yes |"),
        "{page}"
    );

    // The same again, in another folder.
    workspace
        .kvt(&["reproduce", "scram-fig3", "--out", "p"])
        .assert()
        .success();
    assert_eq!(workspace.entries("p").len(), 3);
    for extension in ["csv", "svg"] {
        let read = |folder: &str| workspace.read(&format!("{folder}/scram-fig3.{extension}"));
        assert_eq!(read("p"), read("runs/reproduce/scram-fig3"));
    }
}

/// The program has its sweeps with it. Pages name them as the repository does.
#[test]
fn no_repository_is_needed() {
    let workspace = Workspace::empty();
    fs_err::create_dir(workspace.path("photos")).unwrap();
    let fig4 = [
        "reproduce",
        "fig4",
        "--scale",
        "cifar-short",
        "--data",
        "photos",
        "--as-is",
    ];
    workspace.kvt(&fig4).assert().success();
    let page = workspace.read("runs/reproduce/fig4/cifar-short/fig4.md");
    assert!(
        page.contains("`kvt train configs/dino/cifar10_knn.toml --set"),
        "{page}"
    );
    // Another folder than the embedded one is read, if it is named.
    let error = workspace.error(&[&fig4[..], &["--configs", "photos"]].concat());
    insta::assert_snapshot!(error, @"error: no file `photos/reproduce/fig4/cifar-short.toml`: `--configs` names a folder of configurations and sweeps, as `configs` of kvt's repository is");
}

#[test]
fn what_cannot_be_reproduced_is_said() {
    let workspace = Workspace::empty();
    let error = workspace.error(&["reproduce", "scram-fig9"]);
    assert!(
        error.contains("the names are `table1`, `table2`, `table3`, `table4`, `speed`, `fig1`,")
            && error.contains("`scram-fig2`, `scram-fig3`, `scram-fig4`, `scram-recall`"),
        "{error}"
    );
    workspace.write("file", "no folder");
    let error = workspace.error(&["reproduce", "scram-fig3", "--out", "file"]);
    assert!(error.contains("file"), "{error}");
    assert_eq!(workspace.read("file"), "no folder");

    let error = workspace.error(&["reproduce", "table2", "--data", "data"]);
    assert!(
        error.contains(
            "`table2` trains models for hours or days, so how much must be chosen: `--scale` can be `paper`, `cifar`, `cifar-short` "
        ),
        "{error}"
    );
    let error = workspace.error(&["reproduce", "scram-fig3", "--scale", "cifar"]);
    assert!(
        error.contains("`scram-fig3` takes neither images nor training"),
        "{error}"
    );
    let error = workspace.error(&[
        "reproduce",
        "lemmas",
        "--set",
        "bogus=1",
        "--seeds",
        "3",
        "--data",
        "nowhere",
    ]);
    assert!(
        error.contains("`lemmas` is not made of training runs and does not take `--data`, `--set` or `--device`, `--seeds`"),
        "{error}"
    );
    assert!(!workspace.path("runs").exists());
    let error = workspace.error(&["reproduce", "table3", "--scale", "cifar", "--version", "v1"]);
    assert!(
        error.contains("`table3` is not in version `v1` of the paper, only in `eccv`: "),
        "{error}"
    );
    // Without `--data` it is the folder of the configurations, which is not here.
    let error = workspace.error(&["reproduce", "table3", "--scale", "cifar", "--dry-run"]);
    assert!(
        error.contains("no folder `data/cifar10`: `--data` names the folder of the data set"),
        "{error}"
    );
    for (line, reason) in [
        (
            "table4 --scale cifar",
            "no runs at the scale `cifar`; `--scale` can be `paper`, `shapes`, `shapes-short`",
        ),
        (
            "lemmas --dry-run",
            "so there is nothing to plan: without `--dry-run` it is computed",
        ),
        (
            "fig4 --scale cifar",
            "no runs at the scale `cifar`; `--scale` can be `paper`, `cifar-short`",
        ),
        (
            "scram-fig3 --version v1",
            "the same in every version of its paper: leave `--version` out",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let error = workspace.error(&[&["reproduce"], &words[..]].concat());
        assert!(error.contains(reason), "{line}: {error}");
    }
    let error = workspace.error(&["reproduce", "table3", "--scale", "cifar", "--configs", "my"]);
    assert!(
        error.contains("no file `my/reproduce/table3/cifar.toml`") && error.contains("`--configs`"),
        "{error}"
    );
}

#[test]
fn a_version_has_the_runs_of_its_systems() {
    let workspace = Workspace::with_data(6, 4);
    tiny_items(&workspace);
    for (version, runs) in [("eccv", "8 runs"), ("v1", "4 runs")] {
        let plan = workspace
            .kvt(&[
                "reproduce",
                "table1",
                "--data",
                "data",
                "--scale",
                "cifar-short",
                "--version",
                version,
                "--dry-run",
            ])
            .assert()
            .success();
        let plan = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
        assert!(
            plan.contains(runs) && plan.contains("volo-d1-knn") == (version == "eccv"),
            "{plan}"
        );
    }
}

/// The version can be given, as for all other items.
#[test]
fn figure_3_is_of_eccv() {
    let workspace = Workspace::with_data(6, 4);
    tiny_items(&workspace);
    let sweep = workspace.read("configs/reproduce/fig1/cifar-short.toml");
    workspace.write("configs/reproduce/fig2/cifar-short.toml", sweep);
    let item = ["reproduce", "fig3", "--scale", "cifar-short", "--version"];
    let eccv = [&item[..], &["eccv", "--data", "data", "--dry-run"]].concat();
    workspace.kvt(&eccv).assert().success();
    let error = workspace.error(&[&item[..], &["v1"]].concat());
    assert!(
        error.contains("`fig3` is not in version `v1` of the paper"),
        "{error}"
    );
}

/// Tiny models instead of the repository's: tests what an item makes of its runs.
fn tiny_items(workspace: &Workspace) {
    let run = |name: &str, set: &str| {
        format!("[[run]]\nname = \"{name}\"\nconfig = \"../../../tiny.toml\"\nset = [{set}]\n\n")
    };
    let knn = "\"model.attention.kind=knn\", \"model.attention.neighbors=3\"";
    let head = |item: &str| {
        format!("output = \"runs/{item}\"\nseeds = [3, 4]\nset = [\"train.epochs=1\"]\n")
    };
    let table3 = head("table3")
        + "pairs = [[\"dense\", \"knn\"]]\n\n"
        + &run("dense", "")
        + &run("knn", knn)
        + &run("t0.05", "\"optim.lr=1e30\", \"optim.clip_norm=0.0\"")
        + &run("t4", "\"model.attention.temperature=4.0\"");
    workspace.write("configs/reproduce/table3/cifar-short.toml", table3);
    let others = run("deit-tiny-dense", "")
        + &run("deit-tiny-knn", knn)
        + &run("volo-d1-dense", "")
        + &run("volo-d1-knn", knn);
    let pair = "pairs = [[\"deit-tiny-dense\", \"deit-tiny-knn\"], [\"volo-d1-dense\", \"volo-d1-knn\"]]\n\n";
    workspace.write(
        "configs/reproduce/table1/cifar-short.toml",
        head("table1") + pair + &others,
    );
    let others = run("deit-small-dense", "") + &run("deit-small-knn", knn);
    workspace.write(
        "configs/reproduce/table2/cifar-short.toml",
        head("table2") + "\n" + &others,
    );
    let others = run("deit-tiny-dense", "") + &run("deit-tiny-k3", knn);
    workspace.write(
        "configs/reproduce/fig1/cifar-short.toml",
        head("fig1") + "\n" + &others,
    );
}

#[test]
fn a_table_of_runs_has_crashes_and_empty_cells() {
    let workspace = Workspace::with_data(6, 4);
    tiny_items(&workspace);
    let item = [
        "reproduce",
        "table3",
        "--data",
        "data",
        "--scale",
        "cifar-short",
    ];
    let plan = workspace
        .kvt(&[&item[..], &["--dry-run"]].concat())
        .assert()
        .success();
    let plan = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    assert!(
        plan.lines()
            .filter(|line| line.contains("to be trained"))
            .count()
            == 8
            && plan.contains("8 runs"),
        "{plan}"
    );
    let one = workspace
        .kvt(&[&item[..], &["--dry-run", "--seeds", "1"]].concat())
        .assert()
        .success();
    let one = String::from_utf8(one.get_output().stdout.clone()).unwrap();
    assert!(one.contains("4 runs") && !one.contains("seed4"), "{one}");
    assert!(!workspace.path("runs").exists());
    // No run begins where a device of them is missing.
    let elsewhere = [&item[..], &["--devices", "cpu,rocm:255"]].concat();
    let output = workspace.kvt(&elsewhere).assert().code(1);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(
        said.matches("rocm:255").count() + said.matches("`rocm`").count() == 1
            && !said.contains("begins on"),
        "{said}"
    );

    workspace.kvt(&item).assert().success();
    let folder = "runs/reproduce/table3/cifar-short";
    let page = workspace.read(&format!("{folder}/table3.md"));
    for text in [
        "\n\n**By top-1, ",
        "Made by `kvt reproduce table3 --data DATA --scale cifar-short`;",
        "| dense, t = 0.05 | crash | crash | (n = 2) |\n",
        "| dense, t = 0.1 | crash |  |  |\n",
        "| k-NN | 73.0 | ",
        "| knn minus dense | ",
        "- 18 training images per epoch, 12 validation images, 1 epoch, f32, seeds 3, 4: dense, knn, t4\n",
        "--set data.path=DATA --set seed=3 --run-dir runs/table3/runs/t4-seed3`",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let csv = workspace.read(&format!("{folder}/table3.csv"));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 8 + 2);
    assert_eq!(lines[1], "dense,0.05,crash,,,,2");
    assert!(lines[4].starts_with("dense,0.75,72.5,,,,0"), "{}", lines[4]);
    // The mean is over the two logs.
    let last = |cell: &str| {
        let events = workspace.log(&format!("runs/table3/runs/{cell}"));
        let mut evals = events.iter().filter_map(|event| match event {
            kvt_train::run::Event::Eval(eval) => eval.metrics.get("top1"),
            _ => None,
        });
        evals.next_back().unwrap()
    };
    let mean = f64::midpoint(last("knn-seed3"), last("knn-seed4"));
    let found: f64 = lines[10].split(',').nth(3).unwrap().parse().unwrap();
    assert!((found - mean).abs() < 1e-9, "{found} {mean}");

    // Once more: nothing is trained; with `--as-is` missing runs are not trained either.
    let log = workspace.read("runs/table3/runs/t4-seed4/log.jsonl");
    workspace.kvt(&item).assert().success();
    assert_eq!(workspace.read("runs/table3/runs/t4-seed4/log.jsonl"), log);
    assert_eq!(workspace.read(&format!("{folder}/table3.md")), page);
}

#[test]
fn every_item_of_runs_makes_its_files() {
    let workspace = Workspace::with_data(6, 4);
    tiny_items(&workspace);
    for (name, version, says, expected) in [
        ("table1", "v1", "**By top-1, ", "| DeiT-Tiny | k-NN |"),
        ("table2", "eccv", "**DeiT-S, 2 seeds: ", "### DeiT-S\n"),
        (
            "fig1",
            "eccv",
            "**DeiT-Tiny: the best of 2 is ",
            "| dense | 1.00 |  | ",
        ),
    ] {
        let out = format!("out/{name}");
        let item = [
            "reproduce",
            name,
            "--data",
            "data",
            "--scale",
            "cifar-short",
            "--version",
            version,
            "--out",
            &out,
        ];
        // A run that is missing is an empty cell, and there is no figure of nothing.
        let as_is = workspace
            .kvt(&[&item[..], &["--as-is"]].concat())
            .assert()
            .success();
        let told = String::from_utf8_lossy(&as_is.get_output().stderr).into_owned();
        let words = format!("no run of `{name}` is finished: there is no figure yet");
        assert!(told.contains(&words), "{told}");
        let empty = workspace.read(&format!("{out}/{name}.md"));
        assert!(empty.contains("No run is finished."), "{empty}");
        assert!(
            empty.ends_with("\nNo run is finished: there is no figure yet.\n"),
            "{empty}"
        );
        assert!(!workspace.path(&format!("{out}/{name}.svg")).exists());
        workspace.kvt(&item).assert().success();
        let page = workspace.read(&format!("{out}/{name}.md"));
        assert!(
            page.contains(expected) && page.contains(&format!("--version {version}")),
            "{page}"
        );
        assert!(page.contains("seeds 3, 4"), "{page}");
        // What the runs say comes first.
        let first = page.split("\n\n").nth(1);
        assert!(first.unwrap().starts_with(says), "{page}");
        let mut files = workspace.entries(&out);
        files.sort();
        assert_eq!(
            files,
            ["", "-runs"]
                .iter()
                .flat_map(|more| {
                    let endings: &[&str] = if more.is_empty() {
                        &["csv", "md", "svg"]
                    } else {
                        &["csv"]
                    };
                    endings
                        .iter()
                        .map(move |ending| format!("{name}{more}.{ending}"))
                        .collect::<Vec<_>>()
                })
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
    }
    let page = workspace.read("out/table1/table1.md");
    assert!(
        page.contains("| ResNeXt101-64x4d | 84M | 15.6 | 81.5 |")
            && !page.contains("VOLO-D1")
            && !page.contains("volo"),
        "{page}"
    );
    let svg = workspace.read("out/table1/table1.svg");
    assert!(svg.contains("\nDeiT-Tiny\n"), "{svg}");
    // Runs that version 1 lacks are not trained for it.
    let trained = workspace.entries("runs/table1/runs");
    assert!(
        trained.iter().all(|name| name.starts_with("deit-tiny-")),
        "{trained:?}"
    );
    assert!(
        page.contains("version 1")
            && page.contains("| CvT-13 | dense |  |  |  |  | 81.5 |  |  |  |  |"),
        "{page}"
    );
}

/// The accuracies of known runs are on the page. What their table lacks is left empty, and the page says why.
#[test]
fn known_runs_of_table_1_have_accuracies_and_no_counts_of_images() {
    let workspace = Workspace::with_data(6, 4);
    tiny_items(&workspace);
    let item = [
        "reproduce",
        "table1",
        "--data",
        "data",
        "--scale",
        "cifar-short",
        "--version",
        "v1",
    ];
    let folder = "runs/reproduce/table1/cifar-short/v1";
    let results = || {
        let csv = workspace.read(&format!("{folder}/table1.csv"));
        let page = workspace.read(&format!("{folder}/table1.md"));
        (csv.lines().map(str::to_owned).collect::<Vec<_>>(), page)
    };
    // Of a line of the table, what is not the size of the model.
    let values = |lines: &[String]| -> Vec<String> {
        let values = lines.iter().map(|line| line.split(',').skip(9));
        values
            .map(|line| line.collect::<Vec<_>>().join(","))
            .collect()
    };
    let row = |lines: &[String], name: &str| -> String {
        let mut lines = lines.iter();
        lines.find(|line| line.starts_with(name)).unwrap().clone()
    };
    workspace.kvt(&item).assert().success();
    let (before, page) = results();
    assert!(
        page.contains("; seed 4: ") && !page.contains('†') && !page.contains("no counts"),
        "{page}"
    );

    // One run is trained again, with the same numbers.
    let table = workspace.read(&format!("{folder}/table1-runs.csv"));
    let some = table
        .lines()
        .filter(|line| !line.starts_with("deit-tiny-knn,4,"));
    let some: String = some.map(|line| format!("{line}\n")).collect();
    workspace.write("known.csv", some);
    fs_err::remove_dir_all(workspace.path("runs")).unwrap();
    let known = [&item[..], &["--known", "known.csv"]].concat();
    workspace.kvt(&known).assert().success();
    assert_eq!(
        workspace.entries("runs/table1/runs"),
        ["deit-tiny-knn-seed4"]
    );
    let (again, page) = results();
    assert_eq!(values(&again), values(&before));
    // The folder of the second seed says how many classes there are. Of the other row, none is left.
    assert_eq!(
        row(&again, "DeiT-Tiny,knn,"),
        row(&before, "DeiT-Tiny,knn,")
    );
    assert_ne!(
        row(&again, "DeiT-Tiny,dense,"),
        row(&before, "DeiT-Tiny,dense,")
    );
    for text in [
        "| DeiT-Tiny | dense † | ",
        "| DeiT-Tiny | k-NN † | ",
        "taken from `known.csv`: deit-tiny-dense-seed3, deit-tiny-dense-seed4, deit-tiny-knn-seed3\n",
        "A seed has no counts where the numbers of one of its two runs are those of an earlier table: ",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let mut lines = page.lines();
    let pair = lines.find(|line| line.starts_with("| deit-tiny-knn minus deit-tiny-dense | "));
    assert!(pair.unwrap().ends_with(" |  |"), "{page}");
}
