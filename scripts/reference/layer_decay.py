"""Layers of layer-wise learning rates: timm's `param_groups_layer_decay`.

Writes `crates/kvt-models/tests/golden/layer_decay.json`: for each case the `model` and `overrides` that build
it here, `layers`, and {parameter: layer}. timm gives each parameter `decay^(layers - 1 - layer)` of the rate;
the script reads the layers from there.

timm has no `group_matcher` for PiT (by its fallback twelve parameters make a layer, whatever they are), so
that Swin's is written here in PiT's names.
"""

import math
from functools import partial

import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva
from timm.models.pit import PoolingVisionTransformer
from timm.models.swin_transformer import SwinTransformer
from timm.models.tnt import TNT
from timm.models.twins import Twins
from timm.models.vision_transformer import VisionTransformer
from timm.models.visformer import Visformer
from timm.models.volo import VOLO
from timm.optim import param_groups_layer_decay

from common import golden, save_json

DECAY = 0.75
NORM = partial(torch.nn.LayerNorm, eps=1e-6)
DEIT = dict(img_size=16, patch_size=8, embed_dim=12, depth=3, num_heads=2, mlp_ratio=1.0)
SWIN = dict(img_size=16, patch_size=2, window_size=4, embed_dim=4, mlp_ratio=1.0)
PIT = dict(img_size=16, patch_size=4, mlp_ratio=1.0)
STAGES = dict(depth=[2, 3], num_heads=[1, 2])


def pit(distilled):
    model = PoolingVisionTransformer(**PIT, stride=4, num_classes=3, base_dims=[4, 4], depth=STAGES["depth"],
                                     heads=STAGES["num_heads"], distilled=distilled)
    model.group_matcher = lambda coarse=False: dict(
        stem=r"^cls_token|pos_embed|patch_embed",
        blocks=[(r"^transformers\.(\d+)\.pool", (0,)), (r"^transformers\.(\d+)\.\w+\.(\d+)", None), (r"^norm", (99999,))],
    )
    return model


PIT_OVERRIDES = {**PIT, **STAGES, "patch_stride": 4, "embed_dim": [4, 8]}
TNT_SIZES = dict(img_size=16, patch_size=8, embed_dim=12, depth=3, mlp_ratio=1.0, inner_dim=4)
VISFORMER = dict(img_size=32, depth=[1, 2, 3], num_heads=2, mlp_ratio=1.0)
TWINS_OVERRIDES = dict(img_size=16, mlp_ratio=1.0, strides=[2, 2], window_size=4, embed_dim=[4, 8], sr_ratio=[2, 1],
                       **STAGES)
VOLO_SIZES = dict(img_size=32, num_heads=[1, 2, 2], mlp_ratio=1.0)
CASES = {
    "deit": ("deit_tiny_patch16_224", DEIT, VisionTransformer(**DEIT, num_classes=3, norm_layer=NORM)),
    "deit_distilled": ("deit_tiny_distilled_patch16_224", DEIT,
                       VisionTransformerDistilled(**DEIT, num_classes=3, norm_layer=NORM)),
    "vit_registers": ("vit_small_patch14_reg4_dinov2", DEIT,
                      VisionTransformer(**DEIT, num_classes=3, reg_tokens=4, no_embed_class=True, init_values=1e-5)),
    "vit_clip": ("vit_base_patch16_clip_224", DEIT, VisionTransformer(**DEIT, num_classes=3, pre_norm=True)),
    "vit_siglip": ("vit_base_patch16_siglip_224", DEIT,
                   VisionTransformer(**DEIT, num_classes=3, class_token=False, global_pool="map")),
    "vit_fc_norm": ("vit_little_patch16_reg1_gap_256", DEIT,
                    VisionTransformer(**DEIT, num_classes=3, class_token=False, reg_tokens=1, no_embed_class=True,
                                      global_pool="avg", init_values=1e-5)),
    "vit_dinov3": ("vit_small_plus_patch16_dinov3_qkvb", {**DEIT, "embed_dim": 24},
                   Eva(**{**DEIT, "embed_dim": 24}, num_classes=3, num_reg_tokens=4, use_abs_pos_emb=False, use_rot_pos_emb=True,
                       rope_type="dinov3", swiglu_mlp=True, swiglu_align_to=8, init_values=1e-5, use_fc_norm=False)),
    "swin": ("swin_tiny_patch4_window7_224", {**SWIN, **STAGES},
             SwinTransformer(**SWIN, num_classes=3, depths=STAGES["depth"], num_heads=STAGES["num_heads"])),
    "pit": ("pit_s_224", PIT_OVERRIDES, pit(False)),
    "pit_distilled": ("pit_s_distilled_224", PIT_OVERRIDES, pit(True)),
    "tnt": ("tnt_s_patch16_224", {**TNT_SIZES, "num_heads": 3, "inner_num_heads": 2},
            TNT(**TNT_SIZES, num_heads_outer=3, num_heads_inner=2, num_classes=3)),
    "visformer": ("visformer_tiny", {**VISFORMER, "embed_dim": [4, 8, 16]},
                  Visformer(**VISFORMER, init_channels=16, embed_dim=8, num_classes=3, attn_stage="011", spatial_conv="100",
                            norm_layer=torch.nn.BatchNorm2d, embed_norm=torch.nn.BatchNorm2d)),
    "twins": ("twins_svt_small", TWINS_OVERRIDES,
              Twins(img_size=16, patch_size=2, num_classes=3, embed_dims=(4, 8), mlp_ratios=(1.0, 1.0), wss=(4, 4),
                    sr_ratios=(2, 1), depths=STAGES["depth"], num_heads=STAGES["num_heads"])),
    "volo": ("volo_d1_224", {**VOLO_SIZES, "stem_dim": 4, "embed_dim": [4, 8, 8], "depth": [1, 2, 1]},
             VOLO(**VOLO_SIZES, layers=[1, 2, 1], num_classes=3, stem_hidden_dim=4, embed_dims=[4, 8, 8],
                  downsamples=[True, False, False], outlook_attention=[True, False, False], post_layers=("ca", "ca"))),
}


def case(name, overrides, model):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    undecayed = getattr(model, "no_weight_decay", set)()
    groups = param_groups_layer_decay(model, weight_decay=0.05, no_weight_decay_list=undecayed, layer_decay=DECAY)
    above = {names[id(parameter)]: round(math.log(group["lr_scale"]) / math.log(DECAY))
             for group in groups for parameter in group["params"]}
    assert len(above) == len(names)
    layers = max(above.values()) + 1
    return {"model": name, "overrides": {**overrides, "num_classes": 3}, "layers": layers,
            "of": {name: layers - 1 - above[name] for name in names.values()}}


if __name__ == "__main__":
    save_json(golden("kvt-models") / "layer_decay.json",
              {"cases": {name: case(*arguments) for name, arguments in CASES.items()}}, seed=None)
