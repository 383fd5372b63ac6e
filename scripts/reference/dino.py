"""Golden steps of DINO: ten updates of student and teacher on fixed views, in f64 on the CPU, dense and k-NN.

Writes to `crates/kvt-train/tests/golden/`:

  dino_{dense,knn}.safetensors
    losses [10], centres [10, out_dim], lrs, weight_decays, momenta, temperatures [10]
    grad.<name>               gradients of the first update, before clipping
    student.<name>, teacher.<name>   all weights after the ten updates

and to `crates/kvt-models/tests/golden/`:

  pos_embed_dino.safetensors  <case>.input, <case>.output of DINO's interpolation of positions; metadata `config`: {case: {grid,
                              prefix_tokens}}

Weights and views are not in the first files: they follow from the formula of `seeded.py`, by the names `weights.<name>` and
`view.<step>.<number>`; shapes, centers and spreads are in the metadata `seeded`.

What an update does, in the order of the original's training loop (https://github.com/facebookresearch/dino, main_dino.py):
rates from tables per update; the teacher sees the global views, the student all; cross-entropy of the pairs; the centre moves;
each gradient is clipped by its own norm; in the first epoch the last layer has no gradient; AdamW; the teacher follows.
"""

import copy
import itertools
import math

import numpy
import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn import functional as F

from common import golden, patch_attention, save
from seeded import WIDTH, draw, law, SHARPENED

GAP = 1e-5
STEPS, EPOCHS, BATCH, SIDE, LOCAL, PATCH, LOCALS = 10, 2, 4, 16, 8, 4, 3
NITER = STEPS // EPOCHS
MODEL = dict(img_size=SIDE, patch_size=PATCH, embed_dim=16, depth=2, num_heads=2, mlp_ratio=2.0, qkv_bias=False, num_classes=0)
HEAD = dict(out_dim=12, hidden_dim=20, bottleneck_dim=8)
TRAIN = dict(lr=2e-3, min_lr=1e-6, warmup_epochs=1, weight_decay=0.04, weight_decay_end=0.4, momentum_teacher=0.9,
             center_momentum=0.9, student_temp=0.1, warmup_teacher_temp=0.04, teacher_temp=0.07, warmup_teacher_temp_epochs=2,
             freeze_last_layer=1, epochs=EPOCHS, local_views=LOCALS)
CASES = {
    "dense": dict(neighbors=None, norm_last_layer=True, clip=0.3),
    "knn": dict(neighbors=0.5, norm_last_layer=False, clip=3.0),
}


class Head(torch.nn.Module):
    """An MLP, the L2 norm, a linear layer with weight norm; parameters under the original's names."""

    def __init__(self, features, norm_last_layer):
        super().__init__()
        hidden, narrow, out = HEAD["hidden_dim"], HEAD["bottleneck_dim"], HEAD["out_dim"]
        gelu = torch.nn.GELU
        self.mlp = torch.nn.Sequential(torch.nn.Linear(features, hidden), gelu(), torch.nn.Linear(hidden, hidden), gelu(),
                                       torch.nn.Linear(hidden, narrow))
        self.last_layer = torch.nn.Module()
        self.last_layer.weight_g = torch.nn.Parameter(torch.ones(out, 1), requires_grad=not norm_last_layer)
        self.last_layer.weight_v = torch.nn.Parameter(torch.empty(out, narrow))

    def forward(self, x):
        x = F.normalize(self.mlp(x), dim=-1)
        weight = torch._weight_norm(self.last_layer.weight_v, self.last_layer.weight_g, 0)
        return F.linear(x, weight)


class Network(torch.nn.Module):
    def __init__(self, norm_last_layer):
        super().__init__()
        self.backbone = VisionTransformer(**MODEL)
        self.head = Head(MODEL["embed_dim"], norm_last_layer)

    def features(self, images):
        vit = self.backbone
        patches = vit.patch_embed.proj(images)
        grid = patches.shape[-2:]
        tokens = torch.cat([vit.cls_token.expand(len(images), -1, -1), patches.flatten(2).transpose(1, 2)], 1)
        position = torch.cat([vit.pos_embed[:, :1], positions(vit.pos_embed[:, 1:], grid)], 1)
        return vit.norm(vit.blocks(tokens + position))[:, 0]

    def forward(self, views):
        groups = itertools.groupby(views, key=lambda view: view.shape)
        return self.head(torch.cat([self.features(torch.cat(list(group))) for _, group in groups]))


def positions(embedding, grid):
    """With the factor (patches + 0.1) / patches before, which PyTorch also takes for the places."""
    side = math.isqrt(embedding.shape[1])
    if tuple(grid) == (side, side):
        return embedding
    factors = tuple((patches + 0.1) / side for patches in grid)
    image = embedding.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    resized = F.interpolate(image, scale_factor=factors, mode="bicubic")
    assert resized.shape[-2:] == tuple(grid)
    return resized.permute(0, 2, 3, 1).flatten(1, 2)


def table(base, final, warmup_epochs=0, start=0.0):
    warmup = numpy.linspace(start, base, warmup_epochs * NITER) if warmup_epochs else numpy.array([])
    places = numpy.arange(STEPS - len(warmup))
    return numpy.concatenate((warmup, final + 0.5 * (base - final) * (1 + numpy.cos(math.pi * places / len(places)))))


def temperatures():
    warm = numpy.linspace(TRAIN["warmup_teacher_temp"], TRAIN["teacher_temp"], TRAIN["warmup_teacher_temp_epochs"])
    rest = [TRAIN["teacher_temp"]] * (EPOCHS - len(warm))
    return numpy.repeat(numpy.concatenate((warm, rest)), NITER)


