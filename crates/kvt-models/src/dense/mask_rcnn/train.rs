//! From images and their objects to losses.

use burn::tensor::{Tensor, TensorReadError};
use kvt_ops::{Key, Phase};

use super::anchors::{Anchors, Scored};
use super::losses::{DetectLosses, nothing, of_anchors, of_masks, of_regions};
use super::network::MaskRcnn;
use super::objects::{Objects, check_objects, check_sizes};
use super::targets::{AnchorTargets, RegionTargets};

impl MaskRcnn {
    /// The losses of images, `[batch, 3, height, width]`, each padded at the right and at the bottom, with the objects of each.
    ///
    /// The key decides about drop path, and which anchors and regions are trained on. Without any object, the losses of boxes and
    /// masks are zeros without a gradient. The proposals get no gradient from the regions.
    ///
    /// # Errors
    ///
    /// A device that cannot be read.
    ///
    /// # Panics
    ///
    /// On objects that do not fit the images or the classes or have no area, and on sizes that the pyramid refuses.
    pub fn losses(
        &self,
        images: Tensor<4>,
        objects: &[Objects],
        key: Key,
    ) -> Result<DetectLosses, TensorReadError> {
        check_sizes(images.dims(), objects.iter().map(|of| of.size));
        check_objects(objects, self.heads.config.num_classes);
        let maps = self.maps(images, Phase::Train(key));
        self.losses_of_maps(&maps, objects, key)
    }

    /// The losses from the backbone's maps on.
    pub(super) fn losses_of_maps(
        &self,
        maps: &[Tensor<4>],
        objects: &[Objects],
        key: Key,
    ) -> Result<DetectLosses, TensorReadError> {
        let (levels, rpn) = self.look(maps);
        let anchors = Anchors::new(&rpn.sizes);
        let scored = Scored::read(&rpn)?;
        let (mut of_rpn, mut of_roi) = (AnchorTargets::default(), RegionTargets::default());
        let config = &self.heads.config;
        let limits = [config.train_per_level, config.train_proposals];
        for (image, objects) in objects.iter().enumerate() {
            of_rpn.add(image, &anchors, objects, config, key);
            let proposals = anchors.proposals(&scored, image, objects.size, limits);
            of_roi.add(image, &proposals, objects, config, key);
        }

        let device = rpn.logits.device();
        let [rpn_class, rpn_box] = of_anchors(&rpn, &of_rpn);
        let [class, boxes] = if of_roi.regions.is_empty() {
            [nothing(&device), nothing(&device)]
        } else {
            of_regions(&self.classify(&levels, &of_roi.regions), &of_roi)
        };
        let mask = if of_roi.positive.is_empty() {
            nothing(&device)
        } else {
            let logits = self.outline(&levels, &of_roi.positive_regions());
            of_masks(logits, &of_roi)
        };
        let all = [rpn_class, rpn_box, class, boxes, mask];
        Ok(DetectLosses { all })
    }
}
