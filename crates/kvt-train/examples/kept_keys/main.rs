//! Draws which keys a query keeps in each backbone, for `docs/concepts/neighbors.md`:
//!
//! ```sh
//! cargo run --release --example kept_keys -- docs/concepts/kept-keys.svg
//! ```
//!
//! No model is trained or loaded. Query and keys are the pixels of the patches of one generated image, less the mean
//! colour of the image, and the selection is that of `kvt_attention`. So the picture shows the rule alone: what a query
//! can see, and how many of these keys it keeps.

use std::io::{Cursor, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use burn::tensor::{Device, Tensor, TensorData};
use image::{ExtendedColorType, ImageEncoder, RgbImage, codecs::png::PngEncoder};
use kvt_attention::{Neighbors, knn_softmax};
use kvt_train::data::shapes::{Figure, ShapesConfig, Split, render};
use kvt_train::fs::write_atomic;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

/// The image: a cross whose arms reach into several windows.
const FIGURE: Figure = Figure::Cross;
const INDEX: usize = 5;
const PIXELS: u32 = 64;
/// Side of a patch in pixels.
const PATCH: u32 = 4;
/// Patches along a side of the image.
const GRID: usize = (PIXELS / PATCH) as usize;
/// Row and column of the query's patch.
const QUERY: [usize; 2] = [6, 9];
/// Side of a window in patches; shifted windows are off by half of it.
const WINDOW: usize = 8;
/// The share of its keys that a query keeps.
const SHARE: f64 = 0.5;

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
const REGULAR: &[u8] = include_bytes!("../src/report/font/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../src/report/font/DejaVuSans-Bold.ttf");
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const UNSEEN: RGBColor = RGBColor(0x44, 0x44, 0x4c);
/// How much of its colour a dropped key loses.
const DIMMED: f64 = 0.85;

fn main() -> anyhow::Result<()> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        bail!("say where to draw to: a path that ends in `.svg` or `.png`");
    };
    let panels = panels()?;
    let bytes = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => svg(&panels)?,
        Some("png") => png(&panels)?,
        _ => bail!("`{}` ends neither in `.svg` nor in `.png`", path.display()),
    };
    write_atomic(&path, |file| file.write_all(&bytes))?;
    Ok(())
}

/// A square map of patches, row by row. A patch is its pixels.
struct Map {
    side: usize,
    patches: Vec<Vec<f32>>,
}

impl Map {
    /// Cuts an image into patches.
    fn cut(image: &RgbImage) -> Self {
        let patch = |i: usize| {
            let (left, top) = (PATCH * (i % GRID) as u32, PATCH * (i / GRID) as u32);
            let places = (0..PATCH * PATCH).map(|i| (left + i % PATCH, top + i / PATCH));
            let pixels = places.flat_map(|(x, y)| image.get_pixel(x, y).0);
            pixels.map(|value| f32::from(value) / 255.0).collect()
        };
        Self {
            side: GRID,
            patches: (0..GRID * GRID).map(patch).collect(),
        }
    }

    /// Each 2 x 2 patches become their mean.
    fn pooled(&self) -> Self {
        let side = self.side / 2;
        let pool = |i: usize| {
            let first = 2 * (i / side) * self.side + 2 * (i % side);
            let four = [0, 1, self.side, self.side + 1].map(|step| &self.patches[first + step]);
            let length = four[0].len();
            let mean = |j: usize| four.iter().map(|patch| patch[j]).sum::<f32>() / 4.0;
            (0..length).map(mean).collect()
        };
        Self {
            side,
            patches: (0..side * side).map(pool).collect(),
        }
    }

    /// The mean colour of a patch.
    fn color(&self, place: usize) -> RGBColor {
        let [red, green, blue] = mean_color(&self.patches[place]);
        let byte = |value: f32| (value * 255.0).round() as u8;
        RGBColor(byte(red), byte(green), byte(blue))
    }

    /// The patches less the mean colour of the image.
    fn vectors(&self) -> Vec<Vec<f32>> {
        let mean = mean_color(&self.patches.concat());
        let center = |patch: &Vec<f32>| {
            let values = patch.iter().zip(mean.iter().cycle());
            values.map(|(value, mean)| value - mean).collect()
        };
        self.patches.iter().map(center).collect()
    }
}

fn mean_color(pixels: &[f32]) -> [f32; 3] {
    let count = (pixels.len() / 3) as f32;
    [0, 1, 2].map(|channel| pixels.iter().skip(channel).step_by(3).sum::<f32>() / count)
}

/// Where the query lies in a map of `side` x `side` patches.
fn query_place(side: usize) -> usize {
    let [row, column] = QUERY.map(|place| place * side / GRID);
    row * side + column
}

/// What becomes of a key.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Kept,
    Dropped,
    Unseen,
}

