"""Makes a failing program smaller for as long as it fails in the same way: `shrink.py --seed S [--device D]`.

Every candidate is typed anew and evaluated by the reference, so that what is left is a program with one right
result."""
import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import program as P
import text
from arithmetic import Undefined
from check import retype
from generate import drop_statement, generate, prune, variant
from program import E, Type
from reference import evaluate
from rules import Invalid, make, need


def size(p):
    """What shrinking makes smaller, the most important first."""
    nodes = list(P.all_expressions(p))
    elements = sum(t.numel for e in nodes for t in (e.type if isinstance(e.type, tuple) else (e.type, )))
    rank = sum({"var": 0, "const": 1, "literal": 1}.get(e.op, 2) for e in nodes)
    numbers = sum(
        abs(float(e.attrs["value"])) for e in nodes
        if e.op in ("const", "literal") and abs(float(e.attrs["value"])) < 1e30)
    memory = sum(b.size + RECIPE_COST.get(b.recipe, 3) for b in p.buffers)
    grid = sum(p.grid)
    odd = sum(d & (d - 1) != 0 for e in nodes for t in (e.type if isinstance(e.type, tuple) else (e.type, )) for d in t.shape)
    return (P.lines(p), len(nodes), rank, len(p.functions), len(p.arguments), len(p.bundles), odd, elements, grid, len(p.options), memory,
            numbers, len(text.kernel(p)))


RECIPE_COST = {"count": 0, "zero": 1, "small": 2}


