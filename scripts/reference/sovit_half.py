"""How far So-ViT's gradients in half types are from those in f32, of the official code alone.

  python scripts/reference/sovit_half.py SOVIT_CHECKOUT

SOVIT_CHECKOUT is as for `sovit.py`. Prints, for a step of training of the small model of kvt's tests (2 images of 16 px) with
the official initialisation, the distance of logits (relative to the largest) and of all gradients (relative to their norm)
from f32: of the model wholly under `torch.autocast`, and of one with autocast around each linear layer and convolution alone
(as kvt rounds; `half.py`). Median, least and most of 25 seeds. `evaluation`, and `training`, in which batch norms take the
statistics of the batch. Writes nothing.
"""

import statistics
import sys

import torch

import sovit
from half import TYPES, around, products

SMALL = dict(img_size=16, in_chans=3, num_classes=3, embed_dim=12, depth=1, num_heads=2, mlp_ratio=2.0, qkv_bias=False,
             strides=[2, 1, 1], cov_dims=[5, 3])
SEEDS = 25


def step(official, seed, dtype, wholly, training):
    """Logits and gradients of the parameters of one step."""
    torch.manual_seed(seed)
    model = sovit.build(official, SMALL).train(training)
    images, probe = torch.randn(2, 3, 16, 16), torch.randn(2, 3)
    if dtype and not wholly:
        for module in products(model)[0]:
            around(module, dtype, widen=True)
    with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None and wholly):
        logits = model(images).float()
    (logits * probe).sum().backward()
    grads = [p.grad.flatten() for p in model.parameters() if p.requires_grad]
    return logits.detach(), torch.cat(grads)


def main():
    official = sovit.load(sys.argv[1])
    for phase in ("evaluation", "training"):
        for name, dtype in TYPES.items():
            for how in ("wholly", "layers"):
                found = []
                for seed in range(SEEDS):
                    logits, grads = step(official, seed, None, False, phase == "training")
                    half_logits, half_grads = step(official, seed, dtype, how == "wholly", phase == "training")
                    found.append((((half_logits - logits).abs().max() / logits.abs().max()).item(),
                                  ((half_grads - grads).norm() / grads.norm()).item()))
                words = [f"{statistics.median(x):.2g} ({min(x):.2g} to {max(x):.2g})" for x in zip(*found)]
                print(f"{phase}, {name}, {how}: logits {words[0]}, gradients {words[1]}")


if __name__ == "__main__":
    main()
