//! Weights by name, from a server of the test's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use assert_cmd::Command;
use sha2::{Digest as _, Sha256};

use crate::support::Workspace;

/// Where nothing listens.
const NOWHERE: &str = "http://127.0.0.1:1";
/// Published weights, by the name of their model.
const NAME: &str = "deit_tiny_patch16_224";
/// The model of `tiny.toml`.
const TINY: [&str; 12] = [
    "--set",
    "model.img_size=16",
    "--set",
    "model.patch_size=4",
    "--set",
    "model.embed_dim=16",
    "--set",
    "model.depth=2",
    "--set",
    "model.num_heads=2",
    "--set",
    "model.mlp_ratio=2.0",
];

/// The address of a hub that has one file of weights, until the process of the tests ends.
fn hub(weights: Vec<u8>) -> String {
    let sum = Sha256::digest(&weights);
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nETag: \"{sum}\"\r\nX-Repo-Commit: {}\r\nConnection: close\r\n\r\n",
        weights.len(),
        "0".repeat(40)
    );
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let answer = if first.contains("/model.safetensors ") {
                [head.as_bytes(), &weights].concat()
            } else {
                missing.into()
            };
            // An error means that the client has seen enough.
            let _ = stream.write_all(&answer);
        }
    });
    address
}

/// A command with a cache in the workspace, and this hub.
fn kvt(workspace: &Workspace, hub: &str, arguments: &[&str]) -> Command {
    let mut command = workspace.kvt(arguments);
    command
        .env("HF_ENDPOINT", hub)
        .env("HF_HOME", workspace.path("cache"));
    command
}

fn stderr(mut command: Command, is_success: bool) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), is_success, "{text}");
    text
}

#[test]
fn weights_have_a_name_wherever_they_are_given() {
    let workspace = Workspace::with_data(6, 2);
    workspace.train("run", &[]);
    let file = workspace.last_checkpoint("run").join("model.safetensors");
    let address = hub(fs_err::read(file).unwrap());
    let train = "finetune data --device cpu --epochs 1 --out ft --weights";
    let finetune: Vec<&str> = train.split(' ').chain([NAME]).chain(TINY).collect();

    let said = stderr(kvt(&workspace, &address, &finetune), true);
    for words in [
        "downloading `deit_tiny_patch16_224.fb_in1k`, licence Apache-2.0",
        "deit_tiny_patch16_224 (as its name says), trained for 3 classes",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let config = workspace.read("ft/config.toml");
    let weights = "weights = \"deit_tiny_patch16_224.fb_in1k\"";
    assert!(config.contains(weights), "{config}");

    // From now on they are here, for every verb.
    let named = format!("init.weights={NAME}");
    for arguments in [
        vec!["eval", "--config", "tiny.toml", "--weights", NAME],
        vec![
            "train",
            "tiny.toml",
            "--set",
            &named,
            "--set",
            "run.dir=again",
        ],
        vec!["weights", "inspect", NAME],
        vec!["weights", "fetch", "timm/deit_tiny_patch16_224.fb_in1k"],
        vec![
            "probe",
            "--method",
            "knn",
            "--config",
            "tiny.toml",
            "--weights",
            NAME,
        ],
    ] {
        let said = stderr(kvt(&workspace, NOWHERE, &arguments), true);
        assert!(!said.contains("downloading"), "{said}");
    }
}

/// A file that shares its name with published weights is taken, and nothing is asked for.
#[test]
fn a_folder_comes_before_a_name() {
    let workspace = Workspace::with_data(6, 2);
    workspace.train(NAME, &[]);
    let line = "finetune data --device cpu --epochs 1 --print-config --weights";
    let arguments: Vec<&str> = line.split(' ').chain([NAME]).collect();
    let output = kvt(&workspace, NOWHERE, &arguments).output().unwrap();
    let config = String::from_utf8_lossy(&output.stdout);
    let file = "weights = \"deit_tiny_patch16_224/checkpoints/";
    assert!(config.contains(file), "{config}");
}

#[test]
fn without_a_network_one_knows_what_to_get_and_where_to_put_it() {
    let workspace = Workspace::with_data(2, 1);
    let arguments = ["finetune", "data", "--weights", NAME];
    let said = stderr(kvt(&workspace, NOWHERE, &arguments), false);
    let url = format!("{NOWHERE}/timm/{NAME}.fb_in1k/resolve/main/model.safetensors");
    let place = format!("cache/hub/models--timm--{NAME}.fb_in1k/model.safetensors");
    for words in [&url, &workspace.path(&place).display().to_string()] {
        assert!(said.contains(words.as_str()), "{words}: {said}");
    }
    // There it is found.
    workspace.train("run", &[]);
    let file = workspace.last_checkpoint("run").join("model.safetensors");
    fs_err::copy(file, workspace.path(&place)).unwrap();
    let said = kvt(&workspace, NOWHERE, &["weights", "fetch", NAME]);
    assert_eq!(stderr(said, true), "");
}
