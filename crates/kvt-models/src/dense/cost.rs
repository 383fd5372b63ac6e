//! Sums over the layers of heads, which are not built for it.

/// Parameters, and multiply-accumulate operations.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) params: usize,
    pub(super) macs: u64,
}

impl Sum {
    /// A layer with a bias and `kernel` weights for each pair of channels, at so many places.
    pub(super) fn layer(&mut self, [from, to]: [usize; 2], kernel: usize, places: usize) {
        self.params += kernel * from * to + to;
        self.macs += (kernel * from * to * places) as u64;
    }

    /// The same with a batch norm in place of the bias.
    pub(super) fn normed(&mut self, channels: [usize; 2], kernel: usize, places: usize) {
        self.layer(channels, kernel, places);
        self.params += channels[1];
    }
}
