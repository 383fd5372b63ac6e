//! The parts of a VOLO, and their cost.

use kvt_attention::Macs;

use super::outlook::{AREA, WINDOWS};
use crate::family::cost::{BlockSize, StageSummary};
use crate::family::transformer::Transformer;

/// Size and cost of the outlookers, whose attention has the place of one of the whole map.
pub(super) fn outlook_summary(name: String, outlook: &Transformer) -> StageSummary {
    let (block, place) = (outlook.block, outlook.place);
    let BlockSize { dim, hidden, .. } = block;
    let windows = WINDOWS.positions(place.grid.unwrap_or_default());
    let windows = windows.iter().product::<usize>();
    let weights = place.heads * AREA.pow(2);
    // A value and a projection instead of q, k, v and a projection in other blocks.
    let bias = if block.qkv_bias { 2 * dim } else { 0 };
    let params = block.params() - 2 * dim.pow(2) - bias + (dim + 1) * weights;
    let linear = place.queries * (2 * dim.pow(2) + 2 * dim * hidden) + windows * dim * weights;
    let macs = Macs::linear(linear) + Macs::attention(windows * AREA.pow(2) * dim);
    StageSummary::without_attention(name, outlook.depth, (params, macs), place.queries)
}

/// Size and cost of the blocks of the class token.
pub(super) fn class_summary(name: &str, class: &Transformer) -> StageSummary {
    let (BlockSize { dim, hidden, .. }, place) = (class.block, class.place);
    let linear = (2 + 2 * place.keys) * dim.pow(2) + 2 * dim * hidden;
    let size = (class.block.params(), Macs::linear(linear));
    StageSummary {
        takes_attention: false,
        ..class.summary_of(name, size, 1)
    }
}
