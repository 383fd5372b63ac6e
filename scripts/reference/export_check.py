"""Compares what `kvt export` and `kvt weights export` write with `kvt logits`, by onnxruntime and timm.

  python scripts/reference/export_check.py target/release/kvt deit_tiny_patch16_224
  python scripts/reference/export_check.py target/release/kvt swin_tiny_patch4_window7_224 --neighbors 0.5
  python scripts/reference/export_check.py target/release/kvt t2t_vit_14 --batch 2

The model has random weights. The ONNX file is run on all images at once and, with a free batch, on each alone; the folder for timm is
loaded with `local-dir:`, where timm has the model. Fails above --tolerance, relative to the largest logit or 1. Not for CI: it needs onnx,
onnxruntime, PyTorch, timm and a kvt that was built with the feature `export`. The ignored tests of crates/kvt/tests/all/export.rs run it.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import timm
import torch
from safetensors.numpy import load_file, save_file

IMAGES = 4


def written(folder, args):
    """A configuration of the model."""
    attention = ""
    if args.neighbors is not None:
        attention = f'[model.attention]\nkind = "knn"\nneighbors = {args.neighbors}\n'
    config = folder / "c.toml"
    config.write_text(
        f'[model]\nname = "{args.model}"\nnum_classes = 7\n{attention}[data]\npath = "none"\n[train]\ndevice = "cpu"\n'
    )
    return config


def random_weights(kvt, config, model, folder):
    """Random numbers in the shapes that `kvt weights inspect` lists for an empty file."""
    empty, weights = folder / "empty.safetensors", folder / "w.safetensors"
    save_file({"none": np.zeros(1, np.float32)}, empty)
    listed = subprocess.run(
        [kvt, "weights", "inspect", empty, "--config", config, "--all"], capture_output=True, text=True
    ).stdout
    rng, tensors = np.random.default_rng(0), {}
    for line in listed.splitlines():
        if not line.rstrip().endswith(" missing") or "[" not in line:
            continue
        name, shape = line.split()[0], json.loads(line[line.index("["):line.index("]") + 1])
        fan = max(1, int(np.prod(shape[1:])))
        numbers = rng.normal(0, fan**-0.5, shape)
        if name.endswith("running_var"):
            numbers = 1 + np.abs(numbers)
        tensors[name] = numbers.astype(np.float32)
    if not tensors:
        raise SystemExit(f"no shapes of {model} in:\n{listed}")
    save_file(tensors, weights)
    return weights


def compare(what, found, expected, tolerance):
    difference = np.abs(found - expected).max() / max(1, np.abs(expected).max())
    print(f"{what:32} {difference:.2e}")
    if not difference < tolerance:
        raise SystemExit(f"{what} differs by more than {tolerance:g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvt", type=Path)
    parser.add_argument("model")
    parser.add_argument("--neighbors", help="a count, a share or a list of them; default: dense")
    parser.add_argument("--batch", type=int, help="a batch that is fixed")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = written(folder, args)
        weights = random_weights(args.kvt, config, args.model, folder)
        of_model = ["--config", config, "--weights", weights]
        file = folder / "m.onnx"
        batch = ["--batch", str(args.batch)] if args.batch else []
        subprocess.run([args.kvt, "export", *of_model, file, *batch], check=True)
        onnx.checker.check_model(str(file), full_check=True)
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        shape = session.get_inputs()[0].shape
        images = np.random.default_rng(1).normal(size=(IMAGES, *shape[1:])).astype(np.float32)
        save_file({"images": images}, folder / "in.safetensors")
        out = folder / "out.safetensors"
        subprocess.run(
            [args.kvt, "logits", *of_model, "--input", folder / "in.safetensors", "--output", out], check=True
        )
        logits = load_file(out)["logits"]
        for size in [args.batch] if args.batch else [IMAGES, 1]:
            parts = [session.run(["logits"], {"images": images[i:i + size]})[0] for i in range(0, IMAGES, size)]
            compare(f"onnxruntime, {size} at a time", np.concatenate(parts), logits, args.tolerance)
        timm_folder = folder / "timm"
        done = subprocess.run([args.kvt, "weights", "export", *of_model, timm_folder], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr.strip())
            return
        model = timm.create_model(f"local-dir:{timm_folder}", pretrained=True).eval()
        settings = timm.data.resolve_model_data_config(model)
        assert list(settings["input_size"]) == list(shape[1:]), settings
        with torch.no_grad():
            compare("timm", model(torch.from_numpy(images)).numpy(), logits, args.tolerance)


if __name__ == "__main__":
    main()
