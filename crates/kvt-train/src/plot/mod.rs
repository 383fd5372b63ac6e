//! What pictures share: charts, panels, colours, the font, PNG; numbers in words.

mod axis;
mod beside;
mod chart;
mod colors;
mod embed;
mod font;
mod heat;
mod panels;
mod png;
mod svg;
mod text;
mod words;

pub use self::axis::{Axis, number, rounded, steps};
pub use self::beside::beside;
pub use self::chart::{Chart, Line, Names, PALE};
pub use self::colors::{GRID, INK, PALETTE, color};
pub use self::embed::png_in_svg;
pub use self::font::{FONT, register_fonts};
pub use self::heat::{Panel, heat_maps};
pub use self::panels::{ErrorLine, LinePanel, line_panels};
pub use self::png::{encode_png, save_png};
pub use self::text::{letters_in, shortened, wrapped, write};
pub use self::words::{duration, grouped, human, with_unit};
