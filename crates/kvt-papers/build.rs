//! Names the folder of configurations that becomes part of the crate: its own, which a package has in it, or that of the repository
//! where the link to it could not be made.

use std::env::{self, VarError};
use std::path::Path;

fn main() -> Result<(), VarError> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let root = Path::new(&root);
    let own = root.join("configs");
    let configs = if own.is_dir() {
        own
    } else {
        root.join("../../configs")
    };
    println!("cargo:rustc-env=KVT_CONFIGS={}", configs.display());
    println!("cargo:rerun-if-changed={}", configs.display());
    Ok(())
}
