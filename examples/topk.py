"""The k largest of each row with their places: value and place are packed into one integer that sorts like the
value."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def topk_kernel(x, values, places, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, mask=i < cols, other=float("-inf"))
    # Floats order like sign-magnitude integers: mirror the negative ones. Of equal values the first place is to be the
    # largest.
    bits = v.to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7fffffff)
    packed = (ordered.to(tl.int64) << 32) | (BLOCK - 1 - i).to(tl.int64)
    best = tl.topk(packed, K)
    high = (best >> 32).to(tl.int32)
    j = tl.arange(0, K)
    tl.store(values + row * K + j, (high ^ ((high >> 31) & 0x7fffffff)).to(tl.float32, bitcast=True))
    tl.store(places + row * K + j, BLOCK - 1 - (best & 0xffffffff).to(tl.int32))


def topk(x, k):
    rows, cols = x.shape
    values, places = np.empty((rows, k), np.float32), np.empty((rows, k), np.int32)
    topk_kernel[(rows,)](x, values, places, cols, K=k, BLOCK=tegula.next_power_of_2(cols))
    return values, places


def reference(x, k):
    places = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, places, 1), places


def main():
    x = np.random.default_rng(0).standard_normal((300, 1000), dtype=np.float32)
    values, places = topk(x, 8)
    expected, expected_places = reference(x, 8)
    assert np.array_equal(values, expected) and np.array_equal(places, expected_places)
    print(f"the 8 largest of each row of {x.shape}: equal to numpy")


if __name__ == "__main__":
    main()
