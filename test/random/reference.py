"""What a program means, by numpy: `evaluate(program)` gives the contents of its buffers after the launch.

Programs of the grid run one after the other. Whatever does not have exactly one right result raises Undefined with the
expression or statement that is to blame (see program.py). Values are numpy arrays, of rank 0 for scalars; a pointer is
Pointer(argument, element indices). Combine functions of reductions are evaluated for all their
elements at once: an `if` on an array executes both sides, each under its mask."""
import assembly
import numpy as np
import program as P
from arithmetic import (Undefined, binary, bits_of, cast, compare, count_rounding, exact_dot, exact_sum, extremum, quiet, shift)
from memory import Memory, Pointer, Select, select, spread
from program import NAME, NUMPY

STEPS = 3000


class Finished(Exception):
    pass


class Left(Exception):
    """A `break`, or a `continue`, that holds for all that is in the loop."""


class Skipped(Exception):
    pass


class Loop:
    """Which elements have left it (by `break`, or as their condition was false), and which have ended this iteration; None: none."""

    def __init__(self):
        self.left, self.skipped, self.ended = None, None, None


def without(mask, *gone):
    for g in gone:
        if g is not None:
            mask = ~g if mask is None else mask & ~g
    return mask


def joined(a, b):
    return b if a is None else a | b


class BlockPointer:
    """Where a block begins: a pointer, offsets, and the attributes of its tensor."""

    def __init__(self, pointer, offsets, attrs):
        self.pointer, self.offsets, self.attrs = pointer, offsets, attrs


class Frame:
    """A call: its names; results and the elements that have returned already (None: no element, or all)."""

    def __init__(self, names):
        self.names, self.results, self.done = names, None, None


