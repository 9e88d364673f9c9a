// Trees as text: an indented dump for --emit ast, and expressions as one line of source for messages.
#include "syntax/Parser.h"

namespace tegula::syntax {
namespace {

const char *kindName(StmtKind k) {
  static const char *names[] = {"Expr", "Assign", "AugAssign", "AnnAssign", "For", "While", "If",
                                "With", "Try", "FunctionDef", "ClassDef", "Return", "Delete", "Pass",
                                "Break", "Continue", "Raise", "Global", "Nonlocal", "Import", "ImportFrom",
                                "Assert", "Match", "TypeAlias", "Error"};
  return names[static_cast<int>(k)];
}

std::string quoted(std::string_view s) {
  std::string out = "'";
  for (char c : s) {
    if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\'' || c == '\\') (out += '\\') += c;
    else out += c;
  }
  return out + "'";
}

std::string join(const std::vector<Expr *> &items, size_t from = 0) {
  std::string out;
  for (size_t i = from; i < items.size(); ++i)
    out += (i > from ? ", " : "") + (items[i] ? print(*items[i]) : std::string());
  return out;
}

std::string params(const std::vector<Param> &list) {
  std::string out;
  bool star = false, positional = false;
  for (const Param &p : list) {
    if (!out.empty()) out += ", ";
    if (positional && p.kind != Param::Kind::PositionalOnly) out += "/, ";
    positional = p.kind == Param::Kind::PositionalOnly;
    if (p.kind == Param::Kind::KeywordOnly && !star) out += "*, ", star = true;
    if (p.kind == Param::Kind::Star) out += "*", star = true;
    if (p.kind == Param::Kind::DoubleStar) out += "**";
    out += p.name;
    if (p.annotation) out += ": " + print(*p.annotation);
    if (p.defaultValue) out += "=" + print(*p.defaultValue);
  }
  if (positional) out += ", /";
  return out;
}

std::string keyword(const Keyword &k) { return (k.name.empty() ? "**" : std::string(k.name) + "=") + print(*k.value); }

std::string generators(const Expr &e) {
  std::string out;
  for (auto &c : e.generators) {
    out += std::string(c.isAsync ? " async" : "") + " for " + print(*c.target) + " in " + print(*c.iter);
    for (Expr *i : c.conds) out += " if " + print(*i);
  }
  return out;
}

std::string fstringBody(const Expr &e) {
  std::string out;
  for (auto &p : e.parts) {
    if (!p.value) {
      out += p.text;
      continue;
    }
    out += "{" + (p.debug.empty() ? print(*p.value) : p.debug);
    if (p.conversion) out += std::string("!") + p.conversion;
    if (p.spec) out += ":" + fstringBody(*p.spec);
    out += "}";
  }
  return out;
}

class Dumper {
public:
  std::string run(const Tree &t) {
    body(t.body, 0);
    return std::move(out_);
  }
  std::string run(const Stmt &s) {
    stmt(s, 0);
    return std::move(out_);
  }

private:
  void line(int indent, const std::string &s) { out_ += std::string(2 * indent, ' ') + s + "\n"; }
  void body(const std::vector<Stmt *> &b, int indent) {
    for (const Stmt *s : b) stmt(*s, indent);
  }
  void part(const char *label, const std::vector<Stmt *> &b, int indent) {
    if (b.empty()) return;
    line(indent, std::string(label) + ":");
    body(b, indent + 1);
  }
  void stmt(const Stmt &s, int indent);
  std::string out_;
};

void Dumper::stmt(const Stmt &s, int indent) {
  for (Expr *d : s.decorators) line(indent, "@" + print(*d));
  std::string head = s.kind == StmtKind::If && s.isElif ? "Elif" : kindName(s.kind);
  if (s.isAsync) head += " async";
  if (!s.name.empty()) head += " " + std::string(s.name);
  if (s.kind == StmtKind::FunctionDef) head += "(" + params(s.params) + ")" + (s.extra ? " -> " + print(*s.extra) : "");
  if (!s.bases.empty() || !s.keywords.empty()) {
    head += "(" + join(s.bases);
    for (size_t i = 0; i < s.keywords.size(); ++i) head += (i || !s.bases.empty() ? ", " : "") + keyword(s.keywords[i]);
    head += ")";
  }
  if (!s.module.empty() || s.level) head += " " + std::string(s.level, '.') + std::string(s.module);
  for (size_t i = 0; i < s.names.size(); ++i)
    head += (i ? ", " : " ") + std::string(s.names[i].name) +
            (s.names[i].asName.empty() ? "" : " as " + std::string(s.names[i].asName));
  for (Expr *t : s.targets) head += " " + print(*t);
  if (s.kind == StmtKind::AnnAssign) head += ": " + print(*s.extra);
  if (s.kind == StmtKind::AugAssign) head += std::string(" ") + spelling(s.binaryOp) + "=";
  else if (!s.targets.empty() && s.value) head += s.kind == StmtKind::For ? " in" : " =";
  if (s.value) head += " " + print(*s.value);
  if (s.extra && (s.kind == StmtKind::Assert || s.kind == StmtKind::Raise)) head += ", " + print(*s.extra);
  for (size_t i = 0; i < s.items.size(); ++i)
    head +=
        (i ? ", " : " ") + print(*s.items[i].context) + (s.items[i].target ? " as " + print(*s.items[i].target) : "");
  line(indent, head);
  body(s.body, indent + 1);
  for (auto &h : s.handlers) {
    line(indent, std::string(s.isTryStar ? "Except*" : "Except") + (h.type ? " " + print(*h.type) : std::string()) +
                     (h.name.empty() ? "" : " as " + std::string(h.name)));
    body(h.body, indent + 1);
  }
  for (auto &c : s.cases) {
    line(indent + 1, "Case " + print(*c.pattern) + (c.guard ? " if " + print(*c.guard) : ""));
    body(c.body, indent + 2);
  }
  if (s.orelse.size() == 1 && s.orelse[0]->isElif) body(s.orelse, indent);
  else part("Else", s.orelse, indent);
  part("Finally", s.finalbody, indent);
}

} // namespace

