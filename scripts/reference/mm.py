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
    def roi_align_forward(maps, boxes, output, _rows, _columns, aligned_height, aligned_width, spatial_scale,
                          sampling_ratio, pool_mode, aligned):
        ratio = sampling_ratio if sampling_ratio > 0 else -1
        bins = (aligned_height, aligned_width)
        output.copy_(torchvision.ops.roi_align(maps, boxes, bins, spatial_scale, ratio, aligned))

    @staticmethod
    def roi_align_backward(gradient, boxes, _rows, _columns, output, aligned_height, aligned_width, spatial_scale,
                           sampling_ratio, pool_mode, aligned):
        ratio = sampling_ratio if sampling_ratio > 0 else -1
        output.copy_(torch.ops.torchvision._roi_align_backward(
            gradient.contiguous(), boxes, spatial_scale, aligned_height, aligned_width, *output.shape, ratio, aligned))


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


def detection_versions():
    import mmdet

    return {**VERSIONS, "mmdet": mmdet.__version__}


def mask_rcnn(config, channels, hidden, classes, proposals=(2000, 1000), results=(0.05, 100), tested=None, backbone=None,
              sampled=(10**6, 10**6)):
    """mmdet's Mask R-CNN on `swin(config)`, or on `backbone`, a module and the channels of its maps, as in the recipes of Swin and
    Twins, but every anchor and every proposal counts, unless `sampled` has their numbers.

    `hidden`: the width of the box head. `proposals`: how many of a level and of an image are kept, in a test those `tested` if
    they are others; `results`: the score that a detection must exceed, and how many are kept.
    """
    from mmdet.registry import MODELS as DETECTORS
    from mmengine.config import ConfigDict

    coder = lambda *stds: dict(type="DeltaXYWHBBoxCoder", target_means=[0.0] * 4, target_stds=list(stds))
    loss = lambda **kind: dict(type="CrossEntropyLoss", loss_weight=1.0, **kind)
    assigner = lambda positive, negative: dict(
        type="MaxIoUAssigner", pos_iou_thr=positive, neg_iou_thr=negative, min_pos_iou=negative, match_low_quality=True,
        ignore_iof_thr=-1)
    sampler = lambda num, fraction, add: dict(
        type="RandomSampler", num=num, pos_fraction=fraction, neg_pos_ub=-1, add_gt_as_proposals=add)
    extractor = lambda size: dict(
        type="SingleRoIExtractor", roi_layer=dict(type="RoIAlign", output_size=size, sampling_ratio=0),
        out_channels=channels, featmap_strides=[4, 8, 16, 32])
    kept = lambda level, image: dict(
        nms_pre=level, max_per_img=image, nms=dict(type="nms", iou_threshold=0.7), min_bbox_size=0)
    dims = backbone[1] if backbone else [config["embed_dim"] * 2**stage for stage in range(4)]
    init_default_scope("mmdet")
    network = DETECTORS.build(ConfigDict(
        type="MaskRCNN", data_preprocessor=dict(type="DetDataPreprocessor"),
        backbone=dict(type="SwinTransformer", embed_dims=1, depths=(1,), num_heads=(1,), strides=(4,), out_indices=(0,),
                      convert_weights=True),
        neck=dict(type="FPN", in_channels=dims, out_channels=channels, num_outs=5),
        rpn_head=dict(
            type="RPNHead", in_channels=channels, feat_channels=channels, bbox_coder=coder(1.0, 1.0, 1.0, 1.0),
            anchor_generator=dict(type="AnchorGenerator", scales=[8], ratios=[0.5, 1.0, 2.0], strides=[4, 8, 16, 32, 64]),
            loss_cls=loss(use_sigmoid=True), loss_bbox=dict(type="L1Loss", loss_weight=1.0)),
        roi_head=dict(
            type="StandardRoIHead", bbox_roi_extractor=extractor(7), mask_roi_extractor=extractor(14),
            bbox_head=dict(
                type="Shared2FCBBoxHead", in_channels=channels, fc_out_channels=hidden, roi_feat_size=7,
                num_classes=classes, bbox_coder=coder(0.1, 0.1, 0.2, 0.2), reg_class_agnostic=False,
                loss_cls=loss(use_sigmoid=False), loss_bbox=dict(type="L1Loss", loss_weight=1.0)),
            mask_head=dict(type="FCNMaskHead", num_convs=4, in_channels=channels, conv_out_channels=channels,
                           num_classes=classes, loss_mask=loss(use_mask=True))),
        train_cfg=dict(
            rpn=dict(assigner=assigner(0.7, 0.3), sampler=sampler(sampled[0], 0.5, False), allowed_border=-1, pos_weight=-1,
                     debug=False),
            rpn_proposal=kept(*proposals),
            rcnn=dict(assigner=assigner(0.5, 0.5), sampler=sampler(sampled[1], 0.25, True), mask_size=28, pos_weight=-1,
                      debug=False)),
        test_cfg=dict(
            rpn=kept(*(tested or proposals)),
            rcnn=dict(score_thr=results[0], nms=dict(type="nms", iou_threshold=0.5), max_per_img=results[1],
                      mask_thr_binary=0.5))))
    network.backbone = backbone[0] if backbone else swin(config)
    return network


def objects(boxes, labels, masks, size, original=None):
    """What mmdet knows of an image of `size` (height, width), and of the `original` if that was another.

    Boxes [N, 4], labels [N] and masks [N, height, width] of 0 and 1.
    """
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks
    from mmengine.structures import InstanceData

    original = original or size
    factors = (size[1] / original[1], size[0] / original[0])
    sample = DetDataSample(gt_instances=InstanceData(
        bboxes=boxes, labels=labels, masks=BitmapMasks(masks.numpy(), *size)))
    sample.set_metainfo(dict(img_shape=size, pad_shape=size, batch_input_shape=size, ori_shape=original,
                             scale_factor=factors))
    return sample
