// Aggregates: what their fields may hold, and copies with other values in some of them.
#include "lang/Ops.h"
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <algorithm>

namespace tegula::lang {

namespace {

/// The type of a field as the user wrote it.
std::string typeText(const Value &type) {
  if (type.is<const Builtin *>())
    return std::string("tl.") + type.get<const Builtin *>()->name;
  using Class = std::shared_ptr<const RecordClass>;
  if (type.is<Class>())
    return type.get<Class>()->name;
  return type.is<std::shared_ptr<const OpaqueValue>>() ? "tl." + repr(type) : repr(type);
}

bool isConstexprType(const Value &type) {
  return type.is<const Builtin *>() && std::string_view(type.get<const Builtin *>()->name) == "constexpr";
}

Value replace(BuiltinCall &call) {
  Args a(call, "aggregate_replace");
  if (!isAggregate(a[0]))
    return a.fail(diag::notAnAggregate, a.loc(0), kindName(a[0]));
  const RecordValue &old = a[0].record();
  std::vector<Value> fields = old.fields;
  for (const Value &change : a[1].items()) {
    const std::string &name = change.items()[0].asStr();
    const Value &v = change.items()[1];
    auto it = std::find(old.cls->fields.begin(), old.cls->fields.end(), name);
    if (it == old.cls->fields.end())
      return a.fail(diag::noSuchField, a.loc(1), old.cls->name, name);
    size_t i = static_cast<size_t>(it - old.cls->fields.begin());
    if (v.isError() || !checkField(call.ctx, *old.cls, i, v, a.loc(1)))
      return Value::error();
    fields[i] = v;
  }
  return Value(std::make_shared<const RecordValue>(old.cls, std::move(fields)));
}

constexpr Builtin rows[] = {
    {"aggregate_replace", "obj, **changes", replace, 0,
     "A copy of an aggregate with other values in the fields that are named."},
};

} // namespace

bool checkField(Context &c, const RecordClass &cls, size_t i, const Value &v, Loc loc) {
  const Value &type = cls.aggregate->types[i];
  if (v.isError())
    return false;
  if (type.isError()) {
    c.diag().report(diag::fieldAnnotation, loc, cls.fields[i], cls.name);
    return false;
  }
  if (isConstexprType(type) ? v.isConstexpr() : isInstance(v, type))
    return true;
  auto d = c.diag().report(diag::fieldType, loc, typeText(type), cls.fields[i],
                           v.isTensor() ? typeName(v.asTensor()) : kindName(v));
  if (v.isNumber())
    d.note({}, repr(v) + " is a compile-time number; tl.to_tensor makes a tensor of it");
  return false;
}

std::span<const Builtin> aggregateBuiltins() { return rows; }

} // namespace tegula::lang