std::string print(const Tree &tree) { return Dumper().run(tree); }
std::string print(const Stmt &stmt) { return Dumper().run(stmt); }

std::string print(const Expr &e) {
  // Operands of operators are parenthesized unless they are atoms: unambiguous, and near enough to the source for
  // messages.
  auto operand = [](const Expr *x) {
    bool loose = x->kind == ExprKind::Binary || x->kind == ExprKind::BoolOp || x->kind == ExprKind::Compare ||
                 x->kind == ExprKind::IfExp || x->kind == ExprKind::Lambda || x->kind == ExprKind::NamedExpr ||
                 x->kind == ExprKind::Unary || x->kind == ExprKind::Await || x->kind == ExprKind::Yield ||
                 x->kind == ExprKind::YieldFrom;
    return loose ? "(" + print(*x) + ")" : print(*x);
  };
  const auto &o = e.operands;
  switch (e.kind) {
  case ExprKind::Name: return std::string(e.name);
  case ExprKind::Int:
  case ExprKind::Float: return e.text;
  case ExprKind::Imaginary: return e.text + "j";
  case ExprKind::Str: return quoted(e.text);
  case ExprKind::Bytes: return "b" + quoted(e.text);
  case ExprKind::FString: return "f'" + fstringBody(e) + "'";
  case ExprKind::True: return "True";
  case ExprKind::False: return "False";
  case ExprKind::None: return "None";
  case ExprKind::Ellipsis: return "...";
  case ExprKind::Tuple: return "(" + join(o) + (o.size() == 1 ? ",)" : ")");
  case ExprKind::List: return "[" + join(o) + "]";
  case ExprKind::Set: return "{" + join(o) + "}";
  case ExprKind::Dict: {
    std::string out = "{";
    for (size_t i = 0; i + 1 < o.size(); i += 2)
      out += (i ? ", " : "") + (o[i] ? print(*o[i]) + ": " : std::string("**")) + print(*o[i + 1]);
    return out + "}";
  }
  case ExprKind::ListComp: return "[" + print(*o[0]) + generators(e) + "]";
  case ExprKind::SetComp: return "{" + print(*o[0]) + generators(e) + "}";
  case ExprKind::DictComp: return "{" + print(*o[0]) + ": " + print(*o[1]) + generators(e) + "}";
  case ExprKind::GeneratorExp: return "(" + print(*o[0]) + generators(e) + ")";
  case ExprKind::Unary:
    return std::string(spelling(e.unaryOp)) + (e.unaryOp == UnaryOp::Not ? " " : "") + operand(o[0]);
  case ExprKind::Binary: return operand(o[0]) + " " + spelling(e.binaryOp) + " " + operand(o[1]);
  case ExprKind::BoolOp: {
    std::string out;
    for (size_t i = 0; i < o.size(); ++i) out += (i ? (e.isAnd ? " and " : " or ") : "") + operand(o[i]);
    return out;
  }
  case ExprKind::Compare: {
    std::string out = operand(o[0]);
    for (size_t i = 0; i < e.cmpOps.size(); ++i)
      out += std::string(" ") + spelling(e.cmpOps[i]) + " " + operand(o[i + 1]);
    return out;
  }
  case ExprKind::Call: {
    std::string out = operand(o[0]) + "(" + join(o, 1);
    for (size_t i = 0; i < e.keywords.size(); ++i)
      out += (i || o.size() > 1 ? ", " : "") + keyword(e.keywords[i]);
    return out + ")";
  }
  case ExprKind::Attribute: return operand(o[0]) + "." + std::string(e.name);
  case ExprKind::Subscript: {
    const Expr &i = *o[1];
    return operand(o[0]) + "[" + (i.kind == ExprKind::Tuple && i.operands.size() > 1 ? join(i.operands) : print(i)) +
           "]";
  }
  case ExprKind::Slice:
    return (o[0] ? print(*o[0]) : "") + ":" + (o[1] ? print(*o[1]) : "") + (o[2] ? ":" + print(*o[2]) : "");
  case ExprKind::IfExp: return operand(o[1]) + " if " + operand(o[0]) + " else " + operand(o[2]);
  case ExprKind::Lambda: return "lambda " + params(e.params) + ": " + print(*o[0]);
  case ExprKind::NamedExpr: return std::string(e.name) + " := " + print(*o[0]);
  case ExprKind::Starred: return "*" + operand(o[0]);
  case ExprKind::Await: return "await " + operand(o[0]);
  case ExprKind::Yield: return "yield" + (o.empty() ? "" : " " + print(*o[0]));
  case ExprKind::YieldFrom: return "yield from " + print(*o[0]);
  case ExprKind::Error: return "<error>";
  }
  return "?";
}

} // namespace tegula::syntax
