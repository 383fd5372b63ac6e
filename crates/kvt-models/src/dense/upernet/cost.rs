//! Size and cost of UPerNet's heads, computed without building them.

use super::UperNetConfig;
use crate::dense::cost::Sum;

impl UperNetConfig {
    /// The parameters of both heads, and the multiply-accumulate operations of the decode head for one image: the auxiliary head
    /// works in training alone. A map is its channels, height and width, the finest first; there are four.
    #[must_use]
    pub fn cost(&self, maps: [[usize; 3]; 4]) -> (usize, u64) {
        let (width, classes) = (self.channels, self.num_classes);
        let pixels = |[_, height, width]: [usize; 3]| height * width;
        let [fine @ .., coarse] = maps;
        let mut sum = Sum::default();
        for scale in &self.pool_scales {
            sum.normed([coarse[0], width], 1, scale * scale);
        }
        let pooled = coarse[0] + self.pool_scales.len() * width;
        sum.normed([pooled, width], 9, pixels(coarse));
        for map in fine {
            sum.normed([map[0], width], 1, pixels(map));
            sum.normed([width, width], 9, pixels(map));
        }
        sum.normed([maps.len() * width, width], 9, pixels(maps[0]));
        sum.layer([width, classes], 1, pixels(maps[0]));
        let mut auxiliary = Sum::default();
        if let Some(map) = self.aux_stage.checked_sub(1).and_then(|map| maps.get(map)) {
            auxiliary.normed([map[0], self.aux_channels], 9, 0);
            auxiliary.layer([self.aux_channels, classes], 1, 0);
        }
        (sum.params + auxiliary.params, sum.macs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mmsegmentation's UPerNet with Swin-Tiny: 31,497,366 parameters in the decode head and 923,798 in the auxiliary one. The
    /// convolution over all maps alone takes 155 G of its operations at 512 x 512.
    #[test]
    fn swin_tiny_has_the_published_size() {
        let config = UperNetConfig {
            num_classes: 150,
            channels: 512,
            pool_scales: vec![1, 2, 3, 6],
            dropout: 0.1,
            aux_stage: 3,
            aux_channels: 256,
        };
        let maps = [[96, 128, 128], [192, 64, 64], [384, 32, 32], [768, 16, 16]];
        let (params, macs) = config.cost(maps);
        assert_eq!(params, 31_497_366 + 923_798);
        assert!((210e9..214e9).contains(&(macs as f64)), "{macs}");
        let alone = UperNetConfig {
            aux_stage: 0,
            ..config
        };
        assert_eq!(alone.cost(maps), (31_497_366, macs));
    }
}