class Reference:

    def __init__(self, p):
        self.p = p
        self.memory = Memory(p)
        self.steps = 0
        self.mask = None
        self.exact = 0
        self.rounded = False
        self.position = None
        self.loops = []

    def run(self):
        names = {
            a.name: Pointer(k, np.int64(0)) if a.buffer else np.asarray(a.value, np.int32)
            for k, a in enumerate(self.p.arguments)
        }
        grid = tuple(self.p.grid) + (1, ) * (3 - len(self.p.grid))
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    self.grid, self.pid = grid, (x, y, z)
                    self.memory.begin(1 + x + grid[0] * (y + grid[1] * z))
                    self.loops = []
                    try:
                        self.block(self.p.body, Frame(dict(names)))
                    except Finished:
                        pass
        if self.rounded and self.p.options.get("enable_fp_fusion"):
            raise Undefined("products are rounded and may be contracted")
        return self.memory.arrays

    # Statements

    def block(self, body, f):
        for s in body:
            if f.results is not None and (f.done is None or f.done.all()):
                return
            self.statement(s, f)

    def statement(self, s, f):
        self.steps += 1
        if self.steps > STEPS:
            raise Undefined("runs for too long", s)
        try:
            STATEMENTS[type(s)](self, s, f)
        except Undefined as u:
            if u.node is None:
                u.node = s
            if u.statement is None:
                u.statement = s
            raise

    def assign(self, s, f):
        v = self.value(s.value, f)
        for n, x in zip(s.names, [v] if len(s.names) == 1 else v):
            if self.mask is not None and n in f.names:
                x = np.where(self.mask, x, f.names[n])
            f.names[n] = x

    def store(self, s, f):
        p, v = self.value(s.pointer, f), self.value(s.value, f)
        self.memory.store(p, v, None if s.mask is None else self.value(s.mask, f))

    def block_store(self, s, f):
        p, v = self.value(s.pointer, f), self.value(s.value, f)
        p, inside = self.block_address(p, v.shape, s.attrs, [self.value(o, f) for o in s.offsets])
        self.memory.store(p, v, inside)

    def effect(self, s, f):
        e = s.value
        if e.op == "atomic":
            args = [self.value(a, f) for a in e.args]
            self.memory.atomic(e.attrs["kind"], *args, result=False)
        elif e.op == "assume":
            if not self.value(e.args[0], f):
                raise Undefined("an assumption that is not true", s)
        elif e.op == "assert":
            try:
                self.value(e, f)
            except Undefined as u:
                u.node = s if u.node is e else u.node
                raise
        else:
            self.value(e, f)

    def loop(self, s, f):
        start, stop, step = (self.value(e, f) for e in (s.start, s.stop, s.step))
        if (step == 0).any() or ((step < 0).any() and s.step.op != "const"):
            raise Undefined("a step that is not positive", s.step)
        at = np.asarray(start, np.int64)
        on = lambda: (at > stop) if (step < 0).all() else (at < stop)

        def begin(loop):
            nonlocal at
            go = on()
            f.names[s.name] = at.astype(NUMPY[s.start.type.dtype])
            at = at + step
            return go

        self.iterate(s, f, begin)
        f.names.pop(s.name, None)

    def while_(self, s, f):
        self.iterate(s, f, lambda loop: np.asarray(self.value(s.condition, f)))

    def iterate(self, s, f, begin):
        """Iterations for as long as begin() says so, for any element; then the `else`."""
        loop, outer = Loop(), self.mask
        self.loops.append(loop)
        broken = False
        while not broken:
            self.steps += 1
            if self.steps > STEPS:
                raise Undefined("runs for too long", s)
            self.mask = without(outer, f.done, loop.left, loop.ended)
            go = begin(loop)
            if go.ndim:
                loop.ended = joined(loop.ended, ~go)
                self.mask = without(self.mask, loop.ended)
            elif not go:
                break
            if (self.mask is not None and not self.mask.any()) or self.is_over(f):
                break
            loop.skipped = None
            try:
                self.block(s.body, f)
            except Skipped:
                pass
            except Left:
                broken = True
        self.loops.pop()
        self.mask = without(outer, f.done, loop.left)
        if s.other and not broken and not self.is_over(f) and (self.mask is None or self.mask.any()):
            self.scoped(s.other, f)
        self.settle(outer, f)

    def is_over(self, f):
        return f.results is not None and (f.done is None or bool(f.done.all()))

    def settle(self, outer, f):
        """Who goes on behind a statement in which some may have left."""
        gone = (self.loops[-1].left, self.loops[-1].skipped) if self.loops else ()
        self.mask = without(outer, f.done, *gone)

    def break_(self, s, f):
        if self.mask is None:
            raise Left
        self.loops[-1].left = joined(self.loops[-1].left, self.mask)
        self.mask = np.zeros_like(self.mask)

    def continue_(self, s, f):
        if self.mask is None:
            raise Skipped
        self.loops[-1].skipped = joined(self.loops[-1].skipped, self.mask)
        self.mask = np.zeros_like(self.mask)

    def if_(self, s, f):
        c = np.asarray(self.value(s.condition, f)) != 0
        outer = self.mask
        if c.ndim == 0:
            self.scoped(s.then if c else s.other, f)
            return self.settle(outer, f)
        for arm, where in ((s.then, c), (s.other, ~c)):
            self.mask = where if outer is None else where & outer
            self.scoped(arm, f)
        self.settle(outer, f)

    def scoped(self, body, f):
        """New names do not outlive the block; old ones keep what was assigned."""
        before = set(f.names)
        try:
            self.block(body, f)
        finally:
            for n in set(f.names) - before:
                del f.names[n]

    def return_(self, s, f):
        values = [self.value(v, f) for v in s.values]
        if not values:
            raise Finished
        if self.mask is None or f.results is None and self.mask.ndim == 0:
            f.results, f.done = values, None
            return
        m = self.mask
        if f.results is None:
            f.results, f.done = [np.where(m, v, v) for v in values], m
        else:
            f.results = [np.where(m & ~f.done, v, r) for v, r in zip(values, f.results)]
            f.done = f.done | m

    def barrier(self, s, f):
        self.memory.barrier()

    # Expressions

    def value(self, e, f):
        if e.op == "var":
            try:
                return f.names[e.attrs["name"]]
            except KeyError:
                raise Undefined("no value", e) from None
        try:
            if e.op == "ternary":
                c = np.asarray(self.value(e.args[0], f)) != 0
                if c.ndim == 0:
                    return self.value(e.args[1 if c else 2], f)
                return np.where(c, self.value(e.args[1], f), self.value(e.args[2], f))
            args = [self.value(a, f) for a in e.args]
            return VALUES[e.op](self, e, args)
        except Undefined as u:
            if u.node is None:
                u.node = e
            raise

    def call(self, name, args):
        fn = self.p.function(name)
        f = Frame(dict(zip(fn.parameters, args)))
        outer, loops, self.loops = self.mask, self.loops, []
        self.block(fn.body, f)
        self.mask, self.loops = outer, loops
        if f.results is None:
            raise Undefined("no result")
        return f.results

    def elementwise(self, name, args, exact=True):
        """The function for every element of arrays of one shape, each of which goes its own way; exact: floats may not be rounded."""
        outer, self.mask = self.mask, None
        self.exact += exact
        try:
            shape = np.broadcast_shapes(*(a.shape for a in args))
            return [np.broadcast_to(r, shape) for r in self.call(name, args)]
        finally:
            self.mask = outer
            self.exact -= exact

    def reduce(self, name, xs, axis):
        """Folds of several orders, which must agree: the language leaves the order open."""
        xs = [np.moveaxis(x.reshape(-1) if axis is None else x, 0 if axis is None else axis, 0) for x in xs]
        n = xs[0].shape[0]
        combine = lambda a, b: self.elementwise(name, list(a) + list(b))
        results = []
        for order in (range(n), range(n - 1, -1, -1)):
            acc = None
            for i in order:
                x = [v[i] for v in xs]
                acc = x if acc is None else combine(acc, x)
            results.append(acc)
        for halves in (True, False):
            v = xs
            while v[0].shape[0] > 1:
                h = v[0].shape[0] // 2
                rest = [a[2 * h:] for a in v]  # one, of an odd number
                first, second = (slice(h), slice(h, 2 * h)) if halves else (slice(0, 2 * h, 2), slice(1, 2 * h, 2))
                v = combine([a[first] for a in v], [a[second] for a in v])
                v = [np.concatenate([a, b]) for a, b in zip(v, rest)]
            results.append([a[0] for a in v])
        for r in results[1:]:
            if any((bits_of(a) != bits_of(b)).any() for a, b in zip(r, results[0])):
                raise Undefined("the result depends on the order of combination")
        return results[0]

    def scan(self, name, xs, axis, reverse):
        turn = lambda x: np.flip(x, 0) if reverse else x
        xs = [turn(np.moveaxis(x, axis, 0)) for x in xs]
        n = xs[0].shape[0]
        combine = lambda a, b: self.elementwise(name, list(a) + list(b))
        acc = [x[0] for x in xs]
        rows = [acc]
        for i in range(1, n):
            acc = combine(acc, [x[i] for x in xs])
            rows.append(acc)
        out = [np.stack([r[k] for r in rows]) for k in range(len(xs))]
        tree, d = xs, 1
        while d < n:
            later = combine([a[:-d] for a in tree], [a[d:] for a in tree])
            tree = [np.concatenate([a[:d], b]) for a, b in zip(tree, later)]
            d *= 2
        if any((bits_of(a) != bits_of(b)).any() for a, b in zip(out, tree)):
            raise Undefined("the combine function is not associative")
        return [np.moveaxis(turn(o), 0, axis) for o in out]

    def block_address(self, p, block, at, offsets):
        """Element addresses of a block, and which are inside its extents."""
        rank = len(block)
        index, inside = np.zeros(block, np.int64), np.ones(block, bool)
        for k in range(rank):
            c = int(offsets[k]) + np.arange(block[k], dtype=np.int64).reshape(
                [-1 if i == k else 1 for i in range(rank)])
            inside = inside & (c >= 0) & (c < at["shape"][k])
            index = index + c * at["strides"][k]
        return p.at(p.index + index), inside


