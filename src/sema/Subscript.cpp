// Subscripts, slices, list comprehensions and f-strings.
#include "lang/Containers.h"
#include "lang/Format.h"
#include "sema/Evaluator.h"

namespace tegula::sema {

using lang::Int;
using lang::SliceValue;

Value Evaluator::slice(const Expr &e) {
  SliceValue s;
  for (size_t i = 0; i < 3; ++i)
    s.parts.push_back(i < e.operands.size() && e.operands[i] ? eval(*e.operands[i]) : Value::none());
  return Value(std::make_shared<const SliceValue>(std::move(s)));
}

Value Evaluator::itemOf(const Value &object, const Value &index, Loc loc, Loc indexLoc) {
  const std::vector<Value> *items = lang::sequenceItems(object);
  Int n = items ? static_cast<Int>(items->size()) : static_cast<Int>(object.asStr().size());
  if (index.is<std::shared_ptr<const SliceValue>>()) {
    std::optional<std::vector<size_t>> at = lang::slicePositions(*index.get<std::shared_ptr<const SliceValue>>(), n);
    if (!at)
      return fail(diag::sliceParts, indexLoc, lang::repr(index));
    if (!items) {
      std::string s;
      for (size_t i : *at)
        s += object.asStr()[i];
      return Value::str(s);
    }
    std::vector<Value> picked;
    for (size_t i : *at)
      picked.push_back((*items)[i]);
    return Value::tuple(std::move(picked));
  }
  if (!index.isInt() && !index.isBool())
    return fail(diag::tupleIndex, indexLoc, lang::kindName(object), describe(index));
  Int i = index.asInt() < 0 ? index.asInt() + n : index.asInt();
  if (i < 0 || i >= n)
    return fail(diag::indexOutOfRange, indexLoc, lang::repr(index), static_cast<uint64_t>(n));
  return items ? (*items)[static_cast<size_t>(i)] : Value::str(std::string(1, object.asStr()[static_cast<size_t>(i)]));
}

Value Evaluator::subscript(const Expr &e) {
  Value object = eval(*e.operands[0]);
  Value index = eval(*e.operands[1]);
  if (object.isError() || index.isError())
    return Value::error();
  builder().setLoc(e.loc);
  if (object.isTensor())
    return lang::subscript(*this, object, index, e.loc);
  if (lang::isAggregate(object))
    if (std::optional<Value> item = callMember(object, "__getitem__", std::span(&index, 1), e.loc))
      return *item;
  const std::vector<Value> *items = lang::sequenceItems(object);
  const Expr &of = *e.operands[0];
  if (items && items->empty() && index.isInt() && of.kind == ExprKind::Attribute && of.name == "shape") {
    diag().report(diag::indexOutOfRange, e.operands[1]->loc, lang::repr(index), uint64_t{0})
        .note(of.loc, "pointers and scalars have no extents; pass those of a tensor as arguments");
    return Value::error();
  }
  if (items || object.isStr())
    return itemOf(object, index, e.loc, e.operands[1]->loc);
  if (lang::isDict(object)) {
    const Value *v = lang::findKey(object, index);
    return v ? *v : fail(diag::noKey, e.operands[1]->loc, lang::repr(index), lang::repr(object));
  }
  if (index.isStr() && enumMembers(object))
    if (std::optional<Value> member = objectAttribute(object, index.asStr(), e.loc))
      return *member;
  return fail(diag::notSubscriptable, e.loc, lang::kindName(object));
}

/// Calls `each` for every binding of the names of the generators from `generator` on; false after a report.
bool Evaluator::comprehend(const Expr &e, size_t generator, const std::function<void()> &each) {
  const syntax::Comprehension &g = e.generators[generator];
  Value iterable = eval(*g.iter);
  if (iterable.isError())
    return false;
  std::optional<std::vector<Value>> items;
  if (frame_->python)
    items = iterate(iterable, g.iter->loc);
  else if (const auto *s = lang::sequenceItems(iterable))
    items = *s;
  else if (iterable.is<std::shared_ptr<const lang::RangeValue>>() && !target().strict) {
    extension(diag::loopOverValues, g.iter->loc);
    items = iterate(iterable, g.iter->loc);
  } else
    fail(diag::comprehensionIterable, g.iter->loc, describe(iterable));
  if (!items)
    return false;
  for (const Value &i : *items) {
    if (aborted_)
      return false;
    // Elements are bound unchanged: only assignment statements turn numbers into tensors.
    assign(*g.target, i, false);
    std::optional<bool> keep = true;
    for (const Expr *c : g.conds) {
      if (!keep.value_or(false))
        break;
      Value condition = eval(*c);
      keep = condition.isError() ? std::nullopt : std::optional(lang::constexprTruth(condition));
      if (!condition.isConstexpr())
        keep = (fail(diag::comprehensionFilter, c->loc, describe(condition)), std::nullopt);
    }
    if (!keep)
      return false;
    if (!*keep)
      continue;
    if (generator + 1 == e.generators.size())
      each();
    else if (!comprehend(e, generator + 1, each))
      return false;
  }
  return true;
}

Value Evaluator::comprehension(const Expr &e) {
  if (e.generators.size() != 1 && !frame_->python)
    return fail(diag::comprehensionForm, e.loc);
  std::vector<Value> out, values;
  bool isDict = e.kind == ExprKind::DictComp;
  bool done = comprehend(e, 0, [&] {
    out.push_back(eval(*e.operands[0]));
    if (isDict)
      values.push_back(eval(*e.operands[1]));
  });
  if (!done)
    return Value::error();
  if ((isDict || e.kind == ExprKind::SetComp) && !charge(out.size() * out.size(), e.loc))
    return Value::error();
  return isDict                        ? lang::makeDict(out, values)
         : e.kind == ExprKind::SetComp ? lang::makeSet(out)
                                       : Value::tuple(std::move(out));
}

Value Evaluator::fstring(const Expr &e) {
  std::string text;
  for (const syntax::FStringPart &p : e.parts) {
    text += p.text;
    if (!p.value)
      continue;
    Value v = eval(*p.value);
    if (v.isError())
      return v;
    if (!v.isConstexpr()) {
      diag()
          .report(diag::fstringRuntime, p.value->loc, describe(v))
          .note({}, "values of run time are printed by `tl.device_print(\"text\", value)`");
      return Value::error();
    }
    if (!charge(v.summary().weight, e.loc))
      return Value::error();
    text += p.debug;
    bool asRepr = p.conversion == 'r' || p.conversion == 'a' || (p.conversion == 0 && !p.debug.empty() && !p.spec);
    if (p.spec) {
      Value spec = eval(*p.spec);
      if (asRepr || p.conversion == 's')
        v = Value::str(asRepr ? lang::repr(v) : lang::str(v));
      asRepr = false;
      v = spec.isError() ? spec : lang::formatValue(*this, v, spec.asStr(), p.value->loc);
      if (v.isError())
        return v;
    }
    text += asRepr ? lang::repr(v) : lang::str(v);
  }
  return Value::str(std::move(text));
}

} // namespace tegula::sema
