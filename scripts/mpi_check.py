#!/usr/bin/env python3
"""Two processes under `mpirun` against one: the same run, whatever happens to one of them.

    cargo build --workspace --features mpi
    scripts/mpi_check.py [--kvt target/debug/kvt] [--keep FOLDER]

Needs Open MPI's `mpirun`, and a `kvt` that was built with the feature `mpi`. Takes a minute. What it checks:

- two processes are one with `train.accumulate = 2`, to the bit: DeiT with k-NN attention, drop path, mixup and an average;
- two processes with joint batch norms are one with twice the micro-batch, to 1e-6: CvT, running statistics included;
- a killed process ends the job, whose output names it, and one process continues as if nothing had happened;
- segmentation and detection, killed within an epoch and resumed, are one process that was not, to the bit;
- a signal to `mpirun` stops all, and everything is saved;
- an error is reported once, not once per process; an image that one process cannot read is one error of all;
- `kvt bench step` shows how well it scales.
"""

import argparse
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """seed = 3
[model]
name = "{name}"
img_size = 16
mlp_ratio = 2.0
{model}
[data]
kind = "shapes"
path = "data"
workers = 1
[data.shapes]
classes = 3
train_per_class = 16
val_per_class = 5
image_size = 16
[augment]
preset = "cifar"
[optim]
lr_batch = 0
eps = 0.01
[schedule]
per = "step"
[train]
device = "cpu"
epochs = 2
batch_size = 4
[eval]
batch_size = 4
[log]
every_steps = 1
tensorboard = false
[checkpoint]
keep_last = 1000
"""

DEIT = CONFIG.format(
    name="deit_tiny_patch16_224",
    model="patch_size = 4\nembed_dim = 16\nnum_heads = 2\ndepth = 2\ndrop_path = 0.3\n"
    '[model.attention]\nkind = "knn"\nneighbors = 0.5\n[mix]\nmixup = 0.8\n[ema]\ndecay = 0.5',
)
CVT = CONFIG.format(
    name="cvt_13",
    model="patch_size = 4\npatch_stride = 2\nembed_dim = 16\nnum_heads = 2\ndepth = 1",
)

# Of the smallest Swin, on scenes of which an epoch has more updates than are made before the kill. Without joint batch norms UPerNet, too,
# learns the same to the bit.
DENSE = """task = "{task}"
seed = 3
[model]
name = "swin_tiny_patch4_window7_224"
img_size = {side}
window_size = 4
embed_dim = 8
depth = [1, 1, 2, 1]
num_heads = [1, 2, 2, 4]
drop_path = 0.3
[model.attention]
kind = "knn"
neighbors = 0.8
[data]
kind = "shapes"
path = "scenes"
workers = 1
[data.shapes]
layout = "dense"
image_size = 64
classes = 2
train_per_class = 200
val_per_class = 2
[optim]
lr = 1e-3
lr_batch = 0
eps = 0.01
[schedule]
kind = "constant"
per = "step"
warmup_epochs = 0
[train]
device = "cpu"
batch_size = 2
sync_batch_norm = false
[log]
every_steps = 1
tensorboard = false
[checkpoint]
keep_last = 1000
"""
DENSE_UPDATES = 100
SEGMENT = DENSE.format(task="segment", side=32) + (
    "[segment]\nchannels = 8\naux_channels = 4\n[dense]\nscale = [48, 32]\ncrop = [32, 32]\n"
)
DETECT = DENSE.format(task="detect", side=64) + (
    "[detect]\nchannels = 8\nhidden = 16\nanchors = 16\nregions = 8\ntrain_per_level = 20\ntrain_proposals = 10\n"
    "test_per_level = 20\ntest_proposals = 10\nscore = 0.01\n[multiscale]\nsizes = [48, 64]\nmax = 64\ncrop_before = false\n"
)

# A run without an end, saved after every update.
ENDLESS = ["train.accumulate=2", "train.epochs=100000", "checkpoint.every_steps=1"]

# A root user, as in CI; both processes on one machine; as many threads for one process as for each of two.
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "RAYON_NUM_THREADS": "1",
}
# Nothing takes this long: a process that waits longer would wait for ever.
PATIENCE = 300


