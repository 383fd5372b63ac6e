//! The numbers that the paper prints, each once with its source: arXiv 2106.00515, version 1 (`v1`) and the last one (ECCV 2022).

use crate::Version;

/// A system of Table 1: top-1 on ImageNet-1k in percent.
pub(super) struct System {
    /// The prefix of its rows in sweeps, before `-dense`, `-knn` and `-slow`.
    pub(super) key: &'static str,
    /// The paper's name.
    pub(super) name: &'static str,
    /// Side of the images in pixels.
    pub(super) input: usize,
    /// Parameters and operations, as printed.
    pub(super) params: &'static str,
    pub(super) gflops: f64,
    /// Top-1 with dense attention and with k-NN attention in ECCV's Table 1.
    pub(super) eccv: [f64; 2],
    /// The same in Table 1 of version 1, if it has the system.
    pub(super) v1: Option<[f64; 2]>,
    /// Top-1 of the slow version of k-NN attention, the same in both versions of the paper.
    pub(super) slow: Option<f64>,
}

const fn system(
    key: &'static str,
    name: &'static str,
    params: &'static str,
    gflops: f64,
    both: [f64; 2],
) -> System {
    System {
        key,
        name,
        input: 224,
        params,
        gflops,
        eccv: both,
        v1: Some(both),
        slow: None,
    }
}

/// Table 1, in the order of the ECCV version.
pub(super) const TABLE1: &[System] = &[
    System {
        slow: Some(73.0),
        ..system("deit-tiny", "DeiT-Tiny", "5.7M", 1.3, [72.2, 73.0])
    },
    system("so-vit", "So-ViT-7", "5.5M", 1.3, [76.2, 77.0]),
    system("visformer", "Visformer-Tiny", "10M", 1.3, [78.6, 79.0]),
    System {
        // "Our own implementation and training setting".
        v1: Some([81.5, 81.8]),
        ..system("cvt", "CvT-13", "20M", 4.6, [81.6, 81.9])
    },
    system("deit-small", "DeiT-Small", "22M", 4.6, [79.8, 80.1]),
    System {
        v1: Some([80.9, 81.3]),
        ..system("tnt", "TNT-Small", "24M", 5.2, [81.5, 81.9])
    },
    System {
        input: 384,
        v1: None,
        ..system("volo-d1", "VOLO-D1", "27M", 22.8, [85.2, 85.4])
    },
    system("swin", "Swin-Tiny", "28M", 4.5, [81.2, 81.3]),
    system("t2t", "T2T-ViT-t-19", "39M", 9.8, [82.2, 82.7]),
    system(
        "dino",
        "Dino-Small (linear evaluation)",
        "22M",
        4.6,
        [76.0, 76.2],
    ),
    system("twins", "Twins-SVT-Base", "56M", 8.3, [83.2, 83.4]),
    system("pit", "PiT-Base", "74M", 12.5, [82.0, 82.6]),
    System {
        input: 448,
        v1: None,
        ..system("volo-d3", "VOLO-D3", "86M", 67.9, [86.3, 86.5])
    },
];

impl System {
    /// Top-1 with dense and with k-NN attention in a version; `None` if the version lacks the system.
    pub(super) fn top1(&self, version: Version) -> Option<[f64; 2]> {
        match version {
            Version::Eccv => Some(self.eccv),
            Version::V1 => self.v1,
        }
    }
}

/// The convolutional networks of version 1's Table 1: name, parameters, GFLOPs, top-1. They are not trained here.
pub(super) const CONV_NETS: &[(&str, &str, &str, f64)] = &[
    ("MnasNet-A3", "5.2M", "0.4", 76.7),
    ("EfficientNet-B0", "5.3M", "0.4", 77.1),
    ("ShuffleNet", "5.4M", "0.5", 73.7),
    ("MobileNet", "6.9M", "0.6", 74.7),
    ("EfficientNet-B2", "9M", "1.0", 80.1),
    ("SAN10", "11M", "2.2", 77.1),
    ("ResNet-18", "12M", "1.8", 69.8),
    ("LambdaNets", "15M", "-", 78.4),
    ("EfficientNet-B4", "19M", "4.2", 82.9),
    ("ResNet-50", "25M", "4.1", 79.1),
    ("ResNeXt50-32x4d", "25M", "4.3", 79.5),
    ("REDNet-101", "25M", "4.7", 79.1),
    ("REDNet-152", "34M", "6.8", 79.3),
    ("ResNet-101", "45M", "7.9", 79.9),
    ("ResNeXt101-32x4d", "45M", "8.0", 80.6),
    ("ResNet-152", "60M", "11.6", 80.8),
    ("ResNeXt101-64x4d", "84M", "15.6", 81.5),
];

/// The rows of Table 2, as numbers of finished epochs.
pub(super) const TABLE2_EPOCHS: [u32; 9] = [10, 30, 50, 70, 90, 120, 150, 200, 300];

/// A model of Table 2: top-1 by epoch with dense and with k-NN attention.
pub(super) struct Convergence {
    /// The prefix of its rows in sweeps, before `-dense` and `-knn`.
    pub(super) key: &'static str,
    /// The paper's name.
    pub(super) name: &'static str,
    /// The numbers of ECCV, and of version 1 if they differ.
    pub(super) eccv: [[f64; 9]; 2],
    pub(super) v1: Option<[[f64; 9]; 2]>,
}

