//! The picture, as SVG or PNG.

use std::io::Cursor;

use anyhow::bail;
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use crate::map::{GRID, query_place};
use crate::panels::{Fate, Panel};

/// Lengths of the picture, in SVG units.
const MARGIN: u32 = 16;
const GAP: u32 = 24;
const TITLE: u32 = 44;
const CELL: u32 = 12;
const SIDE: u32 = CELL * GRID as u32;
const COLUMNS: u32 = 4;
const LEGEND: u32 = 36;
/// A PNG has this many pixels per SVG unit.
const PNG_SCALE: u32 = 2;

const FONT: &str = "sans-serif";
const REGULAR: &[u8] = include_bytes!("../../src/plot/font/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../../src/plot/font/DejaVuSans-Bold.ttf");
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const UNSEEN: RGBColor = RGBColor(0x44, 0x44, 0x4c);
/// How much of its colour a dropped key loses.
const DIMMED: f64 = 0.85;

fn size(panels: &[Panel]) -> (u32, u32) {
    let rows = (panels.len() as u32).div_ceil(COLUMNS);
    let width = COLUMNS * (SIDE + GAP) - GAP;
    let height = rows * (TITLE + SIDE + GAP) + LEGEND - GAP;
    (width + 2 * MARGIN, height + 2 * MARGIN)
}

/// The panels as a text of SVG.
pub(crate) fn svg(panels: &[Panel]) -> anyhow::Result<Vec<u8>> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size(panels)).into_drawing_area();
    draw(&root, panels, 1)?;
    drop(root);
    Ok(text.into_bytes())
}

/// The panels as a PNG file.
pub(crate) fn png(panels: &[Panel]) -> anyhow::Result<Vec<u8>> {
    // An SVG names its font, a PNG needs the letters.
    for (style, bytes) in [(FontStyle::Normal, REGULAR), (FontStyle::Bold, BOLD)] {
        if register_font(FONT, style, bytes).is_err() {
            bail!("the embedded font does not load");
        }
    }
    let (width, height) = size(panels);
    let (width, height) = (width * PNG_SCALE, height * PNG_SCALE);
    let mut pixels = vec![0; (width * height * 3) as usize];
    let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
    draw(&root, panels, PNG_SCALE)?;
    drop(root);
    let mut bytes = Vec::new();
    PngEncoder::new(Cursor::new(&mut bytes)).write_image(
        &pixels,
        width,
        height,
        ExtendedColorType::Rgb8,
    )?;
    Ok(bytes)
}

/// A drawing area of whole pixels, and how many of them make one SVG unit.
struct Canvas<'a, B: DrawingBackend> {
    root: &'a DrawingArea<B, Shift>,
    scale: u32,
}

/// Left and top.
type Corner = (i32, i32);

impl<B: DrawingBackend> Canvas<'_, B> {
    fn square(
        &self,
        (left, top): Corner,
        side: i32,
        color: RGBColor,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let corners = [(left, top), (left + side, top + side)]
            .map(|(x, y)| (x * self.scale as i32, y * self.scale as i32));
        self.root.draw(&Rectangle::new(corners, color.filled()))
    }

    fn text(
        &self,
        text: &str,
        (left, middle): Corner,
        style: FontStyle,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let at = (left * self.scale as i32, middle * self.scale as i32);
        let font = (FONT, 16 * self.scale, style).into_font().color(&INK);
        let style = font.pos(Pos::new(HPos::Left, VPos::Center));
        self.root.draw(&Text::new(text, at, style))
    }

    /// The query: its patch in a thick border.
    fn query(
        &self,
        (left, top): Corner,
        side: i32,
        color: RGBColor,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        for (border, color) in [(4, BLACK), (1, WHITE), (0, color)] {
            let corner = (left - border, top - border);
            self.square(corner, side - 1 + 2 * border, color)?;
        }
        Ok(())
    }

    fn panel(
        &self,
        panel: &Panel,
        (left, top): Corner,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        self.text(&panel.title, (left, top + 10), FontStyle::Bold)?;
        self.text(&panel.subtitle, (left, top + 29), FontStyle::Normal)?;
        let top = top + TITLE as i32;
        let corner = |place: usize, cells: usize, cell: i32| {
            let [row, column] = [place / cells, place % cells].map(|place| place as i32 * cell);
            (left + column, top + row)
        };
        // What is between the patches, and those the query does not see.
        self.square((left, top), SIDE as i32 - 1, UNSEEN)?;
        let (cells, cell) = (panel.keys.side, SIDE as i32 / panel.keys.side as i32);
        for (place, fate) in panel.fates.iter().enumerate() {
            let color = panel.keys.color(place);
            let color = match fate {
                Fate::Kept => color,
                Fate::Dropped => dimmed(color),
                Fate::Unseen => continue,
            };
            self.square(corner(place, cells, cell), cell - 1, color)?;
        }
        let cell = SIDE as i32 / panel.grid as i32;
        let corner = corner(query_place(panel.grid), panel.grid, cell);
        self.query(corner, cell, panel.color)
    }
}

fn dimmed(color: RGBColor) -> RGBColor {
    let dim = |value: u8| (f64::from(value) * (1.0 - DIMMED) + 255.0 * DIMMED).round() as u8;
    RGBColor(dim(color.0), dim(color.1), dim(color.2))
}

fn draw<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    panels: &[Panel],
    scale: u32,
) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    let canvas = Canvas { root, scale };
    root.fill(&WHITE)?;
    for (i, panel) in (0..).zip(panels) {
        let (column, row) = (i % COLUMNS, i / COLUMNS);
        let left = MARGIN + column * (SIDE + GAP);
        let top = MARGIN + row * (TITLE + SIDE + GAP);
        canvas.panel(panel, (left as i32, top as i32))?;
    }
    let (_, height) = size(panels);
    let middle = (height - MARGIN - CELL / 2) as i32;
    let color = panels.first().map_or(INK, |panel| panel.color);
    let swatch = 14;
    let samples = [
        ("query", color),
        ("kept key", color),
        ("dropped key", dimmed(color)),
        ("key that the query does not see", UNSEEN),
    ];
    for ((text, color), column) in samples.into_iter().zip([0, 120, 250, 400]) {
        let left = (MARGIN + column) as i32;
        let corner = (left, middle - swatch / 2);
        if text == "query" {
            canvas.query(corner, swatch, color)?;
        } else {
            canvas.square(corner, swatch, UNSEEN)?;
            canvas.square((corner.0 + 1, corner.1 + 1), swatch - 2, color)?;
        }
        canvas.text(text, (left + swatch + 8, middle), FontStyle::Normal)?;
    }
    root.present()?;
    Ok(())
}
