//! `kvt reproduce fig2|fig3|fig4|fig5`, with tiny models instead of the repository's.

use crate::support::Workspace;

/// Writes the runs of an item: dense and k-NN, two seeds of two epochs.
fn item(workspace: &Workspace, name: &str, set: &str) {
    let run = |name: &str, set: &str| {
        format!("[[run]]\nname = \"{name}\"\nconfig = \"../../../tiny.toml\"\nset = [{set}]\n\n")
    };
    let knn = "\"model.attention.kind=knn\", \"model.attention.neighbors=0.3\"";
    let text = format!("output = \"runs/{name}\"\nseeds = [3, 4]\nset = [{set}]\n\n")
        + &run("dense", "")
        + &run("knn", knn);
    let path = format!("configs/reproduce/{name}/cifar-short.toml");
    workspace.write(&path, text);
}

/// Makes an item, and returns its page.
fn made(workspace: &Workspace, name: &str) -> String {
    made_with(workspace, name, &[])
}

/// The same with more options.
fn made_with(workspace: &Workspace, name: &str, options: &[&str]) -> String {
    let command = [
        "reproduce",
        name,
        "--data",
        "data",
        "--scale",
        "cifar-short",
    ];
    let command = [&command[..], options].concat();
    workspace.kvt(&command).assert().success();
    workspace.read(&format!("runs/reproduce/{name}/cifar-short/{name}.md"))
}

fn lines(workspace: &Workspace, name: &str) -> Vec<Vec<String>> {
    let path = format!("runs/reproduce/{name}/cifar-short/{name}.csv");
    let csv = workspace.read(&path);
    let rows = csv.lines().map(|line| line.split(',').map(str::to_owned));
    rows.map(Iterator::collect).collect()
}

