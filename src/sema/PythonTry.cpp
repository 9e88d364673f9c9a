// `try` in functions that run at compile time. An exception of Python is a reported error: a handler that catches it
// retracts the report.
#include "sema/Evaluator.h"
#include <algorithm>

namespace tegula::sema {

namespace {

/// Python's exception classes for errors that are not a program's `raise`; other errors may have any class.
struct Raised {
  std::string_view kind, cls;
};
constexpr Raised classes[] = {
    {"noKey", "KeyError"},
    {"indexOutOfRange", "IndexError"},
    {"divisionByZero", "ZeroDivisionError"},
    {"noAttribute", "AttributeError"},
    {"noModuleAttribute", "AttributeError"},
    {"noUsableAttribute", "AttributeError"},
    {"noAttributeOfName", "AttributeError"},
    {"undefinedName", "NameError"},
    {"assertFailed", "AssertionError"},
    {"pythonArgument", "TypeError"},
    {"unsupportedOperands", "TypeError"},
    {"notIterable", "TypeError"},
    {"notCallable", "TypeError"},
};

std::string_view classOf(const Diagnostic &d) {
  std::string_view kind = d.kind->name;
  if (kind == "raised") {
    std::string_view text = d.args[0].text;
    text = text.substr(0, text.find('('));
    size_t dot = text.rfind('.');
    return dot == text.npos ? text : text.substr(dot + 1);
  }
  auto it = std::find_if(std::begin(classes), std::end(classes), [&](const Raised &r) { return r.kind == kind; });
  return it == std::end(classes) ? std::string_view() : it->cls;
}

/// Does a handler for `type` catch it? `cls` is empty if the class is not known.
bool takes(const Expr *type, std::string_view cls) {
  if (!type)
    return true;
  if (type->kind == ExprKind::Tuple)
    return std::any_of(type->operands.begin(), type->operands.end(), [&](const Expr *t) { return takes(t, cls); });
  std::string_view name = lastName(type);
  if (name == "Exception" || name == "BaseException" || cls.empty() || name == cls)
    return true;
  return (name == "LookupError" && (cls == "KeyError" || cls == "IndexError")) ||
         (name == "ArithmeticError" && cls == "ZeroDivisionError");
}

} // namespace

/// Runs statements up to the first error.
Flow Evaluator::untilMistake(Stmts body, bool &mistaken) {
  const unsigned before = diag().errorCount();
  for (size_t i = 0; i < body.size(); ++i) {
    Flow f = execBlock(body.subspan(i, 1));
    mistaken = diag().errorCount() > before || aborted_;
    if (mistaken || !f.falls())
      return f;
  }
  return {};
}

Flow Evaluator::pythonTry(const Stmt &s) {
  DiagEngine before = diag();
  bool mistaken = false, stopped = frame_->stopped;
  Flow f = untilMistake(s.body, mistaken);
  if (mistaken && !aborted_) {
    const auto &all = diag().all();
    auto error = std::find_if(all.begin() + static_cast<ptrdiff_t>(before.all().size()), all.end(),
                              [](const Diagnostic &d) { return d.kind->severity == Severity::Error; });
    const Diagnostic what = error == all.end() ? Diagnostic() : *error;
    for (const syntax::ExceptHandler &h : s.handlers) {
      if (!what.kind || !takes(h.type, classOf(what)))
        continue;
      diag() = before;
      frame_->stopped = stopped;
      if (!h.name.empty())
        env().set(h.name, {Value::str(what.message()), s.loc});
      f = execBlock(h.body);
      break;
    }
  } else if (!mistaken && f.falls()) {
    f = execBlock(s.orelse);
  }
  if (aborted_ || s.finalbody.empty())
    return f;
  Flow last = execBlock(s.finalbody);
  return last.falls() ? f : last;
}

} // namespace tegula::sema
