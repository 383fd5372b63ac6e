"""How timm prepares the images of the weights and models that kvt knows by name.

    python scripts/reference/input.py target/release/kvt > crates/kvt-tools/tests/golden/input.json

`groups`: mean, std, crop_pct, crop_mode and interpolation of timm's `pretrained_cfg`, and the names that have them: `MODEL.TAG`, or
a model alone, for timm's default of it. `none`: models that timm does not have.
"""

import json
import subprocess
import sys
from pathlib import Path

import timm
from timm.models import get_pretrained_cfg

sys.path.append(str(Path(__file__).parents[1] / "weights"))
from published import models  # noqa: E402

KEYS = ("mean", "std", "crop_pct", "crop_mode", "interpolation")


def weights(kvt):
    lines = subprocess.run([kvt, "models", "list", "--weights"], check=True, capture_output=True, text=True).stdout.splitlines()
    first = [line.split()[0] for line in lines if line.strip()]
    return [name for name in first if "." in name]


if __name__ == "__main__":
    groups, none = {}, []
    for name in models(sys.argv[1]) + weights(sys.argv[1]):
        config = get_pretrained_cfg(name, allow_unregistered=False) if timm.is_model(name.split(".")[0]) else None
        if config is None:
            none.append(name)
        else:
            groups.setdefault(tuple(getattr(config, key) for key in KEYS), []).append(name)
    groups = [dict(zip(KEYS, values), names=names) for values, names in groups.items()]
    print(json.dumps({"provenance": {"timm": timm.__version__}, "groups": groups, "none": none}, indent=1))
