//! The embedded font of the plots: a subset of DejaVu Sans, see `font/LICENSE`.

use std::sync::OnceLock;

use plotters::style::{FontStyle, register_font};

/// An SVG only names its font, and this generic name is always available.
pub const FONT: &str = "sans-serif";
const REGULAR: &[u8] = include_bytes!("DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("DejaVuSans-Bold.ttf");

/// Registers the font with the drawing library, once.
pub fn register_fonts() -> Result<(), String> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        register_font(FONT, FontStyle::Normal, REGULAR).is_ok()
            && register_font(FONT, FontStyle::Bold, BOLD).is_ok()
    });
    if *registered {
        Ok(())
    } else {
        Err("the embedded font does not load".to_owned())
    }
}
