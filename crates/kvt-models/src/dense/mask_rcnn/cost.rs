//! Size and cost of the neck and the heads, computed without building them.

use super::MaskRcnnConfig;
use super::mask_head::CONVS;
use super::rpn::DELTAS;
use super::{box_head, mask_head};
use crate::dense::boxes::ANCHORS_PER_CELL;
use crate::dense::cost::Sum;

impl MaskRcnnConfig {
    /// The parameters of the neck and the heads, and their multiply-accumulate operations for one image in testing, with as many
    /// proposals and detections as there can be. A map is its channels, height and width, the finest first; there are four.
    #[must_use]
    pub fn cost(&self, maps: [[usize; 3]; 4]) -> (usize, u64) {
        let (width, classes) = (self.channels, self.num_classes);
        let pixels = |[_, height, width]: [usize; 3]| height * width;
        let [.., [_, rows, columns]] = maps;
        let coarsest = rows.div_ceil(2) * columns.div_ceil(2);
        let places = maps.map(pixels).iter().sum::<usize>() + coarsest;
        let mut sum = Sum::default();
        for map in maps {
            sum.layer([map[0], width], 1, pixels(map));
            sum.layer([width, width], 9, pixels(map));
        }
        sum.layer([width, width], 9, places);
        sum.layer([width, ANCHORS_PER_CELL], 1, places);
        sum.layer([width, ANCHORS_PER_CELL * DELTAS], 1, places);

        let (hidden, proposals) = (self.hidden, self.test_proposals);
        let area = box_head::BINS * box_head::BINS;
        sum.layer([width * area, hidden], 1, proposals);
        sum.layer([hidden, hidden], 1, proposals);
        sum.layer([hidden, classes + 1], 1, proposals);
        sum.layer([hidden, DELTAS * classes], 1, proposals);

        let cells = self.detections * mask_head::BINS * mask_head::BINS;
        for _ in 0..CONVS {
            sum.layer([width, width], 9, cells);
        }
        // From each cell to four.
        sum.layer([width, width], 4, cells);
        sum.layer([width, classes], 1, 4 * cells);
        (sum.params, sum.macs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mmdetection's Mask R-CNN with Swin-Tiny has 47,794,602 parameters, 27,520,698 of them in the backbone. At 800 x 1280 pixels the
    /// pyramid and the proposals take 50 G of operations each, boxes 14 G and masks 53 G.
    #[test]
    fn swin_tiny_has_the_published_size() {
        let config = MaskRcnnConfig::default();
        let maps = [
            [96, 200, 320],
            [192, 100, 160],
            [384, 50, 80],
            [768, 25, 40],
        ];
        let (params, macs) = config.cost(maps);
        assert_eq!(params, 2_729_984 + 593_935 + 16_949_985);
        assert_eq!(params + 27_520_698, 47_794_602);
        assert!((166e9..176e9).contains(&(macs as f64)), "{macs}");
    }
}