def multiple(xs):
    return xs[0] if len(xs) == 1 else xs


VALUES = {}


def means(*names):

    def add(f):
        for n in names:
            VALUES[n] = f
        return f

    return add


@means("const")
def _(r, e, a):
    t = e.attrs["type"]
    with np.errstate(all="ignore"):
        return np.full(t.shape, e.attrs["value"]).astype(NUMPY[t.dtype])


@means("literal")
def _(r, e, a):
    return e.attrs["value"]


@means("arange")
def _(r, e, a):
    return np.arange(e.attrs["start"], e.attrs["end"], dtype=np.int32)


@means("pid", "nprog")
def _(r, e, a):
    return np.asarray((r.pid if e.op == "pid" else r.grid)[e.attrs["axis"]], np.int32)


@means("add", "sub", "mul", "div", "mod", "and", "or", "xor")
def _(r, e, a):
    x, y = literals(a)
    out = binary(e.op, x, y, r.mask, r.exact)
    if e.op == "mul" and not r.rounded and out.dtype not in INTEGERS:
        r.rounded = count_rounding(x, y, out)
    return out


INTEGERS = {NUMPY[n] for n in P.INTS + ("int1", )}


def literals(a):
    """A Python number takes the other operand's type; two types are promoted."""
    x, y = a
    if not isinstance(x, np.ndarray):
        x = x if isinstance(x, np.generic) else np.asarray(x, y.dtype)
    if not isinstance(y, np.ndarray):
        y = y if isinstance(y, np.generic) else np.asarray(y, x.dtype)
    if x.dtype != y.dtype:
        from check import promote
        t = NUMPY[promote(NAME[x.dtype], NAME[y.dtype])]
        x, y = cast(x, t, None), cast(y, t, None)
    return np.asarray(x), np.asarray(y)


