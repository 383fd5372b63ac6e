//! Size and cost of a plan's network, computed without building it.

use crate::config::Plan;
use crate::error::TrainError;
use crate::task::dense::{COARSEST, DenseSize};

/// Trainable parameters, and multiply-accumulate operations of an image in testing: of a square one about as large as one of
/// [`sides`].
///
/// # Errors
/// If the plan's model does not exist or has no pyramid.
pub(crate) fn size(plan: &Plan, classes: usize) -> Result<(usize, u64), TrainError> {
    let (short, long) = resized(plan);
    let side = ((short * long).isqrt() / COARSEST).max(1) * COARSEST;
    let heads = plan.detect.network(classes);
    let size = DenseSize::of(plan, side, plan.detect.window_padding, |maps| {
        heads.cost(maps)
    })?;
    Ok((size.params, size.macs))
}

/// Height and width of an image of 4 to 3 that is resized for an evaluation and padded for the network.
pub(crate) fn sides(plan: &Plan) -> (usize, usize) {
    let (short, long) = resized(plan);
    (
        short.next_multiple_of(COARSEST),
        long.next_multiple_of(COARSEST),
    )
}

/// The sides of an image of 4 to 3 that is resized for an evaluation, the shorter one first.
fn resized(plan: &Plan) -> (usize, usize) {
    let sizes = plan.multiscale.sizes.iter().copied();
    let short = sizes.max().unwrap_or(plan.multiscale.max) as usize;
    (short, (short * 4 / 3).min(plan.multiscale.max as usize))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;

    use super::*;
    use crate::task::detect_network;

    fn plan(text: &str) -> Plan {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_size_is_that_of_the_built_network() {
        let plan = plan(
            "task = \"detect\"\n[model]\nname = \"swin_tiny_patch4_window7_224\"\nwindow_size = 4\nembed_dim = 8\nimg_size = 64\n\
             depth = [1, 1, 2, 1]\nnum_heads = [1, 2, 2, 4]\n[detect]\nchannels = 8\nhidden = 16\n[multiscale]\nsizes = [64]\nmax = 64\n",
        );
        let mut section = plan.model.clone();
        section.overrides.num_classes = Some(1);
        let config = section.config(None).unwrap();
        let network = detect_network(&plan, &config, 5, &Device::flex()).unwrap();
        let parameters = network.parameters().into_iter();
        let built: usize = parameters
            .map(|parameter| parameter.shape.iter().product::<usize>())
            .sum();
        assert_eq!(size(&plan, 5).unwrap().0, built);
    }

    /// An image of 640 x 480 becomes one of 1066 x 800.
    #[test]
    fn an_image_of_coco_is_padded() {
        assert_eq!(sides(&plan("task = \"detect\"\n")), (800, 1088));
    }
}
