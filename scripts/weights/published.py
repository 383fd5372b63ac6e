"""Writes the list of weights that kvt knows by name: those of timm on its hub for models that kvt has.

    python scripts/weights/published.py target/release/kvt > crates/kvt-train/src/fetch/published.txt

Run with the version of timm of `scripts/reference/requirements.txt`. timm's default of a model comes first.
"""

import subprocess
import sys

import timm
from timm.models import get_pretrained_cfg


def models(kvt: str) -> list[str]:
    """The names that kvt knows, aliases last."""
    lines = subprocess.run([kvt, "models", "list"], check=True, capture_output=True, text=True).stdout.splitlines()
    aliases = [line.partition(": ")[2].split(", ") for line in lines if line.startswith("timm's")]
    names = [line.split()[0] for line in lines[1:] if line and not line.startswith("timm's")]
    return names + [name for line in aliases for name in line]


def main() -> None:
    tags: dict[str, list[str]] = {}
    for name in timm.list_pretrained():
        model, _, tag = name.partition(".")
        tags.setdefault(model, []).append(tag)
    for model in models(sys.argv[1]):
        if model not in tags:
            continue
        default = get_pretrained_cfg(model).tag
        found = sorted(tags[model], key=lambda tag: tag != default)
        # Only weights in timm's own account, under the name of the model; CLIP's with both activations have one name.
        own = model.replace("_quickgelu", "")
        found = [tag for tag in found if get_pretrained_cfg(f"{model}.{tag}").hf_hub_id in ("timm/", f"timm/{own}.{tag}")]
        if found:
            print(model, *found)


if __name__ == "__main__":
    main()
