//! A raster picture inside an SVG, for places that expect an SVG.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An SVG that shows a PNG of this size and nothing else.
pub fn png_in_svg(png: &[u8], (width, height): (u32, u32)) -> String {
    let code = STANDARD.encode(png);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <image width=\"{width}\" height=\"{height}\" href=\"data:image/png;base64,{code}\"/>\n</svg>\n"
    )
}
