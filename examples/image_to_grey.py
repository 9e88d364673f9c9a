"""A colour image to grey: a two-dimensional grid of tiles over height and width.

    python image_to_grey.py [photo.jpg [grey.png]]

Without arguments: the photograph that comes with matplotlib, to grace_hopper_grey.png in the current folder.
"""
import sys
from pathlib import Path

import numpy as np
import tegula
import tegula.language as tl
from PIL import Image


@tegula.jit
def grey_kernel(rgb, grey, height, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    inside = (r < height) & (c < width)
    at = r * width + c
    red = tl.load(rgb + at * 3, mask=inside).to(tl.int32)
    green = tl.load(rgb + at * 3 + 1, mask=inside).to(tl.int32)
    blue = tl.load(rgb + at * 3 + 2, mask=inside).to(tl.int32)
    # The luma of Rec. 601, in thousandths.
    tl.store(grey + at, (299 * red + 587 * green + 114 * blue + 500) // 1000, mask=inside)


def grey(rgb, rows=16, cols=128):
    height, width, _ = rgb.shape
    out = np.empty((height, width), np.uint8)
    grey_kernel[tegula.cdiv(height, rows), tegula.cdiv(width, cols)](rgb, out, height, width, ROWS=rows, COLS=cols)
    return out


def reference(rgb):
    return ((rgb.astype(np.int32) @ np.array([299, 587, 114], np.int32) + 500) // 1000).astype(np.uint8)


def sample_photo():
    import matplotlib
    return Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"


def main(photo=None, target=None):
    photo = Path(photo) if photo else sample_photo()
    target = Path(target) if target else Path(photo.stem + "_grey.png")
    rgb = np.ascontiguousarray(Image.open(photo).convert("RGB"))
    out = grey(rgb)
    assert np.array_equal(out, reference(rgb))
    Image.fromarray(out).save(target)
    print(f"grey of {rgb.shape[1]} x {rgb.shape[0]} pixels: equal to numpy, written to {target}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
