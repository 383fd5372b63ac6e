"""Golden numbers of RoIAlign: torchvision's, aligned, with as many points in a bin as its sides ask for.

Writes `crates/kvt-ops/tests/golden/dense/roi_align.safetensors`, in f64:

  input                 [2, 3, 13, 17]
  <case>.boxes          [R, 5]: image, x1, y1, x2, y2
  <case>.output         [R, 3, bins, bins]
  <case>.probe          [R, 3, bins, bins]
  <case>.grad           of sum(output * probe), [2, 3, 13, 17]

and of the same for a map of 4x4 that counts 0..15, with bins of 2x2 and a gradient of the sum of the output:

  hand_<case>.{input,boxes,output,grad}

Metadata `config`: {case: {bins, scale}}. The boxes of `<case>` are inside, across borders, outside, without area, or long and
thin. No bin has nearly a whole number for a side, and no point is near where it begins to count 0: the same numbers in f32.
"""

import torch
from torchvision.ops import roi_align

from common import golden, save

SEED, HEIGHT, WIDTH, MARGIN = 12, 13, 17, 1e-3
CASES = {"7_1": (7, 1.0, 40), "7_4": (7, 0.25, 40), "14_1": (14, 1.0, 8), "14_4": (14, 0.25, 8)}
HAND = {
    "whole": ([0, 0, 4, 4], 1.0),
    "middle": ([1, 1, 3, 3], 1.0),
    "across": ([-2, 0.5, 2, 2.5], 1.0),
    "quarter": ([0, 0, 16, 8], 0.25),
    "empty": ([3, 3, 3, 3], 1.0),
}


def draw(kind, generator):
    """x1, y1, x2, y2 on the map."""
    uniform = lambda low, high: low + (high - low) * torch.rand(2, generator=generator)
    side = torch.tensor([WIDTH, HEIGHT])
    low, size = uniform(0.0, 0.6) * side, uniform(0.1, 0.4) * side
    if kind == "across":
        low, size = uniform(-0.4, 0.8) * side, uniform(0.5, 1.0) * side
    elif kind == "outside":
        low = (1.15 + torch.rand(1, generator=generator)) * side * torch.tensor([1.0, -1.0])
    elif kind == "empty":
        size[torch.randint(0, 2, (1,), generator=generator)] = 0.0
    elif kind == "thin":
        longest = int(torch.randint(0, 2, (1,), generator=generator))
        low[longest], size[longest], size[1 - longest] = -1.5, side[longest] + 3.7, 0.4
    return torch.cat([low, low + size])


def is_open(box, bins, scale):
    """Whether rounding decides the number of points, or whether one counts."""
    borders = (box.double() * scale - 0.5).tolist()
    for low, high, size in zip(borders[:2], borders[2:], (WIDTH, HEIGHT)):
        bin_size = (high - low) / bins
        if 0 < bin_size and abs(bin_size - round(bin_size)) < MARGIN:
            return True
        points = -int(-bin_size // 1)
        for place in range(bins * points):
            value = low + (place + 0.5) * bin_size / points
            if min(abs(value + 1), abs(value - size)) < MARGIN:
                return True
    return False


def boxes_of(count, bins, scale, generator):
    kinds = ["inside", "across", "inside", "thin", "across", "empty", "inside", "outside"]
    found = []
    while len(found) < count:
        box = draw(kinds[len(found) % len(kinds)], generator) / scale
        if not is_open(box, bins, scale):
            found.append(torch.cat([torch.tensor([len(found) // 3 % 2]).float(), box]))
    return torch.stack(found)


def run(value, boxes, probe, bins, scale):
    leaf = value.double().requires_grad_()
    output = roi_align(leaf, boxes.double(), bins, scale, -1, aligned=True)
    (output * probe.double()).sum().backward()
    return output, leaf.grad


def main():
    generator = torch.Generator().manual_seed(SEED)
    value = torch.randn(2, 3, HEIGHT, WIDTH, generator=generator)
    tensors, config = {"input": value}, {}
    for case, (bins, scale, count) in CASES.items():
        boxes = boxes_of(count, bins, scale, generator)
        probe = torch.randn(count, 3, bins, bins, generator=generator)
        output, grad = run(value, boxes, probe, bins, scale)
        single = roi_align(value, boxes, bins, scale, -1, aligned=True)
        torch.testing.assert_close(single.double(), output, rtol=1e-4, atol=1e-4)
        zeros = int((output.flatten(1).abs().amax(1) == 0).sum())
        print(case, "boxes of zeros", zeros, "difference in f32", (single - output).abs().max().item())
        tensors |= {f"{case}.boxes": boxes, f"{case}.probe": probe, f"{case}.output": output, f"{case}.grad": grad}
        config[case] = {"bins": bins, "scale": scale}
    ramp = torch.arange(16.0).reshape(1, 1, 4, 4)
    for name, (box, scale) in HAND.items():
        boxes = torch.tensor([[0.0, *box]])
        output, grad = run(ramp, boxes, torch.ones(1, 1, 2, 2), 2, scale)
        case = f"hand_{name}"
        tensors |= {f"{case}.input": ramp, f"{case}.boxes": boxes, f"{case}.output": output, f"{case}.grad": grad}
        config[case] = {"bins": 2, "scale": scale}
        print(case, output.flatten().tolist(), grad.flatten().tolist())
    save(golden("kvt-ops") / "dense" / "roi_align.safetensors", tensors, config, SEED)


if __name__ == "__main__":
    main()
