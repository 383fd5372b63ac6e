"""Golden numbers of several labels for each image: average precision, precision, recall and F1 by scikit-learn, and losses by PyTorch.

    python scripts/reference/multi_label.py > crates/kvt-train/tests/golden/multi_label.json

Each case has `logits` [images][classes], the `labels` of each image and the `thresholds` of the classes. Of each class: `ap` (null without
an image), `precision`, `recall` and `f1` with 0 for 0 / 0. `map` and `macro_f1` are means over the classes that an image has, `micro_f1` is
of all. `loss` is PyTorch's `BCEWithLogitsLoss`, `smoothed` and `gradient` that of targets with timm's smoothing of 0.1, all in f64.
Scores are rounded in the first case, so that some are equal. The last class of the second case has no image.
"""

import json
import warnings

import numpy as np
import sklearn
import torch
from sklearn.metrics import average_precision_score, f1_score, precision_recall_fscore_support

SEED, SMOOTHING = 23, 0.1
warnings.filterwarnings("ignore")
rng = np.random.default_rng(SEED)


def case(images, classes, share, digits, thresholds, absent=()):
    labels = rng.random((images, classes)) < share
    labels[:, list(absent)] = False
    logits = (rng.normal(0, 1.5, (images, classes)) + 1.2 * labels - 0.4).round(digits).astype(np.float32)
    found = 1 / (1 + np.exp(-logits.astype(np.float64))) > np.array(thresholds)
    there = [c for c in range(classes) if labels[:, c].any()]
    ap = [average_precision_score(labels[:, c], logits[:, c]) if c in there else None for c in range(classes)]
    precision, recall, f1, _ = precision_recall_fscore_support(labels, found, average=None, zero_division=0)
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    hard = torch.tensor(labels, dtype=torch.float64)
    bce = torch.nn.BCEWithLogitsLoss()
    # timm's BinaryCrossEntropy: off = s / classes, on = 1 - s + off.
    smoothed = bce(x, hard * (1 - SMOOTHING) + SMOOTHING / classes)
    smoothed.backward()
    return {
        "logits": logits.tolist(), "labels": [np.flatnonzero(row).tolist() for row in labels], "thresholds": thresholds,
        "ap": ap, "precision": precision.tolist(), "recall": recall.tolist(), "f1": f1.tolist(),
        "map": float(np.mean([ap[c] for c in there])),
        "macro_f1": f1_score(labels, found, average="macro", labels=there, zero_division=0),
        "micro_f1": f1_score(labels, found, average="micro", zero_division=0),
        "loss": bce(x, hard).item(), "smoothed": smoothed.item(), "gradient": x.grad.tolist(),
    }


cases = [
    case(40, 3, 0.3, 0, [0.5, 0.5, 0.5]),
    case(25, 4, 0.2, 6, [0.5, 0.3, 0.9, 0.6], absent=[3]),
    case(12, 2, 0.5, 6, [0.25, 0.5]),
]
versions = {"sklearn": sklearn.__version__, "torch": torch.__version__, "numpy": np.__version__, "seed": SEED}
print(json.dumps({"provenance": versions, "cases": cases}))
