"""Random statements as published kernels have them: sums and extremes that loops carry and scale, attention with a diagonal, values with their places, atomics through descriptors,
dropout's numbers, stores that convert or broadcast, numbers that are known when the kernel is compiled."""
import numpy as np
import program as P
from rules import Invalid, make, need
from program import FLOATS, FP8, INTS, Type

SUMS = {"sum": "add", "amax": "max", "amin": "min", "xor_sum": "xor", "reduce_or": "or"}


class Idioms:
    """Part of the generator: see Expressions for what it needs."""

    def literal(self, v):
        return make("literal", value=v)

    def with_literal(self, op, e, v):
        return make(op, e, make("literal", value=v), value=v)

    def tile_at(self, t, at, recipe=None):
        """A tile of an input that moves with a loop's variable, perhaps cut off where the input ends."""
        if self.chance(0.2):
            return self.small_float(t, 1) if t.dtype in FLOATS else self.expr(t, 1)
        a, size = self.input(t.dtype, recipe)
        step = self.pick((t.numel, t.numel, 1, 8))
        need(t.numel + 3 * step <= size)
        i = make("add", self.permutation(t.shape), self.with_literal("mul", at, step))
        if not self.chance(0.5) or t.dtype not in INTS + FLOATS:
            return make("load", self.address(a, i), **self.hint())
        end = self.var("n") if self.kernel_level and self.chance(0.3) else self.literal(self.number(0, 4 * t.numel))
        other = self.pick((0, 1)) if t.dtype in INTS else 0.0
        mask = make("lt", i, end, value=end.attrs.get("value", 0))
        return make("load", self.address(a, i), mask, self.literal(other))

    def s_sums(self, depth):
        """A loop that carries reductions of its tiles, of floats perhaps scaled in each iteration."""
        self.has("sums")
        need(depth < 2)
        d = self.pick([x for x in self.dtypes if x in ("int32", "int64", "uint32", "uint64", "float32", "float64")])
        t = Type(d, self.pick([s for s in self.shapes if len(s) >= 1]))
        axis = self.number(0, len(t.shape) - 1)
        one = self.chance(0.2)
        keep = self.chance(0.3) and not one
        op = self.pick(("sum", "sum", "amax", "amin")) if d in FLOATS else self.pick(tuple(SUMS))
        exact = d in FLOATS and op == "sum"
        reduced = lambda x: make(op, x, axis=None if one else axis, keep=keep)
        i = self.fresh("i")
        at = make("var", name=i, type=Type("int32"))
        part = lambda: reduced(self.tile_at(t, at, "small" if exact else None))
        first = reduced(self.const(t)).type
        plain = self.fresh("v", first)
        start = self.const(first, 0) if self.chance(0.5) else self.small_float(first, 1) if exact else self.expr(first, 1)
        outer = dict(self.scope)
        del self.scope[plain]
        self.scope[i] = Type("int32")
        self.depth += 1
        var = make("var", name=plain, type=first)
        extra = {"exact": True} if exact else {}

        def link(e, x):
            return make(SUMS[op], *((e, x) if self.chance(0.7) else (x, e)), **extra)

        body, e = [], var
        for _ in range(self.number(1, 3)):
            k = self.number(0, 9)
            if exact and k <= 3:
                c = self.expr(Type("int1", first.shape if self.chance(0.6) else ()), 1)
                low, high = self.pick(((0.5, 1.0), (1.0, 0.5), (1.0, 2.0), (0.0, 1.0)))
                scale = make("where", c, self.const(Type(d, c.type.shape), low), self.literal(high), value=high)
                e = make("mul", e, scale, exact=True)
                if k < 3:
                    e = link(e, part())
            elif k <= 7:
                x = part()
                if self.chance(0.3):
                    x = make("where", self.expr(Type("int1", first.shape), 1), x, self.const(first, 0))
                e = link(e, x)
            else:
                e = link(e, self.small_float(first, 1) if exact else self.expr(first, 1))
        need(e.type == first)
        body = [P.Assign((plain, ), e)]
        if self.chance(0.25):
            body = [P.If(self.expr(Type("int1"), 1), body, [])]
        elif self.chance(0.2):
            body += self.nested(1, {})
        self.depth -= 1
        self.scope = {n: u for n, u in self.scope.items() if n in outer}
        return [P.Assign((plain, ), start), self.loop_of(i, body, self.number(0, 4))]

    def s_online(self, depth):
        """Softmax online: the greatest so far, and the sum scaled by what it has grown by."""
        self.has("sums")
        need(depth == 0 and self.kernel_level)
        shape = self.pick([s for s in self.shapes if len(s) in (1, 2)])
        t = Type("float32", shape)
        axis = len(shape) - 1
        i = self.fresh("i")
        at = make("var", name=i, type=Type("int32"))
        row = Type("float32", shape[:axis])
        m, s = self.fresh("v", row), self.fresh("v", row)
        var = lambda n, u: make("var", name=n, type=u)
        a, size = self.input("int32", None)
        need(4 * t.numel <= size)
        x = make("load", self.address(a, make("add", self.linear(shape, None), self.with_literal("mul", at, t.numel))))
        x = make("cast", self.with_literal("and", x, 3), to="float32")
        names = [f"v{self.names + k}" for k in range(2)]
        self.names += 2
        spread = lambda e: make("broadcast", make("expand", e, axis=axis, slice=True), shape=shape) if row.shape else e
        begin = float("-inf") if self.chance(0.5) else 0.0
        body = [
            P.Assign((names[0], ), x),
            P.Assign((names[1], ), make("max", var(m, row), make("amax", var(names[0], t), axis=axis, keep=False))),
            P.Assign((s, ), make("add", make("mul", var(s, row), make("exp2", make("sub", var(m, row), var(names[1], row)))),
                                 make("sum", make("exp2", make("sub", var(names[0], t), spread(var(names[1], row)))), axis=axis, keep=False), exact=True)),
            P.Assign((m, ), var(names[1], row)),
        ]
        return [P.Assign((m, ), self.const(row, begin)), P.Assign((s, ), self.const(row, 0)), self.loop_of(i, body, self.number(0, 4))]

    def s_attention(self, depth):
        """Blocks of keys up to a diagonal: dots, a select by row and column, rows' greatest and sums carried, the accumulator scaled."""
        self.has("chain")
        need(depth == 0 and self.kernel_level and self.chance(0.6))
        d = self.pick(("float32", "float16", "bfloat16"))
        m, n, k, o = self.pick((16, 32, 64)), self.pick((16, 32)), self.pick((16, 32)), self.pick((16, 32, 64))
        var = lambda name, t: make("var", name=name, type=t)
        q_type, s_type, acc_type, row = Type(d, (m, k)), Type("float32", (m, n)), Type("float32", (m, o)), Type("float32", (m, ))
        i = self.fresh("i")
        at = var(i, Type("int32"))
        a, size = self.input(d, "small")
        b, room = self.input(d, "small")
        need(4 * n * k <= size and 4 * n * o <= room)
        q, acc, most, total = self.fresh("v", q_type), self.fresh("v", acc_type), self.fresh("v", row), self.fresh("v", row)
        names = [f"v{self.names + j}" for j in range(4)]
        self.names += 4
        s, p, new, scale = names
        by = self.chance(0.5)  # the loop counts keys, not blocks
        first = at if by else self.with_literal("mul", at, n)

        def tile(arg, rows, columns, turned):
            if self.chance(0.3):
                kind = self.pick([x for x in ("pointer", "descriptor", "host") if x == "pointer" or arg.offset == 0])
                high = self.pick((4 * rows, 3 * rows - 5, 2 * rows + 1))
                e = make("block_load", self.pointer(arg), first, self.const(Type("int32"), 0), kind=kind, shape=(high, columns), strides=(columns, 1), block=(rows, columns))
                return make("permute", e, dims=(1, 0)) if turned else e
            strides = (1, columns) if turned else (columns, 1)
            index = make("add", self.linear((columns, rows) if turned else (rows, columns), strides), self.with_literal("mul", first, columns))
            if not self.chance(0.5):
                return make("load", self.address(arg, index))
            places = make("expand", make("add", first, make("arange", start=0, end=rows)), axis=0 if turned else 1, slice=True)
            limit = self.literal(self.number(0, 4 * rows))
            return make("load", self.address(arg, index), make("lt", places, limit, value=limit.attrs["value"]), self.literal(0.0))

        rows = make("add", self.with_literal("mul", make("pid", axis=0), m), make("arange", start=0, end=m))
        if self.chance(0.3):
            rows = self.with_literal("add", rows, self.number(-3, 3))
        rows = make("expand", rows, axis=1, slice=True)
        columns = make("expand", make("add", first, make("arange", start=0, end=n)), axis=0, slice=True)
        below = make(self.pick(("ge", "gt")), rows, columns) if self.chance(0.5) else make(self.pick(("le", "lt")), columns, rows)
        if self.chance(0.3):
            below = make("and", below, make("lt", columns, self.var("n")))
        dot = make("dot", var(q, q_type), tile(a, n, k, True))
        whole = make("cast", self.with_literal("and", make("cast", var(s, s_type), to="int32"), 3), to="float32")
        cut = float("-inf") if self.chance(0.5) else -100.0
        chosen = make("where", below, whole, self.literal(cut), value=cut) if self.chance(0.7) else make("add", whole, make("where", below, self.const(Type("float32"), 0), self.literal(cut), value=cut))
        wide = lambda e, c: make("broadcast", make("expand", e, axis=1, slice=True), shape=(m, c))
        least = -64.0
        body = [
            P.Assign((s, ), dot),
            P.Assign((s, ), chosen),
            P.Assign((new, ), make("max", var(most, row), make("amax", var(s, s_type), axis=1, keep=False))),
            P.Assign((scale, ), make("exp2", make("sub", var(most, row), var(new, row)))),
            P.Assign((p, ), make("exp2", make("sub", var(s, s_type), wide(var(new, row), n)))),
            P.Assign((total, ), make("add", make("mul", var(total, row), var(scale, row)), make("sum", var(p, s_type), axis=1, keep=False), exact=True)),
            P.Assign((acc, ), make("mul", var(acc, acc_type), wide(var(scale, row), o))),
            P.Assign((acc, ), make("dot", make("cast", var(p, s_type), to=d), tile(b, n, o, False), var(acc, acc_type))),
            P.Assign((most, ), var(new, row)),
        ]
        c = lambda v: self.const(Type("int32"), v)
        stop = c(self.number(0, 4) * (n if by else 1))
        if self.chance(0.5):
            end = make("add", self.with_literal("mul", make("pid", axis=0), m), self.literal(m), value=m)  # up to the diagonal
            if not by:
                end = make("div", self.with_literal("add", end, n - 1), self.literal(n), value=n)
            limit = 4 * (n if by else 1)
            stop = make("min", end, c(limit))
        begin = [P.Assign((q, ), self.dot_operand(q_type, 1)), P.Assign((acc, ), self.const(acc_type, 0)), P.Assign((most, ), self.const(row, least)),
                 P.Assign((total, ), self.const(row, 0))]
        kind = self.pick(("range", "tl.range", "tl.range"))
        options = {"num_stages": self.pick((1, 2, 3, 4))} if kind == "tl.range" else {}
        return begin + [P.For(i, c(0), stop, c(n if by else 1), body, kind, options)]

    def s_max_with(self, depth):
        """The greatest or least values along an axis, and where they are."""
        self.has("reduce")
        d = self.pick(("int32", "int64", "uint32", "float32", "float16", "float64"))
        t = Type(d, self.pick([s for s in self.shapes if len(s) >= 1]))
        e = self.small_float(t, 1) if d in FLOATS else self.expr(t, 1)
        e = make(self.pick(("max_with", "min_with")), e, axis=self.number(0, len(t.shape) - 1))
        return [P.Assign(tuple(self.fresh("v", u) for u in e.type), e)]

    def s_block_atomic(self, depth):
        """An atomic of a block through a descriptor, in a loop perhaps; its box hangs over the edges."""
        self.has("boxes")
        need(depth < 2 and self.kernel_level)
        d = self.pick(("int32", "uint32", "uint64", "float32"))
        t = Type(d, self.pick([s for s in self.shapes if s and all(n & (n - 1) == 0 for n in s)]))
        kinds = ["add"] + (["min", "max"] if d in INTS else []) + (["and", "or", "xor"] if d in INTS else [])
        for _ in range(8):
            at, room = self.block_room(t)
            if at.pop("kind") == "descriptor":
                break
        else:
            raise Invalid
        base = self.block_base(t, room)
        value = self.small_float(t, 1) if d in FLOATS else self.expr(t, 1)
        if d in FLOATS:
            value = make("abs", value)
        places = [self.const(Type("int32"), self.number(-2, 3)) for _ in t.shape]
        effect = lambda at_: P.Effect(make("block_atomic", base, *places, value, **dict(at, what=kind, kind="descriptor", block=t.shape)))
        kind = self.pick(kinds)
        if not self.chance(0.5):
            return [effect(None)]
        i = self.fresh("i")
        var = make("var", name=i, type=Type("int32"))
        places = [self.moving(var, -3, 2, (0, 1, 2, max(1, n // 2), n)) for n in t.shape]
        return [self.loop_of(i, [effect(var)])]

    def x_randint(self, t, d):
        """Numbers of dropout and sampling."""
        self.has("helper")
        need(t.dtype == "uint32" and t.shape and t.numel <= 1024)
        return make("randint", self.literal(self.number(0, 9999)), self.expr(Type("int32", t.shape), d))

    def x_cdiv(self, t, d):
        need(t.dtype in INTS and self.chance(0.4))
        k = self.number(1, 30)
        return make("cdiv", self.expr(t, d), make("literal", value=k), value=k)

    def x_nan_extremum(self, t, d):
        need(t.dtype in FLOATS)
        return make(self.pick(("min", "max")), self.expr(t, d), self.expr(t, d), nan=True)

    def x_clamp(self, t, d):
        """Between two numbers, the lower one first."""
        need(t.dtype in ("float32", "float64", "float16"))
        low = self.pick((-8.0, -1.0, 0.0, float("-inf")))
        high = low + self.pick((1.0, 4.0)) if low > -1e30 else self.pick((0.5, 7.0))
        return make("clamp", self.expr(t, d), low=low, high=high, nan=self.chance(0.4))

    def x_small_extremum(self, t, d):
        """Of elements that are widened on the way."""
        self.has("reduce")
        need(t.dtype in ("int32", "float32"))
        s, axis, keep = self.before(t)
        need(s.shape)
        narrow = ("int8", "int16", "uint8", "uint16") if t.dtype == "int32" else ("float16", "bfloat16")
        return make(self.pick(("amax", "amin")), self.expr(Type(self.pick(narrow), s.shape), d), axis=axis, keep=keep)

    def x_count(self, t, d):
        """How many elements a condition holds for."""
        self.has("reduce")
        need(t.dtype in ("uint32", "int32"))
        s, axis, keep = self.before(t)
        need(s.shape)
        c = self.expr(Type("int1", s.shape), d)
        if t.dtype == "uint32" or self.chance(0.5):
            return make("cast", make("sum", c, axis=axis, keep=keep), to=t.dtype)
        return make("sum", make("cast", c, to="int32"), axis=axis, keep=keep)

    def x_float_cumsum(self, t, d):
        self.has("scan")
        need(t.shape and t.dtype in ("float32", "float64"))
        return make("cumsum", self.small_float(t, d), axis=self.number(0, len(t.shape) - 1), reverse=self.chance(0.5))

    def x_load_where(self, t, d):
        """A load whose masked elements have no value of their own; they are chosen afterwards."""
        self.has("mask")
        need(t.shape and t.dtype in INTS + FLOATS)
        a, size = self.input(t.dtype, None)
        value = self.pick((0, 2)) if t.dtype in INTS else self.pick((0.0, 1.5))
        return make("load_where", self.address(a, self.index(t.shape, size, d)), self.expr(Type("int1", t.shape), d), self.literal(value), value=value)

    def x_scalar_mask(self, t, d):
        self.has("mask")
        need(t.shape == () and t.dtype in INTS + FLOATS and self.kernel_level)
        a, size = self.input(t.dtype, None)
        value = 0 if t.dtype in INTS else 0.0
        return make("load", self.address(a, self.index((), size, d)), self.expr(Type("int1"), d), self.literal(value), value=value)

    def s_convert_store(self, depth):
        """A store of elements of another dtype, or of fewer than the pointers."""
        need(self.kernel_level and len(self.buffers) < 9)
        t = self.random_type()
        need(t.dtype in INTS + FLOATS)
        if self.chance(0.5):
            to = self.pick([x for x in self.dtypes if x in INTS + FLOATS + FP8 and x != t.dtype])
            e = self.convert(self.expr(t, 2), to)
            need(e.op == "cast")
            value, to = e.args[0], e.type.dtype
        else:
            value, to = self.expr(self.thinner(t), 2), t.dtype
        name = self.add_buffer("o", to, t.numel * self.programs, self.pick(("zero", "count")))
        i = self.permutation(t.shape)
        if self.programs > 1:
            i = make("add", make("mul", self.pid(), self.literal(t.numel), value=t.numel), i)
        mask = None
        if "mask" in self.features and self.chance(0.5):
            mask = self.expr(Type("int1", tuple(n if self.chance(0.5) else 1 for n in t.shape)), 1)
        hint = self.pick(('cache_modifier=".cs"', 'cache_modifier=".wt"', 'cache_modifier=".cg"', 'eviction_policy="evict_first"')) if self.chance(0.3) else ""
        return [P.Store(self.address(self.arguments_of(name)[0], i), value, mask, hint)]

    def s_static_if(self, depth):
        """A branch by a number that is known when the kernel is compiled."""
        self.has("branch")
        need(depth < 3 and self.kernel_level and not self.in_map)
        before, names = self.carried()
        c = make("static", a=self.number(0, 4), b=self.number(0, 4), compare=self.pick(("lt", "eq", "ge")))
        then = self.nested(self.number(0, 2)) + [self.update(n) for n in names]
        other = self.nested(self.number(0, 2)) + [self.update(n) for n in names] if self.chance(0.6) else []
        return before + [P.If(c, then, other)]


def round_key(seed):
    return np.uint32(seed & 0xffffffff), np.uint32(seed >> 32)


def philox(seed, offset):
    """The first word of Philox 4x32 of ten rounds, counter (offset, 0, 0, 0)."""
    k0, k1 = (np.uint64(int(k)) for k in round_key(seed))
    mask = np.uint64(0xffffffff)
    c = [np.asarray(offset).astype(np.int64).astype(np.uint64) & mask] + [np.zeros(np.shape(offset), np.uint64) for _ in range(3)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        high = np.uint64(32)
        c = [(b >> high) ^ c[1] ^ k0, b & mask, (a >> high) ^ c[3] ^ k1, a & mask]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return c[0].astype(np.uint32)