/// The keys of a query, and what becomes of them.
struct Panel {
    title: String,
    subtitle: String,
    keys: Map,
    fates: Vec<Fate>,
    /// The query is a patch of a map of so many along a side.
    grid: usize,
    /// Its colour.
    color: RGBColor,
}

impl Panel {
    /// A query of the map `queries` chooses among those of `keys` that it sees.
    fn new(
        title: &str,
        queries: &Map,
        keys: Map,
        sees: impl Fn(usize) -> bool,
    ) -> anyhow::Result<Self> {
        let place = query_place(queries.side);
        let vectors = keys.vectors();
        let seen: Vec<usize> = (0..vectors.len()).filter(|&key| sees(key)).collect();
        let k = Neighbors::fraction(SHARE)?.resolve(seen.len());
        let visible: Vec<f32> = seen.iter().flat_map(|&key| vectors[key].clone()).collect();
        let query = queries.vectors().swap_remove(place);
        let mut fates = vec![Fate::Unseen; vectors.len()];
        for (key, kept) in seen.iter().zip(select(query, visible, k)?) {
            fates[*key] = if kept { Fate::Kept } else { Fate::Dropped };
        }
        Ok(Self {
            title: title.to_owned(),
            subtitle: format!("{} keys, k = {k}", seen.len()),
            keys,
            fates,
            grid: queries.side,
            color: queries.color(place),
        })
    }
}

/// Which of the keys are among the `k` best of the query, by the project's own selection.
fn select(query: Vec<f32>, keys: Vec<f32>, k: usize) -> anyhow::Result<Vec<bool>> {
    let device = Device::flex();
    let dim = query.len();
    let shape = [keys.len() / dim, dim];
    let query = Tensor::<2>::from_data(TensorData::new(query, [1, dim]), &device);
    let keys = Tensor::<2>::from_data(TensorData::new(keys, shape), &device);
    let scores = query.matmul(keys.transpose()) * (dim as f64).powf(-0.5);
    let weights = knn_softmax(scores, k).into_data();
    let weights = weights
        .try_to_vec::<f32>()
        .context("the weights are no f32")?;
    Ok(weights.iter().map(|&weight| weight > 0.0).collect())
}

fn panels() -> anyhow::Result<Vec<Panel>> {
    let config = ShapesConfig {
        image_size: PIXELS,
        ..ShapesConfig::default()
    };
    let key = config.key(Split::Train, FIGURE, INDEX);
    let (clutter, occlusion) = (config.clutter as f32, config.occlusion as f32);
    let map = || Map::cut(&render(FIGURE, PIXELS as usize, clutter, occlusion, key));
    let all = |_| true;

    let fine = map();
    let (half, quarter) = (fine.pooled(), fine.pooled().pooled());
    let place = query_place(GRID);
    let image = Panel {
        title: "the image".to_owned(),
        subtitle: format!("{GRID} x {GRID} patches"),
        keys: map(),
        fates: vec![Fate::Kept; GRID * GRID],
        grid: GRID,
        color: fine.color(place),
    };
    Ok(vec![
        image,
        Panel::new("DeiT", &fine, map(), all)?,
        Panel::new("Swin, window", &fine, map(), |key| in_window(key, place, 0))?,
        Panel::new("Swin, shifted window", &fine, map(), |key| {
            in_window(key, place, WINDOW / 2)
        })?,
        Panel::new("PiT, first stage", &fine, map(), all)?,
        Panel::new("PiT, second stage", &half, fine.pooled(), all)?,
        Panel::new("PiT, third stage", &quarter, half.pooled(), all)?,
        Panel::new("CvT, kv_stride = 2", &fine, fine.pooled(), all)?,
    ])
}

/// Whether two patches share a window after the map was rolled up and to the left by `shift`, and have not been brought
/// together by that from opposite ends of the image.
fn in_window(key: usize, query: usize, shift: usize) -> bool {
    let along = |key: usize, query: usize| {
        let window = |place: usize| (place + GRID - shift) % GRID / WINDOW;
        window(key) == window(query) && (key < shift) == (query < shift)
    };
    along(key / GRID, query / GRID) && along(key % GRID, query % GRID)
}

fn size(panels: &[Panel]) -> (u32, u32) {
    let rows = (panels.len() as u32).div_ceil(COLUMNS);
    let width = COLUMNS * (SIDE + GAP) - GAP;
    let height = rows * (TITLE + SIDE + GAP) + LEGEND - GAP;
    (width + 2 * MARGIN, height + 2 * MARGIN)
}

fn svg(panels: &[Panel]) -> anyhow::Result<Vec<u8>> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size(panels)).into_drawing_area();
    draw(&root, panels, 1)?;
    drop(root);
    Ok(text.into_bytes())
}

fn png(panels: &[Panel]) -> anyhow::Result<Vec<u8>> {
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
        let corners = [(left, top), (left + side, top + side)];
        let corners = corners.map(|(x, y)| (x * self.scale as i32, y * self.scale as i32));
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
        // What lies between the patches, and those the query does not see.
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
