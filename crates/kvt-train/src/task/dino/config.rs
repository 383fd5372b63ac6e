//! `[dino]`: the settings of self-supervised training.

use crate::recipe::{cosine, linspace};
use kvt_data::schema::section;

section! {
    /// Self-supervised training by DINO (Caron et al., 2021, <https://arxiv.org/abs/2104.14294>), with `task = "dino"`. The
    /// defaults are its code's; the learning rate, its warm-up, weight decay and clipping are keys of `[optim]` and `[schedule]`.
    pub struct DinoConfig {
        /// Outputs of the head, which is what student and teacher agree on.
        pub out_dim: usize = 65536, "x-range" = "[2, 1048576]";
        /// Layers of the head before the last one.
        pub head_layers: usize = 3, "x-range" = "[1, 16]";
        /// Channels between the layers of the head.
        pub hidden_dim: usize = 2048, "x-range" = "[1, 65536]";
        /// Channels before the last layer.
        pub bottleneck_dim: usize = 256, "x-range" = "[1, 65536]";
        /// Whether the weights of each output of the head keep the length 1, which is steadier.
        pub norm_last_layer: bool = true;
        /// Epochs at the beginning in which the last layer of the head is not trained.
        pub freeze_last_layer: u32 = 1;
        /// Temperature of the student's softmax.
        pub student_temp: f64 = 0.1, "x-range" = "[1e-4, 100]";
        /// Temperature of the teacher's softmax after its warm-up.
        pub teacher_temp: f64 = 0.04, "x-range" = "[1e-4, 100]";
        /// Temperature of the teacher's softmax in the first epoch.
        pub warmup_teacher_temp: f64 = 0.04, "x-range" = "[1e-4, 100]";
        /// Epochs of a line from `warmup_teacher_temp` to `teacher_temp`.
        pub warmup_teacher_temp_epochs: u32 = 0;
        /// How much of the teacher stays at the first update, which rises to 1 at the end of the run by half a cosine.
        pub momentum_teacher: f64 = 0.996, "x-range" = "[0, 1]";
        /// How much of the centre of the teacher's outputs stays at each update.
        pub center_momentum: f64 = 0.9, "x-range" = "[0, 1]";
        /// Smallest and largest area of the two global views, as a share of the image; they have the model's `img_size`.
        pub global_scale: [f64; 2] = [0.4, 1.0], "x-range" = "(0, 1]", "x-order" = "rising";
        /// Number of local views, which the student alone sees.
        pub local_views: usize = 8, "x-range" = "[0, 64]";
        /// Height and width of the local views in pixels.
        pub local_size: usize = 96, "x-range" = "[1, 65535]";
        /// Smallest and largest area of a local view, as a share of the image.
        pub local_scale: [f64; 2] = [0.05, 0.4], "x-range" = "(0, 1]", "x-order" = "rising";
        /// Probability of colour jitter in each view: brightness and contrast by up to 0.4, saturation by 0.2, hue by 0.1.
        pub color_jitter: f64 = 0.8, "x-range" = "[0, 1]";
        /// Probability that a view is made grey.
        pub grayscale: f64 = 0.2, "x-range" = "[0, 1]";
        /// Probability of a Gaussian blur in the first global view, the second one, and the local views.
        pub blur: [f64; 3] = [1.0, 0.1, 0.5], "x-range" = "[0, 1]";
        /// Smallest and largest standard deviation of the blur, in pixels.
        pub blur_radius: [f64; 2] = [0.1, 2.0], "x-range" = "[0, 100]", "x-order" = "rising";
        /// Probability that the second global view is solarised from level 128 on.
        pub solarize: f64 = 0.2, "x-range" = "[0, 1]";
        /// Evaluation during training: training images, at equal distances, that the k-NN classifier knows; 0 is all of them.
        pub eval_bank: usize = 10000, "x-resume" = "free";
        /// Evaluation during training: validation images, at equal distances, that it classifies; 0 is all of them.
        pub eval_images: usize = 2000, "x-resume" = "free";
        /// Evaluation during training: how many of the nearest training images vote.
        pub eval_neighbors: usize = 20, "x-range" = "[1, 10000]", "x-resume" = "free";
    }
}

impl DinoConfig {
    /// The temperature of the teacher in an epoch, counted from 0.
    pub fn teacher_temp_in(&self, epoch: u32) -> f64 {
        if epoch < self.warmup_teacher_temp_epochs {
            linspace(
                self.warmup_teacher_temp,
                self.teacher_temp,
                f64::from(epoch),
                f64::from(self.warmup_teacher_temp_epochs),
            )
        } else {
            self.teacher_temp
        }
    }

    /// The fraction of the teacher that is kept at the update that follows `step` of `steps` others.
    pub fn momentum(&self, step: u64, steps: u64) -> f64 {
        cosine(
            self.momentum_teacher,
            1.0,
            step as f64 / steps.max(1) as f64,
        )
    }
}