impl Convergence {
    /// The numbers of a version.
    pub(super) fn of(&self, version: Version) -> [[f64; 9]; 2] {
        match (version, self.v1) {
            (Version::V1, Some(v1)) => v1,
            _ => self.eccv,
        }
    }
}

/// Table 2. T2T-ViT's numbers are for the average of its weights: after 10 epochs (0.52 %), 37 % of the average are still the random
/// initialisation (0.99996 to the power of 25,020 steps). With k-NN attention DeiT-S ends at 80.0 here and at 80.1 in Table 1.
/// T2T-ViT ends at 81.3 and 81.7 here, and at 82.2 and 82.7 there.
pub(super) const TABLE2: &[Convergence] = &[
    Convergence {
        key: "deit-small",
        name: "DeiT-S",
        eccv: [
            [29.1, 54.4, 60.9, 65.0, 67.7, 69.9, 72.4, 75.5, 79.8],
            [31.3, 55.4, 62.0, 65.8, 68.2, 70.7, 72.4, 75.7, 80.0],
        ],
        v1: None,
    },
    Convergence {
        key: "cvt",
        name: "CvT-13",
        eccv: [
            [51.4, 65.4, 68.1, 69.9, 71.0, 72.4, 74.4, 77.3, 81.6],
            [54.2, 68.1, 70.5, 72.2, 73.0, 73.7, 74.9, 77.7, 81.9],
        ],
        v1: Some([
            [46.8, 66.7, 70.4, 72.4, 73.4, 75.1, 76.4, 78.8, 81.3],
            [49.5, 68.2, 71.1, 72.9, 74.0, 75.3, 76.7, 79.3, 81.6],
        ]),
    },
    Convergence {
        key: "t2t",
        name: "T2T-ViT-t-19",
        eccv: [
            [0.52, 63.0, 73.8, 76.9, 78.4, 79.7, 80.7, 82.0, 81.3],
            [0.68, 63.2, 74.4, 77.3, 78.6, 80.0, 80.9, 82.3, 81.7],
        ],
        v1: None,
    },
];

/// Table 3 of ECCV: the temperature that divides the scaled scores of dense attention, and top-1 of DeiT-Tiny; `None` if training crashed.
/// The text about the table has temperature 1.
pub(super) const TABLE3: [(f64, Option<f64>); 9] = [
    (0.05, None),
    (0.1, None),
    (0.25, Some(72.0)),
    (0.75, Some(72.5)),
    (1.0, Some(72.2)),
    (2.0, Some(72.5)),
    (4.0, Some(72.5)),
    (8.0, Some(72.5)),
    (16.0, Some(72.1)),
];

/// From the text about Table 3: k-NN attention.
pub(super) const TABLE3_KNN: f64 = 73.0;

/// Table 3 of version 1 (appendix A.2): seconds per iteration of DeiT-Tiny on 8 V100 GPUs, batch size not stated. Of the slow version in
/// PyTorch, of that in CUDA, and of the fast version in PyTorch.
pub(super) const SPEED_V1: [f64; 3] = [8192.0, 1.55, 0.45];

/// A panel of Figure 1: the prefix of its rows in sweeps, the paper's name, the settings on its ticks, the range of its axis, and
/// the setting with the best top-1. The paper draws the heights of the points, but prints no values.
pub(super) struct Sweep {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) ticks: &'static str,
    pub(super) axis: &'static str,
    pub(super) best: &'static str,
}

/// Figure 1.
pub(super) const FIG1: &[Sweep] = &[
    Sweep {
        key: "deit-tiny",
        name: "DeiT-Tiny",
        ticks: "25, 50, 75, 100, 125, 150",
        axis: "71.0 to 73.0",
        best: "100",
    },
    Sweep {
        key: "cvt",
        name: "CvT-13",
        ticks: "100/100/100, 500/200/100, 1600/400/100, 2500/600/150",
        axis: "81.3 to 81.8",
        best: "1600/400/100",
    },
    Sweep {
        key: "visformer",
        name: "Visformer-Tiny",
        ticks: "100/25, 100/45, 150/45, 180/45",
        axis: "78.2 to 79.0",
        best: "150/45",
    },
    Sweep {
        key: "pit",
        name: "PiT-Base",
        ticks: "100/100/25, 360/100/25, 360/100/45, 360/150/45",
        axis: "82.45 to 82.55",
        best: "not named",
    },
];

/// A backbone of Table 4.
pub(super) struct Dense {
    /// The prefix of its rows in sweeps, before `-dense`, `-knn` and `-knn39`; with Mask R-CNN before `-mask_rcnn`, too.
    pub(super) key: &'static str,
    /// The paper's name.
    pub(super) name: &'static str,
    /// mIoU of UPerNet on ADE20K with dense attention and with k-NN attention.
    pub(super) miou: [f64; 2],
    /// mAP of boxes of Mask R-CNN on COCO, likewise.
    pub(super) box_ap: [f64; 2],
    /// How long Mask R-CNN is trained: in units of 12 epochs.
    pub(super) schedule: &'static str,
}

/// Table 4, the same in both versions of the paper that print it.
pub(super) const TABLE4: &[Dense] = &[
    Dense {
        key: "swin",
        name: "Swin-T",
        miou: [44.5, 44.7],
        box_ap: [46.0, 46.2],
        schedule: "3x",
    },
    Dense {
        key: "twins",
        name: "Twins-SVT-Base",
        miou: [47.4, 47.9],
        box_ap: [45.2, 45.6],
        schedule: "1x",
    },
];
