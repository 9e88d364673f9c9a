"""Prints the trees that Python's own parser makes of the files named on standard input, in the form of syntax::print (src/syntax/Printer.cpp).

For every file: a line `=== <path>`, then its dump, or `SKIP <reason>`. Used by RobustnessTest.cpp, which compares the two.
"""
import ast
import re
import sys
import tokenize

BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.MatMult: "@", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
          ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not",
           ast.In: "in", ast.NotIn: "not in"}
UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not "}
LOOSE = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.UnaryOp, ast.Await, ast.Yield, ast.YieldFrom)


def quoted(s):
    return "'" + s.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t") + "'"


class Printer:
    def __init__(self, lines):
        self.lines = lines  # bytes, to find out how a number was written
        self.out = []

    def number(self, e):
        text = self.lines[e.lineno - 1][e.col_offset:e.end_col_offset].decode().replace("_", "")
        try:
            if ast.literal_eval(text) != e.value:
                text = repr(e.value)
        except (SyntaxError, ValueError):
            text = repr(e.value)
        if text[:2].lower() in ("0x", "0o", "0b"):
            return text[0] + text[1].lower() + text[2:]
        return text[:-1] + "j" if text[-1] == "J" else text

    def constant(self, e):
        v = e.value
        if v is None or v is True or v is False:
            return str(v)
        if v is ...:
            return "..."
        if isinstance(v, str):
            return quoted(v)
        if isinstance(v, bytes):
            return "b" + quoted(v.decode("latin-1")).encode("latin-1").decode("utf-8", "surrogateescape")
        return self.number(e)

    def operand(self, e):
        return f"({self.expr(e)})" if isinstance(e, LOOSE) else self.expr(e)

    def join(self, items):
        return ", ".join(self.expr(i) for i in items)

    def keyword(self, k):
        return ("**" if k.arg is None else k.arg + "=") + self.expr(k.value)

    def fstring(self, e):
        out = ""
        for p in e.values:
            if isinstance(p, ast.Constant):
                out += p.value
                continue
            out += "{" + self.expr(p.value) + (f"!{chr(p.conversion)}" if p.conversion != -1 else "")
            out += ":" + self.fstring(p.format_spec) if p.format_spec else ""
            out += "}"
        return out

    def generators(self, e):
        out = ""
        for c in e.generators:
            out += f"{' async' if c.is_async else ''} for {self.expr(c.target)} in {self.expr(c.iter)}"
            out += "".join(" if " + self.expr(i) for i in c.ifs)
        return out

    def params(self, a):
        out = []

        def one(p, default=None, stars=""):
            out.append(stars + p.arg + (": " + self.expr(p.annotation) if p.annotation else "") + ("=" + self.expr(default) if default else ""))
        positional = a.posonlyargs + a.args
        defaults = [None] * (len(positional) - len(a.defaults)) + a.defaults
        for i, (p, d) in enumerate(zip(positional, defaults)):
            one(p, d)
            if i + 1 == len(a.posonlyargs):
                out.append("/")
        if a.vararg:
            one(a.vararg, stars="*")
        elif a.kwonlyargs:
            out.append("*")
        for p, d in zip(a.kwonlyargs, a.kw_defaults):
            one(p, d)
        if a.kwarg:
            one(a.kwarg, stars="**")
        return ", ".join(out)

    def expr(self, e):
        x, o = self.expr, self.operand
        match e:
            case ast.Name(): return e.id
            case ast.Constant(): return self.constant(e)
            case ast.JoinedStr(): return f"f'{self.fstring(e)}'"
            case ast.Tuple(): return f"({self.join(e.elts)}{',' if len(e.elts) == 1 else ''})"
            case ast.List(): return f"[{self.join(e.elts)}]"
            case ast.Set(): return "{" + self.join(e.elts) + "}"
            case ast.Dict():
                return "{" + ", ".join((x(k) + ": " if k else "**") + x(v) for k, v in zip(e.keys, e.values)) + "}"
            case ast.ListComp(): return f"[{x(e.elt)}{self.generators(e)}]"
            case ast.SetComp(): return "{" + x(e.elt) + self.generators(e) + "}"
            case ast.DictComp(): return "{" + x(e.key) + ": " + x(e.value) + self.generators(e) + "}"
            case ast.GeneratorExp(): return f"({x(e.elt)}{self.generators(e)})"
            case ast.UnaryOp(): return UNARY[type(e.op)] + o(e.operand)
            case ast.BinOp(): return f"{o(e.left)} {BINARY[type(e.op)]} {o(e.right)}"
            case ast.BoolOp(): return (" and " if isinstance(e.op, ast.And) else " or ").join(o(v) for v in e.values)
            case ast.Compare(): return o(e.left) + "".join(f" {COMPARE[type(p)]} {o(r)}" for p, r in zip(e.ops, e.comparators))
            case ast.Call(): return f"{o(e.func)}({', '.join([x(a) for a in e.args] + [self.keyword(k) for k in e.keywords])})"
            case ast.Attribute(): return f"{o(e.value)}.{e.attr}"
            case ast.Subscript():
                many = isinstance(e.slice, ast.Tuple) and len(e.slice.elts) > 1
                return f"{o(e.value)}[{self.join(e.slice.elts) if many else x(e.slice)}]"
            case ast.Slice():
                return f"{x(e.lower) if e.lower else ''}:{x(e.upper) if e.upper else ''}{':' + x(e.step) if e.step else ''}"
            case ast.IfExp(): return f"{o(e.body)} if {o(e.test)} else {o(e.orelse)}"
            case ast.Lambda(): return f"lambda {self.params(e.args)}: {x(e.body)}"
            case ast.NamedExpr(): return f"{e.target.id} := {x(e.value)}"
            case ast.Starred(): return "*" + o(e.value)
            case ast.Await(): return "await " + o(e.value)
            case ast.Yield(): return "yield" + (" " + x(e.value) if e.value else "")
            case ast.YieldFrom(): return "yield from " + x(e.value)
        raise NotImplementedError(type(e).__name__)

    def line(self, indent, text):
        self.out.append("  " * indent + text)

    def body(self, stmts, indent):
        for s in stmts:
            self.stmt(s, indent)

    def part(self, label, stmts, indent):
        if stmts:
            self.line(indent, label + ":")
            self.body(stmts, indent + 1)

    def head(self, s):
        x = self.expr
        value = " " + x(s.value) if getattr(s, "value", None) else ""
        alias = lambda n: n.name + (f" as {n.asname}" if n.asname else "")
        match s:
            case ast.Expr() | ast.Return(): return value
            case ast.Assign(): return "".join(" " + x(t) for t in s.targets) + " =" + value
            case ast.AugAssign(): return f" {x(s.target)} {BINARY[type(s.op)]}={value}"
            case ast.AnnAssign(): return f" {x(s.target)}: {x(s.annotation)}{' =' + value if value else ''}"
            case ast.For() | ast.AsyncFor(): return f" {x(s.target)} in {x(s.iter)}"
            case ast.While() | ast.If(): return " " + x(s.test)
            case ast.With() | ast.AsyncWith():
                return " " + ", ".join(x(i.context_expr) + (" as " + x(i.optional_vars) if i.optional_vars else "") for i in s.items)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return f" {s.name}({self.params(s.args)}){' -> ' + x(s.returns) if s.returns else ''}"
            case ast.ClassDef():
                args = [x(b) for b in s.bases] + [self.keyword(k) for k in s.keywords]
                return f" {s.name}" + (f"({', '.join(args)})" if args else "")
            case ast.Delete(): return "".join(" " + x(t) for t in s.targets)
            case ast.Raise():
                return (" " + x(s.exc) if s.exc else "") + (", " + x(s.cause) if s.cause else "")
            case ast.Assert(): return " " + x(s.test) + (", " + x(s.msg) if s.msg else "")
            case ast.Global() | ast.Nonlocal(): return " " + ", ".join(s.names)
            case ast.Import(): return " " + ", ".join(map(alias, s.names))
            case ast.ImportFrom(): return f" {'.' * s.level}{s.module or ''} " + ", ".join(map(alias, s.names))
            case ast.Pass() | ast.Break() | ast.Continue() | ast.Try() | ast.TryStar(): return ""
        raise NotImplementedError(type(s).__name__)

    def stmt(self, s, indent, elif_=False):
        name = type(s).__name__
        for d in getattr(s, "decorator_list", ()):
            self.line(indent, "@" + self.expr(d))
        if name.startswith("Async"):
            name = name[5:] + " async"
        name = "Elif" if elif_ else "Try" if name == "TryStar" else name
        self.line(indent, name + self.head(s))
        self.body(getattr(s, "body", ()), indent + 1)
        for h in getattr(s, "handlers", ()):
            star = "*" if isinstance(s, ast.TryStar) else ""
            self.line(indent, "Except" + star + (" " + self.expr(h.type) if h.type else "") + (" as " + h.name if h.name else ""))
            self.body(h.body, indent + 1)
        orelse = getattr(s, "orelse", ())
        if isinstance(s, ast.If) and len(orelse) == 1 and isinstance(orelse[0], ast.If) and self.is_elif(orelse[0]):
            self.stmt(orelse[0], indent, elif_=True)
        else:
            self.part("Else", orelse, indent)
        self.part("Finally", getattr(s, "finalbody", ()), indent)

    def is_elif(self, s):
        return self.lines[s.lineno - 1][s.col_offset:].startswith(b"elif")


def dump(path):
    with open(path, "rb") as f:
        data = f.read()
        f.seek(0)
        encoding, _ = tokenize.detect_encoding(f.readline)
    if encoding not in ("utf-8", "utf-8-sig"):
        return f"SKIP encoding {encoding}"
    if re.search(rb"\\N\{", data):
        return "SKIP named characters"
    if re.search(rb"\\u[dD][89a-fA-F]", data):
        return "SKIP surrogates"
    if re.search(rb"=(![rsa])?(:[^{}'\"]*)?\}", data) and re.search(rb"\b[rR]?[fF][rR]?['\"]", data):
        return "SKIP {x=}, which Python expands"
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError) as e:
        return f"SKIP Python finds it malformed: {type(e).__name__}"
    p = Printer(re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf")))
    try:
        p.body(tree.body, 0)
    except NotImplementedError as e:
        return f"SKIP {e} is not compared"
    return "\n".join(p.out)


for name in sys.stdin.read().splitlines():
    sys.stdout.buffer.write(f"=== {name}\n{dump(name)}\n".encode("utf-8", "surrogateescape"))
