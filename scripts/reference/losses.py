"""Golden losses: timm's binary cross-entropy, VOLO's token labelling, DeiT's distillation; values and gradients.

Writes `crates/kvt-train/tests/golden/losses.safetensors`:

  logits [4,5], labels [4] int64, own [4]      own: share of each image's own target after mixing
  <name>, <name>.grad                          timm's BinaryCrossEntropy: bce_plain, bce_sum (labels), bce_mixed,
                                               bce_threshold, bce_threshold_sum (mixed targets)
  weights [5]                                  of the classes, for PyTorch's CrossEntropyLoss(weight=...)
  <name>, <name>.grad                          weighted_labels, weighted_smooth (labels), weighted_mixed, weighted_both (mixed targets,
                                               and smoothed)
  token_logits [4,9,5], token_labels [4,9,5], crop_label [4,5], truth [4,5]
  <name>, <name>.grad_class, .grad_tokens      tokens_plain, tokens_mixed (6 tokens exchanged), tokens_truth, tokens_fallback
                                               (the target of the image for each of its tokens)
  teacher [4,5], dist_logits [4,5]
  <name>, <name>.grad_class, .grad_dist        distill_hard, distill_legacy, distill_batch, distill_single (one head)

All in f64, stored as f32. VOLO's and DeiT's losses are written down here from their formulas
(https://github.com/sail-sg/volo, loss/cross_entropy.py; https://github.com/facebookresearch/deit, losses.py).
"""

import torch
import torch.nn.functional as F
from timm.data.mixup import one_hot
from timm.loss import BinaryCrossEntropy, SoftTargetCrossEntropy

from common import golden, save

SEED = 5
BATCH, CLASSES, TOKENS, EXCHANGED = 4, 5, 9, 6
SMOOTHING = 0.1
soft = SoftTargetCrossEntropy()


def binary(logits, labels, own):
    smooth = one_hot(labels, CLASSES, 1 - SMOOTHING + SMOOTHING / CLASSES, SMOOTHING / CLASSES).double()
    mixed = smooth * own + smooth.flip(0) * (1 - own)
    for name, target, options in (
        ("bce_plain", labels, {}),
        ("bce_sum", labels, dict(sum_classes=True)),
        ("bce_mixed", mixed, {}),
        ("bce_threshold", mixed, dict(target_threshold=0.2)),
        ("bce_threshold_sum", mixed, dict(target_threshold=0.5, sum_classes=True)),
    ):
        x = logits.clone().requires_grad_()
        loss = BinaryCrossEntropy(smoothing=SMOOTHING, **options)(x, target)
        loss.backward()
        yield name, loss
        yield f"{name}.grad", x.grad


def weighted(logits, labels, own, weights):
    mixed = F.one_hot(labels, CLASSES) * own + F.one_hot(labels, CLASSES).flip(0) * (1 - own)
    for name, target, smoothing in (
        ("weighted_labels", labels, 0.0),
        ("weighted_smooth", labels, SMOOTHING),
        ("weighted_mixed", mixed, 0.0),
        ("weighted_both", mixed, SMOOTHING),
    ):
        x = logits.clone().requires_grad_()
        loss = torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=smoothing)(x, target)
        loss.backward()
        yield name, loss
        yield f"{name}.grad", x.grad


def token_labels(logits, token_logits, labels, crop, truth):
    """`lam` is the share of tokens that MixToken left; the dense weight is VOLO's 0.5."""
    for name, maps, with_truth, exchanged in (
        ("tokens_plain", True, False, 0),
        ("tokens_mixed", True, False, EXCHANGED),
        ("tokens_truth", True, True, EXCHANGED),
        ("tokens_fallback", False, False, EXCHANGED),
    ):
        x, tokens = logits.clone().requires_grad_(), token_logits.clone().requires_grad_()
        target = crop
        if with_truth:
            ratio = (0.9 - 0.4 * (truth.max(-1)[1] == crop.max(-1)[1])).unsqueeze(-1)
            target = crop * ratio + truth * (1 - ratio)
        dense = labels.reshape(-1, CLASSES) if maps else target.repeat(1, TOKENS).reshape(-1, CLASSES)
        lam = 1 - exchanged / TOKENS
        if lam < 1:
            target = lam * target + (1 - lam) * target.flip(0)
        loss = soft(x, target) + 0.5 * soft(tokens.reshape(-1, CLASSES), dense)
        loss.backward()
        yield name, loss
        yield f"{name}.grad_class", x.grad
        yield f"{name}.grad_tokens", tokens.grad


def distillation(logits, dist_logits, teacher, target, alpha=0.3, tau=2.0):
    def divergence(student):
        return F.kl_div(F.log_softmax(student / tau, 1), F.log_softmax(teacher / tau, 1), reduction="sum",
                        log_target=True) * tau * tau

    for name, of in (
        ("distill_hard", lambda x, d: F.cross_entropy(d, teacher.argmax(1))),
        ("distill_legacy", lambda x, d: divergence(d) / d.numel()),
        ("distill_batch", lambda x, d: divergence(d) / len(d)),
        ("distill_single", lambda x, d: divergence(x) / len(x)),
    ):
        x, dist = logits.clone().requires_grad_(), dist_logits.clone().requires_grad_()
        loss = (1 - alpha) * soft(x, target) + alpha * of(x, dist)
        loss.backward()
        yield name, loss
        yield f"{name}.grad_class", x.grad
        yield f"{name}.grad_dist", torch.zeros_like(dist) if dist.grad is None else dist.grad


def main():
    generator = torch.Generator().manual_seed(SEED)
    draw = lambda *shape: torch.randn(*shape, generator=generator).float().double()
    tensors = {
        "logits": 2 * draw(BATCH, CLASSES), "labels": torch.tensor([3, 0, 0, 4]),
        "own": torch.tensor([[0.25], [0.8125], [0.8125], [0.25]], dtype=torch.float64),
        "token_logits": 2 * draw(BATCH, TOKENS, CLASSES),
        "token_labels": draw(BATCH, TOKENS, CLASSES).softmax(-1).float().double(),
        "crop_label": draw(BATCH, CLASSES).softmax(-1).float().double(),
        "teacher": 3 * draw(BATCH, CLASSES), "dist_logits": 2 * draw(BATCH, CLASSES),
    }
    # Two of the four labels of the crop agree with the truth.
    best = tensors["crop_label"].argmax(1)
    tensors["truth"] = F.one_hot((best + torch.tensor([0, 1, 0, 2])) % CLASSES, CLASSES).double()
    tensors["weights"] = torch.tensor([0.5, 2.0, 1.0, 4.0, 0.25], dtype=torch.float64)
    t = tensors.copy()
    tensors |= weighted(t["logits"], t["labels"], t["own"], t["weights"])
    tensors |= binary(t["logits"], t["labels"], t["own"])
    tensors |= token_labels(t["logits"], t["token_logits"], t["token_labels"], t["crop_label"], t["truth"])
    tensors |= distillation(t["logits"], t["dist_logits"], t["teacher"], t["crop_label"])
    tensors = {name: value.reshape(1) if value.ndim == 0 else value for name, value in tensors.items()}
    config = dict(smoothing=SMOOTHING, exchanged=EXCHANGED, token_weight=0.5, alpha=0.3, temperature=2.0)
    save(golden("kvt-train") / "losses.safetensors", tensors, config, SEED)


if __name__ == "__main__":
    main()
