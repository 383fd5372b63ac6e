#!/usr/bin/env python3
"""The weights of a small UPerNet with Swin as mmsegmentation's classes leave them when they are made, without `init_weights`.

    python upernet_start.py start.safetensors
    kvt train ../../configs/scenes/swin_dense.toml --set train.epochs=8 --set init.weights=start.safetensors

It is the network of `configs/scenes/swin_dense.toml`, and the start of most scripts that call neither `init_weights` nor load weights.
"""

import sys

import mm
import torch
from safetensors.torch import save_file

MODEL = dict(img_size=64, patch_size=4, in_chans=3, num_classes=5, embed_dim=32, depths=[1, 1, 2, 1], num_heads=[2, 4, 8, 16],
             window_size=4, mlp_ratio=4.0, qkv_bias=True)


def main():
    torch.manual_seed(0)
    dims = [MODEL["embed_dim"] * 2**stage for stage in range(4)]
    state = mm.upernet(mm.swin_config(MODEL), dims, 48, 24, MODEL["num_classes"]).state_dict()
    lacking = ("num_batches_tracked", "relative_position_index")
    save_file({name: value.contiguous() for name, value in state.items() if not name.endswith(lacking)}, sys.argv[1])


if __name__ == "__main__":
    main()
