"""mmsegmentation and mmdet on the CPU without a compiled mmcv: import this before them.

They ask `mmcv._ext`, which mmcv-lite lacks, for its operations when they are imported. The stand-in gives the few that are
needed from torchvision; any other raises when it is called. `build` makes a model of mmsegmentation, and the functions
below it the networks of the scripts.
"""

import importlib.machinery
import logging
import sys
import types
import warnings

import torch
import torchvision

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


class Operations(types.ModuleType):
    """`mmcv._ext`: `nms` and `roi_align` are torchvision's."""

    def __init__(self):
        super().__init__("mmcv._ext")
        self.__spec__ = importlib.machinery.ModuleSpec(self.__name__, None)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_, **__):
            raise NotImplementedError(f"mmcv._ext.{name}")

        return missing

    @staticmethod
    def nms(boxes, scores, iou_threshold, offset):
        if offset != 0:
            raise NotImplementedError("boxes with an offset")
        return torchvision.ops.nms(boxes, scores, iou_threshold)

    @staticmethod
    def roi_align_forward(maps, boxes, output, _rows, _columns, height, width, scale, ratio, _mode, aligned):
        found = torchvision.ops.roi_align(maps, boxes, (height, width), scale, ratio if ratio > 0 else -1, aligned)
        output.copy_(found)

    @staticmethod
    def roi_align_backward(gradient, boxes, _rows, _columns, output, height, width, scale, ratio, _mode, aligned):
        found = torch.ops.torchvision._roi_align_backward(
            gradient.contiguous(), boxes, scale, height, width, *output.shape, ratio if ratio > 0 else -1, aligned)
        output.copy_(found)


sys.modules["mmcv._ext"] = Operations()

import mmcv  # noqa: E402
import mmengine  # noqa: E402
import mmseg  # noqa: E402
from mmengine.registry import init_default_scope  # noqa: E402
from mmseg.registry import MODELS  # noqa: E402

VERSIONS = {"mmcv": mmcv.__version__, "mmengine": mmengine.__version__, "mmseg": mmseg.__version__}
EPSILON = 1e-6
# A backbone that is built only to be replaced.
SMALLEST = dict(type="SwinTransformer", embed_dims=1, depths=(1,), num_heads=(1,), strides=(4,), out_indices=(0,))


def build(**config):
    """A model of mmsegmentation in f32. Its `eval` may return nothing."""
    init_default_scope("mmseg")
    return MODELS.build(config)


def swin(config):
    """mmsegmentation's Swin, with the arguments of timm's in `config`."""
    return build(**swin_config(config))


def swin_config(config, drop_path=0.0):
    patch = config["patch_size"]
    return dict(
        type="SwinTransformer", pretrain_img_size=config["img_size"], in_channels=config["in_chans"],
        embed_dims=config["embed_dim"], patch_size=patch, window_size=config["window_size"],
        mlp_ratio=config["mlp_ratio"], depths=config["depths"], num_heads=config["num_heads"],
        strides=(patch, 2, 2, 2), out_indices=(0, 1, 2, 3), qkv_bias=config["qkv_bias"], drop_path_rate=drop_path,
        patch_norm=True, act_cfg=dict(type="GELU"), norm_cfg=dict(type="LN"))


def twins(config):
    """mmsegmentation's Twins-SVT with the epsilons of the authors, whose first norms are PyTorch's own."""
    model = build(
        type="SVT", in_channels=config["in_chans"], embed_dims=config["embed_dims"], patch_sizes=config["strides"],
        strides=config["strides"], num_heads=config["num_heads"], mlp_ratios=[int(config["mlp_ratio"])] * 4,
        depths=config["depths"], sr_ratios=config["sr_ratios"], windiow_sizes=config["wss"],
        qkv_bias=config["qkv_bias"], drop_path_rate=0.0, norm_after_stage=True)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5 if "patch_embeds" in name or name.endswith("attn.norm") else EPSILON
    return model


def heads(dims, channels, aux_channels, classes, dropout=0.0, norm="BN"):
    """The configurations of UPerNet's decode head and of its auxiliary head, as in the recipes of Swin and Twins."""
    norm = dict(type=norm, requires_grad=True)
    loss = lambda weight: dict(type="CrossEntropyLoss", use_sigmoid=False, loss_weight=weight)
    shared = dict(num_classes=classes, dropout_ratio=dropout, norm_cfg=norm, align_corners=False)
    decode = dict(type="UPerHead", in_channels=dims, in_index=[0, 1, 2, 3], pool_scales=(1, 2, 3, 6),
                  channels=channels, loss_decode=loss(1.0), **shared)
    auxiliary = dict(type="FCNHead", in_channels=dims[2], in_index=2, channels=aux_channels, num_convs=1,
                     concat_input=False, loss_decode=loss(0.4), **shared)
    return decode, auxiliary


def upernet(backbone, dims, channels, aux_channels, classes, dropout=0.0, norm="BN"):
    """UPerNet on a backbone: a module, or the configuration of one."""
    is_built = isinstance(backbone, torch.nn.Module)
    decode, auxiliary = heads(dims, channels, aux_channels, classes, dropout, norm)
    network = build(type="EncoderDecoder", backbone=SMALLEST if is_built else backbone, decode_head=decode,
                    auxiliary_head=auxiliary, train_cfg={}, test_cfg=dict(mode="whole"))
    if is_built:
        network.backbone = backbone
    return network


def samples(labels):
    """What the losses of mmsegmentation take for labels `[B, H, W]`."""
    from mmengine.structures import PixelData
    from mmseg.structures import SegDataSample

    return [SegDataSample(gt_sem_seg=PixelData(data=label[None])) for label in labels]
