"""Golden numbers of vision transformers that are more than a DeiT: timm's VisionTransformer and Eva.

Writes to `crates/kvt-models/tests/golden/`:

  vit_<case>.safetensors  as `seeded.py` says, and from the same weights and images:
                          features [B,N,C], vector [B,C] (what the classifier reads), and of an image of another size and shape,
                          other.images: other.features, other.logits
  vit_named.json          {name: {params, depth, weights}}: what timm's named models have with 1000 classes: how many parameters and
                          blocks, and {name: shape}, as text, of the weights outside the blocks and of the first block

Every case has options of its own, by the names of kvt's `VitOptions`; `eva` says whose they are. k-NN attention is timm's
attention with Algorithm 1 in place of its softmax, after the norms of queries and keys and after rotary positions.
"""

from functools import partial

import timm
import torch
from timm.layers import Mlp, SwiGLUPacked
from timm.layers.pos_embed_sincos import apply_rot_embed_cat
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer

import seeded
from common import DENSE, KNN, golden, save_json, weigh

# Many cases: only gradients of a few numbers are stored whole.
seeded.STORED = 24

SMALL = dict(img_size=16, patch_size=4, in_chans=2, num_classes=5, embed_dim=24, depth=2, num_heads=2, mlp_ratio=2.0, qkv_bias=True,
             class_token=True, reg_tokens=0, embedding="all", norm_pre=False, activation="gelu", scale=None, unbiased_keys=False,
             qk_norm=False, pool="token", fc_norm=False, epsilon=1e-6, eva=False)
DINO_V2 = {**SMALL, "scale": "module"}
REGISTERS = {**DINO_V2, "reg_tokens": 4, "embedding": "patches"}
DINO_V3 = {**SMALL, "eva": True, "reg_tokens": 4, "embedding": "rotary", "scale": "plain", "qkv_bias": False, "unbiased_keys": True,
           "pool": "mean", "epsilon": 1e-5}
SIGLIP = {**SMALL, "class_token": False, "pool": "attention"}
# What the norms see gets a variance of about 1e-5, so that their epsilon counts.
TINY = r"patch_embed\.proj|attn\.proj\.|mlp\.fc2\.|cls_token|reg_token|pos_embed|norm_pre"

CASES = {
    "deit3": ({**DINO_V2, "embedding": "patches"}, DENSE),
    "dinov2_patch14": ({**DINO_V2, "img_size": 56, "patch_size": 14, "in_chans": 1}, KNN),
    "dinov2_registers": (REGISTERS, KNN),
    "dinov2_packed": ({**REGISTERS, "activation": "swi_glu_packed"}, KNN),
    "clip": ({**SMALL, "norm_pre": True, "activation": "quick_gelu", "epsilon": 1e-5, "small_activations": TINY}, KNN),
    "siglip": (SIGLIP, KNN),
    "siglip_gap": ({**SIGLIP, "pool": "mean"}, DENSE),
    "fc_norm": ({**SMALL, "pool": "mean", "fc_norm": True}, KNN),
    "baseline": ({**REGISTERS, "class_token": False, "reg_tokens": 1, "pool": "mean", "fc_norm": True}, KNN),
    "qk_norm": ({**SMALL, "qk_norm": True}, KNN),
    "dinov3": (DINO_V3, KNN),
    "dinov3_dense": ({**DINO_V3, "small_activations": TINY}, DENSE),
    "dinov3_plus": ({**DINO_V3, "qkv_bias": True, "activation": "swi_glu"}, KNN),
    "rotary_qk_norm": ({**DINO_V3, "qk_norm": True}, KNN),
    "rectangle": ({**SMALL, "img_size": [16, 24]}, KNN),
    "rectangle_rotary": ({**DINO_V3, "img_size": [16, 24]}, DENSE),
    "siglip_tanh": ({**SIGLIP, "activation": "gelu_tanh"}, KNN),
}
KINDS = {
    "deit3": ["deit3_{size}_patch16_{side}", ("small", "base", "large"), (224, 384)],
    "dinov2": ["vit_{size}_patch14{side}_dinov2", ("small", "base", "large", "giant"), ("", "_reg4")],
    "dinov3": ["vit_{size}_patch16_dinov3{side}", ("small", "small_plus", "base", "large"), ("", "_qkvb")],
    "clip": ["vit_{size}_clip_{side}", ("base_patch16",), (224, 384, "quickgelu_224")],
    "clip_large": ["vit_{size}_clip_{side}", ("large_patch14",), (224, 336, "quickgelu_224", "quickgelu_336")],
    "siglip": ["vit_{size}_siglip_{side}", ("base_patch16",),
               [f"{gap}{side}" for gap in ("", "gap_") for side in (224, 256, 384, 512)]],
    "siglip_14": ["vit_{size}_siglip_{side}", ("so400m_patch14",), [f"{gap}{side}" for gap in ("", "gap_") for side in (224, 378)]],
    "siglip_16": ["vit_{size}_siglip_{side}", ("so400m_patch16",), [f"{gap}{side}" for gap in ("", "gap_") for side in (256, 384, 512)]],
    "baseline": ["vit_{size}_patch16_{side}_gap_256", ("little", "medium"), ("reg1", "reg4")],
}