@means("multiple_of")
def _(r, e, a):
    if a[0] % e.attrs["n"]:
        raise Undefined("a hint that is not true")
    return a[0]


@means("max_contiguous")
def _(r, e, a):
    n = min(e.attrs["n"], a[0].size)
    rows = a[0].astype(np.int64).reshape(-1, n)
    if (rows - rows[:, :1] != np.arange(n)).any():
        raise Undefined("a hint that is not true")
    return a[0]


@means("shl", "shr")
def _(r, e, a):
    return shift(e.op, *literals(a))


@means("lt", "le", "gt", "ge", "eq", "ne")
def _(r, e, a):
    return compare(e.op, *literals(a))


@means("min", "max")
def _(r, e, a):
    x, y = a
    if NAME[x.dtype] == "bfloat16":
        # numpy's minimum of bfloat16 may warn about NaNs; in float32 it is exact.
        return extremum(x.astype(np.float32), y.astype(np.float32), e.op == "min").astype(x.dtype)
    return extremum(x, y, e.op == "min")


@means("div_rn")
def _(r, e, a):
    return a[0] / a[1]


@means("umulhi")
def _(r, e, a):
    t, n = a[0].dtype, a[0].dtype.itemsize * 8
    u = np.dtype(f"u{n // 8}")
    x, y = (np.asarray(v).astype(u).astype(object) for v in a)
    return np.asarray((x * y) >> n).astype(u).astype(t)


@means("neg")
def _(r, e, a):
    return np.negative(a[0]) if a[0].dtype.kind != "u" else (np.zeros((), a[0].dtype) - a[0])


@means("abs")
def _(r, e, a):
    return np.abs(a[0]).astype(a[0].dtype)


@means("not")
def _(r, e, a):
    return np.invert(a[0])


