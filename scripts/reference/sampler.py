"""Golden orders: repeated augmentation as DeiT's RASampler deals it to its processes.

Writes `crates/kvt-data/tests/golden/sampler.safetensors`: `<images>_<repeats>_<replicas>` [replicas, samples] int32, the
samples of each rank, without shuffling. The rule is written down here; the script fails if timm's RepeatAugSampler
disagrees. Below 256 images DeiT selects none; there the rule is timm's.
"""

import math

import torch
from timm.data.distributed_sampler import RepeatAugSampler

from common import golden, save

CASES = [(300, 3, 4), (1000, 3, 4), (513, 2, 3), (256, 3, 1), (255, 3, 4), (7, 3, 4), (9, 2, 2)]


def rank_samples(images, repeats, replicas, rank):
    repeated = [image for image in range(images) for _ in range(repeats)]
    per_rank = math.ceil(len(repeated) / replicas)
    repeated += repeated[: per_rank * replicas - len(repeated)]
    own = repeated[rank::replicas]
    assert len(own) == per_rank
    kept = images // 256 * 256 // replicas if images >= 256 else math.ceil(images / replicas)
    return own[:kept]


def main():
    tensors = {}
    for images, repeats, replicas in CASES:
        ranks = [rank_samples(images, repeats, replicas, rank) for rank in range(replicas)]
        for rank, expected in enumerate(ranks):
            sampler = RepeatAugSampler(range(images), replicas, rank, shuffle=False, num_repeats=repeats)
            assert list(sampler) == expected, (images, repeats, replicas, rank)
        tensors[f"{images}_{repeats}_{replicas}"] = torch.tensor(ranks, dtype=torch.int32)
    save(golden("kvt-data") / "sampler.safetensors", tensors, dict(cases=CASES), seed=None)


if __name__ == "__main__":
    main()