def laws(network):
    exact = lambda x: float(numpy.float32(x))
    tensors = {f"weights.{name}": [list(value.shape), *law(name, value, SHARPENED)]
               for name, value in network.state_dict().items()}
    # Where g is trained, it is not 1 for all.
    if network.head.last_layer.weight_g.requires_grad:
        tensors["weights.head.last_layer.weight_g"][1:] = [1.0, 0.25]
    else:
        tensors["weights.head.last_layer.weight_g"][1:] = [1.0, 0.0]
    tensors["weights.head.last_layer.weight_v"][1:] = [0.0, HEAD["bottleneck_dim"] ** -0.5]
    for step in range(STEPS):
        for view in range(2 + LOCALS):
            side = SIDE if view < 2 else LOCAL
            tensors[f"view.{step}.{view}"] = [[BATCH, 3, side, side], 0.0, WIDTH]
    return {name: [shape, exact(center), exact(spread)] for name, (shape, center, spread) in sorted(tensors.items())}


def train(case, drawn):
    student = Network(case["norm_last_layer"]).double()
    student.load_state_dict({name.removeprefix("weights."): value.double() for name, value in drawn.items()
                             if name.startswith("weights.")})
    teacher = copy.deepcopy(student).requires_grad_(False)
    gaps = []
    for network in (student, teacher):
        patch_attention(network.backbone, case["neighbors"], gaps=gaps)
    trained = {name: p for name, p in student.named_parameters() if p.requires_grad}
    decays = lambda name, p: p.ndim > 1 and not name.endswith(".bias")
    optimizer = torch.optim.AdamW([
        {"params": [p for name, p in trained.items() if decays(name, p)]},
        {"params": [p for name, p in trained.items() if not decays(name, p)], "weight_decay": 0.0},
    ], foreach=False)
    lrs = table(TRAIN["lr"], TRAIN["min_lr"], TRAIN["warmup_epochs"])
    decay = table(TRAIN["weight_decay"], TRAIN["weight_decay_end"])
    momenta, temps = table(TRAIN["momentum_teacher"], 1.0), temperatures()
    centre = torch.zeros(1, HEAD["out_dim"], dtype=torch.float64)
    found = {"losses": [], "centres": []}
    for step in range(STEPS):
        for number, group in enumerate(optimizer.param_groups):
            group["lr"] = lrs[step]
            if number == 0:
                group["weight_decay"] = decay[step]
        views = [drawn[f"view.{step}.{view}"].double() for view in range(2 + LOCALS)]
        with torch.no_grad():
            said = teacher(views[:2])
        learned = (student(views) / TRAIN["student_temp"]).chunk(2 + LOCALS)
        targets = F.softmax((said - centre) / temps[step], dim=-1).chunk(2)
        pairs = [(q, p) for q in range(2) for p in range(2 + LOCALS) if p != q]
        loss = sum((-targets[q] * F.log_softmax(learned[p], dim=-1)).sum(-1).mean() for q, p in pairs) / len(pairs)
        centre = TRAIN["center_momentum"] * centre + (1 - TRAIN["center_momentum"]) * said.mean(0, keepdim=True)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            found |= {f"grad.{name}": p.grad.clone() for name, p in trained.items()}
        for name, p in trained.items():
            norm = p.grad.norm(2)
            factor = case["clip"] / (norm + 1e-6)
            if factor < 1:
                p.grad.mul_(factor)
        if step // NITER < TRAIN["freeze_last_layer"]:
            for name, p in trained.items():
                if "last_layer" in name:
                    p.grad = None
        optimizer.step()
        with torch.no_grad():
            for q, k in zip(student.parameters(), teacher.parameters()):
                k.mul_(momenta[step]).add_((1 - momenta[step]) * q)
        found["losses"].append(loss.item())
        found["centres"].append(centre[0].clone())
    found["losses"] = torch.tensor(found["losses"], dtype=torch.float64)
    found["centres"] = torch.stack(found["centres"])
    for name, numbers in (("lrs", lrs), ("weight_decays", decay), ("momenta", momenta), ("temperatures", temps)):
        found[name] = torch.from_numpy(numbers)
    for prefix, network in (("student", student), ("teacher", teacher)):
        found |= {f"{prefix}.{name}": value.detach().clone() for name, value in network.state_dict().items()}
    return found, min(gaps, default=math.inf)


def position_embeddings(seed=17):
    generator = torch.Generator().manual_seed(seed)
    tensors, config = {}, {}
    for case, side, grid in [("local", 14, [6, 6]), ("grow", 4, [9, 9]), ("oblong", 5, [2, 8]), ("cifar", 8, [4, 4])]:
        embedding = torch.randn(1, 1 + side * side, 6, generator=generator, dtype=torch.float64)
        tensors[f"{case}.input"] = embedding
        tensors[f"{case}.output"] = torch.cat([embedding[:, :1], positions(embedding[:, 1:], grid)], dim=1)
        config[case] = {"grid": grid, "prefix_tokens": 1}
    save(golden("kvt-models") / "pos_embed_dino.safetensors", tensors, config, seed)


def main():
    for number, (name, case) in enumerate(CASES.items()):
        network = Network(case["norm_last_layer"])
        for seed in itertools.count(1000 * number):
            drawn, seeded = draw(laws(network), seed)
            found, gap = train(case, drawn)
            if gap > GAP:
                break
        print(name, "seed", seed, "gap", gap, "losses", [round(x, 4) for x in found["losses"].tolist()])
        config = {**TRAIN, **HEAD, **case, "model": MODEL, "batch": BATCH, "local_size": LOCAL}
        save(golden("kvt-train") / f"dino_{name}.safetensors", found, config, seed, seeded=seeded)


if __name__ == "__main__":
    main()
    position_embeddings()