@means("floor", "ceil", "sqrt_rn")
def _(r, e, a):
    return {"floor": np.floor, "ceil": np.ceil, "sqrt_rn": np.sqrt}[e.op](a[0])


@means("cast")
def _(r, e, a):
    return cast(a[0], NUMPY[e.attrs["to"]], r.mask)


@means("bitcast")
def _(r, e, a):
    x = np.asarray(a[0])
    if NAME[x.dtype] not in P.INTS and np.isnan(x.astype(np.float32)).any():
        raise Undefined("the bits of a NaN")
    return np.ascontiguousarray(x).view(NUMPY[e.attrs["to"]]).reshape(x.shape)


@means("where")
def _(r, e, a):
    if e.type.is_pointer:
        return select(*a)
    x, y = literals(a[1:])
    return np.where(a[0], x, y)


@means("addptr")
def _(r, e, a):
    return a[0].moved(lambda i: i + np.asarray(a[1]).astype(np.int64))


@means("pointer_cast")
def _(r, e, a):
    return Pointer(a[0].argument, a[0].index, e.attrs["to"])


@means("load")
def _(r, e, a):
    if len(a) == 1:
        return r.memory.load(a[0])
    shape = np.broadcast_shapes(a[0].shape, np.shape(a[1]))  # elements may ask for one address, each under its mask
    return r.memory.load(spread(a[0], shape), np.broadcast_to(a[1], shape), a[2])


@means("block_load")
def _(r, e, a):
    p, inside = r.block_address(a[0], e.type.shape, e.attrs, a[1:])
    return r.memory.load(p, inside, 0)


@means("rows_load", "rows_store")
def _(r, e, a):
    at, rows, columns = e.attrs, a[1].astype(np.int64)[:, None], int(a[2]) + np.arange(e.attrs["block"][-1], dtype=np.int64)
    inside = (rows >= 0) & (rows < at["shape"][0]) & (columns >= 0) & (columns < at["shape"][1])
    p = a[0].at(a[0].index + rows * at["strides"][0] + columns)
    if e.op == "rows_load":
        return r.memory.load(p, inside, 0)
    r.memory.store(p, a[3], inside)
    return a[3]


@means("block_ptr")
def _(r, e, a):
    return BlockPointer(a[0], [int(o) for o in a[1:]], e.attrs)


@means("advance")
def _(r, e, a):
    return BlockPointer(a[0].pointer, [o + int(d) for o, d in zip(a[0].offsets, a[1:])], a[0].attrs)


@means("block_read")
def _(r, e, a):
    p, inside = r.block_address(a[0].pointer, e.type.shape, a[0].attrs, a[0].offsets)
    return r.memory.load(p, inside, 0)


@means("block_write")
def _(r, e, a):
    p, inside = r.block_address(a[0].pointer, e.type.shape, a[0].attrs, a[0].offsets)
    r.memory.store(p, a[1], inside)
    return a[1]


@means("assert")
def _(r, e, a):
    if not (a[0] if len(a) == 1 else a[0] | ~a[1]).all():
        raise Undefined("a condition that is not true")
    return a[0]


@means("asm")
def _(r, e, a):
    return multiple(assembly.meaning(e.attrs["name"], a))


@means("atomic_load")
def _(r, e, a):
    return r.memory.load(a[0])


@means("atomic_store")
def _(r, e, a):
    r.memory.store(*a)
    return a[1]


@means("slice")
def _(r, e, a):
    rest = iter(a[1:])
    index = tuple(slice(*i) if isinstance(i, tuple) else i if i != "at" else int(next(rest)) % n for i, n in zip(e.attrs["index"], a[0].shape))
    return np.asarray(a[0][index])


@means("atomic")
def _(r, e, a):
    return r.memory.atomic(e.attrs["kind"], *a, result=True)


