"""Where a signal first passes a threshold: `break` leaves the loop over blocks, `continue` passes over silent ones, and slices take pairs of
samples apart.

A signal is stereo, so samples come in pairs, left and right; its loudness is the sum of their squares. These are extensions of the language; with
TEGULA_STRICT=1 they are refused as Triton refuses them. """
import os

import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def first_peak_kernel(signal, silent, out, count, threshold, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    found = count
    for block in range(tl.cdiv(count, BLOCK)):
        if tl.load(silent + row * tl.cdiv(count, BLOCK) + block) != 0:
            continue  # nothing is read of it
        at = block * BLOCK + i
        pairs = tl.load(signal + (row * count + at)[:, None] * 2 + tl.arange(0, 2)[None, :], mask=(at < count)[:, None], other=0.0)
        left, right = pairs[:, 0], pairs[:, 1]
        place = tl.min(tl.where(left * left + right * right > threshold, at, count), 0)
        if place < count:
            found = place
            break
    tl.store(out + row, found)


def first_peak(signal, silent, threshold, block):
    rows, count, _ = signal.shape
    out = np.empty(rows, np.int32)
    first_peak_kernel[(rows,)](signal, silent, out, count, threshold, BLOCK=block)
    return out


def reference(signal, threshold):
    loud = (signal ** 2).sum(2) > threshold
    return np.where(loud.any(1), loud.argmax(1), signal.shape[1])


def main():
    if os.environ.get("TEGULA_STRICT") == "1":
        return
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((40, 5000, 2), dtype=np.float32)
    blocks = -(-5000 // 256)
    silent = rng.integers(0, 2, (40, blocks)).astype(np.int8)
    for row, block in zip(*np.nonzero(silent)):
        signal[row, block * 256:(block + 1) * 256] = 0
    places = first_peak(signal, silent, 14.0, 256)
    assert (places == reference(signal, 14.0)).all()
    print(f"first peaks of 40 signals: right, {places.min()} to {places.max()} of 5000")


if __name__ == "__main__":
    main()
