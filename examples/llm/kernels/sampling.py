"""The next token of each row of logits: the largest, or one drawn from the k largest whose probabilities add up to p."""
import tegula
import tegula.language as tl


@tegula.jit
def largest(x, begin, end, n, BLOCK: tl.constexpr):
    """The largest of x[begin:end] and its index, the first of equal ones; n: there is none (NaN)."""
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    at = tl.zeros([BLOCK], tl.int32) + begin
    for start in range(begin, end, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < end, other=float("-inf")).to(tl.float32)
        better = v > best
        best = tl.where(better, v, best)
        at = tl.where(better, i, at)
    top = tl.max(best, 0)
    return top, tl.min(tl.where(best == top, at, n), 0)


@tegula.jit
def argmax(logits, out, n, BLOCK: tl.constexpr):
    """The index of the largest logit, the first of equal ones."""
    row = tl.program_id(0).to(tl.int64)
    tl.store(out + row, largest(logits + row * n, 0, n, n, BLOCK)[1])


@tegula.jit
def argmax_parts(logits, tops, places, n, BLOCK: tl.constexpr, EARLY: tl.constexpr = False):
    """The largest logit of each part of a row and its index, for argmax_join; for GPUs, where one program takes long for a row. Grid: rows, parts. EARLY as in gemv_fused (matmul.py)."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    each = tl.cdiv(n, tl.num_programs(1))
    begin = tl.program_id(1) * each
    end = tl.minimum(begin + each, n)
    top, place = largest(logits + row * n, begin, end, n, BLOCK)
    to = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(tops + to, top)
    tl.store(places + to, place)


@tegula.jit
def argmax_join(tops, places, out, n, parts, BLOCK: tl.constexpr, EARLY: tl.constexpr = False):
    """The index of the largest of `parts` <= BLOCK parts, the first of equal ones. Grid: rows."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    top = tl.load(tops + row * parts + i, mask=i < parts, other=float("-inf"))
    at = tl.load(places + row * parts + i, mask=i < parts, other=n)
    tl.store(out + row, tl.min(tl.where(top == tl.max(top, 0), at, n), 0))


@tegula.jit
def block_of(x, held, start, n, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """A block of logits, or with WHOLE `held`, which has all of them."""
    if WHOLE:
        return held
    i = start + tl.arange(0, BLOCK)
    return tl.load(x + i, mask=i < n, other=float("-inf")).to(tl.float32)


@tegula.jit
def reached_from(x, held, n, top, sharpness, cut, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """How many tokens have (logit - top) / temperature of `cut` or more, and the sum of their weights."""
    count = 0
    mass = 0.0
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        v = (block_of(x, held, start, n, BLOCK, WHOLE) - top) * sharpness
        inside = tl.sum((v >= cut).to(tl.int32), 0)
        if inside > 0:  # most blocks have none
            count += inside
            mass += tl.sum(tl.where(v >= cut, tl.exp(v), 0.0), 0)
    return count, mass


@tegula.jit
def sample(logits, out, temperatures, top_ks, top_ps, seeds, steps, n, BLOCK: tl.constexpr, SCAN: tl.constexpr, WHOLE: tl.constexpr = False):
    """Draws by temperature, top-k and top-p, row by row.

    No sort: a cut-off t is looked for by bisection such that the tokens with a logit of t or more are the k largest (of equal ones all), and among these one such that
    they hold the mass p; both questions are monotone in t, so 32 passes over the row, which lies in the cache, find t to the last bit of a float, and fewer do when the tokens
    are decided: k reach t, or one is left between the bounds. A row with temperature 0 takes the largest. The draw is Philox of (seed, step): the same tokens on every device.

    For GPUs, WHOLE: BLOCK is n at least, and the row stays in the registers of the thread blocks that share it (num_ctas). SCAN: tokens of which running sums are made at a time, a
    divisor of BLOCK; every thread block makes them.
    """
    row = tl.program_id(0).to(tl.int64)
    x = logits + row * n
    temperature = tl.load(temperatures + row)
    k = tl.load(top_ks + row)
    p = tl.load(top_ps + row)
    held = x
    if WHOLE:
        held = block_of(x, x, 0, n, BLOCK, False)
    end = BLOCK if WHOLE else n
    top = float("-inf")
    for start in range(0, end, BLOCK):
        top = tl.maximum(top, tl.max(block_of(x, held, start, n, BLOCK, WHOLE), 0))
    sharpness = tl.where(temperature > 0, 1.0 / temperature, 1.0)
    cut = -127.0 + 0.0 * top  # of (logit - top) / temperature: what is below has no weight in fp32
    if temperature > 0:
        # The k largest: the highest cut that at least k tokens reach.
        if k > 0:
            high = 0.0 * top
            count = n
            for _ in range(32):
                if count != k:
                    middle = 0.5 * (cut + high)
                    count = 0
                    for start in range(0, end, BLOCK):
                        v = (block_of(x, held, start, n, BLOCK, WHOLE) - top) * sharpness
                        count += tl.sum((v >= middle).to(tl.int32), 0)
                    cut = tl.where(count >= k, middle, cut)
                    high = tl.where(count >= k, high, middle)
        mass = reached_from(x, held, n, top, sharpness, cut, BLOCK, WHOLE)[1]
        if p < 1.0:
            high = 0.0 * top
            reached = 2147483647  # tokens at `cut`, once it has been counted
            beyond = 0            # and at `high`
            for _ in range(32):
                if reached - beyond > 1:
                    middle = 0.5 * (cut + high)
                    count, above = reached_from(x, held, n, top, sharpness, middle, BLOCK, WHOLE)
                    enough = above >= p * mass
                    cut = tl.where(enough, middle, cut)
                    high = tl.where(enough, high, middle)
                    reached = tl.where(enough, count, reached)
                    beyond = tl.where(enough, beyond, count)
            mass = reached_from(x, held, n, top, sharpness, cut, BLOCK, WHOLE)[1]
    else:
        cut = 0.0 * top
        mass = 1.0
    # The first token at which the running sum of the weights passes u * mass.
    wanted = tl.rand(tl.load(seeds + row), tl.load(steps + row)) * mass
    before = 0.0
    chosen = n
    last = 0
    for start in range(0, end, BLOCK):
        v = (block_of(x, held, start, n, BLOCK, WHOLE) - top) * sharpness
        if tl.max(v, 0) >= cut:
            weight = tl.where(v >= cut, tl.exp(v), 0.0)
            after = before + tl.sum(weight, 0)
            # In the blocks where the sum may pass: that of a scan, in another order, can be a hair more.
            if (chosen == n) & (after * 1.0001 > wanted):
                running = before
                for part in range(start, tl.minimum(start + BLOCK, n), SCAN):
                    some = (block_of(x, x, part, n, SCAN, False) - top) * sharpness
                    if (chosen == n) & (tl.max(some, 0) >= cut):
                        each = tl.where(some >= cut, tl.exp(some), 0.0)
                        chosen = tl.min(tl.where((running + tl.cumsum(each, 0) > wanted) & (each > 0), part + tl.arange(0, SCAN), n), 0)
                        running += tl.sum(each, 0)
            last = tl.max(tl.where(weight > 0, start + tl.arange(0, BLOCK), 0), 0)
            before = after
    # Sums in another order may end a hair below `wanted`.
    tl.store(out + row, tl.where(chosen < n, chosen, last))
