// Python's own functions for code that runs at compile time, beyond those that kernels have (lang/builtins/Python.cpp).
#include "sema/Evaluator.h"
#include <algorithm>
#include <cmath>

namespace tegula::sema {

namespace {

using Values = std::vector<Value>;

/// What a row needs: its arguments, and the evaluator for operators and iteration.
struct Call {
  lang::Context &c;
  const Values &args;
  Loc loc;
  std::function<std::optional<Values>(const Value &)> items;
};

std::optional<Value> pyAbs(Call &k) {
  const Value &v = k.args[0];
  if (v.isFloat())
    return Value::number(std::fabs(v.asFloat()));
  return v.isNumber() ? std::optional(Value::integer(v.asInt() < 0 ? -v.asInt() : v.asInt())) : std::nullopt;
}
std::optional<Value> pySum(Call &k) {
  std::optional<Values> items = k.items(k.args[0]);
  Value total = k.args.size() > 1 ? k.args[1] : Value::integer(0);
  if (!items)
    return Value::error();
  for (const Value &i : *items)
    total = lang::binary(k.c, lang::BinOp::Add, total, i, k.loc, k.loc, k.loc);
  return total;
}
std::optional<Value> anyAll(Call &k, bool any) {
  std::optional<Values> items = k.items(k.args[0]);
  if (!items)
    return Value::error();
  for (const Value &i : *items)
    if (lang::constexprTruth(i) == any)
      return Value::boolean(any);
  return Value::boolean(!any);
}
std::optional<Value> pyAny(Call &k) { return anyAll(k, true); }
std::optional<Value> pyAll(Call &k) { return anyAll(k, false); }
std::optional<Value> pyZip(Call &k) {
  std::vector<Values> lists;
  size_t n = SIZE_MAX;
  for (const Value &a : k.args) {
    std::optional<Values> items = k.items(a);
    if (!items)
      return Value::error();
    n = std::min(n, items->size());
    lists.push_back(std::move(*items));
  }
  Values out;
  for (size_t i = 0; i < n && !lists.empty(); ++i) {
    Values row;
    for (const Values &l : lists)
      row.push_back(l[i]);
    out.push_back(Value::tuple(std::move(row)));
  }
  return Value::tuple(std::move(out));
}
std::optional<Value> pyEnumerate(Call &k) {
  std::optional<Values> items = k.items(k.args[0]);
  if (!items)
    return Value::error();
  lang::Int start = k.args.size() > 1 && k.args[1].isInt() ? k.args[1].asInt() : 0;
  Values out;
  for (const Value &i : *items)
    out.push_back(Value::tuple({Value::integer(start++), i}));
  return Value::tuple(std::move(out));
}
std::optional<Value> pyReversed(Call &k) {
  std::optional<Values> items = k.items(k.args[0]);
  if (!items)
    return Value::error();
  std::reverse(items->begin(), items->end());
  return Value::tuple(std::move(*items));
}
std::optional<Value> pySorted(Call &k) {
  std::optional<Values> items = k.items(k.args[0]);
  if (!items)
    return Value::error();
  for (const Value &i : *items)
    if (!i.isNumber())
      return std::nullopt;
  std::sort(items->begin(), items->end(), [](const Value &a, const Value &b) { return a.asFloat() < b.asFloat(); });
  return Value::tuple(std::move(*items));
}
std::optional<Value> pyTuple(Call &k) {
  if (k.args.empty())
    return Value::tuple({});
  std::optional<Values> items = k.items(k.args[0]);
  return items ? Value::tuple(std::move(*items)) : Value::error();
}
std::optional<Value> pyStr(Call &k) { return Value::str(k.args.empty() ? std::string() : lang::str(k.args[0])); }
std::optional<Value> pyRepr(Call &k) { return Value::str(lang::repr(k.args[0])); }
std::optional<Value> pyBool(Call &k) { return Value::boolean(!k.args.empty() && lang::constexprTruth(k.args[0])); }
std::optional<Value> pyType(Call &k) { return Value::str(lang::kindName(k.args[0])); }
std::optional<Value> pyPow(Call &k) {
  return lang::binary(k.c, lang::BinOp::Pow, k.args[0], k.args[1], k.loc, k.loc, k.loc);
}
std::optional<Value> pyDivmod(Call &k) {
  return Value::tuple({lang::binary(k.c, lang::BinOp::FloorDiv, k.args[0], k.args[1], k.loc, k.loc, k.loc),
                       lang::binary(k.c, lang::BinOp::Mod, k.args[0], k.args[1], k.loc, k.loc, k.loc)});
}
std::optional<Value> pyRound(Call &k) {
  if (!k.args[0].isNumber())
    return std::nullopt;
  if (!k.args[0].isFloat())
    return k.args[0];
  double r = std::nearbyint(k.args[0].asFloat());
  if (k.args.size() > 1 || !(std::fabs(r) < 1e18))
    return std::nullopt;
  return Value::integer(static_cast<int64_t>(r));
}

struct Row {
  std::string_view name;
  size_t least, most;
  std::optional<Value> (*fn)(Call &); // nullopt: the arguments are of the wrong type
};
constexpr Row rows[] = {
    {"abs", 1, 1, pyAbs},       {"sum", 1, 2, pySum},         {"any", 1, 1, pyAny},     {"all", 1, 1, pyAll},
    {"zip", 0, SIZE_MAX, pyZip}, {"enumerate", 1, 2, pyEnumerate}, {"reversed", 1, 1, pyReversed},
    {"sorted", 1, 1, pySorted}, {"tuple", 0, 1, pyTuple},     {"str", 0, 1, pyStr},     {"repr", 1, 1, pyRepr},
    {"bool", 0, 1, pyBool},     {"type", 1, 1, pyType},       {"pow", 2, 2, pyPow},     {"divmod", 2, 2, pyDivmod},
    {"round", 1, 2, pyRound},
};

const Row *find(std::string_view name) {
  for (const Row &r : rows)
    if (r.name == name)
      return &r;
  return nullptr;
}

} // namespace

bool isPythonBuiltin(std::string_view name) { return find(name) != nullptr; }

Value Evaluator::pythonBuiltin(std::string_view name, const CallArgs &args, Loc loc) {
  const Row *row = find(name);
  Values values;
  for (const CallArgs::Arg &a : args.args) {
    if (a.value.isError())
      return a.value;
    if (!a.keyword.empty())
      return fail(diag::unknownKeyword, a.keywordLoc, name, a.keyword);
    if (!charge(a.value.summary().weight, loc))
      return Value::error();
    values.push_back(a.value);
  }
  if (!row)
    return fail(diag::hostObjectCalled, loc, name);
  if (values.size() < row->least || values.size() > row->most)
    return fail(diag::tooManyArguments, loc, name, static_cast<uint64_t>(row->most), static_cast<uint64_t>(values.size()));
  Call call{*this, values, loc, [&](const Value &v) { return iterate(v, loc); }};
  std::optional<Value> r = row->fn(call);
  return r ? *r : fail(diag::pythonArgument, loc, name, values.empty() ? "nothing" : describe(values[0]));
}

} // namespace tegula::sema
