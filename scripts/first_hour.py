#!/usr/bin/env python3
"""The first minutes of somebody who has only the program, on a clock: demo, report, own photos, a prediction.

    scripts/first_hour.py PATH/TO/kvt            # some minutes on two idle cores
    scripts/first_hour.py PATH/TO/kvt --quick    # tiny settings, to try this script: its times mean nothing

It works in an empty folder of its own, draws 160 photos in four classes, and serves random weights of DeiT-Tiny from a server of its
own under the name of published ones: nothing is downloaded from elsewhere. Making photos and weights is not counted. Exits with
1 if a step fails. Needs Python 3.11 alone.
"""

import argparse
import hashlib
import http.server
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

NAME = "deit_tiny_patch16_224.fb_in1k"
CLASSES = ["columns", "disc", "rows", "square"]
WIDTH, HEIGHT = 320, 240
# One update of the model on two photos, to have a file of its weights.
WEIGHTS = """
[model]
name = "deit_tiny_patch16_224"
[data]
path = "photos"
val_fraction = 0.2
[train]
batch_size = 2
max_steps = 1
device = "cpu"
[run]
dir = "weights"
"""
QUICK_DEMO = ["train.epochs=1", "train.batch_size=16", "data.shapes.train_per_class=8", "data.shapes.val_per_class=4"]
QUICK_FINETUNE = ["train.max_steps=2"]


def photo(path, kind, draw):
    """A figure of one colour on another, as a PNG."""
    back, front = (bytes(draw.choices(range(256), k=3)) for _ in range(2))
    x0, y0 = draw.randrange(100, 220), draw.randrange(80, 160)
    size, period = draw.randrange(30, 80), draw.randrange(8, 30)
    rows = []
    for y in range(HEIGHT):
        if kind == "columns":
            row = ((back * period + front * period) * WIDTH)[: 3 * WIDTH]
        elif kind == "rows":
            row = (front if y // period % 2 else back) * WIDTH
        else:
            inside = size**2 - (y - y0) ** 2
            half = (int(inside**0.5) if kind == "disc" else size) if inside > 0 else 0
            first, last = max(x0 - half, 0), min(x0 + half, WIDTH)
            row = back * first + front * (last - first) + back * (WIDTH - last)
        rows.append(b"\0" + row)

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def serve(weights):
    """A hub that has these weights under every name; returns its address."""

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if not self.path.endswith("/model.safetensors"):
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Length", str(len(weights)))
            self.send_header("ETag", f'"{hashlib.sha256(weights).hexdigest()}"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.end_headers()
            try:
                self.wfile.write(weights)
            except OSError:
                pass  # The client has seen enough.

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kvt", type=Path, help="the program")
    parser.add_argument("--quick", action="store_true", help="tiny settings, to try this script")
    parser.add_argument("--device", default="cpu", help="device of kvt")
    args = parser.parse_args()
    kvt = args.kvt.resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        env["HF_HOME"] = str(folder / "cache")

        def run(*arguments):
            start = time.monotonic()
            done = subprocess.run([kvt, *map(str, arguments)], cwd=folder, env=env, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"kvt {' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")
            return time.monotonic() - start

        draw = random.Random(0)
        for kind in CLASSES:
            (folder / "photos" / kind).mkdir(parents=True)
            for number in range(40):
                photo(folder / "photos" / kind / f"{number:02}.png", kind, draw)
        (folder / "weights.toml").write_text(WEIGHTS)
        run("train", "weights.toml")
        weights = max((folder / "weights/checkpoints").glob("*/model.safetensors"))
        env["HF_ENDPOINT"] = serve(weights.read_bytes())

        def sets(keys):
            return [word for key in keys for word in ("--set", key)] if args.quick else []

        device = ["--device", args.device]
        some = "photos/disc/00.png"
        steps = [
            ["demo", *device, *sets(QUICK_DEMO)],
            ["report", "runs/demo/dense", "runs/demo/knn", "--eval", "--samples", "12", "--out", "demo.html"],
            ["finetune", "photos", "--linear-probe", "--weights", NAME, "--out", "runs/probe", *device, *sets(QUICK_FINETUNE)],
            ["predict", "--run", "runs/probe", some],
            ["finetune", "photos", "--weights", NAME, *device, *sets(QUICK_FINETUNE)],
            ["predict", "--run", "runs/finetune/photos", some],
        ]
        total = 0.0
        for step in steps:
            seconds = run(*step)
            total += seconds
            print(f"{seconds / 60:6.2f} min  kvt {' '.join(step)}", flush=True)
        print(f"{total / 60:6.2f} min  all, on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
