"""Programs as the text of a kernel."""
import library
import numpy as np
import program as P
from assembly import ASSEMBLY
from rules import DESCRIPTORS
from program import FLOATS, FP8

BINARY = dict(add="+", sub="-", mul="*", div="//", mod="%", xor="^", shl="<<", shr=">>", addptr="+")
BINARY.update({"and": "&", "or": "|", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="})
CALLS = {
    n: n
    for n in ("div_rn", "umulhi", "abs", "floor", "ceil", "sqrt_rn", "exp2", "randint", "cdiv", "where", "join", "interleave", "split", "ravel")
}
CALLS.update(min="minimum", max="maximum")
REDUCTIONS = {"sum": "sum", "amax": "max", "amin": "min", "xor_sum": "xor_sum", "reduce_or": "reduce_or"}


def number(value, dtype):
    """A literal of the language for a constant."""
    if dtype == "int1":
        return str(bool(value))
    if dtype in FLOATS + FP8:
        v = float(value)
        return f'float("{v}")' if not np.isfinite(v) else repr(v)
    return str(int(value))


def shape(s):
    return "[" + ", ".join(map(str, s)) + "]"


def constant(e):
    t = e.type
    n = number(e.attrs["value"], t.dtype)
    return f"tl.full({shape(t.shape)}, {n}, tl.{t.dtype})"


def memory(e, a):
    op, at = e.op, e.attrs
    if op == "load":
        hint = f", {at['hint']}" if at.get("hint") else ""
        return f"tl.load({a[0]}" + (f", mask={a[1]}, other={a[2]}" if len(a) > 1 else "") + hint + ")"
    if op == "block_load":
        return block(at["kind"], e.type.shape, at, a[0],
                     a[1:]) + (f".load({shape(a[1:])})" if at["kind"] in DESCRIPTORS else "")
    kind = at["kind"]
    if kind == "cas":
        return f"tl.atomic_cas({', '.join(a)})"
    sem = f', sem="{at["sem"]}"' if at.get("sem") else ""
    return f"tl.atomic_{kind}({a[0]}, {a[1]}" + (f", mask={a[2]}" if len(a) > 2 else "") + sem + ")"


def host_name(pointer, at, block_):
    """The parameter for a descriptor that the launch makes of the argument `pointer`."""
    return "_".join([pointer] + [k + "x".join(map(str, v)) for k, v in (("n", at["shape"]), ("s", at["strides"]), ("b", block_))])


def host_blocks(p):
    """parameter -> (argument, extents, strides, block), of all descriptors that the launch makes."""
    used = [(e.args[0], e.attrs, e.attrs["block"]) for e in P.all_expressions(p)
            if e.op in ("block_load", "rows_load", "rows_store") and e.attrs["kind"] == "host"]
    used += [(s.pointer, s.attrs, s.value.type.shape) for s in P.all_statements(p)
             if isinstance(s, P.BlockStore) and s.kind == "host"]
    return {
        host_name(v.attrs["name"], at, b): (v.attrs["name"], at["shape"], at["strides"], b)
        for v, at, b in used
    }


def block(kind, shape_, at, base, offsets):
    if kind == "host":
        return host_name(base, at, shape_)
    if kind == "descriptor":
        return f"tl.make_tensor_descriptor({base}, {shape(at['shape'])}, {shape(at['strides'])}, {shape(shape_)})"
    order = shape(range(len(shape_) - 1, -1, -1))
    lists = ", ".join(map(shape, (at["shape"], at["strides"], offsets, shape_)))
    return f"tl.make_block_ptr({base}, {lists}, {order})"


def functions(e, a):
    at = e.attrs
    inputs = a[0] if len(a) == 1 else "(" + ", ".join(a) + ")"
    if e.op == "reduce":
        return f"tl.reduce({inputs}, {at['axis']}, {at['function']}, keep_dims={at['keep']})"
    if e.op == "scan":
        return f"tl.associative_scan({inputs}, {at['axis']}, {at['function']}, reverse={at['reverse']})"
    if e.op == "map":
        return f"tl.map_elementwise({at['function']}, {', '.join(a)})"
    return f"{at['function']}({', '.join(a)})"


def assembly(name, a):
    code, constraints, _, results, pack, _ = ASSEMBLY[name]
    types = ", ".join("tl." + r for r in results)
    return f'tl.inline_asm_elementwise("{code}", "{constraints}", [{", ".join(a)}], {types if len(results) == 1 else f"({types})"}, is_pure=True, pack={pack})'


def index(at, positions):
    rest = iter(positions)
    bound = lambda v: "" if v is None else str(v)
    return ", ".join(":".join(map(bound, i)) if isinstance(i, tuple) else next(rest) if i == "at" else str(i) for i in at["index"])


def shaped(e, a):
    op, at = e.op, e.attrs
    if op == "slice":
        return f"{a[0]}[{index(at, a[1:])}]"
    if op == "reshape":
        return f"tl.reshape({a[0]}, {shape(at['shape'])})"
    if op == "permute":
        return f"tl.permute({a[0]}, {shape(at['dims'])})"
    if op == "expand":
        rank = len(e.type.shape)
        if at.get("slice"):
            return f"{a[0]}[{', '.join('None' if i == at['axis'] else ':' for i in range(rank))}]"
        return f"tl.expand_dims({a[0]}, {at['axis']})"
    if op in ("broadcast", "splat"):
        return f"tl.broadcast_to({a[0]}, {shape(at['shape'])})" if e.args[
            0].type.shape else f"tl.full({shape(at['shape'])}, {a[0]}, tl.{e.type.dtype})"
    if op == "flip":
        return f"tl.flip({a[0]}, {at['axis']})"
    if op == "cat":
        return f"tl.cat({a[0]}, {a[1]}, dim={at['axis']})"
    if op == "split_part":
        return f"tl.split({a[0]})[{at['part']}]"
    return f"tl.gather({a[0]}, {a[1]}, {at['axis']})"


def expression(e):
    op, at = e.op, e.attrs
    a = [plain(x) if op in ("block_load", "block_ptr", "advance") else expression(x) for x in e.args]
    if op == "var":
        return FIELDS.get(at["name"], at["name"])
    if op == "const":
        return constant(e)
    if op == "literal":
        v = at["value"]
        if isinstance(v, float) and not np.isfinite(v):
            return number(v, "float32")
        return repr(v) if v >= 0 else f"({v!r})"
    if op == "arange":
        return f"tl.arange({at['start']}, {at['end']})"
    if op in ("pid", "nprog"):
        return f"tl.{'program_id' if op == 'pid' else 'num_programs'}({at['axis']})"
    if op == "addptr":
        return f"({a[0]} + {plain(e.args[1]) if e.args[1].op == 'const' else a[1]})"
    if op in BINARY:
        return f"({a[0]} {BINARY[op]} {a[1]})"
    if op in ("min", "max") and at.get("nan"):
        return f"tl.{CALLS[op]}({a[0]}, {a[1]}, propagate_nan=tl.PropagateNan.ALL)"
    if op == "clamp":
        low, high = (number(at[k], "float32") for k in ("low", "high"))
        return f"tl.clamp({a[0]}, {low}, {high}{', propagate_nan=tl.PropagateNan.ALL' if at['nan'] else ''})"
    if op == "static":
        return f"(C{at['a']} {BINARY[at['compare']]} {at['b']})"
    if op == "load_where":
        return f"tl.where({a[1]}, tl.load({a[0]}, mask={a[1]}), {a[2]})"
    if op == "block_atomic":
        return f"{block(at['kind'], at['block'], at, plain(e.args[0]), ())}.atomic_{at['what']}({shape(map(plain, e.args[1:-1]))}, {a[-1]})"
    if op in ("max_with", "min_with"):
        return f"tl.{op[:3]}({a[0]}, {at['axis']}, return_indices=True)"
    if op in CALLS:
        return f"tl.{CALLS[op]}({', '.join(a)})"
    if op in ("multiple_of", "max_contiguous"):
        return f"tl.{op}({a[0]}, {at['n']})"
    if op in ("neg", "not"):
        return f"({'-' if op == 'neg' else '~'}{a[0]})"
    if op in ("cast", "bitcast"):
        return f"{a[0]}.to(tl.{at['to']}{', bitcast=True' if op == 'bitcast' else ''})"
    if op == "pointer_cast":
        return f"{a[0]}.to(tl.pointer_type(tl.{at['to']}))"
    if op == "ternary":
        return f"({a[1]} if {a[0]} else {a[2]})"
    if op == "block_ptr":
        return block("pointer", e.type.shape, at, a[0], a[1:])
    if op == "advance":
        return f"tl.advance({a[0]}, {shape(a[1:])})"
    if op == "block_read":
        return f"tl.load({a[0]}, boundary_check={list(range(len(e.type.shape)))}, padding_option=\"zero\")"
    if op == "block_write":
        return f"tl.store({a[0]}, {a[1]}, boundary_check={list(range(len(e.type.shape)))})"
    if op in ("rows_load", "rows_store"):
        rows = block(at["kind"], at["block"], at, plain(e.args[0]), ())
        column = plain(e.args[2])
        return f"{rows}.gather({a[1]}, {column})" if op == "rows_load" else f"{rows}.scatter({a[3]}, {a[1]}, {column})"
    if op == "assert":
        return f"tl.device_assert({a[0]}, \"a condition\"" + (f", mask={a[1]})" if len(a) > 1 else ")")
    if op == "asm":
        return assembly(at["name"], a)
    if op == "lib":
        return library.text(at["name"], a)
    if op == "atomic_old":
        return f"tl.where({a[2]}, tl.atomic_{at['kind']}({a[0]}, {a[1]}, mask={a[2]}), {a[3]})"
    if op == "atomic_sum":
        return f"tl.sum(tl.atomic_{at['kind']}({a[0]}, {a[1]}), None)"
    if op in ("atomic_load", "atomic_store", "assume"):
        return f"tl.{op}({', '.join(a)})"
    if op in ("load", "block_load", "atomic"):
        if op == "block_load" and at["kind"] == "pointer":
            check = ", ".join(map(str, range(len(e.type.shape))))
            return f"tl.load({memory(e, a)}, boundary_check=[{check}], padding_option=\"zero\")"
        return memory(e, a)
    if op in REDUCTIONS:
        return f"tl.{REDUCTIONS[op]}({a[0]}, {at['axis']}, keep_dims={at['keep']})"
    if op in ("argmax", "argmin"):
        return f"tl.{op}({a[0]}, {at['axis']})"
    if op in ("cumsum", "cumprod"):
        return f"tl.{op}({a[0]}, {at['axis']}, reverse={at['reverse']})"
    if op == "sort":
        return f"tl.sort({a[0]}, descending={at['descending']})"
    if op == "topk":
        return f"tl.topk({a[0]}, {at['k']})"
    if op == "histogram":
        return f"tl.histogram({a[0]}, {at['bins']})"
    if op == "dot":
        extra = "".join(f", {n}={v}"
                        for n, v in (("acc", a[2] if len(a) > 2 else None),
                                     ("input_precision", repr(at["precision"]) if at.get("precision") else None),
                                     ("out_dtype", f"tl.{at['out']}" if at.get("out") else None)) if v)
        return f"tl.dot({a[0]}, {a[1]}{extra})"
    if op == "dot_scaled":
        lhs, rhs = (f"{x}, {s if has else None}, \"{f}\"" for x, s, f, has in zip(a[0:4:2], a[1:4:2], at["formats"], at["scales"]))
        return f"tl.dot_scaled({lhs}, {rhs}{', acc=' + a[4] if len(a) > 4 else ''})"
    if op in ("reduce", "scan", "map", "call"):
        return functions(e, a)
    return shaped(e, a)


def plain(e):
    """Where a whole expression stands: without the outer parentheses of an operation, and a number for an int32."""
    if e.op == "const" and e.type.dtype == "int32" and e.type.shape == ():
        return str(int(e.attrs["value"]))
    s = expression(e)
    return s[1:-1] if e.op in P_PLAIN and s[0] == "(" else s


P_PLAIN = set(BINARY) | {"neg", "not", "ternary"}


def statement(s, indent):
    pad = "    " * indent
    if isinstance(s, P.Assign):
        names = ["new_" + n if n in FIELDS else n for n in s.names]
        return [f"{pad}{', '.join(names)} = {plain(s.value)}"] + [pad + write_field(n) for n in s.names if n in FIELDS]
    if isinstance(s, (P.Break, P.Continue)):
        return [pad + type(s).__name__.lower()]
    if isinstance(s, P.Effect):
        return [pad + expression(s.value)]
    if isinstance(s, P.Store):
        return [
            f"{pad}tl.store({plain(s.pointer)}, {plain(s.value)}" +
            (f", mask={plain(s.mask)}" if s.mask is not None else "") + (f", {s.hint}" if s.hint else "") + ")"
        ]
    if isinstance(s, P.BlockStore):
        offsets = [plain(o) for o in s.offsets]
        b = block(s.kind, s.value.type.shape, s.attrs, expression(s.pointer), offsets)
        if s.kind in DESCRIPTORS:
            return [f"{pad}{b}.store({shape(offsets)}, {plain(s.value)})"]
        check = ", ".join(map(str, range(len(offsets))))
        return [f"{pad}tl.store({b}, {plain(s.value)}, boundary_check=[{check}])"]
    if isinstance(s, P.For):
        options = "".join(f", {k}={v}" for k, v in s.options.items()) if s.kind == "tl.range" else ""
        bounds = ", ".join(plain(b) for b in (s.start, s.stop, s.step))
        if s.kind == "tl.static_range":
            # Its variable is a compile-time number; the assignment makes a value of it.
            return [f"{pad}for {s.name}_c in {s.kind}({bounds}):", f"{pad}    {s.name} = {s.name}_c"] + lines(
                s.body, indent + 1) + otherwise(s.other, indent)
        return [f"{pad}for {s.name} in {s.kind}({bounds}{options}):"] + lines(s.body, indent + 1) + otherwise(s.other, indent)
    if isinstance(s, P.While):
        return [f"{pad}while {plain(s.condition)}:"] + lines(s.body, indent + 1) + otherwise(s.other, indent)
    if isinstance(s, P.If):
        out = [f"{pad}if {plain(s.condition)}:"] + lines(s.then, indent + 1)
        return out + otherwise(s.other, indent)
    if isinstance(s, P.Return):
        return [f"{pad}return {', '.join(expression(v) for v in s.values)}".rstrip()]
    return [pad + "tl.debug_barrier()"]


def otherwise(body, indent):
    return ["    " * indent + "else:"] + lines(body, indent + 1) if body else []


# Aggregates and tuples: name of the kernel -> the field or item that it is, from where the whole is made.
FIELDS = {}
AGGREGATE = """@tegula.aggregate
class Bundle:
    a: tl.tensor
    b: tl.tensor

    @tegula.jit
    def with_a(self, v):
        return Bundle(v, self.b)

    @tegula.jit
    def __add__(self, v):
        return tl.aggregate_replace(self, b=v)
"""


def write_field(name):
    if FIELDS[name].startswith("pair"):
        pair = FIELDS[name].partition("[")[0]
        return f"{pair} = (new_{name}, {pair}[1])" if FIELDS[name].endswith("[0]") else f"{pair} = ({pair}[0], new_{name})"
    bundle, field = FIELDS[name].split(".")
    return f"{bundle} = {bundle}.with_a(new_{name})" if field == "a" else f"{bundle} = {bundle} + new_{name}"


def kernel_body(p):
    out, known = [], set()
    FIELDS.clear()
    for s in p.body:
        out += statement(s, 1)
        known |= set(s.names) if isinstance(s, P.Assign) else set()
        for k, (a, b, *kind) in enumerate(p.bundles):
            if a == b or not {a, b} <= known or {a, b} & set(FIELDS):
                continue
            if kind:
                out.append(f"    pair{k} = ({a}, {b})")
                FIELDS.update({a: f"pair{k}[0]", b: f"pair{k}[1]"})
            else:
                out.append(f"    bundle{k} = Bundle({a}, {b})")
                FIELDS.update({a: f"bundle{k}.a", b: f"bundle{k}.b"})
    FIELDS.clear()
    return out or ["    pass"]


def constants(p):
    """The numbers that are compile-time arguments of the kernel, each under its own name."""
    return sorted({e.attrs["a"] for e in P.all_expressions(p) if e.op == "static"})


def lines(body, indent):
    return [line for s in body for line in statement(s, indent)] or ["    " * indent + "pass"]


def kernel(p, name="kernel"):
    """The whole text: helpers, then the kernel `name`."""
    out = []
    for f in p.functions:
        out += [f"@tegula.jit{'(noinline=True)' if f.noinline else ''}", f"def {f.name}({', '.join(f.parameters)}):"
                ] + lines(f.body, 1) + ["", ""]
    parameters = [a.name for a in p.arguments] + list(host_blocks(p)) + [f"C{k}: tl.constexpr" for k in constants(p)]
    body = kernel_body(p)
    if any("Bundle(" in line for line in body):
        out = [AGGREGATE, ""] + out
    out += ["@tegula.jit", f"def {name}({', '.join(parameters)}):"] + body
    return "\n".join(out) + "\n"
