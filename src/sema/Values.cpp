// Values as lists of tensors, which branches, loops and calls carry.
#include "sema/Evaluator.h"

namespace tegula::sema {

using lang::RecordValue;
using lang::Tensor;
using lang::TupleValue;

void flatten(const Value &v, std::vector<Tensor> &out) {
  if (v.isConstexpr())
    return;
  if (v.isTensor())
    out.push_back(v.asTensor());
  else if (v.isTuple())
    for (const Value &i : v.items())
      flatten(i, out);
  else if (v.isRecord())
    for (const Value &i : v.record().fields)
      flatten(i, out);
}

std::vector<Tensor> flatten(const Value &v) {
  std::vector<Tensor> out;
  flatten(v, out);
  return out;
}

namespace {

Value rebuildFrom(const Value &v, std::span<ir::Value *const> &tensors) {
  if (v.isConstexpr())
    return v;
  if (v.isTensor()) {
    ir::Value *t = tensors.front();
    tensors = tensors.subspan(1);
    return Value::tensor(v.asTensor().dtype, t);
  }
  if (v.isTuple()) {
    std::vector<Value> items;
    for (const Value &i : v.items())
      items.push_back(rebuildFrom(i, tensors));
    return Value::tuple(std::move(items));
  }
  if (v.isRecord()) {
    std::vector<Value> fields;
    for (const Value &i : v.record().fields)
      fields.push_back(rebuildFrom(i, tensors));
    return Value(std::make_shared<const RecordValue>(v.record().cls, std::move(fields)));
  }
  return v;
}

bool sameTypes(const std::vector<Value> &a, const std::vector<Value> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!sameType(a[i], b[i]))
      return false;
  return true;
}

} // namespace

Value rebuild(const Value &v, std::span<ir::Value *const> tensors) { return rebuildFrom(v, tensors); }

bool sameType(const Value &a, const Value &b) {
  if (lang::samePayload(a, b))
    return true;
  if (a.isTensor() && b.isTensor())
    return a.asTensor().dtype == b.asTensor().dtype && a.asTensor().shape() == b.asTensor().shape();
  if (a.isTuple() && b.isTuple())
    return sameTypes(a.items(), b.items());
  if (a.isRecord() && b.isRecord())
    return lang::isSameClass(*a.record().cls, *b.record().cls) && sameTypes(a.record().fields, b.record().fields);
  if (a.isTensor() || b.isTensor())
    return false;
  return a.isConstexpr() && b.isConstexpr() && lang::key(a.withoutMember()) == lang::key(b.withoutMember());
}

std::string describe(const Value &v) {
  if (v.isTensor())
    return lang::typeName(v.asTensor());
  if (v.isNumber() || v.isStr())
    return lang::kindName(v) + " " + lang::repr(v);
  return lang::repr(v);
}

} // namespace tegula::sema