def build(config):
    """timm's model; its own initial layer scale does not matter."""
    names = "img_size patch_size in_chans num_classes embed_dim depth num_heads mlp_ratio qkv_bias class_token qk_norm"
    own = {name: config[name] for name in names.split()}
    own |= dict(dynamic_img_size=True, norm_layer=partial(torch.nn.LayerNorm, eps=config["epsilon"]),
                init_values=0.1 if config["scale"] else None, no_embed_class=config["embedding"] == "patches",
                global_pool={"token": "token", "mean": "avg", "attention": "map"}[config["pool"]])
    activation = config["activation"]
    if config["eva"]:
        return Eva(**own, num_reg_tokens=config["reg_tokens"], use_abs_pos_emb=False, use_rot_pos_emb=True, rope_type="dinov3",
                   rope_temperature=100, rope_rotate_half=True, use_fc_norm=config["fc_norm"],
                   swiglu_mlp=activation == "swi_glu", swiglu_align_to=8)
    packed = activation == "swi_glu_packed"
    return VisionTransformer(**own, reg_tokens=config["reg_tokens"], pre_norm=config["norm_pre"], fc_norm=config["fc_norm"],
                             mlp_layer=SwiGLUPacked if packed else Mlp,
                             act_layer=torch.nn.SiLU if packed else activation if activation in ("quick_gelu", "gelu_tanh") else None)


def forward(neighbors, temperature, gaps):
    """For timm's `Attention` and `EvaAttention`."""

    def forward(self, x, rope=None, attn_mask=None, is_causal=False):
        batch, tokens, dim = x.shape
        qkv = self.qkv(x)
        if getattr(self, "q_bias", None) is not None:
            qkv = qkv + torch.cat((self.q_bias, torch.zeros_like(self.q_bias), self.v_bias))
        qkv = qkv.reshape(batch, tokens, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if rope is not None:
            turn = lambda x: torch.cat([x[:, :, :-len(rope)], apply_rot_embed_cat(x[:, :, -len(rope):], rope, half=True)], dim=2)
            q, k = turn(q), turn(k)
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        x = weigh(scores, v, neighbors, gaps)
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, dim))

    return forward


def patch(model, attention, gaps):
    for block in model.blocks:
        block.attn.forward = forward(attention["neighbors"], attention["temperature"], gaps).__get__(block.attn)


def extra(model, drawn, found):
    """Features, and another size of images that is not square."""
    images = drawn["images"].double()
    with torch.no_grad():
        torch.testing.assert_close(model.train()(images), found["logits"], rtol=1e-12, atol=1e-12)
        model.eval()
        features = model.forward_features(images)
        batch, channels, side, _ = images.shape
        patch_size = model.patch_embed.patch_size[0]
        other = torch.nn.functional.interpolate(images[:1], (side + 2 * patch_size, side - patch_size), mode="bilinear").float()
        return {"features": features, "vector": model.forward_head(features, pre_logits=True), "other.images": other,
                "other.features": model.forward_features(other.double()), "other.logits": model(other.double())}


def named():
    found = {}
    for pattern, sizes, sides in KINDS.values():
        for name in (pattern.format(size=size, side=side) for size in sizes for side in sides):
            with torch.device("meta"):
                model = timm.create_model(name, num_classes=1000)
            weights = {n: " ".join(map(str, w.shape)) for n, w in model.state_dict().items()
                       if not n.startswith("blocks.") or n.startswith("blocks.0.")}
            params = sum(p.numel() for p in model.parameters())
            block = model.blocks[0]
            # What weights do not show.
            silent = {"activation": type(block.mlp.act).__name__, "epsilon": block.norm1.eps, "pool": model.global_pool}
            found[name] = {"params": params, "depth": len(model.blocks), **silent, "weights": weights}
            print(name, found[name]["params"])
    return found


if __name__ == "__main__":
    save_json(golden("kvt-models") / "vit_named.json", {"models": named()}, seed=None)
    seeded.write("vit", CASES, build, patch, extra=extra)
