"""Random loops over memory that need more than one kind of access: boxes of descriptors that hang over the edges of their tensor, atomics whose
old values are used, dots of masked tiles, pointers that are chosen or change places, offsets of 64 bits."""
import program as P
from rules import Invalid, make, need
from program import FLOATS, FP8, INTS, NUMPY, Type

OLD = ("int32", "int64", "uint32", "uint64")


class Loops:
    """Part of the generator: see Expressions for what it needs."""

    def moving(self, at, low, high, steps):
        """A position that moves with the loop's variable."""
        step, start = self.pick(steps), self.number(low, high)
        e = make("mul", at, make("literal", value=step), value=step)
        if self.chance(0.15):
            e = make("add", make("and", self.expr(Type("int32"), 1), make("literal", value=3), value=3), make("literal", value=start), value=start)
        return make("add", e, make("literal", value=start), value=start) if start else e

    def loop_of(self, i, body, trips=None, exits=()):
        """for i in range(trips), perhaps with `continue` or `break` for some iterations."""
        c = lambda v: self.const(Type("int32"), v)
        if "exit" in self.features and self.chance(0.3):
            k = self.number(0, 2)
            body.insert(self.number(0, len(body)), P.If(make(self.pick(("eq", "gt")), make("var", name=i, type=Type("int32")), make("literal", value=k), value=k),
                                                        [self.pick((P.Continue(), P.Break()))], []))
        kind = self.pick(("range", "tl.range", "tl.range", "tl.static_range"))
        options = {"num_stages": self.pick((1, 2, 3, 4))} if kind == "tl.range" else {}
        return P.For(i, c(0), c(self.number(1, 4) if trips is None else trips), c(1), body, kind, options)

    def s_boxes(self, depth):
        """Boxes at places that move beyond both ends of a tensor; some of what they give is stored by boxes that overlap, and read back."""
        self.has("boxes")
        need(depth < 2 and self.kernel_level)
        t = self.random_type()
        need(t.shape and t.dtype != "int1")
        a, size = self.input(t.dtype, None)
        attrs = self.block_attrs(t, size)
        need(attrs["kind"] == "pointer" or a.offset == 0)
        first = self.expr(t, 1)
        i, v = self.fresh("i"), self.fresh("v", t)
        at = make("var", name=i, type=Type("int32"))
        places = lambda low: [self.moving(at, low, 2, (0, 1, 2, max(1, n // 2), n)) for n in t.shape]
        new = make("block_load", self.pointer(a), *places(-3), **attrs)
        if t.dtype in INTS + FLOATS:
            new = make(self.pick(("add", "sub", "mul", "max")), self.var(v), new)
            need(new.type == t)
        begin, body = [P.Assign((v, ), first)], [P.Assign((v, ), new)]
        if self.chance(0.6):
            out, room = self.block_room(t)
            kind = out.pop("kind")
            need(kind != "host" or self.programs == 1)
            base = self.block_base(t, room)
            body.append(P.BlockStore(kind, base, self.var(v), tuple(places(-2)), out))
            if self.chance(0.4) and t.dtype in INTS + FLOATS:
                back = make("block_load", base, *places(-2), **dict(out, kind=kind, block=t.shape))
                body.append(P.Assign((v, ), make(self.pick(("add", "max")), self.var(v), back)))
        return begin + [self.loop_of(i, body)]

    def s_box_dot(self, depth):
        """A matmul whose tiles come by boxes or under masks, as its sizes are no multiples of them."""
        self.has("boxes")
        need(depth == 0 and self.kernel_level)
        d = self.pick(("float16", "bfloat16", "float32", "int8") + (FP8 if self.fp8 else ()))
        m, n = self.pick((16, 32, 64)), self.pick((16, 32, 64))
        k = self.pick((32, 64)) if NUMPY[d].itemsize == 1 else self.pick((16, 32))
        i, acc_type = self.fresh("i"), Type("int32" if d == "int8" else "float32", (m, n))
        at, acc = make("var", name=i, type=Type("int32")), self.fresh("v", acc_type)
        trips = self.number(1, 4)
        inner = max(1, k * trips - self.number(0, k))
        var = make("var", name=acc, type=acc_type)
        operands = [self.ragged(d, (m, k), at, 1, inner), self.ragged(d, (k, n), at, 0, inner)]
        if self.chance(0.3):
            operands[0] = self.ragged(d, (k, m), at, 0, inner)
            operands[0] = make("permute", operands[0], dims=(1, 0))
        attrs = {"precision": self.pick(("ieee", "tf32"))} if d == "float32" else {}
        body = [P.Assign((acc, ), make("dot", *operands, var, **attrs))]
        return [P.Assign((acc, ), self.const(acc_type, 0)), self.loop_of(i, body, trips)]

    def ragged(self, d, shape, at, axis, inner):
        """A tile of a matrix with `inner` rows or columns along `axis`, at the loop's step along it."""
        a, size = self.input(d, "small")
        other = max(1, shape[1 - axis] - self.number(0, 5))
        extents = (inner, other) if axis == 0 else (other, inner)
        unit = max(1, 16 // NUMPY[d].itemsize)
        stride = -(-extents[1] // unit) * unit
        need((extents[0] - 1) * stride + extents[1] <= size)
        step = make("mul", at, make("literal", value=shape[axis]), value=shape[axis])
        if self.chance(0.5):
            kind = self.pick(("descriptor", "host", "pointer"))
            need(kind == "pointer" or a.offset == 0)
            start = self.const(Type("int32"), self.pick((0, 0, -1, 3)))
            return make("block_load", self.pointer(a), *((step, start) if axis == 0 else (start, step)), kind=kind, shape=extents, strides=(stride, 1), block=shape)
        bounds, index = [], []
        for k, e in enumerate(shape):
            place = make("arange", start=0, end=e)
            if k == axis:
                place = make("add", step, place)
            place = make("expand", place, axis=1 - k, slice=True)
            bounds.append(make("lt", place, make("literal", value=extents[k]), value=extents[k]))
            index.append(make("mul", place, make("literal", value=stride), value=stride) if k == 0 else place)
        return make("load", self.address(a, make("add", *index)), make("and", *bounds), make("literal", value=0 if d in INTS else 0.0)) if d not in FP8 else make(
            "load", self.address(a, make("add", *index)), make("and", *bounds), self.const(Type(d), 0.0))

    def s_olds(self, depth):
        """A loop of atomics of this program's own memory whose old values are carried; under masks, or where all elements may ask for one place."""
        self.has("olds")
        need(depth < 2 and self.kernel_level and self.work)
        name, dtype = self.pick([w for w in self.work if w[1] in OLD])
        a = self.pick(self.arguments_of(name, dtype))
        t = self.pick([Type(dtype, s) for s in self.shapes + [()] if Type(dtype, s).numel <= 64])
        firsts = (self.expr(t, 1), self.expr(Type("int1", t.shape), 2), self.const(Type(dtype), 0))
        v, mask, s = (self.fresh("v", e.type) for e in firsts)
        begin = [P.Assign((n, ), e) for n, e in zip((v, mask, s), firsts)]
        i = self.fresh("i")
        at, trips = make("var", name=i, type=Type("int32")), self.number(1, 4)
        step = self.pick((0, 0, 1, 3, t.numel))
        need(t.numel + (trips - 1) * step <= self.room(a))
        place = self.permutation(t.shape)
        body = []
        if t.shape and self.chance(0.4):
            room = self.pick([n for n in (1, 2, 4, 8) if n <= self.room(a)])
            place = make("and", self.expr(Type("int32", t.shape), 1), make("literal", value=room - 1), value=room - 1)
            each = make("atomic_sum", self.address(a, self.in_region(a, place)), self.expr(Type(dtype), 1), kind=self.pick(("add", "xor")))
            body = [P.Assign((s, ), make(self.pick(("add", "xor")), self.var(s), each))]
        else:
            place = make("add", place, make("mul", at, make("literal", value=step), value=step)) if step else place
            p = self.address(a, self.in_region(a, place))
            kind = self.pick(("add", "max", "min", "and", "or", "xor", "xchg", "cas"))
            if kind == "cas":
                old = make("atomic", p, self.expr(t, 1), self.var(v), kind=kind)
            elif t.shape and self.chance(0.5):
                k = self.number(0, 9)
                old = make("atomic_old", p, self.var(v), self.var(mask), make("literal", value=k), kind=kind)
            else:
                old = make("atomic", p, self.var(v), kind=kind)
            o = self.fresh("v", t)
            body = [P.Assign((o, ), old), P.Assign((v, ), make(self.pick(("add", "sub", "xor", "max")), self.var(v), self.var(o)))]
            del self.scope[o]
        if self.chance(0.3):
            body.append(P.Store(self.address(a, self.in_region(a, self.permutation(t.shape))), self.expr(t, 1)))
        return begin + [self.loop_of(i, body, trips)]

    def s_swap(self, depth):
        """Two pointers that change places in a loop, in some iterations perhaps."""
        self.has("select")
        need(depth < 2 and self.kernel_level)
        t = self.random_type()
        need(t.dtype in INTS + FLOATS)
        a, n = self.input(t.dtype, None)
        b, m = self.input(t.dtype, None)
        first = self.expr(t, 1)
        p, q, x = self.fresh("p"), self.fresh("p"), self.fresh("p")
        i, v = self.fresh("i"), self.fresh("v", t)
        pt = Type("*" + t.dtype)
        var = lambda name: make("var", name=name, type=pt)
        load = make("load", make("addptr", var(p), self.index(t.shape, min(n, m), 1)))
        body = [P.Assign((v, ), make(self.pick(("add", "sub", "mul")), self.var(v), load))]
        swap = [P.Assign((x, ), var(p)), P.Assign((p, ), var(q)), P.Assign((q, ), var(x))]
        body += [P.If(self.expr(Type("int1"), 1), swap, [])] if self.chance(0.4) else swap
        need(body[0].value.type == t)
        begin = [P.Assign((v, ), first), P.Assign((p, ), self.pointer(a)), P.Assign((q, ), self.pointer(b))]
        return begin + [self.loop_of(i, body)]

    def selected(self, t, d):
        """A load from one of several arguments, for each element or for all of them."""
        a, n = self.input(t.dtype, None)
        b, m = self.input(t.dtype, None)
        if self.chance(0.3):
            both = make("ternary", self.expr(Type("int1"), d), self.pointer(a), self.pointer(b))
            p = make("addptr", both, self.index(t.shape, min(n, m), d))
        else:
            p = make("where", self.expr(Type("int1", t.shape), d), self.address(a, self.index(t.shape, n, d)), self.address(b, self.index(t.shape, m, d)))
            if self.chance(0.3):
                c, k = self.input(t.dtype, None)
                p = make("where", self.expr(Type("int1", t.shape), d), p, self.address(c, self.index(t.shape, k, d)))
        need(p.type.shape == t.shape)
        if "mask" in self.features and t.shape and t.dtype in INTS + FLOATS and self.chance(0.3):
            return make("load", p, self.expr(Type("int1", t.shape), d), make("literal", value=1 if t.dtype in INTS else 1.0))
        return make("load", p)

    def s_select_store(self, depth):
        """A store to one of two buffers of this program's, for each element."""
        self.has("select")
        need(self.kernel_level and self.work)
        name, dtype = self.pick(self.work)
        t = self.pick([Type(dtype, s) for s in self.shapes + [()] if Type(dtype, s).numel <= 128])
        a = self.pick(self.arguments_of(name, dtype))
        name, _ = self.pick([w for w in self.work if w[1] == dtype])
        b = self.pick(self.arguments_of(name, dtype))
        need(t.numel <= min(self.room(a), self.room(b)))
        place = self.permutation(t.shape)
        p = [self.address(x, self.in_region(x, place)) for x in (a, b)]
        mask = self.expr(Type("int1", t.shape), 1) if t.shape and "mask" in self.features and self.chance(0.3) else None
        return [P.Store(make("where", self.expr(Type("int1", t.shape), 2), *p), self.expr(t, 2), mask)]

    def widened(self, p, index):
        """p + index by offsets of 64 bits; on the way perhaps far beyond the buffer."""
        if index.type.dtype != "int32":
            return make("addptr", p, index)
        index = make("cast", index, to="int64")
        if self.chance(0.5):
            return make("addptr", p, index)
        far = self.pick((1 << 31, (1 << 32) + 8, -(1 << 33), 1 << 40))
        if self.chance(0.5):
            return make("addptr", p, make("sub", make("add", index, make("literal", value=far), value=far), make("literal", value=far), value=far))
        return make("addptr", make("addptr", p, make("add", index, make("literal", value=far), value=far)), self.const(Type("int64"), -far))

    # What a branch sees of a loop

    def peeks(self, body):
        """Branches in loops with dots that store what the loop computes on the way, in some iterations."""
        has_dot = lambda l: any(x.op == "dot" for s in P.walk(l.body) for e in P.expressions(s) for x in P.walk_expression(e))
        for loop in [l for l in P.walk(body) if isinstance(l, P.For) and has_dot(l)]:
            for _ in range(self.number(0, 2)):
                try:
                    self.peek(loop)
                except Invalid:
                    pass

    def peek(self, loop):
        """Gives a part of an expression a name, perhaps at the beginning of the body, and stores it under an `if` somewhere behind."""
        k = self.number(0, len(loop.body) - 1)
        s = loop.body[k]
        need(isinstance(s, P.Assign) and not any("atomic" in e.op or e.op == "rows_store" for e in P.walk_expression(s.value)))
        part = self.pick([e for e in P.walk_expression(s.value) if isinstance(e.type, Type) and e.type.dtype in P.NUMPY and e.type.shape and e.op not in ("var", "const")])
        before = {n for x in P.walk(loop.body[:k]) if isinstance(x, P.Assign) for n in x.names}
        known = not any(e.op == "var" and e.attrs["name"] in before for e in P.walk_expression(part))
        name = self.fresh("t")
        seen = make("var", name=name, type=part.type)

        def named(e):
            return seen if e is part else P.E(e.op, [named(a) for a in e.args], e.attrs, e.type)

        i, when = make("var", name=loop.name, type=loop.start.type), self.number(0, 3)
        scope, self.scope = self.scope, {"n": Type("int32")}
        try:
            store = self.output(make("add", seen, seen) if part.type.dtype in P.FLOATS and self.chance(0.2) else seen)
        finally:
            self.scope = scope
        s.value = named(s.value)
        first = 0 if known and self.chance(0.6) else k
        loop.body.insert(first, P.Assign((name, ), part))
        branch = P.If(make(self.pick(("eq", "eq", "ne", "gt")), i, make("literal", value=when), value=when), [store], [])
        loop.body.insert(self.number(first + 1, len(loop.body)), branch)
