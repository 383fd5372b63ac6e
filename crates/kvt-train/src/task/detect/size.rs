//! Cost of a plan's network, computed without building it.

use crate::config::Plan;
use crate::error::TrainError;

/// Pixels to a token of the first map, and of the last one: sides are multiples of the latter.
const FINEST: usize = 4;
const COARSEST: usize = 32;

/// Multiply-accumulate operations of an image in testing: of a square one about as large as an image of 4 to 3 that is resized for an
/// evaluation.
///
/// # Errors
/// If the plan's model does not exist or has no pyramid.
pub(crate) fn macs(plan: &Plan, classes: usize) -> Result<u64, TrainError> {
    let sizes = plan.multiscale.sizes.iter().copied();
    let short = sizes.max().unwrap_or(plan.multiscale.max) as usize;
    let long = (short * 4 / 3).min(plan.multiscale.max as usize);
    let side = ((short * long).isqrt() / COARSEST).max(1) * COARSEST;
    let mut section = plan.model.clone();
    section.overrides.num_classes = Some(1);
    section.overrides.img_size = Some(side);
    let config = section.config(None)?.dense(plan.detect.window_padding)?;
    let channels = config.pyramid_channels()?;
    let map = |stage: usize| {
        let tokens = (side / FINEST) >> stage;
        [channels.get(stage).copied().unwrap_or(0), tokens, tokens]
    };
    let (_, heads) = plan.detect.network(classes).cost([0, 1, 2, 3].map(map));
    Ok(config.summary().macs.total() + heads)
}
