"""Random statements that are whole kernels' structures: tiles of a matmul in a loop of their own, recurrences over chunks, tables of pages, halves that are rotated in place, offsets by
histograms, searches, epilogues that store an accumulator in parts, keys packed with their places, windows that move."""
import program as P
from rules import make, need
from program import FLOATS, INTS, Type

RANGES = (("num_stages", (1, 2, 3, 4, 5)), ("flatten", (True, )), ("warp_specialize", (True, )), ("disallow_acc_multi_buffer", (True, )), ("loop_unroll_factor", (2, 3)), ("disable_licm", (True, )))


class Kernels:
    """Part of the generator: see Expressions for what it needs."""

    def ranged(self, i, start, stop, step, body):
        """for i in range(start, stop, step), perhaps with hints."""
        c = lambda v: self.const(Type("int32"), v) if isinstance(v, int) else v
        kind = self.pick(("range", "tl.range", "tl.range"))
        options = {k: self.pick(vs) for k, vs in RANGES if self.chance(0.25)} if kind == "tl.range" else {}
        return P.For(i, c(start), c(stop), c(step), body, kind, options)

    def local(self, t):
        """A name that only this structure knows, and the expression that reads it."""
        name = f"v{self.names}"
        self.names += 1
        return name, make("var", name=name, type=t)

    def counter(self):
        i = self.fresh("i")
        return i, make("var", name=i, type=Type("int32"))

    def matrix(self, d, rows, columns, trips, turned=False):
        """(argument, function of row and column starts -> tile of rows x columns) of an input that has rows * trips of them."""
        width = columns
        if trips * rows * width > 1024 and len(self.buffers) < 7:  # one of its own
            a, size = self.arguments_of(self.add_buffer("m", d, trips * rows * width, "small"))[0], trips * rows * width
        else:
            a, size = self.input(d, "small")
        need(trips * rows * width <= size)

        def tile(row, column):
            strides = (1, width) if turned else (width, 1)
            index = self.linear((columns, rows) if turned else (rows, columns), strides)
            index = make("add", index, make("add", self.with_literal("mul", row, width), column))
            return make("load", self.address(a, index))

        return tile

    def own_output(self, dtype, n):
        """A pointer to n elements of this program's."""
        return self.block_base(Type(dtype), n)

    def narrow(self, e, to):
        """Small numbers of what a dot gave, as an operand."""
        whole = e if e.type.dtype == "int32" else make("cast", e, to="int32")
        return make("cast", self.with_literal("sub", self.with_literal("and", whole, 7), 4), to=to)

    def s_tiles(self, depth):
        """A program that does several tiles of a matmul: an outer loop over them, numbers of rows and columns by division, an inner loop of dots, a store for each."""
        self.has("kernel")
        need(depth == 0 and self.kernel_level and len(self.buffers) < 6)
        d = self.pick(("float32", "float16", "bfloat16", "int8"))
        m, n, k = self.pick((16, 16, 32, 64)), self.pick((16, 16, 32, 64)), 32
        a, size = self.input(d, "small")
        b, room = self.input(d, "small")
        trips = self.number(1, min(3, size // (m * k), room // (n * k)))
        depth_k = k * trips
        rows, wide, tiles = 2 if size >= 2 * m * depth_k else 1, self.number(1, min(3, room // (n * depth_k))), self.number(1, 5)
        out_type = self.pick(("float32", "float16")) if d != "int8" else "int32"
        acc_type = Type("int32" if d == "int8" else "float32", (m, n))
        base = self.own_output(out_type, 6 * m * n)
        (t, at), (i, step) = self.counter(), self.counter()
        acc, var = self.local(acc_type)
        row, row_var = self.local(Type("int32"))
        column, column_var = self.local(Type("int32"))
        count, count_var = self.local(Type("int32"))
        turned = self.chance(0.5)
        first = self.with_literal("mul", step, k)
        left = make("load", self.address(a, make("add", self.linear((m, k), (depth_k, 1)), make("add", self.with_literal("mul", row_var, m * depth_k), first))))
        strides = (1, depth_k) if turned else (n * wide, 1)
        start = make("add", self.with_literal("mul", column_var, n * depth_k), first) if turned else make("add", self.with_literal("mul", column_var, n), self.with_literal("mul", step, k * n * wide))
        index = make("add", self.linear((k, n), strides), start)
        right = make("load", self.address(b, index))
        attrs = {"precision": self.pick(("ieee", "tf32"))} if d == "float32" else {}
        inner = self.ranged(i, 0, trips, 1, [P.Assign((acc, ), make("dot", left, right, var, **attrs))])
        value = var if acc_type.dtype == out_type else make("cast", self.with_literal("and", make("cast", var, to="int32"), 255), to=out_type)
        body = [P.Assign((row, ), make("and", make("div", at, self.literal(wide), value=wide), self.literal(rows - 1), value=rows - 1)), P.Assign((column, ), make("mod", at, self.literal(wide), value=wide)),
                P.Assign((acc, ), self.const(acc_type, 0)), inner]
        if self.chance(0.4):
            body.append(P.Assign((count, ), make("add", count_var, make("add", row_var, column_var))))
            body.append(P.Assign((acc, ), make("add", var, make("cast", self.with_literal("and", count_var, 7), to=acc_type.dtype), exact=True) if acc_type.dtype == "float32" else make("add", var, count_var)))
            value = var if acc_type.dtype == out_type else make("cast", self.with_literal("and", make("cast", var, to="int32"), 255), to=out_type)
        body += self.stored(base, value, self.with_literal("mul", at, m * n))
        outer = self.ranged(t, 0, tiles, self.positive() if "step" in self.features and self.chance(0.3) else 1, body)
        return [P.Assign((count, ), self.const(Type("int32"), 0)), outer]

    def stored(self, base, value, start):
        """Stores of a tile at `start`, whole or in two halves of its columns or rows, as epilogues write them."""
        t = value.type
        whole, rows = self.number(0, 2), t.shape[0]
        place = lambda shape, strides, first: make("addptr", base, make("add", self.linear(shape, strides, first), start))
        if whole == 0 or t.shape[1] < 4:
            return [P.Store(place(t.shape, None, 0), value)]
        (x, xe), (y, ye) = (self.local(Type(t.dtype, (rows, t.shape[1] // 2))) for _ in range(2))
        half = t.shape[1] // 2
        if whole == 1:  # left and right half
            pair = make("permute", make("reshape", value, shape=(rows, 2, half)), dims=(0, 2, 1))
            firsts, strides = (0, half), (t.shape[1], 1)
        else:  # even and odd columns
            pair = make("reshape", value, shape=(rows, half, 2))
            firsts, strides = (0, 1), (t.shape[1], 2)
        return [P.Assign((x, y), make("split", pair))] + [P.Store(place((rows, half), strides, f), e) for f, e in zip(firsts, (xe, ye))]

    def s_recurrence(self, depth):
        """Chunks of linear attention: a state that dots read and are added to, a product below the diagonal beside it."""
        self.has("kernel")
        need(depth == 0 and self.kernel_level)
        loaded = self.pick(("float32", "float16", "bfloat16"))
        d = "float32" if self.chance(0.3) else loaded  # widened: dots read words that were copied as halves of them
        attrs = {"precision": self.pick(("ieee", "tf32", "tf32"))} if d == "float32" else {}
        c, k, v, trips = self.pick((16, 32, 64)), self.pick((16, 32, 64)), self.pick((16, 16, 32, 64)), self.number(1, 4)
        widened = lambda tile: tile if d == loaded else lambda row, column: make("cast", tile(row, column), to=d)
        keys, values = widened(self.matrix(loaded, c, k, trips)), widened(self.matrix(loaded, c, v, trips))
        queries = widened(self.matrix(loaded, c, k, trips)) if self.chance(0.5) else keys
        dot = lambda *operands: make("dot", *operands, **attrs)
        state_type, out_type = Type("float32", (k, v)), Type("float32", (c, v))
        h, he = self.local(state_type)
        i, at = self.counter()
        (kn, ke), (qn, qe), (vn, ve), (on, oe), (sn, se) = (self.local(x) for x in (Type(d, (c, k)), Type(d, (c, k)), Type(d, (c, v)), out_type, Type("float32", (c, c))))
        first, zero = self.with_literal("mul", at, c), self.const(Type("int32"), 0)
        rows = make("expand", make("arange", start=0, end=c), axis=1, slice=True)
        columns = make("expand", make("arange", start=0, end=c), axis=0, slice=True)
        below = make(self.pick(("ge", "gt")), rows, columns)
        total = self.fresh("v", out_type)
        total_e = make("var", name=total, type=out_type)
        body = [P.Assign((kn, ), keys(first, zero)), P.Assign((qn, ), queries(first, zero)), P.Assign((vn, ), values(first, zero)),
                P.Assign((on, ), dot(qe, self.narrow(he, d))),
                P.Assign((sn, ), make("where", below, dot(qe, make("permute", ke, dims=(1, 0))), self.literal(0.0), value=0.0)),
                P.Assign((on, ), dot(self.narrow(se, d), ve, oe)),
                P.Assign((h, ), self.narrow(he, "float32")),
                P.Assign((h, ), dot(make("permute", ke, dims=(1, 0)), ve, he)),
                P.Assign((total, ), make("add", self.narrow(total_e, "float32"), oe, exact=True))]
        if self.chance(0.4):  # the state of each chunk is kept
            base = self.own_output("float32", 4 * k * v)
            body.insert(self.number(0, 3), P.Store(make("addptr", base, make("add", self.linear((k, v), None), self.with_literal("mul", at, k * v))), he))
        del self.scope[total]
        begin = [P.Assign((h, ), self.const(state_type, 0)), P.Assign((total, ), self.const(out_type, 0))]
        self.scope[total] = out_type
        return begin + [self.ranged(i, 0, trips, 1, body)]

    def s_pages(self, depth):
        """Tiles whose places come from a table that is read in the same iteration: sums of them, or an operand of a dot."""
        self.has("kernel")
        need(depth == 0 and self.kernel_level)
        d = self.pick(("float32", "float16", "bfloat16", "int8"))
        table, _ = self.input("int32", None)
        i, at = self.counter()
        page, page_e = self.local(Type("int32"))
        m, k, n = self.pick((16, 32)), 32, self.pick((16, 32))
        a, size = self.input(d, "small")
        pages = max(p for p in (1, 2, 4, 8) if p * k * n <= max(size, k * n))
        need(pages * k * n <= size)
        index = make("load", make("addptr", self.pointer(table), at))
        if self.chance(0.3):
            index = make("load", make("addptr", self.pointer(table), self.with_literal("and", index, 31)))
        acc_type = Type("int32" if d == "int8" else "float32", (m, n))
        acc = self.fresh("v", acc_type)
        acc_e = make("var", name=acc, type=acc_type)
        del self.scope[acc]
        turned = self.chance(0.5)
        place = make("add", self.with_literal("mul", page_e, k * n), self.linear((k, n), (1, k) if turned else None))
        load = make("load", self.address(a, place))
        if self.chance(0.4):
            limit = self.number(0, pages)
            load = make("load", self.address(a, place), make("broadcast", make("lt", page_e, self.literal(limit), value=limit), shape=(k, n)), self.literal(0 if d == "int8" else 0.0))
        q = self.dot_operand(Type(d, (m, k)), 1)
        self.scope[acc] = acc_type
        first, fe = self.local(q.type)
        body = [P.Assign((page, ), self.with_literal("and", index, pages - 1)), P.Assign((acc, ), make("dot", fe, load, acc_e))]
        return [P.Assign((first, ), q), P.Assign((acc, ), self.const(acc_type, 0)), self.ranged(i, 0, self.number(0, 6), 1, body)]

    def s_nested_pointers(self, depth):
        """Pointers of tiles that two loops carry: the inner one moves a copy along the row, the outer one the row."""
        self.has("kernel")
        need(depth < 2 and self.kernel_level)
        t = Type(self.pick([d for d in self.dtypes if d in INTS + FLOATS]), self.pick(self.shapes))
        a, size = self.input(t.dtype, "small" if t.dtype in FLOATS else None)
        outer, inner = self.number(1, 3), self.number(0, 3)
        step, row = self.pick((t.numel, 1, 16)), self.pick((t.numel * 3, 7, 64))
        need(t.numel + outer * row + inner * step <= size)
        pt = Type("*" + t.dtype, t.shape)
        first = self.expr(t, 1) if t.dtype in INTS else self.const(t, 0)
        (p, pe), (q, qe) = self.local(pt), self.local(pt)
        p, q = "p" + p[1:], "p" + q[1:]
        pe, qe = make("var", name=p, type=pt), make("var", name=q, type=pt)
        v = self.fresh("v", t)
        ve = make("var", name=v, type=t)
        (i, _), (j, _) = self.counter(), self.counter()
        extra = {"exact": True} if t.dtype in FLOATS else {}
        load = make("load", qe)
        if "mask" in self.features and self.chance(0.4):
            load = make("load", qe, self.expr(Type("int1", t.shape), 1), self.literal(0))
        value = make("add", ve, load, **extra)
        need(value.type == t)
        loop = self.ranged(j, 0, inner, 1, [P.Assign((v, ), value), P.Assign((q, ), make("addptr", qe, self.stride_of(step)))])
        body = [P.Assign((q, ), pe), loop, P.Assign((p, ), make("addptr", pe, self.stride_of(row)))]
        if self.chance(0.5):
            body = [P.Assign((q, ), pe), loop, P.Assign((p, ), make("addptr", qe, self.stride_of(row - inner * step)))] if row >= inner * step and row - inner * step != 1 else body
        return [P.Assign((v, ), first), P.Assign((p, ), self.address(a, self.linear(t.shape, None))), self.ranged(i, 0, outer, 1, body)]

    def s_rotate(self, depth):
        """Halves, or pairs, of rows that are rotated where they lie: two loads, two stores, cosines and sines that repeat."""
        self.has("kernel")
        need(depth < 2 and self.kernel_level and self.work)
        name, dtype = self.pick([w for w in self.work if w[1] in ("int32", "int64", "float32", "float64", "float16", "bfloat16")])
        a = self.pick(self.arguments_of(name, dtype))
        rows, half = self.pick(((), (2, ), (4, ))), self.pick((4, 8, 16))
        shape = rows + (half, )
        t = Type(dtype, shape)
        need(2 * t.numel <= self.room(a))
        pairs = self.chance(0.4)
        strides = ((2 * half, ) if rows else ()) + (2 if pairs else 1, )
        place = lambda first: self.in_region(a, self.linear(shape, strides, first))
        p = [self.address(a, place(first)) for first in (0, 1 if pairs else half)]
        small = lambda: make("cast", self.with_literal("sub", self.with_literal("and", self.expr(Type("int32", shape[-1:]), 1), 3), 1), to=dtype)
        (x, xe), (y, ye), (cos, ce), (sin, se) = self.local(t), self.local(t), self.local(Type(dtype, (half, ))), self.local(Type(dtype, (half, )))
        extra = {"exact": True} if dtype in FLOATS else {}
        row = lambda e: make("expand", e, axis=0, slice=True) if rows else e
        turn = lambda u, v, op: make(op, make("mul", u, row(ce), **extra), make("mul", v, row(se), **extra), **extra)
        first, second = turn(xe, ye, "sub"), turn(ye, xe, "add")
        need(first.type == t)
        load = lambda q: make("cast", self.with_literal("and", make("cast", make("load", q), to="int32"), 15), to=dtype) if dtype in FLOATS else make("load", q)
        begin = [P.Assign((cos, ), small()), P.Assign((sin, ), small())]
        body = [P.Assign((x, ), load(p[0])), P.Assign((y, ), load(p[1])), P.Store(p[0], first), P.Store(p[1], second)]
        if self.chance(0.3):
            body.insert(3, P.Barrier())
        if self.chance(0.3):
            i, _ = self.counter()
            return begin + [self.ranged(i, 0, self.number(1, 3), 1, body)]
        return begin + body

    def s_sorted_places(self, depth):
        """Places by a histogram and its sums, as experts' tokens get them; or keys packed with their places, the greatest of them, unpacked."""
        self.has("kernel")
        need("int32" in self.dtypes)
        n, bins = self.pick((16, 32, 64)), self.pick((2, 4, 8, 16))
        x, xe = self.local(Type("int32", (n, )))
        if self.chance(0.5):
            key = make("or", self.with_literal("shl", make("cast", xe, to="int64"), 32), make("cast", make("arange", start=0, end=n), to="int64"))
            top = make("topk", key, k=self.pick([k for k in (1, 2, 4, 8) if k < n])) if self.chance(0.5) else make("sort", key, descending=self.chance(0.5))
            s, se = self.local(top.type)
            low, high = self.fresh("v", Type("int32", top.type.shape)), self.fresh("v", Type("int32", top.type.shape))
            return [P.Assign((x, ), self.with_literal("and", self.expr(xe.type, 2), self.pick((3, 255)))), P.Assign((s, ), top),
                    P.Assign((low, ), make("cast", self.with_literal("and", se, 2**31 - 1), to="int32")), P.Assign((high, ), make("cast", self.with_literal("shr", se, 32), to="int32"))]
        begin = [P.Assign((x, ), self.with_literal("and", self.expr(xe.type, 2), bins - 1))]
        h, he = self.local(Type("int32", (bins, )))
        v = self.fresh("v", xe.type)
        before = make("sub", make("cumsum", he, axis=0, reverse=self.chance(0.3)), he)
        spread = make("gather", before, xe, axis=0)
        equal = make("eq", make("expand", xe, axis=1, slice=True), make("expand", xe, axis=0, slice=True))
        earlier = make("lt", make("expand", make("arange", start=0, end=n), axis=0, slice=True), make("expand", make("arange", start=0, end=n), axis=1, slice=True))
        rank = make("sum", make("cast", make("and", equal, earlier), to="int32"), axis=1, keep=False)
        return begin + [P.Assign((h, ), make("histogram", xe, bins=bins)), P.Assign((v, ), make("add", spread, rank))]

    def s_search(self, depth):
        """Bisection of each element's own: bounds that a loop carries, loads at their middle."""
        self.has("kernel")
        need(self.kernel_level and depth < 2)
        a, size = self.input("int32", None)
        shape = self.pick(self.shapes)
        t = Type("int32", shape)
        bits = min(6, size.bit_length() - 1)
        low, high = self.fresh("v", t), self.fresh("v", t)
        (mid, me), (x, xe), (want, we) = self.local(t), self.local(t), self.local(t)
        le, ge = (make("var", name=n, type=t) for n in (low, high))
        del self.scope[low], self.scope[high]
        begin = [P.Assign((want, ), self.expr(t, 1)), P.Assign((low, ), self.const(t, 0)), P.Assign((high, ), self.const(t, (1 << bits) - 1))]
        self.scope[low] = self.scope[high] = t
        smaller = make("lt", xe, we)
        body = [P.Assign((mid, ), self.with_literal("shr", make("add", le, ge), 1)), P.Assign((x, ), make("load", self.address(a, me))),
                P.Assign((low, ), make("where", smaller, make("min", self.with_literal("add", me, 1), ge), le)), P.Assign((high, ), make("where", smaller, ge, me))]
        if self.chance(0.4):
            most, one = self.local(Type("int32"))
            count = P.Assign((most, ), self.with_literal("sub", one, 1))
            need(shape)
            go = make("amax", make("sub", ge, le), axis=None, keep=False)
            return begin + [P.Assign((most, ), self.const(Type("int32"), 8)), P.While(make("and", make("gt", one, self.literal(0), value=0), make("gt", go, self.literal(0), value=0)), body + [count])]
        i, _ = self.counter()
        return begin + [self.ranged(i, 0, bits, 1, body)]

    def s_window(self, depth):
        """A window that moves over rows: loads at neighbouring places under masks, scalars of a filter."""
        self.has("kernel")
        need(self.kernel_level and depth < 2)
        d = self.pick([x for x in self.dtypes if x in ("int32", "int64", "float32", "float64")])
        t = Type(d, self.pick(self.shapes))
        a, size = self.input(d, "small" if d in FLOATS else None)
        w, room = self.input(d, "small" if d in FLOATS else None)
        need(t.numel <= size and room >= 4)
        extra = {"exact": True} if d in FLOATS else {}
        i, at = self.counter()
        v = self.fresh("v", t)
        ve = make("var", name=v, type=t)
        place, pe = self.local(Type("int32", t.shape))
        by = self.pick((1, 2, 8))
        load = make("load", self.address(a, pe), make("ge", pe, self.literal(0), value=0), self.literal(0 if d in INTS else 0.0))
        body = [P.Assign((place, ), make("sub", self.linear(t.shape, None), self.with_literal("mul", at, by))),
                P.Assign((v, ), make("add", ve, make("mul", load, make("load", make("addptr", self.pointer(w), at)), **extra), **extra))]
        need(body[1].value.type == t)
        kind = self.pick(("range", "tl.static_range"))
        c = lambda x: self.const(Type("int32"), x)
        return [P.Assign((v, ), self.const(t, 0)), P.For(i, c(0), c(self.number(1, 4)), c(1), body, kind, {})]

    def s_groups(self, depth):
        """Weights whose groups of rows have a scale each: reshaped to three dimensions, multiplied, reshaped back, a dot's operand in a loop."""
        self.has("kernel")
        need(depth == 0 and self.kernel_level)
        d = self.pick(("float32", "float16", "bfloat16"))
        m, n, k, g = self.pick((16, 32)), self.pick((16, 32, 64)), 32, self.pick((2, 4, 8))
        trips = self.number(1, 3)
        narrow = self.pick(("int8", "uint8"))
        a, size = self.input(narrow, None)
        s, room = self.input(d, "small")
        need(k * n * trips <= size and g * n * trips <= room)
        i, at = self.counter()
        w, we = self.local(Type(d, (k, n)))
        acc_type = Type("float32", (m, n))
        acc = self.fresh("v", acc_type)
        acc_e = make("var", name=acc, type=acc_type)
        del self.scope[acc]
        q, qe = self.local(Type(d, (m, k)))
        operand = self.dot_operand(qe.type, 1)
        self.scope[acc] = acc_type
        whole = make("load", self.address(a, make("add", self.linear((k, n), None), self.with_literal("mul", at, k * n))))
        small = make("cast", self.with_literal("and", whole, 7), to=d)
        scale = make("load", self.address(s, make("add", self.linear((g, n), None), self.with_literal("mul", at, g * n))))
        scaled = make("mul", make("reshape", small, shape=(g, k // g, n)), make("expand", scale, axis=1), exact=True)
        need(scaled.type.dtype == d)
        body = [P.Assign((w, ), make("reshape", scaled, shape=(k, n))), P.Assign((acc, ), make("dot", qe, we, acc_e))]
        return [P.Assign((q, ), operand), P.Assign((acc, ), self.const(acc_type, 0)), self.ranged(i, 0, trips, 1, body)]

    def s_split_k(self, depth):
        """A dot of a part of k that is added atomically to a tile all programs share, or that some of them do."""
        self.has("kernel")
        need(depth == 0 and self.kernel_level and len(self.buffers) < 7)
        d = self.pick(("float32", "float16", "int8"))
        m, n, k = self.pick((16, 32)), self.pick((16, 32)), 32
        t = Type("int32" if d == "int8" else "float32", (m, n))
        a, size = self.input(d, "small")
        need(k * self.programs + m <= size)
        left = make("load", self.address(a, make("add", self.linear((m, k), (1, 1)), self.with_literal("mul", self.pid(), k))))
        e = make("dot", left, self.dot_operand(Type(d, (k, n)), 1))
        v, ve = self.local(t)
        value = make("cast", self.with_literal("and", ve if d == "int8" else make("cast", ve, to="int32"), 15), to=t.dtype)
        name = self.add_buffer("s", t.dtype, m * n, "zero")
        self.kinds[name] = "add"
        args = [self.address(self.arguments_of(name)[0], self.linear((m, n), None)), value]
        if self.chance(0.5):
            args.append(self.expr(Type("int1", (m, n)), 1))
        return [P.Assign((v, ), e), P.Effect(make("atomic", *args, kind="add", sem=self.pick((None, "relaxed", "acq_rel"))))]