#[test]
fn figures_2_and_3_come_of_the_same_runs() {
    let workspace = Workspace::with_data(6, 4);
    item(
        &workspace,
        "fig2",
        "\"analysis.every=1\", \"analysis.images=9\"",
    );
    let page = made(&workspace, "fig2");
    for text in [
        "The last checkpoints of 2 seeds of each row, on 12 validation images.",
        "| (a) cosine similarity of tokens | 0.25 to 0.40, k-NN above dense | 0.",
        " of 2 | ",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let rows = lines(&workspace, "fig2");
    // Two rows, two seeds, two layers, fifteen measures.
    assert_eq!(rows.len(), 1 + 2 * 2 * 2 * 15);
    let kept = |run: &str| -> Vec<&str> {
        let own = rows.iter().filter(|row| row[0] == run && row[6] == "kept");
        own.map(|row| row[7].as_str()).collect()
    };
    assert_eq!(kept("knn"), ["5"; 4]);
    assert_eq!(kept("dense"), ["17"; 4]);

    let log = workspace.read("runs/fig2/runs/knn-seed4/log.jsonl");
    let page = made(&workspace, "fig3");
    assert_eq!(workspace.read("runs/fig2/runs/knn-seed4/log.jsonl"), log);
    assert!(page.contains("| layer | dense | k-NN |"), "{page}");
    let rows = lines(&workspace, "fig3");
    // Two rows, two seeds, two epochs, two layers.
    assert_eq!(rows.len(), 1 + 2 * 2 * 2 * 2);
    assert!(
        rows[1..]
            .iter()
            .all(|row| row[4] == "train" && row[5] == "9")
    );
    assert!(!page.contains("Missing"), "{page}");

    // Each row's mean covers all its own seeds.
    fs_err::remove_dir_all(workspace.path("runs/fig2/runs/dense-seed3")).unwrap();
    let page = made_with(&workspace, "fig2", &["--as-is"]);
    assert!(
        page.contains("of 1 seed with dense and 2 seeds with k-NN attention, on 12 validation"),
        "{page}"
    );
}

#[test]
fn figure_3_names_the_runs_that_were_not_measured() {
    let workspace = Workspace::with_data(6, 4);
    item(
        &workspace,
        "fig2",
        "\"train.epochs=1\", \"analysis.every=0\"",
    );
    let page = made(&workspace, "fig3");
    assert!(
        page.contains(
            "Missing: cannot draw `dense-seed3`, `dense-seed4`, `knn-seed3`, `knn-seed4`:"
        ) && page.contains("`--set analysis.every=1 --runs DIR`"),
        "{page}"
    );
    assert_eq!(lines(&workspace, "fig3").len(), 1);
}

#[test]
fn attribution_maps_pass_over_what_is_no_image() {
    let workspace = Workspace::with_data(4, 2);
    workspace.train("run", &[]);
    workspace.images("some", 2);
    workspace.write("bad/a.png", "no image");
    let command = ["attribution-map", "--run", "run", "--out"];
    let error = workspace.error(&[&command[..], &["maps", "bad", "some"]].concat());
    assert!(error.contains("a.png"), "{error}");
    let csv = workspace.read("maps/relevance.csv");
    assert_eq!(csv.lines().count(), 1 + 2 * 16, "{csv}");
    // The two images, named by their positions on the command line.
    let mut files = workspace.entries("maps");
    files.sort();
    assert_eq!(files, ["001-000.png", "002-001.png", "relevance.csv"]);

    let error = workspace.error(&[&command[..], &["none", "bad"]].concat());
    assert!(error.contains("no image could be read"), "{error}");
    assert!(workspace.entries("none").is_empty());
}

#[test]
fn figure_4_draws_heads_and_figure_5_relevance() {
    let workspace = Workspace::with_data(6, 4);
    for name in ["fig4", "fig5"] {
        item(&workspace, name, "\"train.epochs=1\"");
    }
    let page = made(&workspace, "fig4");
    assert!(page.contains("supervised ones"), "{page}");
    assert!(page.contains("They are of seed 3. From left"), "{page}");
    // 480/224 times 16 px are 36 px in whole patches of 4 px. k-NN attention keeps 0.3 of 17 or 82 tokens, that is 5 or 24, and
    // then 5 of 82; one of them may be the class token.
    let rows: Vec<Vec<&str>> = page
        .lines()
        .map(|line| line.split(" | ").collect())
        .collect();
    let looked_at = |title: &str| {
        let row = rows.iter().find(|row| row[0] == title).unwrap();
        let numbers: Vec<f64> = row[1..3].iter().map(|text| text.parse().unwrap()).collect();
        (numbers[0], numbers[1])
    };
    for (size, keys, patches, kept) in [
        (16, "k of the configuration", 16.0, 5.0),
        (36, "k of the configuration", 81.0, 24.0),
        (36, "k of training", 81.0, 5.0),
    ] {
        if keys == "k of the configuration" {
            let dense = looked_at(&format!("| dense, {size} px, {keys}"));
            assert_eq!(dense, (patches, patches));
        }
        let (all, found) = looked_at(&format!("| k-NN, {size} px, {keys}"));
        assert!(
            all == patches && (kept - 1.0..=kept).contains(&found),
            "{page}"
        );
    }
    // The image and two heads: 36 px seven times as large, and gaps of 10.
    let picture = workspace.path("runs/reproduce/fig4/cifar-short/fig4.png");
    assert_eq!(image::open(picture).unwrap().width(), 3 * (252 + 10) + 10);
    let heads = lines(&workspace, "fig4");
    // Three images, two heads, two sizes; k-NN attention once more at the larger one.
    assert_eq!(heads.len(), 1 + 3 * 2 * (2 * (16 + 81) + 81));

    let page = made(&workspace, "fig5");
    assert!(page.contains("| circle (generated) | dense | "), "{page}");
    let relevance = lines(&workspace, "fig5");
    // Two rows, four images.
    assert_eq!(relevance.len(), 1 + 2 * 4 * 16);
    for name in ["fig4", "fig5"] {
        let mut files = workspace.entries(&format!("runs/reproduce/{name}/cifar-short"));
        files.sort();
        let expected = ["-val.png", ".csv", ".md", ".png", ".svg"];
        assert_eq!(files, expected.map(|ending| format!("{name}{ending}")));
        // Models with the same seed are compared, if possible.
        fs_err::remove_dir_all(workspace.path(&format!("runs/{name}/runs/dense-seed3"))).unwrap();
        let page = made_with(&workspace, name, &["--as-is"]);
        assert!(page.contains("They are of seed 4. From left"), "{page}");
        fs_err::remove_dir_all(workspace.path(&format!("runs/{name}/runs/knn-seed4"))).unwrap();
        let page = made_with(&workspace, name, &["--as-is"]);
        assert!(
            page.contains("Their seeds differ: dense 4, k-NN 3. From left"),
            "{page}"
        );
    }
}
