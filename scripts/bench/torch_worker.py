"""One variant of PyTorch in a process of its own, which side_by_side.py starts and asks.

A variant is a kind of attention and options, as in `threshold+tuned+compile`. Kinds:

  dense       what the model has: timm's by `scaled_dot_product_attention` where it can
  sdpa        of `attention`: `scaled_dot_product_attention`
  explicit    matmul, softmax, matmul
  algorithm1  the paper's k-NN: topk, scatter, where, softmax
  threshold   k-NN by the k-th score of an unsorted topk, and a mask; of equal scores it keeps all

Questions come as lines, answers are lines of JSON: `memory`, `forward RUNS WARMUPS`, `whole RUNS WARMUPS`, `quit`. A forward
pass is one in evaluation mode without gradients. `memory` is what the first `whole` adds to the resident set at most, or to the
tensors on a GPU, so it must be the first question.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
from functools import partial
from pathlib import Path

DENSE, NEAREST = ("dense", "sdpa", "explicit"), ("algorithm1", "threshold")
# Those of `kvt bench` without data.
PIXEL_CLASSES, OBJECT_CLASSES, OBJECTS = 150, 80, 7
TASKS = ("segment", "detect")  # of a configuration


def keep_from_threshold(scores, ranking, k):
    """In place of `common.keep_topk`."""
    smallest = ranking.detach().topk(k, dim=-1, sorted=False).values.amin(-1, keepdim=True)
    return scores.masked_fill(ranking < smallest, float("-inf"))


def settings(args):
    pairs = (pair.split("=", 1) for pair in args.set)
    return {key: float(value) if "." in value else int(value) for key, value in pairs}


def autocast(args):
    import torch

    return torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.dtype == "bf16")


def attention(args, kind, options):
    """Forward, and forward and backward, of an attention operation."""
    import common
    import torch
    import torch.nn.functional as F

    batch, heads, tokens, dim = (int(size) for size in args.shape.split(","))
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    inputs = [torch.randn(batch, heads, tokens, dim, dtype=dtype, device=args.device) for _ in range(3)]

    def explicit(q, k, v):
        return (q @ k.transpose(-2, -1) * dim**-0.5).softmax(-1) @ v

    def nearest(q, k, v):
        scores = q @ k.transpose(-2, -1) * dim**-0.5
        return common.keep_topk(scores, scores, args.k).softmax(-1) @ v

    function = {"sdpa": F.scaled_dot_product_attention, "explicit": explicit}.get(kind, nearest)
    if "compile" in options:
        function = torch.compile(function)

    def forward():
        with torch.no_grad():
            function(*inputs)

    def whole():
        leaves = [x.detach().requires_grad_() for x in inputs]
        out = function(*leaves)
        out.backward(torch.ones_like(out))

    return forward, whole


def classifier(args, kind):
    """The model, its images, and the loss of its outputs."""
    import cross_check
    import torch

    model, shape = cross_check.reference(args, **settings(args))
    if kind != "dense":
        cross_check.attend(args, model, args.k if kind in NEAREST else None)
    labels = torch.arange(args.batch, device=args.device) % settings(args).get("num_classes", 1000)
    loss = partial(torch.nn.functional.cross_entropy, target=labels, label_smoothing=0.1)
    return model, shape, loss


def resolved(args):
    """The configuration as kvt reads it."""
    command = [args.kvt, "config", "print", args.config]
    return tomllib.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def pyramid(args, kind, config, section):
    """The backbone of a configuration of kvt as mmsegmentation has it, and the channels of its maps."""
    import dense_common
    import dense_swin
    import dense_twins
    import mm

    if kind == "threshold":
        dense_common.keep_topk = keep_from_threshold
    model = config["model"]
    shared = dict(img_size=model.get("img_size", 224), in_chans=3, num_heads=model.get("num_heads"),
                  mlp_ratio=model.get("mlp_ratio", 4), qkv_bias=True)
    window = model.get("window_size", 7)
    if model["name"].startswith("swin"):
        sizes = dict(shared, patch_size=model.get("patch_size", 4), embed_dim=model.get("embed_dim", 96),
                     depths=model.get("depth", [2, 2, 6, 2]), window_size=window)
        sizes["num_heads"] = sizes["num_heads"] or [3, 6, 12, 24]
        backbone, patch = mm.build(**mm.swin_config(sizes, model.get("drop_path", 0.0))), dense_swin.patch
        dims = [sizes["embed_dim"] * 2**stage for stage in range(4)]
    elif model["name"].startswith("twins"):
        dims = model.get("embed_dim", [96, 192, 384, 768])
        sizes = dict(shared, embed_dims=dims, strides=model.get("strides", [4, 2, 2, 2]),
                     depths=model.get("depth", [2, 2, 18, 2]), wss=[window] * 4,
                     sr_ratios=model.get("sr_ratio", [8, 4, 2, 1]))
        sizes["num_heads"] = sizes["num_heads"] or [3, 6, 12, 24]
        backbone, patch = mm.twins(sizes), dense_twins.patch
    else:
        sys.exit(f"mmsegmentation has no `{model['name']}` for this")
    if kind != "dense":
        hidden = section.get("window_padding") == "hidden"
        patch(backbone, args.k if kind in NEAREST else None, hidden)
    return backbone, dims


def segmenter(args, kind):
    """The same of mmsegmentation's UPerNet for a configuration of kvt. Its outputs are the logits of both heads."""
    import mm
    import torch

    config = resolved(args)
    segment = config.get("segment", {})
    height, width = config["dense"]["crop"]
    backbone, dims = pyramid(args, kind, config, segment)
    network = mm.upernet(backbone, dims, segment.get("channels", 512), segment.get("aux_channels", 256), PIXEL_CLASSES,
                         segment.get("dropout", 0.1))
    labels = torch.randint(0, PIXEL_CLASSES, (args.batch, height, width), device=args.device)
    resize = partial(torch.nn.functional.interpolate, size=(height, width), mode="bilinear", align_corners=False)

    class Heads(torch.nn.Module):
        """Only the decode head's logits in evaluation."""

        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, images):
            maps = self.network.backbone(images)
            decode = self.network.decode_head(maps)
            return (decode, self.network.auxiliary_head(maps)) if self.training else decode

    def loss(outputs):
        decode, auxiliary = (torch.nn.functional.cross_entropy(resize(output), labels) for output in outputs)
        return decode + segment.get("aux_weight", 0.4) * auxiliary

    return Heads(), (3, height, width), loss


