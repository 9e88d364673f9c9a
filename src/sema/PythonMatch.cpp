// `match` in functions that run at compile time (Python's reference, 8.6.4): patterns are stored as expressions of the
// same form.
#include "sema/Evaluator.h"

namespace tegula::sema {

namespace {

/// The bindings of a pattern's names, applied once the whole pattern has matched.
using Captures = std::vector<std::pair<const Expr *, Value>>;

bool isStarred(const Expr *e) { return e->kind == ExprKind::Starred; }

} // namespace

/// nullopt and a report: the pattern's kind is not supported, or its value cannot be evaluated.
std::optional<bool> Evaluator::matches(const Expr &pattern, const Value &v,
                                       std::vector<std::pair<const Expr *, Value>> &captures) {
  switch (pattern.kind) {
  case ExprKind::Name:
    if (pattern.name != "_")
      captures.emplace_back(&pattern, v);
    return true;
  case ExprKind::NamedExpr: { // PATTERN as name
    std::optional<bool> is = matches(*pattern.operands[0], v, captures);
    if (is && *is)
      captures.emplace_back(&pattern, v);
    return is;
  }
  case ExprKind::Binary: { // a | b; the others are numbers such as 1 + 2j, rejected like other unsupported values
    if (pattern.binaryOp != syntax::BinaryOp::BitOr)
      break;
    for (const Expr *o : pattern.operands) {
      const size_t before = captures.size();
      std::optional<bool> is = matches(*o, v, captures);
      if (!is || *is)
        return is;
      captures.resize(before);
    }
    return false;
  }
  case ExprKind::Tuple:
  case ExprKind::List: {
    const std::vector<Expr *> &parts = pattern.operands;
    const std::vector<Value> *items = lang::sequenceItems(v);
    auto star = std::find_if(parts.begin(), parts.end(), isStarred);
    const bool open = star != parts.end();
    if (!items || (open ? items->size() + 1 < parts.size() : items->size() != parts.size()))
      return false;
    const size_t rest = items->size() + open - parts.size(); // items of the starred one
    auto item = items->begin();
    for (const Expr *p : parts) {
      if (isStarred(p)) {
        const Expr &name = *p->operands[0];
        if (name.name != "_")
          captures.emplace_back(&name, Value::tuple(std::vector<Value>(item, item + static_cast<ptrdiff_t>(rest))));
        item += static_cast<ptrdiff_t>(rest);
        continue;
      }
      std::optional<bool> is = matches(*p, *item++, captures);
      if (!is || !*is)
        return is;
    }
    return true;
  }
  case ExprKind::Call: { // int(): a class without patterns of its parts
    if (pattern.operands.size() > 1 || !pattern.keywords.empty())
      break;
    Value cls = eval(*pattern.operands[0]);
    if (cls.isError())
      return std::nullopt;
    if (std::optional<bool> is = lang::isInstance(*this, v, cls, pattern.loc))
      return is;
    break;
  }
  case ExprKind::True:
  case ExprKind::False: {
    Value c = eval(pattern);
    return v.isBool() && lang::equal(v, c);
  }
  case ExprKind::None:
    return v.isNone();
  case ExprKind::Int:
  case ExprKind::Float:
  case ExprKind::Str:
  case ExprKind::Unary:
  case ExprKind::Attribute: {
    Value c = eval(pattern);
    return c.isError() ? std::nullopt : std::optional(lang::equal(v, c));
  }
  default:
    break;
  }
  diag().report(diag::unsupportedStmt, pattern.loc, "this pattern of Match", "use `if` and `elif`");
  return std::nullopt;
}

Flow Evaluator::pythonMatch(const Stmt &s) {
  Value subject = eval(*s.value);
  if (subject.isTensor())
    fail(diag::pythonCondition, s.value->loc, describe(subject));
  if (subject.isError() || subject.isTensor())
    return Flow::returns(Value::error(), s.loc);
  for (const syntax::MatchCase &c : s.cases) {
    Captures captures;
    std::optional<bool> is = step(c.pattern->loc) ? matches(*c.pattern, subject, captures) : std::nullopt;
    if (!is)
      return Flow::returns(Value::error(), s.loc);
    if (!*is)
      continue;
    for (const auto &[name, value] : captures)
      env().set(name->name, {value, name->loc});
    std::optional<bool> guard = c.guard ? pythonTruth(*c.guard) : true;
    if (!guard)
      return Flow::returns(Value::error(), s.loc);
    if (*guard)
      return execBlock(c.body);
  }
  return {};
}

} // namespace tegula::sema
