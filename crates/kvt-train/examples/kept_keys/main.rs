//! Draws which keys a query keeps in each backbone, for `docs/concepts/neighbors.md`:
//!
//! ```sh
//! cargo run --release --example kept_keys -- docs/concepts/kept-keys.svg
//! ```
//!
//! No model is trained or loaded. Query and keys are the pixels of the patches of one generated image, less the mean
//! colour of the image, and the selection is that of `kvt_attention`. So the picture shows the rule alone: what a query
//! can see, and how many of these keys it keeps.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use kvt_data::fs::write_atomic;

mod draw;
mod map;
mod panels;

fn main() -> anyhow::Result<()> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        bail!("say where to draw to: a path that ends in `.svg` or `.png`");
    };
    let panels = panels::panels()?;
    let bytes = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => draw::svg(&panels)?,
        Some("png") => draw::png(&panels)?,
        _ => bail!("`{}` ends neither in `.svg` nor in `.png`", path.display()),
    };
    write_atomic(&path, |file| file.write_all(&bytes))?;
    Ok(())
}
