"""Golden numbers of resizing maps: PyTorch's `interpolate`, half-pixel centres, without antialiasing.

Writes `crates/kvt-ops/tests/golden/dense/resize.safetensors`; for each case (heights and widths before and after):

  <case>.input                    [2, 2, h, w]
  <case>.{bilinear,nearest}       [2, 2, H, W]
  <case>.probe                    [2, 2, H, W]
  <case>.grad.{bilinear,nearest}  gradients of sum(output * probe), [2, 2, h, w]

Metadata `config`: {case: {size: [H, W]}}.
"""

import torch
import torch.nn.functional as F

from common import golden, save

SEED = 11
SIZES = [((5, 7), (10, 13)), ((3, 3), (7, 5)), ((8, 8), (32, 32)), ((16, 16), (4, 4)), ((5, 7), (5, 7)),
         ((1, 1), (3, 4)), ((4, 6), (2, 9))]
MODES = {"bilinear": dict(mode="bilinear", align_corners=False, antialias=False), "nearest": dict(mode="nearest")}


def main():
    generator = torch.Generator().manual_seed(SEED)
    tensors, config = {}, {}
    for (h, w), (height, width) in SIZES:
        case = f"{h}x{w}_to_{height}x{width}"
        value = torch.randn(2, 2, h, w, generator=generator)
        probe = torch.randn(2, 2, height, width, generator=generator)
        tensors |= {f"{case}.input": value, f"{case}.probe": probe}
        for name, mode in MODES.items():
            leaf = value.double().requires_grad_()
            output = F.interpolate(leaf, size=(height, width), **mode)
            (output * probe.double()).sum().backward()
            tensors |= {f"{case}.{name}": output, f"{case}.grad.{name}": leaf.grad}
        config[case] = {"size": [height, width]}
    save(golden("kvt-ops") / "dense" / "resize.safetensors", tensors, config, SEED)


if __name__ == "__main__":
    main()
