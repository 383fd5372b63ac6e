"""Golden numbers of UPerNet's heads: mmsegmentation's UPerHead and FCNHead.

Writes `crates/kvt-models/tests/golden/dense/upernet_{even,odd}.safetensors`, in f64:

  weights.<name>   by mmsegmentation's names: decode_head.* and auxiliary_head.*, running statistics among them
  maps.<stage>     [2, C, h, w], what the heads see
  labels           [2, H, W] int64, 255 is ignored
  logits           of the decode head, at the size of the first map
  aux_logits       of the auxiliary head, at the size of the third
  losses           [3]: of the decode head, of the auxiliary head, the first and 0.4 of the second
  grad.<name>, grad_sketch.<name>
                   gradients of the last, of the maps and of the parameters; large ones as `sketch`
  train.*          the same of a training step (without dropout), and train.running.<name>, the statistics after it

The losses are divided by the number of all pixels. Running statistics are random: the initial ones would hide errors.
"""

import mm
import torch
from common import golden, save, sketch
from mmseg.registry import MODELS

SEED, LARGE, CLASSES = 21, 256, 3
DIMS, CHANNELS, AUX_CHANNELS = [4, 8, 16, 32], 6, 5
CASES = {
    "even": ([(16, 24), (8, 12), (4, 6), (2, 3)], (48, 72)),
    "odd": ([(17, 23), (9, 12), (5, 6), (3, 3)], (51, 67)),
}


def build():
    decode, auxiliary = mm.heads(DIMS, CHANNELS, AUX_CHANNELS, CLASSES)
    mm.init_default_scope("mmseg")
    return torch.nn.ModuleDict({"decode_head": MODELS.build(decode), "auxiliary_head": MODELS.build(auxiliary)})


def randomize(heads, generator):
    """Whatever a norm sees is of order one."""
    for name, p in heads.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if p.ndim > 1:
            p.data.copy_(1.4 * noise / p[0].numel() ** 0.5)
        else:
            p.data.copy_(1 + 0.3 * noise if name.endswith("weight") else 0.3 * noise)
    for name, buffer in heads.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
        elif name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))


def run(heads, maps, labels):
    maps = [value.double().requires_grad_() for value in maps]
    heads.zero_grad()
    outputs = [heads[name](maps) for name in ("decode_head", "auxiliary_head")]
    losses = [heads[name].loss_by_feat(output, mm.samples(labels))["loss_ce"]
              for name, output in zip(("decode_head", "auxiliary_head"), outputs)]
    sum(losses).backward()  # each with its weight, 1 and 0.4
    found = {"logits": outputs[0], "aux_logits": outputs[1],
             "losses": torch.stack([losses[0], losses[1] / 0.4, sum(losses)])}
    grads = {f"maps.{stage}": value.grad for stage, value in enumerate(maps)}
    grads |= {name: p.grad for name, p in heads.named_parameters()}
    for name, grad in grads.items():
        large = grad.numel() > LARGE
        found[f"{'grad_sketch' if large else 'grad'}.{name}"] = sketch(grad) if large else grad.clone()
    return found


def main():
    for number, (case, (sizes, whole)) in enumerate(CASES.items()):
        generator = torch.Generator().manual_seed(SEED + number)
        heads = build()
        randomize(heads, generator)
        tensors = {f"weights.{name}": value.clone() for name, value in heads.state_dict().items()}
        maps = [torch.randn(2, dim, *size, generator=generator) for dim, size in zip(DIMS, sizes)]
        labels = torch.randint(0, CLASSES, (2, *whole), generator=generator)
        labels[0, :20] = 255
        labels[1, :, 40:] = 255
        tensors |= {f"maps.{stage}": value for stage, value in enumerate(maps)} | {"labels": labels}
        heads.double()
        heads.eval()
        tensors |= run(heads, maps, labels)
        heads.train()
        tensors |= {f"train.{name}": value for name, value in run(heads, maps, labels).items()}
        tensors |= {f"train.running.{name}": value for name, value in heads.named_buffers() if "running" in name}
        print(case, tensors["losses"].tolist(), tensors["train.losses"].tolist())
        config = dict(in_channels=DIMS, channels=CHANNELS, aux_channels=AUX_CHANNELS, num_classes=CLASSES,
                      pool_scales=[1, 2, 3, 6], aux_stage=3, aux_weight=0.4, ignore=255)
        path = golden("kvt-models") / "dense" / f"upernet_{case}.safetensors"
        save(path, tensors, config, SEED + number, mm=mm.VERSIONS)


if __name__ == "__main__":
    main()