def detector(args, kind):
    """The same of mmdet's Mask R-CNN for a configuration of kvt. In training its output is the sum of the losses; in evaluation it
    looks for objects, of which there are none: no class of new heads exceeds `detect.score`."""
    import contextlib

    import mm
    import torch

    config = resolved(args)
    detect, multiscale = config["detect"], config["multiscale"]
    # An image of 4 to 3 as an evaluation has it, padded.
    short = max(multiscale["sizes"])
    height, width = (-(-side // 32) * 32 for side in (short, min(short * 4 // 3, multiscale["max"])))
    network = mm.mask_rcnn(
        None, detect["channels"], detect["hidden"], OBJECT_CLASSES,
        (detect["train_per_level"], detect["train_proposals"]), (detect["score"], detect["detections"]),
        tested=(detect["test_per_level"], detect["test_proposals"]), backbone=pyramid(args, kind, config, detect),
        sampled=(detect["anchors"], detect["regions"]))
    mm.init_default_scope("mmdet")
    with contextlib.redirect_stdout(None):  # it tells that nothing is loaded
        network.init_weights()

    def sample(image):
        """Rectangles, which fill their masks: the first covers half of each side, each other one is smaller."""
        masks = torch.zeros(OBJECTS, height, width, dtype=torch.uint8)
        boxes = []
        for number, mask in enumerate(masks):
            rows, columns = (max(side // (number + 2), 1) for side in (height, width))
            top, left = ((image * step + number * free // OBJECTS) % (free + 1)
                         for free, step in ((height - rows, 7), (width - columns, 11)))
            mask[top:top + rows, left:left + columns] = 1
            boxes.append([left, top, left + columns, top + rows])
        labels = torch.arange(image, image + OBJECTS) % OBJECT_CLASSES
        return mm.objects(torch.tensor(boxes).float().to(args.device), labels.to(args.device), masks, (height, width))

    samples = [sample(image) for image in range(args.batch)]

    class Losses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, images):
            if not self.training:
                return self.network.predict(images, samples)
            losses = self.network.loss(images, samples).items()
            losses = [loss for name, loss in losses if "loss" in name]
            return sum(sum(loss) if isinstance(loss, list) else loss for loss in losses)

        def train(self, mode=True):
            # `eval` of a Swin returns nothing.
            self.training = mode
            self.network.train(mode)
            return self

        def compile_parts(self):
            """What comes after these parts depends on what they find."""
            for part in (self.network.backbone, self.network.neck, self.network.rpn_head, self.network.roi_head.bbox_head):
                part.forward = torch.compile(part.forward)
            return self

    return Losses(), (3, height, width), lambda loss: loss


def step(args, kind, options):
    """Forward, and a training step: forward, loss, backward, clipping, AdamW."""
    import torch

    torch.manual_seed(0)
    make = {"segment": segmenter, "detect": detector}.get(args.what, classifier)
    model, shape, loss_of = make(args, kind)
    layout = torch.channels_last if "channels-last" in options else torch.contiguous_format
    model.to(args.device, memory_format=layout)
    images = torch.randn(args.batch, *shape, device=args.device).contiguous(memory_format=layout)
    fused = True if "tuned" in options else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=fused)
    run = model
    if "compile" in options:
        run = model.compile_parts() if args.what == "detect" else torch.compile(model)
    # A compiled model has no inference mode of its own.
    without = torch.no_grad if "compile" in options else torch.inference_mode

    def forward():
        if model.training:
            model.eval()
        with without(), autocast(args):
            run(images)

    def whole():
        if not model.training:
            model.train()
        optimizer.zero_grad()
        with autocast(args):
            loss = loss_of(run(images))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return forward, whole


def status(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def peak_of(args, work):
    """What a run of `work` adds to the resident set at most (Linux), or to the tensors on a GPU."""
    import torch

    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before

    # The libraries' own pools and threads are not the variant's memory.
    x = torch.randn(64, 64, requires_grad=True)
    (x @ x).softmax(-1).sum().backward()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS:")
    work()
    return max(0, status("VmHWM:") - before)


def timed(args, work, runs, warmups):
    import torch

    sync = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    for _ in range(warmups):
        work()
    sync()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        sync()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def serve(args, threads):
    """Answers until it is told to stop."""
    # Whatever a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kind, *options = args.worker.split("+")
    import common
    import torch

    # `common` asks for one thread and determinism, for golden numbers.
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    torch.backends.cuda.matmul.allow_tf32 = "tf32" in options
    if kind == "threshold":
        common.keep_topk = keep_from_threshold
    forward, whole = (attention if args.what == "attention" else step)(args, kind, set(options))

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    answer(torch.__version__)
    for line in sys.stdin:
        question, *numbers = line.split()
        if question == "quit":
            break
        if question == "memory":
            answer(peak_of(args, whole))
        else:
            answer(timed(args, forward if question == "forward" else whole, *map(int, numbers)))