class Check:
    def __init__(self, kvt: Path, folder: Path):
        self.kvt, self.folder = str(kvt), folder
        for name, config in [("deit", DEIT), ("cvt", CVT), ("segment", SEGMENT), ("detect", DETECT)]:
            (folder / f"{name}.toml").write_text(config)

    def command(self, processes: int, *arguments: str) -> list[str]:
        launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes)]
        return [*(launcher if processes > 1 else []), self.kvt, *arguments]

    def run(self, processes: int, *arguments: str) -> subprocess.CompletedProcess:
        command = self.command(processes, *arguments)
        return subprocess.run(
            command, cwd=self.folder, env=ENVIRONMENT, text=True, capture_output=True, timeout=PATIENCE
        )

    def train(self, processes: int, config: str, run: str, *overrides: str, resume: bool = False) -> str:
        sets = [word for key in overrides for word in ("--set", key)]
        arguments = ["train", f"{config}.toml", "--run-dir", run, *sets, *(["--resume"] if resume else [])]
        done = self.run(processes, *arguments)
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)} by {processes}: exit code {done.returncode}\n{done.stderr}")
        return done.stderr

    def checkpoint(self, run: str) -> Path:
        checkpoints = self.folder / run / "checkpoints"
        return checkpoints / (checkpoints / "last").read_text().strip()

    def files(self, run: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.checkpoint(run).glob("*.safetensors")}

    def untimed_events(self, run: str) -> list:
        """The steps and evaluations of the log, without their times, and of a step of a dense task without what is of the last micro-batch
        of the first process."""
        events = [json.loads(line) for line in (self.folder / run / "log.jsonl").read_text().splitlines()]
        timed = ("images_per_second", "data_wait", "communication")
        of_one = ("_loss", "accuracy") if run.endswith(("-segment", "-detect")) else ()
        events = [event for event in events if event["kind"] in ("step", "eval")]
        return [
            {key: value for key, value in event.items()
             if key not in timed and (event["kind"] == "eval" or not key.endswith(of_one))}
            for event in events
        ]  # fmt: skip

    def start(self, processes: int, run: str, steps: int, config: str = "deit") -> subprocess.Popen:
        """An endless run that has made some updates."""
        sets = [word for key in ENDLESS for word in ("--set", key)]
        command = self.command(processes, "train", f"{config}.toml", "--run-dir", run, *sets)
        child = subprocess.Popen(
            command, cwd=self.folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + PATIENCE
        while not (self.folder / run / "checkpoints" / f"step-{steps:08}").exists():
            if child.poll() is not None or time.monotonic() > deadline:
                child.kill()
                sys.exit(f"{run} does not come to step {steps}: {child.communicate()[1]}")
            time.sleep(0.05)
        return child


def tensors(file: bytes) -> dict[str, tuple[float, ...]]:
    """The f32 tensors of a safetensors file."""
    (length,) = struct.unpack("<Q", file[:8])
    header, body = json.loads(file[8 : 8 + length]), file[8 + length :]
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            found[name] = struct.unpack(f"<{(end - start) // 4}f", body[start:end])
    return found


def farthest(one: bytes, other: bytes) -> tuple[float, str]:
    """The largest difference, relative to numbers above 1, and where it is."""
    one, other = tensors(one), tensors(other)
    assert one.keys() == other.keys()
    differences = (
        (abs(a - b) / max(abs(a), 1.0), name) for name in one for a, b in zip(one[name], other[name], strict=True)
    )
    return max(differences)


def process_of_rank(rank: int, launcher: int) -> int:
    """The process id of a rank below a launcher."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = (folder / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if parent == launcher and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
            return int(folder.name)
    sys.exit(f"no rank {rank} below process {launcher}")


def the_same_run(check: Check) -> None:
    for batch in (4, 9):
        settings = ["train.accumulate=2", f"train.batch_size={batch}"]
        check.train(1, "deit", f"one-{batch}", *settings)
        check.train(2, "deit", f"two-{batch}", *settings)
        one, two = check.files(f"one-{batch}"), check.files(f"two-{batch}")
        assert sorted(one) == ["ema.safetensors", "model.safetensors", "optimizer.safetensors"], sorted(one)
        for name, content in one.items():
            assert two[name] == content, f"{name}: {farthest(content, two[name])}"
        assert check.untimed_events(f"one-{batch}") == check.untimed_events(f"two-{batch}")
    epochs = [json.loads(line) for line in (check.folder / "two-4" / "log.jsonl").read_text().splitlines()]
    shares = [event["communication_share"] for event in epochs if event["kind"] == "epoch"]
    assert len(shares) == 2 and all(0 < share < 1 for share in shares), shares
    print(f"  share of communication: {shares[-1]:.0%} of an epoch of this tiny model")


def joint_batch_norms(check: Check) -> None:
    check.train(1, "cvt", "large", "train.batch_size=8")
    check.train(2, "cvt", "small", "train.batch_size=4", "train.accumulate=2")
    difference, name = farthest(check.files("large")["model.safetensors"], check.files("small")["model.safetensors"])
    assert difference <= 1e-6, f"{name}: {difference}"
    print(f"  largest difference after {len(check.untimed_events('large')) - 2} updates: {difference:.1e} ({name})")
    settings = ["train.batch_size=4", "train.accumulate=2", "train.sync_batch_norm=false"]
    check.train(1, "cvt", "turns-one", *settings)
    check.train(2, "cvt", "turns-two", *settings)
    assert check.files("turns-one") == check.files("turns-two")


def killed_and_resumed(check: Check, config: str, made: int, more: int, processes: int) -> int:
    """Two processes are killed after some updates, and as many as `processes` go on: what comes out is what one does that was not killed.
    Returns after how many updates the run went on."""
    killed, unharmed = f"killed-{config}", f"unharmed-{config}"
    child = check.start(2, killed, made, config)
    os.kill(process_of_rank(1, child.pid), signal.SIGKILL)
    _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode != 0
    assert re.search(r"rank 1 .* on signal 9", errors.replace("\n", " ")), errors
    last = int(check.checkpoint(killed).name.split("-")[1])
    settings = [*ENDLESS, f"train.max_steps={last + more}"]
    check.train(processes, config, killed, *settings, resume=True)
    check.train(1, config, unharmed, *settings)
    one, two = check.files(unharmed), check.files(killed)
    assert one.keys() == two.keys()
    for name, content in one.items():
        assert two[name] == content, f"{name}: {farthest(content, two[name])}"
    assert check.untimed_events(killed) == check.untimed_events(unharmed)
    return last


def a_kill(check: Check) -> None:
    killed_and_resumed(check, "deit", made=3, more=3, processes=1)


def dense_tasks(check: Check, config: str) -> None:
    last = killed_and_resumed(check, config, made=2, more=2, processes=2)
    assert last < DENSE_UPDATES, f"the kill was to come within an epoch, not after update {last}"
    # Pixels and objects of all processes are counted as one.
    evaluations = [event for event in check.untimed_events(f"killed-{config}") if event["kind"] == "eval"]
    assert [event["images"] for event in evaluations] == [4], evaluations


def segmentation(check: Check) -> None:
    dense_tasks(check, "segment")


def detection(check: Check) -> None:
    dense_tasks(check, "detect")


def a_signal(check: Check) -> None:
    child = check.start(2, "stopped", 2)
    child.send_signal(signal.SIGUSR1)
    _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 138, (child.returncode, errors)
    assert errors.count("everything is saved") == 1, errors


def errors_are_said_once(check: Check) -> None:
    for arguments, expected in [
        (["deit.toml"], "`--set train.accumulate=2`"),
        (["nothing.toml"], "nothing.toml"),
        (["deit.toml", "--set", "train.accumulate=2", "--set", "data.kind=folder", "--set", "data.path=none"], "none"),
    ]:
        done = check.run(2, "train", *arguments, "--run-dir", "refused")
        assert done.returncode != 0
        assert done.stderr.count("error: ") == 1 and expected in done.stderr, done.stderr
    # The data of the earlier runs, with one image that no process can read.
    shutil.copytree(check.folder / "data", check.folder / "broken")
    images = sorted((check.folder / "broken" / "train").rglob("*.png"))
    images[21].write_bytes(b"no image")
    settings = [
        "data.kind=folder", "data.path=broken", "train.accumulate=2", "train.batch_size=4", "data.shuffle=false",
    ]  # fmt: skip
    sets = [word for key in settings for word in ("--set", key)]
    done = check.run(2, "train", "deit.toml", "--run-dir", "unreadable", *sets)
    assert done.returncode != 0
    assert done.stderr.count("error: ") == 1, done.stderr
    assert images[21].name in done.stderr and "process 1 of 2: " in done.stderr and "after step 2 is saved" in done.stderr, done.stderr


def scaling(check: Check) -> None:
    done = check.run(2, "bench", "step", "--config", "deit.toml", "--batch", "4", "--runs", "3", "--warmup", "1")
    assert done.returncode == 0, done.stderr
    assert "efficiency" in done.stdout, done.stdout
    print("\n".join(f"  {line}" for line in done.stdout.splitlines()))


CHECKS = [the_same_run, joint_batch_norms, a_kill, segmentation, detection, a_signal, errors_are_said_once, scaling]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvt", type=Path, default=Path("target/debug/kvt"), help="the binary")
    parser.add_argument("--keep", type=Path, help="a new folder for the runs, which is kept")
    parser.add_argument("--only", choices=[check.__name__ for check in CHECKS], help="one of the checks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        check = Check(options.kvt.resolve(), folder)
        for part in CHECKS:
            if options.only in (None, part.__name__):
                start = time.monotonic()
                print(part.__name__.replace("_", " "), flush=True)
                part(check)
                print(f"  ok, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
