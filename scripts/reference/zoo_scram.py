"""Golden numbers of SCRAM for matches that are given: windows around them, their union, softmax over it.

Writes `crates/kvt-attention/tests/golden/zoo/scram*.safetensors`, with the layout of `zoo_common.py`. `fields` are the
matches `[B,H,tokens of the map,runs]`, numbers of keys of the map or -1 for none. They are random, so that windows overlap and
matches come twice: each key still counts once. The search itself is not in the files; tests implement it separately.
"""

import torch

from zoo_common import write

SETTINGS = {
    "scram": dict(rows=4, columns=8, prefix=1, kept=4, radius=0, temperature=1.0),
    "scram_windows": dict(rows=4, columns=8, prefix=1, kept=2, radius=1, temperature=0.5),
    "scram_one_row": dict(rows=1, columns=21, prefix=0, kept=3, radius=2, temperature=1.0),
}


def visible(fields, rows, columns, prefix, radius):
    """Which keys a query sees, `[B,H,N,N]`: those of the windows, and the tokens before the map; the latter see all."""
    place = torch.arange(rows * columns)
    row, column = place // columns, place % columns
    match = fields.unsqueeze(-1)
    apart = torch.maximum((match // columns - row).abs(), (match % columns - column).abs())
    near = ((apart <= radius) & (match >= 0)).any(-2)
    seen = torch.ones(*fields.shape[:2], *2 * [prefix + rows * columns], dtype=torch.bool)
    seen[..., prefix:, prefix:] = near
    return seen


def scram(settings):
    def function(q, k, v, fields):
        sizes = {name: settings[name] for name in ("rows", "columns", "prefix", "radius")}
        scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 / settings["temperature"])
        return scores.masked_fill(~visible(fields, **sizes), -torch.inf).softmax(-1) @ v

    return function


def matches(settings):
    """Of every query the first run finds something, one in eight of the others nothing."""
    tokens, kept = settings["rows"] * settings["columns"], settings["kept"]

    def given(generator):
        found = torch.randint(tokens, (2, 3, tokens, kept), generator=generator)
        lost = torch.randint(8, found.shape, generator=generator) == 0
        lost[..., 0] = False
        return {"fields": found.masked_fill(lost, -1)}

    return given


def main():
    for seed, (name, settings) in enumerate(SETTINGS.items()):
        tokens = settings["prefix"] + settings["rows"] * settings["columns"]
        write(name, scram(settings), settings, matches(settings), queries=tokens, keys=tokens, seed=seed)


if __name__ == "__main__":
    main()
