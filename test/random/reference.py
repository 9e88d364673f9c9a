"""What a program means, by numpy: `evaluate(program)` gives the contents of its buffers after the launch.

Programs of the grid run one after the other. Whatever does not have exactly one right result raises Undefined with the
expression or statement that is to blame (see program.py). Values are numpy arrays, of rank 0 for scalars; a pointer is
Pointer(argument, element indices). Combine functions of reductions are evaluated for all their
elements at once: an `if` on an array executes both sides, each under its mask."""
import numpy as np
import program as P
from arithmetic import Undefined, bits_of, cast
from memory import Memory, Pointer
from program import NUMPY
from values import VALUES

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
        v = cast(v, NUMPY[s.pointer.type.dtype[1:]], None)
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