class Shrinker:
    """fails(program, memory) -> whether it still fails in the same way."""

    def __init__(self, p, fails, seconds=120):
        self.p, self.fails = p, fails
        self.size = size(p)
        self.end = time.monotonic() + seconds
        self.tried = 0
        self.seen = set()

    def late(self):
        return time.monotonic() > self.end

    def attempt(self, build):
        """Takes the candidate that `build` gives if it is smaller and fails."""
        if self.late():
            return False
        try:
            p = prune(retype(build()))
            s = size(p)
            if s >= self.size:
                return False
            key = (text.kernel(p), p.grid, str(p.options), str(p.buffers), str(p.arguments))
            if key in self.seen:
                return False
            self.seen.add(key)
            memory, rounded = evaluate(p)
        except (Invalid, Undefined, RecursionError):
            return False
        self.tried += 1
        if not self.fails(p, memory):
            return False
        self.p, self.size = p, s
        return True

    def run(self):
        passes = (self.options, self.statements, self.unwrap, self.calls, self.expressions, self.inline, self.extents,
                  self.numbers, self.memory, self.dtypes)
        while not self.late():
            before = self.size
            for f in passes:
                f()
            if self.size == before:
                break
        return self.p

    # Passes

    def options(self):
        self.attempt(lambda: replace(self.p, grid=(1, )))
        while any(n > 1 for n in self.p.grid) and self.attempt(
                lambda: replace(self.p, grid=tuple(max(1, n // 2) for n in self.p.grid))):
            pass
        self.attempt(lambda: replace(self.p, bundles=()))
        for k in range(len(self.p.bundles)):
            self.attempt(lambda: replace(self.p, bundles=self.p.bundles[:k] + self.p.bundles[k + 1:]))
        self.attempt(lambda: replace(self.p, options={}))
        for k in list(self.p.options):
            self.attempt(lambda: replace(self.p, options={n: v for n, v in self.p.options.items() if n != k}))

    def statements(self):
        """Deletes runs of statements, long ones first, then single ones whose names become constants."""
        n = len(list(P.all_statements(self.p)))
        length = max(1, n // 2)
        while length:
            k = 0
            while k < len(list(P.all_statements(self.p))):
                chosen = list(P.all_statements(self.p))[k:k + length]
                if not self.attempt(lambda: P.substitute(self.p, statements={id(s): [] for s in chosen})):
                    k += length
            length //= 2
        k = 0
        while k < len(list(P.all_statements(self.p))):
            s = list(P.all_statements(self.p))[k]
            if not (isinstance(s, P.Assign) and self.attempt(lambda: drop_statement(self.p, s))):
                k += 1

    def unwrap(self):
        """A loop or an `if` becomes its body."""
        k = 0
        while k < len(list(P.all_statements(self.p))):
            s = list(P.all_statements(self.p))[k]
            done = False
            for b in P.blocks(s):
                head = [P.Assign((s.name, ), s.start)] if isinstance(s, P.For) else []
                done = done or self.attempt(lambda: P.substitute(self.p, statements={id(s): head + b}))
            if isinstance(s, P.If) and s.other:
                done = done or self.attempt(
                    lambda: P.substitute(self.p, statements={id(s): [P.If(s.condition, s.then, [])]}))
            if isinstance(s, (P.For, P.While)) and s.other:
                done = done or self.attempt(lambda: P.substitute(self.p, statements={id(s): [replace(s, other=[])]}))
            if isinstance(s, P.For) and s.kind != "range":
                done = done or self.attempt(
                    lambda: P.substitute(self.p, statements={id(s): [replace(s, kind="range", options={})]}))
            k += not done

    def calls(self):
        """A call of a helper that only returns becomes what it returns."""
        for e in [e for e in P.all_expressions(self.p) if e.op == "call" and isinstance(e.type, Type)]:
            f = self.p.function(e.attrs["function"])
            if f and isinstance(f.body[0], P.Return):
                self.attempt(lambda: P.substitute(
                    self.p, nodes={id(e): bind(f.body[0].values[0], dict(zip(f.parameters, e.args)))}))
        self.apart()
        for f in list(self.p.functions):
            for k in range(len(f.parameters)):
                self.attempt(lambda: without_parameter(self.p, f.name, k))
            for k in range(8):
                self.attempt(lambda: without_result(self.p, f.name, k))
        for f in list(self.p.functions):
            if f.noinline:
                self.attempt(lambda: replace(
                    self.p, functions=[replace(g, noinline=False) if g.name == f.name else g
                                       for g in self.p.functions]))

    def apart(self):
        """The statements of a helper that ends with its only `return` stand in front of the statement that calls it."""
        done = True
        while done and not self.late():
            done = False
            for s in list(P.all_statements(self.p)):
                for e in [x for y in P.expressions(s) for x in P.walk_expression(y) if x.op == "call"]:
                    done = done or self.attempt(lambda: inlined(self.p, s, e))

    def expressions(self):
        """An expression becomes one of its operands, a name, or a constant; outer ones first."""
        k = 0
        while not self.late():
            nodes = list(P.all_expressions(self.p))
            if k >= len(nodes):
                break
            e = nodes[k]
            if not any(self.attempt(lambda: P.substitute(self.p, nodes={id(e): r})) for r in simpler(e)):
                k += 1

    def inline(self):
        """Names become their values."""
        k = 0
        while k < len(list(P.all_statements(self.p))):
            s = list(P.all_statements(self.p))[k]
            k += 1
            if isinstance(s, P.Assign) and len(s.names) == 1:
                k -= self.attempt(lambda: P.substitute(
                    self.p, statements={id(s): []}, edit=lambda e, args: bind(e, {s.names[0]: s.value}, args)))
            if isinstance(s, P.Assign) and len(s.names) > 1:
                # One of several results becomes an operand.
                for n, x in [(n, x) for n, t in zip(s.names, s.value.type) for x in s.value.args if x.type == t][:8]:
                    self.attempt(lambda: P.substitute(self.p, statements={id(s): [P.Assign((n, ), x)]}))
            if isinstance(s, P.Assign) and s.value.op == "split":
                for i in (0, 1):
                    part = E("split_part", s.value.args, {"part": i}, s.value.type[i])
                    self.attempt(lambda: P.substitute(self.p, statements={id(s): [P.Assign((s.names[i], ), part)]}))
            if isinstance(s, P.Assign):
                # Another name for the same value.
                others = [
                    n for x in P.all_statements(self.p) if isinstance(x, P.Assign) for n in x.names if n != s.names[0]
                ]
                for n in sorted(set(others))[:6]:
                    self.attempt(lambda: P.substitute(self.p,
                                                      statements={id(s): []},
                                                      edit=lambda e, args: bind(
                                                          e, {s.names[0]: E("var", (), {"name": n}, e.type)}, args)))

    def extents(self):
        done = False
        while not done and not self.late():
            done = True
            found = sorted(
                {
                    d
                    for e in P.all_expressions(self.p)
                    for t in (e.type if isinstance(e.type, tuple) else (e.type, ))
                    for d in t.shape if d > 1
                },
                reverse=True)
            cuts = [lambda d: d > 1] + [lambda d, n=n: d == n for n in found] + [lambda d, n=n: d >= n for n in found]
            cuts += [lambda d, n=n, m=m: d in (n, m) for n in found for m in found if n > m]
            for cut in cuts:
                if self.attempt(lambda: halve(self.p, cut)):
                    done = False
                    break

    def numbers(self):
        for e in [e for e in P.all_expressions(self.p) if e.op in ("const", "literal")]:
            v = e.attrs["value"]
            # bools and infinities too
            values = [type(v)(x)
                      for x in (0, 1, 2, 3)] + ([v // 2, -(-v // 2), v - 1, v // 4] if isinstance(v, int) else [])
            for x in values:
                if abs(float(x)) < abs(float(v)) and self.attempt(
                        lambda: P.substitute(self.p, nodes={id(e): E(e.op, (), dict(e.attrs, value=x), e.type)})):
                    break

    def memory(self):
        for b in list(self.p.buffers):
            change = lambda **kw: replace(self.p,
                                          buffers=[replace(c, **kw) if c.name == b.name else c for c in self.p.buffers])
            for r in ("count", "zero", "small"):
                if b.recipe != r and self.attempt(lambda: change(recipe=r)):
                    break
            for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
                if n < b.size and self.attempt(lambda: change(size=n)):
                    break
        for a in list(self.p.arguments):
            if not a.buffer:
                number = E("const", (), {"value": a.value, "type": Type("int32")}, Type("int32"))
                self.attempt(lambda: P.substitute(self.p, edit=lambda e, args: bind(e, {a.name: number}, args)))
            for c in self.p.arguments:
                if c.name != a.name and c.buffer == a.buffer:
                    self.attempt(lambda: P.substitute(
                        self.p, edit=lambda e, args: bind(e, {a.name: E("var", (), {"name": c.name}, e.type)}, args)))
            for kw in [{"offset": 0}] + [{"dtype": None}] * bool(a.dtype) if a.buffer else [{"value": v} for v in (0, 2, 3)]:
                self.attempt(lambda: replace(
                    self.p, arguments=[replace(x, **kw) if x.name == a.name else x for x in self.p.arguments]))

    def dtypes(self):
        """One dtype for another everywhere."""
        for old in sorted(
            {t.dtype
             for e in P.all_expressions(self.p)
             for t in (e.type if isinstance(e.type, tuple) else (e.type, ))}):
            for new in ("int32", "float32"):
                if old in P.NUMPY and old not in ("int32", "float32", "int1"):
                    self.attempt(lambda: rename(self.p, old, new))


def bind(e, values, args=None):
    """e with names replaced."""
    if e.op == "var" and e.attrs["name"] in values:
        return values[e.attrs["name"]]
    args = tuple(bind(a, values) for a in e.args) if args is None else args
    return e if all(a is b for a, b in zip(args, e.args)) else E(e.op, args, e.attrs, e.type)


def inlined(p, s, e):
    """`p` with the body of the helper that `e`, a call in statement s, asks for in front of s."""
    f = p.function(e.attrs["function"])
    need(isinstance(f.body[-1], P.Return) and not any(isinstance(x, P.Return) for x in P.walk(f.body[:-1])))
    names = {n: f"{f.name}_{n}" for x in P.walk(f.body) for n in getattr(x, "names", ())}
    values = dict(zip(f.parameters, e.args))
    values = {n: v for n, v in values.items() if n not in names}
    own = lambda x: bind(x, {**values, **{n: E("var", (), {"name": m}, None) for n, m in names.items()}})

    def block(body):
        out = []
        for x in body:
            x = P.rebuild_statement(x, own, block)
            out.append(P.Assign(tuple(names[n] for n in x.names), x.value) if isinstance(x, P.Assign) else x)
        return out

    start = [P.Assign((names[n], ), a) for n, a in zip(f.parameters, e.args) if n in names]
    results = [own(v) for v in f.body[-1].values]
    if len(results) == 1:
        return P.substitute(p, statements={id(s): start + block(f.body[:-1]) + [P.rebuild_statement(s, lambda x: swapped(x, e, results[0]), list)]})
    need(isinstance(s, P.Assign) and s.value is e)
    # Its names are the results themselves from here on, which takes no statements.
    known = dict(zip(s.names, results))
    return P.substitute(p, statements={id(s): start + block(f.body[:-1])}, edit=lambda x, args: bind(x, known, args))


def swapped(x, old, new):
    """x with `new` for its part `old`."""
    return new if x is old else E(x.op, tuple(swapped(a, old, new) for a in x.args), x.attrs, x.type)


def called(p, name, edit):
    """Calls of a helper with edit(operands, attributes) -> the same."""

    def change(e, args):
        if e.op == "call" and e.attrs["function"] == name:
            args, attrs = edit(args, e.attrs)
            return E(e.op, args, attrs, e.type)
        return e if all(a is b for a, b in zip(args, e.args)) else E(e.op, args, e.attrs, e.type)

    return P.substitute(p, edit=change)


def without_parameter(p, name, k):
    """A helper without its parameter k, which becomes 1 in it."""
    f = p.function(name)
    calls = [e for e in P.all_expressions(p) if e.op == "call" and e.attrs["function"] == name]
    need(calls and k < len(f.parameters) and len(f.parameters) > 1)
    t = calls[0].args[k].type
    used = any(e.op == "var" and e.attrs["name"] == f.parameters[k] for s in P.walk(f.body) for x in P.expressions(s) for e in P.walk_expression(x))
    need(not used or not t.is_pointer)
    one = [P.Assign((f.parameters[k], ), E("const", (), {"value": 1, "type": t}, t))] if used else []
    g = replace(f, parameters=f.parameters[:k] + f.parameters[k + 1:], body=one + f.body)
    p = replace(p, functions=[g if x.name == name else x for x in p.functions])
    return called(p, name, lambda args, attrs: (args[:k] + args[k + 1:], attrs))


def without_result(p, name, k):
    """A helper of several results without result k, which no one uses."""
    f = p.function(name)
    returns = [s for s in P.walk(f.body) if isinstance(s, P.Return)]
    need(returns and k < len(returns[0].values) and len(returns[0].values) > 1)
    cut = lambda xs: tuple(xs[:k]) + tuple(xs[k + 1:])
    calls = [s for s in P.all_statements(p) if isinstance(s, P.Assign) and s.value.op == "call" and s.value.attrs["function"] == name]
    statements = {id(s): [P.Return(cut(s.values))] for s in returns}
    statements.update({id(s): [P.Assign(cut(s.names), E("call", s.value.args, dict(s.value.attrs, types=cut(s.value.attrs["types"])), None))] for s in calls})
    return P.substitute(p, statements=statements)


def simpler(e):
    """Expressions of the same type to try in place of e."""
    if not isinstance(e.type, Type) or e.op in ("literal", "const") or e.type.dtype.startswith("literal"):
        return []
    inside = [x for x in P.walk_expression(e) if x is not e and x.type == e.type]
    out = [x for x in inside if x.op == "var"][:3] + [x for x in inside if x.op != "var"][:6]
    if e.op == "load" and len(e.args) == 3:
        out.append(make("load", e.args[0]))
    if e.op == "load" and e.attrs.get("hint"):
        out.append(make("load", *e.args))
    if e.op == "load_where":
        out.append(make("load", e.args[0]))
    if e.op in ("min", "max") and e.attrs.get("nan"):
        out.append(make(e.op, *e.args))
    if e.op == "dot" and len(e.args) == 3:
        out.append(E("dot", e.args[:2], e.attrs, e.type))
    if e.op == "dot_scaled" and len(e.args) == 5:
        out.append(E("dot_scaled", e.args[:4], e.attrs, e.type))
    if e.op == "block_read" and e.args[0].op == "block_ptr":
        b = e.args[0]
        out.append(make("block_load", *b.args, **dict(b.attrs, kind="pointer")))
    if e.op == "atomic" and len(e.args) == 3 and e.attrs["kind"] != "cas":
        out.append(E("atomic", e.args[:2], e.attrs, e.type))
    if e.op == "atomic" and e.attrs.get("sem"):
        out.append(E("atomic", e.args, {"kind": e.attrs["kind"]}, e.type))
    if not e.type.is_pointer and e.op != "var":
        out += [E("const", (), {"value": v, "type": e.type}, e.type) for v in (0, 1)]
    if e.type.is_pointer:
        return out
    # Through a conversion or a change of shape: the operands of operands.
    return out


def halve(p, cut):
    """Every extent that `cut` holds for is halved."""
    h = lambda s: tuple(d // 2 if d > 1 and cut(d) else d for d in s)

    def leaf(e, args):
        at = dict(e.attrs)
        if e.op == "const":
            at["type"] = Type(at["type"].dtype, h(at["type"].shape))
        for k in ("shape", "block"):
            if k in at and (k == "block" or e.op not in ("block_load", "block_ptr", "block_atomic", "rows_load", "rows_store")):
                at[k] = h(at[k])
        if e.op == "arange":
            at["end"] = at["start"] + h((at["end"] - at["start"], ))[0]
        for k in ("bins", "k"):
            if k in at:
                at[k] = h((at[k], ))[0]
        return at

    return retype(p, leaf)


def rename(p, old, new):

    def leaf(e, args):
        at = dict(e.attrs)
        if e.op == "const" and at["type"].dtype == old:
            at["type"] = Type(new, at["type"].shape)
        if at.get("to") == old:
            at["to"] = new
        return at

    return retype(replace(p, buffers=[replace(b, dtype=new) if b.dtype == old else b for b in p.buffers],
                          arguments=[replace(a, dtype=new) if a.dtype == old else a for a in p.arguments]), leaf)


def shrink(p, fails, seconds=120):
    s = Shrinker(p, fails, seconds)
    return s.run()


def shrink_on(p, failure, device, seconds=120, timeout=20, target=""):
    """(smallest program, its Failure) for a program that failed on `device`, tried in child processes."""
    from run import Failure, Worker
    worker = Worker(timeout=timeout, life=1000, target=target)
    last = [failure]

    def fails(candidate, memory):
        # What is read before it was written is not wrong every time.
        r = worker.program(candidate, memory, device, times=2)
        if not isinstance(r, Failure) or r.signature() != failure.signature():
            return False
        last[0] = r
        return True

    try:
        return shrink(p, fails, seconds), last[0]
    finally:
        worker.stop()


def main():
    from run import Failure, Worker, describe
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--seed", type=int, required=True)
    a.add_argument("--device", default="cpu")
    a.add_argument("--seconds", type=float, default=120)
    a.add_argument("--without", default="")
    a.add_argument("--variant", type=int, default=0, help="the program with other options (soak.py --variants)")
    o = a.parse_args()
    device, _, target = o.device.partition(":") if o.device.startswith("cpu:") else (o.device, "", "")
    target = o.device if target else ""
    p, memory = generate(o.seed, o.without.split(","))
    p = variant(p, o.variant)
    worker = Worker(target=target)
    failure = worker.program(p, memory, device, times=3)
    worker.stop()
    if not isinstance(failure, Failure):
        print(f"seed {o.seed} does not fail on {o.device}" + (f" ({failure})" if failure else ""))
        return 0
    p, failure = shrink_on(p, failure, device, o.seconds, target=target)
    print(describe(p))
    print(f"# seed {o.seed}{f' variant {o.variant}' if o.variant else ''} on {o.device}: {failure.kind}: {failure.text}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
