//! Takes the kernels as they are, and asks the macro for constructors that need no device.

use std::path::Path;
use std::{env, fs};

const ROOT: &str = "../../crates/kvt-ops/src";

/// Folders under [`ROOT`], and their files that have kernels or what these call.
const FOLDERS: [(&[&str], &[&str]); 5] = [
    (&["gpu"], &["order_key", "row_group", "select"]),
    (&["knn_softmax", "gpu"], &["kernel"]),
    (&["layer_norm", "gpu"], &["kernel"]),
    (&["adamw", "gpu"], &["kernel"]),
    (
        &["attention", "flash", "gpu"],
        &[
            "plan",
            "tile",
            "row",
            "forward",
            "backward_queries",
            "backward_keys",
        ],
    ),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    for (folders, files) in FOLDERS {
        for folder in folders {
            text += &format!("pub mod {folder} {{\n");
        }
        for file in files {
            let source = format!("{ROOT}/{}/{file}.rs", folders.join("/"));
            println!("cargo::rerun-if-changed={source}");
            text += &format!(
                "pub mod {file} {{\n{}\n}}\n",
                module(&fs::read_to_string(source)?)
            );
        }
        text += &"}\n".repeat(folders.len());
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("kernels.rs"), text)?;
    Ok(())
}

fn module(source: &str) -> String {
    // The module comments of a file are not allowed within another.
    let body = source.lines().filter(|line| !line.starts_with("//!"));
    let text = body.collect::<Vec<_>>().join("\n");
    let text = text.replace("#[cube(launch,", "#[cube(launch, create_dummy_kernel,");
    text.replace("pub(super)", "pub")
        .replace("pub(crate)", "pub")
}
