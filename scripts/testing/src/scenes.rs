//! Configurations of tiny networks for segmentation and detection on generated scenes, section by section.

/// Small heads of UPerNet.
pub const SEGMENT: &str = "[segment]\nchannels = 8\naux_channels = 4\n";

/// Small heads of Mask R-CNN, which look at few boxes.
pub const DETECT: &str = "[detect]\nchannels = 8\nhidden = 16\nanchors = 16\nregions = 8\ntrain_per_level = 20\ntrain_proposals = 10\n\
                          test_per_level = 20\ntest_proposals = 10\nscore = 0.01\n";

/// A learning rate that does not depend on the batch.
pub const OPTIM: &str = "[optim]\nlr = 1e-3\nlr_batch = 0\n";

/// A task, a seed, and the smallest Swin for images of `side` pixels.
#[must_use]
pub fn model(task: &str, side: u32) -> String {
    format!(
        "task = \"{task}\"\nseed = 3\n[model]\nname = \"swin_tiny_patch4_window7_224\"\nimg_size = {side}\nwindow_size = 4\n\
         embed_dim = 8\ndepth = [1, 1, 2, 1]\nnum_heads = [1, 2, 2, 4]\n"
    )
}

/// Scenes of `side` pixels with so many images of each class for training and validation; `data` are more keys of `[data]`.
#[must_use]
pub fn shapes(data: &str, side: u32, classes: u32, [train, val]: [u32; 2]) -> String {
    format!(
        "[data]\nkind = \"shapes\"\n{data}[data.shapes]\nlayout = \"dense\"\nimage_size = {side}\nclasses = {classes}\n\
         train_per_class = {train}\nval_per_class = {val}\n"
    )
}

/// Images for a detector with one of these shorter sides, in brackets, and a longer one of at most `max`.
#[must_use]
pub fn multiscale(sizes: &str, max: u32) -> String {
    format!("[multiscale]\nsizes = {sizes}\nmax = {max}\ncrop_before = false\n")
}