@means("atomic_old")
def _(r, e, a):
    p, value, mask, other = a
    out = np.full(p.shape, other).astype(value.dtype)
    out[mask] = r.memory.atomic(e.attrs["kind"], p.at(p.index[mask]), np.broadcast_to(value, p.shape)[mask], result=True)
    return out


@means("atomic_sum")
def _(r, e, a):
    p, index = a[0], np.ravel(a[0].index)
    olds = [r.memory.atomic(e.attrs["kind"], p.at(index[k:k + 1]), np.reshape(a[1], 1), result=True) for k in range(index.size)]
    return np.asarray(np.sum(np.concatenate(olds), dtype=a[1].dtype))


@means("expand")
def _(r, e, a):
    if isinstance(a[0], Select):
        raise Undefined("a chosen pointer with another shape")
    if isinstance(a[0], Pointer):
        return a[0].at(np.expand_dims(a[0].index, e.attrs["axis"]))
    return np.expand_dims(a[0], e.attrs["axis"])


@means("broadcast", "splat")
def _(r, e, a):
    if isinstance(a[0], (Pointer, Select)):
        return spread(a[0], e.attrs["shape"])
    return np.broadcast_to(a[0], e.attrs["shape"])


@means("interleave")
def _(r, e, a):
    s = np.stack(a, -1)
    return s.reshape(s.shape[:-2] + (-1, ))


VALUES.update(
    reshape=lambda r, e, a: a[0].reshape(e.attrs["shape"]),
    permute=lambda r, e, a: a[0].transpose(e.attrs["dims"]),
    ravel=lambda r, e, a: a[0].reshape(-1),
    flip=lambda r, e, a: np.flip(a[0], e.attrs["axis"]),
    join=lambda r, e, a: np.stack(a, -1),
    cat=lambda r, e, a: np.concatenate(a, e.attrs["axis"]))


@means("split")
def _(r, e, a):
    return [np.asarray(a[0][..., 0]), np.asarray(a[0][..., 1])]


@means("split_part")
def _(r, e, a):
    return np.asarray(a[0][..., e.attrs["part"]])


@means("gather")
def _(r, e, a):
    n = a[0].shape[e.attrs["axis"]]
    if ((a[1] < 0) | (a[1] >= n)).any():
        raise Undefined("gather out of range")
    return np.take_along_axis(a[0], a[1].astype(np.int64), e.attrs["axis"])


@means("sum")
def _(r, e, a):
    x = a[0]
    axis, keep = e.attrs["axis"], e.attrs["keep"]
    if x.dtype in INTEGERS:
        t = x.dtype if x.dtype.itemsize >= 4 else np.dtype(np.int32 if x.dtype.kind == "i" else np.uint32)
        return np.asarray(np.sum(x, axis=axis, keepdims=keep, dtype=t))
    return exact_sum(x, axis, keep)


@means("amax", "amin")
def _(r, e, a):
    f = np.fmax if e.op == "amax" else np.fmin
    out = np.asarray(f.reduce(quiet(a[0]), axis=e.attrs["axis"], keepdims=e.attrs["keep"]))
    if out.dtype.kind == "f" and (out == 0).any() and (np.signbit(a[0]) & (a[0] == 0)).any():
        raise Undefined("either zero may win")
    return out


@means("xor_sum", "reduce_or")
def _(r, e, a):
    f = np.bitwise_xor if e.op == "xor_sum" else np.bitwise_or
    return np.asarray(f.reduce(a[0], axis=e.attrs["axis"], keepdims=e.attrs["keep"]))


@means("argmax", "argmin")
def _(r, e, a):
    return np.asarray((np.argmax if e.op == "argmax" else np.argmin)(a[0], e.attrs["axis"])).astype(np.int32)


@means("cumsum", "cumprod")
def _(r, e, a):
    axis = e.attrs["axis"]
    x = np.flip(a[0], axis) if e.attrs["reverse"] else a[0]
    y = (np.cumsum if e.op == "cumsum" else np.cumprod)(x, axis, dtype=x.dtype)
    return np.flip(y, axis) if e.attrs["reverse"] else y


