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
def reached(x, held, n, top, sharpness, cuts, BLOCK: tl.constexpr, WHOLE: tl.constexpr, CUTS: tl.constexpr):
    """How many tokens have (logit - top) / temperature of each of the cuts or more: [CUTS]."""
    counts = tl.zeros([CUTS], tl.int32)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        v = (block_of(x, held, start, n, BLOCK, WHOLE) - top) * sharpness
        counts += tl.sum((v[None, :] >= cuts[:, None]).to(tl.int32), 1)
    return counts


@tegula.jit
def weights_reached(x, held, n, top, sharpness, cuts, BLOCK: tl.constexpr, WHOLE: tl.constexpr, CUTS: tl.constexpr):
    """The same counts, and the sums of the weights of these tokens: [CUTS] both."""
    if WHOLE:
        # Both in one sum, for which the thread blocks meet once. Counts are exact in fp32 up to 2^24 tokens.
        r = tl.arange(0, 2 * CUTS)
        all = ((held - top) * sharpness)[None, :]
        twice = tl.reshape(tl.broadcast_to(cuts[None, :], (2, CUTS)), (2 * CUTS, ))
        both = tl.reshape(tl.sum(tl.where(all >= twice[:, None], tl.where((r < CUTS)[:, None], 1.0, tl.exp(all)), 0.0), 1), (2, CUTS))
        first = (tl.arange(0, 2) == 0)[:, None]
        return tl.sum(tl.where(first, both, 0.0), 0).to(tl.int32), tl.sum(tl.where(first, 0.0, both), 0)
    counts = tl.zeros([CUTS], tl.int32)
    masses = tl.zeros([CUTS], tl.float32)
    for start in range(0, n, BLOCK):
        v = (block_of(x, held, start, n, BLOCK, WHOLE) - top) * sharpness
        there = v[None, :] >= cuts[:, None]
        inside = tl.sum(there.to(tl.int32), 1)
        if tl.max(inside, 0) > 0:  # most blocks have none
            counts += inside
            masses += tl.sum(tl.where(there, tl.exp(v)[None, :], 0.0), 1)
    return counts, masses


@tegula.jit
def sample(logits, out, temperatures, top_ks, top_ps, seeds, steps, n, BLOCK: tl.constexpr, SCAN: tl.constexpr, WHOLE: tl.constexpr = False, CUTS: tl.constexpr = 1):
    """Draws by temperature, top-k and top-p, row by row.

    No sort: a cut-off t is looked for such that the tokens with a logit of t or more are the k largest (of equal ones all), and among these one such that they hold the mass p. Both
    questions are monotone in t: a pass over the row, which lies in the cache, asks them for CUTS (1, 2 or 4) places of the interval that is left, and at most 32 passes (21, 14) find t to the
    last bit of a float. Fewer do when the tokens are decided: k reach t, or one is left between the bounds. A row with temperature 0 takes the largest. The draw is Philox of (seed,
    step): the same tokens on every device.

    For GPUs, WHOLE: BLOCK is n at least, and the row stays in the registers of the thread blocks that share it (num_ctas). SCAN: tokens of which running sums are made, once; a divisor of BLOCK.
    """
    PARTS: tl.constexpr = BLOCK // SCAN
    ROUNDS: tl.constexpr = 32 if CUTS == 1 else 21 if CUTS == 2 else 14  # 2^32 parts of an interval, CUTS + 1 of one at a time
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
    mass = 1.0
    shares = (tl.arange(0, CUTS) + 1.0) / (CUTS + 1.0)  # of the interval that is left
    if temperature > 0:
        # The k largest: the highest cut that at least k tokens reach.
        if k > 0:
            high = 0.0 * top
            there = n  # tokens at `cut`, once it has been counted
            for _ in range(ROUNDS):
                if there != k:
                    cuts = cut + (high - cut) * shares
                    counts = reached(x, held, n, top, sharpness, cuts, BLOCK, WHOLE, CUTS)
                    enough = counts >= k
                    high = tl.minimum(high, tl.min(tl.where(enough, high, cuts), 0))
                    cut = tl.maximum(cut, tl.max(tl.where(enough, cuts, cut), 0))
                    there = tl.minimum(there, tl.min(tl.where(enough, counts, there), 0))
        mass = tl.max(weights_reached(x, held, n, top, sharpness, cut + tl.zeros([1], tl.float32), BLOCK, WHOLE, 1)[1], 0)
        if p < 1.0:
            high = 0.0 * top
            needed = p * mass
            there = 2147483647
            beyond = 0  # tokens at `high`
            for _ in range(ROUNDS):
                if there - beyond > 1:
                    cuts = cut + (high - cut) * shares
                    counts, masses = weights_reached(x, held, n, top, sharpness, cuts, BLOCK, WHOLE, CUTS)
                    enough = masses >= needed
                    high = tl.minimum(high, tl.min(tl.where(enough, high, cuts), 0))
                    cut = tl.maximum(cut, tl.max(tl.where(enough, cuts, cut), 0))
                    there = tl.minimum(there, tl.min(tl.where(enough, counts, there), 0))
                    beyond = tl.maximum(beyond, tl.max(tl.where(enough, beyond, counts), 0))
                    mass = tl.minimum(mass, tl.min(tl.where(enough, masses, mass), 0))
    else:
        cut = 0.0 * top
    # The first token at which the running sum of the weights passes u * mass: first the part of SCAN tokens that has it, or the last with any weight, as sums in another order may end a hair below.
    wanted = tl.rand(tl.load(seeds + row), tl.load(steps + row)) * mass
    before = 0.0
    part = 0
    base = 0.0  # the sum in front of the part
    for start in range(0, end, BLOCK):
        if before <= wanted:
            v = (block_of(x, held, start, n, BLOCK, WHOLE) - top) * sharpness
            if tl.max(v, 0) >= cut:
                sums = tl.sum(tl.reshape(tl.where(v >= cut, tl.exp(v), 0.0), (PARTS, SCAN)), 1)
                so_far = before
                r = tl.arange(0, PARTS)
                # Running sums as a product with a triangle: a scan would go along parts that thread blocks share.
                after = before + tl.sum(tl.where(r[:, None] <= r[None, :], sums[:, None], 0.0), 0)
                before = tl.max(after, 0)
                at = tl.min(tl.where((after > wanted) | (after == before), r, PARTS), 0)
                part = start + at * SCAN
                base = tl.max(tl.where(r < at, after, so_far), 0)
    i = part + tl.arange(0, SCAN)
    v = (block_of(x, x, part, n, SCAN, False) - top) * sharpness
    weight = tl.where(v >= cut, tl.exp(v), 0.0)
    chosen = tl.min(tl.where((base + tl.cumsum(weight, 0) > wanted) & (weight > 0), i, n), 0)
    tl.store(out + row, tl.where(chosen < n, chosen, tl.max(tl.where(weight > 0, i, part), 0)))
