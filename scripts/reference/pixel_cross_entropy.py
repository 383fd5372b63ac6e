"""Golden numbers of the cross-entropy of pixels: mmsegmentation's loss.

Writes `crates/kvt-ops/tests/golden/dense/pixel_cross_entropy.safetensors`; for each case:

  <case>.logits            [2, 5, 7, 9]
  <case>.labels            [2, 7, 9] int64, 255 is ignored
  <case>.{all,valid}       [1], divided by the number of all pixels (mmsegmentation's default) or of those with a label
  <case>.grad.{all,valid}  gradients of the logits
"""

import mm
import torch
from common import golden, save
from mmseg.models.losses import CrossEntropyLoss

SEED, IGNORED = 12, 255
AVERAGES = {"all": False, "valid": True}


def hide(labels, case, generator):
    if case == "ignored":
        labels[torch.rand(labels.shape, generator=generator) < 0.4] = IGNORED
    elif case == "one_image_ignored":
        labels[0] = IGNORED
    elif case == "all_ignored":
        labels.fill_(IGNORED)
    return labels


def main():
    generator = torch.Generator().manual_seed(SEED)
    tensors = {}
    for case in ("plain", "ignored", "one_image_ignored", "all_ignored"):
        logits = 3 * torch.randn(2, 5, 7, 9, generator=generator)
        labels = hide(torch.randint(0, 5, (2, 7, 9), generator=generator), case, generator)
        tensors |= {f"{case}.logits": logits, f"{case}.labels": labels}
        for name, only_valid in AVERAGES.items():
            leaf = logits.double().requires_grad_()
            loss = CrossEntropyLoss(avg_non_ignore=only_valid)(leaf, labels, ignore_index=IGNORED)
            loss.backward()
            tensors |= {f"{case}.{name}": loss.reshape(1), f"{case}.grad.{name}": leaf.grad}
            print(case, name, loss.item())
    path = golden("kvt-ops") / "dense" / "pixel_cross_entropy.safetensors"
    save(path, tensors, {"classes": 5, "ignore": IGNORED}, SEED, mm=mm.VERSIONS)


if __name__ == "__main__":
    main()
