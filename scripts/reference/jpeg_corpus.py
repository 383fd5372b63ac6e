"""JPEGs of generated pictures, by Pillow (libjpeg-turbo): what the fuzz target of the region decoder starts from.

Writes `fuzz/corpus/jpeg/*.jpg`: colours at full size, at half the width, at half of both; sequential and progressive; restart
markers after each unit and after each row of units; grey; sizes that end within a block. No file is above 4 kB.
"""

import pathlib

import numpy as np
from PIL import Image

OUT = pathlib.Path(__file__).resolve().parents[2] / "fuzz/corpus/jpeg"
SIZES = [(1, 1), (9, 7), (16, 16), (33, 27), (50, 70)]


def picture(width, height, kind):
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    edge = (np.arange(width)[None] // 11 + np.arange(height)[:, None] // 13) % 2 * 50
    smooth = np.stack([190 * x + edge, 190 * y + edge, 100 * (x + y) + 30], axis=-1)
    if kind == "noise":
        smooth += np.random.default_rng(width).normal(0, 40, smooth.shape)
    return Image.fromarray(np.clip(smooth, 0, 255).astype(np.uint8))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for subsampling in ["4:4:4", "4:2:2", "4:2:0"]:
        colours = subsampling.replace(":", "")
        for width, height in SIZES:
            picture(width, height, "smooth").save(
                OUT / f"{colours}_{width}x{height}.jpg", quality=90, subsampling=subsampling
            )
        noise = picture(41, 35, "noise")
        noise.save(OUT / f"{colours}_noise.jpg", quality=75, subsampling=subsampling)
        noise.save(OUT / f"{colours}_optimized.jpg", quality=97, subsampling=subsampling, optimize=True)
        noise.save(OUT / f"{colours}_restart.jpg", quality=60, subsampling=subsampling, restart_marker_blocks=1)
        noise.save(OUT / f"{colours}_restart_rows.jpg", quality=80, subsampling=subsampling, restart_marker_rows=1)
        noise.save(OUT / f"{colours}_progressive.jpg", quality=60, subsampling=subsampling, progressive=True)
    grey = picture(33, 27, "smooth").convert("L")
    grey.save(OUT / "grey.jpg", quality=90)
    grey.save(OUT / "grey_progressive.jpg", quality=90, progressive=True)


if __name__ == "__main__":
    main()
