//! A figure of what is kept together, over the layers.

use super::{SIZES, Tile, WIDTHS};
use crate::analysis::{Estimate, Layer};
use crate::plot::{Axis, ErrorLine, LinePanel, line_panels};

/// Draws the share of the keys that a tile keeps together, the share of blocks that it touches, and the share of kept keys that two heads
/// have in common, over the layers. Dashed is what independent random sets have.
///
/// # Errors
/// The message of the drawing library.
pub fn figure(title: &str, layers: &[Layer]) -> Result<String, String> {
    let tiles: Vec<Tile<'_>> = layers.iter().flat_map(Tile::of).collect();
    let last = layers.iter().map(|layer| layer.number).max().unwrap_or(1);
    let sizes = || SIZES.into_iter().enumerate();
    let of_size = |size| tiles.iter().filter(move |tile| tile.size == size);
    let mut unions = Vec::new();
    for (color, size) in sizes() {
        let found = of_size(size).map(|tile| {
            let error = tile.union.error.map(|error| error / tile.keys);
            (tile.number(), tile.union.mean / tile.keys, error)
        });
        let random = of_size(size).map(|tile| (tile.number(), tile.random_share(), None));
        unions.push(ErrorLine::new(format!("{size} queries"), color, found));
        unions.push(ErrorLine::new(format!("{size} at random"), color, random).dashed());
    }
    let touched = |width| {
        let lines = sizes().map(|(color, size)| {
            let found = of_size(size).filter_map(|tile| measured(tile, tile.blocks(width)));
            ErrorLine::new(format!("{size} queries"), color, found)
        });
        lines.collect()
    };
    // The same for each size of a tile: points are drawn over each other.
    let own = tiles.iter().filter_map(|tile| measured(tile, tile.heads()));
    let random = tiles
        .iter()
        .map(|tile| (tile.number(), tile.kept / tile.keys, None));
    let heads = vec![
        ErrorLine::new("heads", SIZES.len(), own),
        ErrorLine::new("at random", SIZES.len(), random).dashed(),
    ];
    let mut panels = vec![("keys that a tile keeps together".to_owned(), unions)];
    panels.extend(WIDTHS.map(|width| {
        let title = format!("{width}-key blocks that a tile touches");
        (title, touched(width))
    }));
    let shared = "kept keys that two heads share (dashed: at random)".to_owned();
    panels.push((shared, heads));
    let panels = panels.into_iter().map(|(title, lines)| LinePanel {
        title,
        x: Axis::whole("layer", last),
        y: Axis::linear("share"),
        lines,
        y_holds: vec![0.0, 1.0],
    });
    line_panels(title, &panels.collect::<Vec<_>>(), 2)
}

/// A share as a point, if there is one.
fn measured(tile: &Tile<'_>, found: Option<Estimate>) -> Option<(f64, f64, Option<f64>)> {
    found.map(|found| (tile.number(), found.mean, found.error))
}
