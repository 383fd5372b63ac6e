//! What the network should say of anchors and regions, chosen on the host.

use kvt_ops::{Key, Region};

use super::MaskRcnnConfig;
use super::anchors::Anchors;
use super::mask_head::MASK_SIDE;
use super::objects::Objects;
use super::outline::outline;
use crate::dense::boxes::{Assigner, Coder, Corners, Deltas, Match, Proposal, sample};

/// Sides of an image are padded to a multiple of so many pixels before it is padded to the largest of its batch. Anchors beyond that
/// are not trained on.
const PAD_TO: usize = 32;

/// The sampled anchors of a batch. The anchors of the images follow each other.
#[derive(Clone, Debug, Default)]
pub(super) struct AnchorTargets {
    /// The places of those with an object.
    pub(super) positive: Vec<usize>,
    /// The places of those without one.
    pub(super) negative: Vec<usize>,
    /// The deltas from each positive anchor to its object.
    pub(super) deltas: Vec<Deltas>,
    /// The number of anchors that the losses are divided by: at least one of each kind counts for an image.
    pub(super) divisor: usize,
}

/// The sampled regions of a batch, image by image.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionTargets {
    /// The regions; those of an image with an object come before those without one.
    pub(super) regions: Vec<Region>,
    /// The class of each region; the number of classes where there is no object.
    pub(super) labels: Vec<usize>,
    /// The places of the regions with an object.
    pub(super) positive: Vec<usize>,
    /// The deltas from each positive region to its object.
    pub(super) deltas: Vec<Deltas>,
    /// The masks of the positive regions, `[positive, 28, 28]`.
    pub(super) masks: Vec<bool>,
}

impl AnchorTargets {
    /// Adds what is sampled of an image. Anchors in the padding that only larger images of the batch need are none of the image's.
    pub(super) fn add(
        &mut self,
        image: usize,
        anchors: &Anchors,
        objects: &Objects,
        config: &MaskRcnnConfig,
        key: Key,
    ) {
        let within = anchors.within(padded(objects.size));
        let boxes: Vec<Corners> = within.iter().map(|place| anchors.boxes[*place]).collect();
        let targets = objects.boxes();
        let matches = Assigner::RPN.assign(&boxes, &targets);
        let key = key.named("rpn").child(image as u64);
        let sample = sample(&matches, config.anchors, config.anchors_fraction, key);
        self.divisor += sample.positive.len().max(1) + sample.negative.len().max(1);
        let first = image * anchors.boxes.len();
        let in_batch = |place: &usize| first + within[*place];
        self.negative.extend(sample.negative.iter().map(in_batch));
        for place in sample.positive {
            if let Match::Object(object) = matches[place] {
                let deltas = Coder::RPN.encode(&boxes[place], &targets[object]);
                self.positive.push(in_batch(&place));
                self.deltas.push(deltas);
            }
        }
    }
}

impl RegionTargets {
    /// Adds what is sampled of an image: of its objects, which count as proposals too, and of its proposals.
    pub(super) fn add(
        &mut self,
        image: usize,
        proposals: &[Proposal],
        objects: &Objects,
        config: &MaskRcnnConfig,
        key: Key,
    ) {
        let proposals: Vec<Corners> = proposals.iter().map(|found| found.corners).collect();
        let targets = objects.boxes();
        let of_proposals = Assigner::ROI.assign(&proposals, &targets);
        let own = (0..targets.len()).map(Match::Object);
        let matches: Vec<Match> = own.chain(of_proposals).collect();
        let boxes = [targets.as_slice(), proposals.as_slice()].concat();
        let key = key.named("roi").child(image as u64);
        let sample = sample(&matches, config.regions, config.regions_fraction, key);
        let padded = padded(objects.size);
        for place in sample.positive {
            if let Match::Object(object) = matches[place] {
                let (corners, object) = (boxes[place], &objects.all[object]);
                let mask = outline(&object.mask, corners, padded, MASK_SIDE);
                self.positive.push(self.regions.len());
                let deltas = Coder::ROI.encode(&corners, &object.corners);
                self.deltas.push(deltas);
                self.masks.extend(mask);
                self.push(image, corners, object.label);
            }
        }
        for place in sample.negative {
            self.push(image, boxes[place], config.num_classes);
        }
    }

    fn push(&mut self, image: usize, corners: Corners, label: usize) {
        self.regions.push(Region { image, corners });
        self.labels.push(label);
    }

    /// The regions with an object.
    pub(super) fn positive_regions(&self) -> Vec<Region> {
        let positive = self.positive.iter();
        positive.map(|place| self.regions[*place]).collect()
    }

    /// Where the deltas of each positive region's class are, if those of all classes of all regions follow each other.
    pub(super) fn of_class(&self, classes: usize) -> impl Iterator<Item = usize> {
        let positive = self.positive.iter();
        positive.map(move |place| place * classes + self.labels[*place])
    }
}

/// Height and width of an image after its own padding.
fn padded(size: [usize; 2]) -> [usize; 2] {
    size.map(|side| side.next_multiple_of(PAD_TO))
}