@means("sort", "topk")
def _(r, e, a):
    s = np.sort(a[0], -1)
    if e.op == "topk":
        return s[..., ::-1][..., :e.attrs["k"]]
    return s[..., ::-1] if e.attrs["descending"] else s


@means("histogram")
def _(r, e, a):
    n = e.attrs["bins"]
    if ((a[0] < 0) | (a[0] >= n)).any():
        raise Undefined("histogram out of range")
    return np.bincount(a[0].astype(np.int64), minlength=n).astype(np.int32)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@means("dot_scaled")
def _(r, e, a):
    operands = []
    for x, scale, format_, is_scaled, rows in zip(a[0:4:2], a[1:4:2], e.attrs["formats"], e.attrs["scales"], (True, False)):
        v = np.stack([E2M1[x & 15], E2M1[x >> 4]], -1) if format_ == "e2m1" else x.astype(np.float64)
        v = v if format_ != "e2m1" else v.reshape(x.shape[0], -1) if rows else v.transpose(0, 2, 1).reshape(-1, x.shape[1])
        factor = np.repeat(2.0**(scale.astype(np.float64) - 127), 32, 1) if is_scaled else 1.0
        v = v * (factor if rows or not is_scaled else factor.T)
        if not np.isfinite(v).all() or (np.abs(v) > 2.0**15).any() or (np.abs(v[v != 0]) < 2.0**-14).any():
            raise Undefined("dot_scaled of operands that 16 bits might not hold")
        operands.append(v)
    return exact_dot(*operands, a[4] if len(a) > 4 else None, np.dtype(np.float32), 13, 60)


@means("dot")
def _(r, e, a):
    x, y = a[:2]
    acc = a[2] if len(a) > 2 else None
    out = NUMPY[e.type.dtype]
    if x.dtype == np.int8:
        z = np.matmul(x.astype(np.int64), y.astype(np.int64))
        return (z + (0 if acc is None else acc)).astype(np.int32)
    # fp8 is accumulated in fewer bits by some instructions; tf32 keeps 11 bits of the operands.
    width = 13 if x.dtype.itemsize == 1 else {"float16": 11, "float32": 24, "float64": 53}[e.type.dtype]
    limit = 11 if NAME[x.dtype] == "float32" and e.attrs.get("precision") != "ieee" else 60
    return exact_dot(x.astype(np.float64), y.astype(np.float64), acc, out, width, limit)


@means("call")
def _(r, e, a):
    return multiple(r.call(e.attrs["function"], a))


@means("map")
def _(r, e, a):
    return multiple([np.array(o) for o in r.elementwise(e.attrs["function"], a, exact=False)])


@means("reduce")
def _(r, e, a):
    axis = e.attrs["axis"]
    out = r.reduce(e.attrs["function"], a, axis)
    if e.attrs["keep"]:
        out = [np.reshape(o, [1] * a[0].ndim) if axis is None else np.expand_dims(o, axis) for o in out]
    return multiple([np.asarray(o) for o in out])


@means("scan")
def _(r, e, a):
    return multiple(r.scan(e.attrs["function"], a, e.attrs["axis"], e.attrs["reverse"]))


STATEMENTS = {
    P.Assign: Reference.assign,
    P.Store: Reference.store,
    P.BlockStore: Reference.block_store,
    P.Effect: Reference.effect,
    P.For: Reference.loop,
    P.While: Reference.while_,
    P.If: Reference.if_,
    P.Return: Reference.return_,
    P.Barrier: Reference.barrier,
    P.Break: Reference.break_,
    P.Continue: Reference.continue_,
}


def evaluate(p):
    """(name -> contents of the buffer after the launch, whether a product was rounded); Undefined if there is no one
    answer."""
    r = Reference(p)
    with np.errstate(all="ignore"):
        return r.run(), r.rounded
