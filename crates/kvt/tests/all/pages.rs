//! Golden text: every help page, and the answers to the most common mistakes, as the binary prints them.
//!
//! The texts are files in `pages/`, so that every change of an option or a message shows in the diff of a commit. After such a
//! change, `INSTA_UPDATE=always cargo test --workspace pages` rewrites them; read them before you commit them.

use std::collections::BTreeSet;
use std::path::Path;

use burn::tensor::TensorData;
use kvt_models::weights::{StateDict, write};

use crate::support::Workspace;

/// Width of the help pages, independent of the terminal.
const COLUMNS: (&str, &str) = ("COLUMNS", "100");

/// Compares a text with the file of this name.
fn compare(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => "pages",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// The help page of a verb, or of the whole program.
fn help(workspace: &Workspace, verb: &[&str]) -> String {
    let arguments = [verb, &["--help"]].concat();
    let mut command = workspace.kvt(&arguments);
    let output = command.env(COLUMNS.0, COLUMNS.1).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

/// Headings of lists of verbs: the groups of the whole program, and what clap writes.
const LISTS: [&str; 6] = [
    "Start:",
    "Train:",
    "Judge:",
    "Look inside:",
    "Tools:",
    "Commands:",
];

/// The verbs below a page: the first words of the lines under their headings.
fn verbs(page: &str) -> Vec<String> {
    let mut verbs = Vec::new();
    let mut is_list = false;
    for line in page.lines() {
        if !line.starts_with(' ') {
            is_list = LISTS.contains(&line);
        // Continuation lines of a description are indented further.
        } else if is_list && !line.starts_with("   ") {
            let word = line.split_whitespace().next();
            verbs.extend(word.filter(|word| *word != "help").map(str::to_owned));
        }
    }
    verbs
}

/// The names of existing pages, without their extension.
fn files(prefix: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/pages");
    let names = fs_err::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| name.strip_suffix(".snap").map(str::to_owned));
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// The pages depend on the features of the build.
#[cfg(feature = "tui")]
#[test]
fn help_pages() {
    let workspace = Workspace::empty();
    let mut left: Vec<Vec<String>> = vec![Vec::new()];
    let mut names = BTreeSet::new();
    while let Some(verb) = left.pop() {
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        let page = help(&workspace, &words);
        assert!(page.contains("\nExamples:\n  "), "no example: {page}");
        // A line that a terminal of 80 columns breaks cannot be copied, and a usage is hard to read.
        let starts = ["  kvt ", "Usage: ", "       kvt "];
        let whole = page
            .lines()
            .filter(|line| starts.iter().any(|start| line.starts_with(start)));
        let broken = whole.filter(|line| line.len() > 80).collect::<Vec<_>>();
        assert_eq!(broken, Vec::<&str>::new(), "of {verb:?}");
        let name = [&["help", "kvt"][..], &words].concat().join("-");
        compare(&name, &page);
        names.insert(name);
        left.extend(verbs(&page).into_iter().map(|next| {
            let mut verb = verb.clone();
            verb.push(next);
            verb
        }));
    }
    // That of the program fits in a terminal of 80 columns.
    let first = help(&workspace, &[]);
    let widest = first.lines().take_while(|line| *line != "Options:");
    assert!(widest.map(str::len).max().unwrap() <= 80, "{first}");
    // All pages are there, and none of a removed verb.
    assert!(names.len() > 30, "{names:?}");
    assert_eq!(files("help-"), names);
}

/// A mistake: its name, the command line, and how the folder differs from one with `tiny.toml` and its images.
type Mistake = (&'static str, &'static str, fn(&Workspace));

/// No difference.
fn plain(_: &Workspace) {}

/// Class folders without splits.
fn unsplit(workspace: &Workspace) {
    for class in ["cat", "dog"] {
        workspace.images(&format!("photos/{class}"), 2);
    }
}

/// Weights of one family, and files that are not weights.
fn weights(workspace: &Workspace) {
    workspace.write("page.safetensors", "<html>not found</html>");
    workspace.write("empty.safetensors", "");
    workspace.write("page.pth", "<html>not found</html>");
    let mut strange = StateDict::default();
    strange.insert("conv1.weight", TensorData::new(vec![0.0f32; 4], [2, 2]));
    let path = workspace.path("strange.safetensors");
    write(&path, &strange, &Default::default()).unwrap();
}

/// A configuration with a mistake.
fn file(workspace: &Workspace, text: &str) {
    workspace.write("mine.toml", format!("base = \"tiny.toml\"\n{text}\n"));
}

/// A folder with a finished, very short run.
fn run(workspace: &Workspace) {
    let train = ["train", "tiny.toml", "--set", "train.max_steps=1"];
    workspace.kvt(&train).assert().success();
}

/// The mistakes. Mistakes that the program cannot detect are in the troubleshooting page instead.
const MISTAKES: &[Mistake] = &[
    ("no-verb", "", plain),
    ("unknown-verb", "trian tiny.toml", plain),
    ("unknown-option", "train tiny.toml --epochs 3", plain),
    ("misspelt-option", "train tiny.toml --resum", plain),
    ("option-of-timm", "train tiny.toml --batch-size 8", plain),
    ("no-configuration", "train", plain),
    ("missing-configuration", "train nope.toml", plain),
    ("folder-as-configuration", "train data", plain),
    (
        "image-as-configuration",
        "train data/train/a/000.png",
        plain,
    ),
    ("not-toml", "train mine.toml", |w| {
        file(w, "[train\nepochs = 3");
    }),
    ("key-twice", "train mine.toml", |w| {
        file(w, "[train]\nepochs = 3\nepochs = 4");
    }),
    ("unknown-key", "train mine.toml", |w| {
        file(w, "[train]\nepoch = 3");
    }),
    ("unknown-section", "train mine.toml", |w| {
        file(w, "[optimizer]\nlr = 3");
    }),
    ("key-of-another-section", "train mine.toml", |w| {
        file(w, "[train]\nlr = 0.1");
    }),
    (
        "near-key-of-another-section",
        "train tiny.toml --set data.batch=8",
        plain,
    ),
    ("number-as-text", "train mine.toml", |w| {
        file(w, "[train]\nepochs = \"3\"");
    }),
    (
        "fraction-of-a-count",
        "train tiny.toml --set train.epochs=2.5",
        plain,
    ),
    ("out-of-range", "train tiny.toml --set optim.lr=-1", plain),
    (
        "unknown-choice",
        "train tiny.toml --set optim.name=adam",
        plain,
    ),
    (
        "set-without-value",
        "train tiny.toml --set train.epochs",
        plain,
    ),
    ("missing-base", "train mine.toml", |w| {
        w.write("mine.toml", "base = \"../base.toml\"");
    }),
    ("several-mistakes", "train mine.toml", |w| {
        file(w, "[train]\nepoch = 3\n[optim]\nlr = \"high\"");
    }),
    (
        "neighbors-without-kind",
        "train tiny.toml --set model.attention.neighbors=4",
        plain,
    ),
    (
        "unknown-model",
        "train tiny.toml --set model.name=resnet18",
        plain,
    ),
    ("misspelt-model", "models show deit_tiny_patch16_244", plain),
    ("show-unknown-model", "models show resnet18", plain),
    (
        "model-option-unknown",
        "bench step --model deit_tiny",
        plain,
    ),
    (
        "model-of-weights-unknown",
        "finetune data --weights strange.safetensors",
        weights,
    ),
    (
        "finetune-unknown-model",
        "finetune data --weights strange.safetensors --model resnet18",
        weights,
    ),
    (
        "option-of-a-verb-without-set",
        "config init data --epochs 3",
        plain,
    ),
    (
        "size-not-of-patches",
        "config check tiny.toml --set model.img_size=18",
        plain,
    ),
    (
        "key-of-another-family",
        "config check tiny.toml --set model.window_size=7",
        plain,
    ),
    ("unknown-device", "train tiny.toml --device gpu", plain),
    ("no-data", "train tiny.toml --set data.path=nope", plain),
    (
        "no-splits",
        "train tiny.toml --set data.path=photos",
        unsplit,
    ),
    (
        "no-classes",
        "train tiny.toml --set data.path=photos",
        |w| w.images("photos/train", 2),
    ),
    ("check-no-data", "data check nope", plain),
    ("check-no-classes", "data check photos", |w| {
        w.images("photos", 2);
    }),
    ("run-exists", "train tiny.toml", run),
    ("resume-nothing", "train tiny.toml --resume", plain),
    (
        "resume-with-another-value",
        "train tiny.toml --resume --set optim.lr=0.1",
        run,
    ),
    (
        "run-folder-of-others",
        "train tiny.toml --run-dir data",
        plain,
    ),
    (
        "run-folder-cannot-be",
        "train tiny.toml --run-dir tiny.toml/run",
        plain,
    ),
    ("finetune-without-weights", "finetune data", plain),
    (
        "finetune-missing-weights",
        "finetune data --weights nope.safetensors",
        plain,
    ),
    (
        "finetune-broken-weights",
        "finetune data --weights page.safetensors",
        weights,
    ),
    ("weights-not-pytorch", "weights inspect page.pth", weights),
    (
        "weights-empty",
        "weights inspect empty.safetensors",
        weights,
    ),
    ("weights-missing", "weights inspect nope.safetensors", plain),
    (
        "weights-of-another-ending",
        "weights inspect tiny.toml",
        plain,
    ),
    ("eval-nothing", "eval", plain),
    ("eval-no-run", "eval --run nope", plain),
    (
        "eval-unknown-checkpoint",
        "eval --run run --checkpoint nope",
        run,
    ),
    (
        "eval-splits-as-data",
        "eval --run run --checkpoint last --data data",
        run,
    ),
    (
        "predict-no-image",
        "predict --run run --checkpoint last nope.jpg",
        run,
    ),
    (
        "predict-not-an-image",
        "predict --run run --checkpoint last tiny.toml",
        run,
    ),
    (
        "attention-map-to-a-file",
        "attention-map --run run --checkpoint last data/val --output map.png",
        run,
    ),
    ("compare-nothing", "compare nope", plain),
    ("report-nothing", "report nope", plain),
    ("report-too-early", "report run", |w| {
        run(w);
        w.write("run/log.jsonl", "");
    }),
    ("no-such-models", "models list resnet", plain),
    ("init-no-folder", "config init nope", plain),
    (
        "init-over-a-file",
        "config init data --output tiny.toml",
        plain,
    ),
    ("predict-no-match", "predict --run run *.jpg", plain),
    ("predict-empty-folder", "predict --run run empty", |w| {
        fs_err::create_dir(w.path("empty")).unwrap();
    }),
    (
        "predict-to-another-format",
        "predict --run run a.jpg --output a.txt",
        plain,
    ),
    (
        "eval-unknown-class",
        "eval --run run --checkpoint last --only a,zebra",
        run,
    ),
    (
        "eval-reassessed-without-imagenet",
        "eval --run run --checkpoint last --real real.json",
        |w| {
            run(w);
            w.write("real.json", "[[0]]");
        },
    ),
    (
        "average-over-a-file",
        "weights average a.pth --output there.safetensors",
        |w| {
            w.write("there.safetensors", "");
        },
    ),
    (
        "fetch-unknown",
        "weights fetch deit_tiny_patch16_244",
        plain,
    ),
    (
        "weights-of-no-name",
        "eval --config tiny.toml --weights deit_tiny_patch16_244",
        plain,
    ),
    (
        "init-weights-of-no-name",
        "train tiny.toml --set init.weights=deit_tiny_patch16_244",
        plain,
    ),
    ("data-fetch-unknown", "data fetch imagenet", plain),
    (
        "weights-of-another-family",
        "weights convert run/checkpoints/step-00000001/model.safetensors out.safetensors --model pit_ti_224",
        run,
    ),
    (
        "logits-nowhere",
        "logits --run run --output nope/x.safetensors",
        run,
    ),
];

/// When devices are searched, graphics libraries that look for a desktop print nothing about it; a user's setting stays.
#[cfg(unix)]
#[test]
fn graphics_libraries_are_quiet() {
    let workspace = Workspace::empty();
    for folder in [None, Some(""), Some("run"), Some("/nowhere")] {
        let mut command = workspace.kvt(&["devices"]);
        command
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("MIMALLOC_PURGE_DELAY");
        command.envs(folder.map(|folder| ("XDG_RUNTIME_DIR", folder)));
        let output = command.assert().success();
        let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(!stderr.contains("XDG_RUNTIME_DIR"), "{folder:?}: {stderr}");
    }
}

/// Each verb has a manual page, and completions include it.
#[test]
fn manual_pages_and_completions() {
    let workspace = Workspace::empty();
    workspace.kvt(&["man", "pages"]).assert().success();
    let pages = workspace.entries("pages");
    for page in [
        "kvt.1",
        "kvt-train.1",
        "kvt-config-init.1",
        "kvt-bench-step.1",
    ] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    let train = workspace.read("pages/kvt-train.1");
    assert!(train.contains(".TH") && train.contains("resume"), "{train}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = workspace.kvt(&["completions", shell]).assert().success();
        let script = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        for word in ["finetune", "linear-probe", "schema"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

/// Only on Unix: other systems word errors of the file system differently.
#[cfg(unix)]
#[test]
fn mistakes() {
    let mut names = BTreeSet::new();
    for (name, line, prepare) in MISTAKES {
        let workspace = Workspace::with_data(2, 1);
        prepare(&workspace);
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let mut command = workspace.kvt(&arguments);
        let output = command.env(COLUMNS.0, COLUMNS.1).assert().failure();
        let output = output.get_output();
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            // A temporary folder has a different name each time.
            text.replace(workspace.path("").to_str().unwrap(), "HERE/")
        });
        assert!(!stderr.contains("panicked at"), "{name}: {stderr}");
        assert!(!stderr.contains("XDG_RUNTIME_DIR"), "{name}: {stderr}");
        assert_eq!(stdout, "", "{name}");
        let code = output.status.code().unwrap();
        let name = format!("mistake-{name}");
        compare(&name, &format!("$ kvt {line}\n{stderr}\nexit code {code}"));
        assert!(names.insert(name.clone()), "{name} twice");
    }
    assert!(names.len() >= 60, "{}", names.len());
    assert_eq!(files("mistake-"), names);
}
