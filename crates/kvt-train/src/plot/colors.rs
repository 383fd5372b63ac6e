//! The colours of all pictures.

use plotters::style::RGBColor;

/// Text and axes.
pub const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Lines behind the data.
pub const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

/// Okabe and Ito's palette, which people with colour-blindness can tell apart; yellow is too pale for lines.
pub const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x00, 0x00),
];

/// The colour of a label: the palette, then darker and then lighter versions of it. Colours repeat from the 22nd label on.
pub fn color(number: usize) -> RGBColor {
    let round = number / PALETTE.len() % 3;
    let RGBColor(red, green, blue) = PALETTE[number % PALETTE.len()];
    let shade = |channel: u8| {
        let channel = u16::from(channel);
        let shade = match (round, (red, green, blue)) {
            (0, _) => channel,
            // Nothing is darker than black, so black becomes grey.
            (1, (0, 0, 0)) => 0x60,
            (1, _) => channel * 11 / 20,
            _ => 255 - (255 - channel) * 9 / 20,
        };
        u8::try_from(shade).unwrap_or(u8::MAX)
    };
    RGBColor(shade(red), shade(green), shade(blue))
}
