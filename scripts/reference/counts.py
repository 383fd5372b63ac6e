"""How many parameters the published models have: `crates/kvt-models/tests/golden/param_counts.json`.

  python scripts/reference/counts.py CVT_CHECKOUT

`params`: {name: count}, of timm's models with 1000 classes, and of the official CvTs (see `cvt.py`).
"""

import sys

import timm

import cvt
from common import golden, save_json

SWIN = [f"swin_{size}_patch4_window7_224" for size in ("tiny", "small", "base", "large")]
SWIN += [f"swin_{size}_patch4_window12_384" for size in ("base", "large")]
TNT = ["tnt_s_patch16_224", "tnt_b_patch16_224", "tnt_s_legacy_patch16_224"]
VISFORMER = ["visformer_tiny", "visformer_small"]
TWINS = [f"twins_svt_{size}" for size in ("small", "base", "large")]
PIT = [f"pit_{size}{kind}_224" for kind in ("", "_distilled") for size in ("ti", "xs", "s", "b")]
VOLO = [f"volo_{size}_{side}" for size, sides in (("d1", (224, 384)), ("d2", (224, 384)), ("d3", (224, 448)),
                                                   ("d4", (224, 448)), ("d5", (224, 448, 512))) for side in sides]


def count(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


if __name__ == "__main__":
    params = {name: count(timm.create_model(name)) for name in SWIN + PIT}
    params |= {name: count(cvt.published(sys.argv[1], name)) for name in ("cvt_13", "cvt_21", "cvt_w24")}
    params |= {name: count(timm.create_model(name)) for name in TNT + VISFORMER}
    params |= {name: count(timm.create_model(name)) for name in TWINS}
    params |= {name: count(timm.create_model(name)) for name in VOLO}
    print(params)
    save_json(golden("kvt-models") / "param_counts.json", {"params": params}, seed=None)
