// Python's own functions for code that runs at compile time, beyond those of kernels (lang/builtins/Python.cpp).
#include "lang/CompileTime.h"
#include "lang/Containers.h"
#include "lang/Format.h"
#include "sema/Evaluator.h"
#include <algorithm>
#include <cmath>

namespace tegula::sema {

namespace {

using Values = std::vector<Value>;

/// The inputs of a row: its arguments, and the evaluator for operators and iteration.
struct Call {
  lang::Context &c;
  const Values &args;
  Loc loc;
  std::function<std::optional<Values>(const Value &)> items;
  std::vector<std::pair<std::string_view, Value>> named;

  const Value *keyword(std::string_view name) const {
    for (const auto &[n, v] : named)
      if (n == name)
        return &v;
    return nullptr;
  }
};

std::optional<Value> pyAbs(Call &k) {
  const Value &v = k.args[0];
  if (v.isTensor())
    return k.c.call(Value(lang::findBuiltin("abs")), std::span(&v, 1), k.loc);
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
/// `items` ordered by key=, or by themselves without it; nullopt if two of them are not comparable.
std::optional<Values> ordered(Call &k, const Values &items) {
  const Value *key = k.keyword("key");
  struct Row {
    Value key;
    size_t at;
  };
  std::vector<Row> rows;
  for (const Value &i : items) {
    rows.push_back({key && !key->isNone() ? k.c.call(*key, std::span(&i, 1), k.loc) : i, rows.size()});
    if (!lang::orderOf(rows[0].key, rows.back().key))
      return std::nullopt;
  }
  // All are comparable with the first, so they are comparable with each other.
  std::sort(rows.begin(), rows.end(), [&](const Row &a, const Row &b) {
    int o = lang::orderOf(a.key, b.key).value_or(0);
    return o ? o < 0 : a.at < b.at;
  });
  Values out;
  for (const Row &r : rows)
    out.push_back(items[r.at]);
  return out;
}
std::optional<Value> pySorted(Call &k) {
  std::optional<Values> items = k.items(k.args[0]);
  if (!items)
    return Value::error();
  const Value *reverse = k.keyword("reverse");
  bool backward = reverse && lang::constexprTruth(*reverse);
  // In reverse order, equal items keep their order, too.
  if (backward)
    std::reverse(items->begin(), items->end());
  items = ordered(k, *items);
  if (!items)
    return std::nullopt;
  if (backward)
    std::reverse(items->begin(), items->end());
  return Value::tuple(std::move(*items));
}
std::optional<Value> extremum(Call &k, bool greatest) {
  std::optional<Values> items = k.args.size() == 1 ? k.items(k.args[0]) : std::optional(k.args);
  if (!items)
    return Value::error();
  if (items->empty())
    return k.keyword("default") ? std::optional(*k.keyword("default")) : std::nullopt;
  // Of equal items, the first one.
  if (greatest)
    std::reverse(items->begin(), items->end());
  items = ordered(k, *items);
  return items ? std::optional(greatest ? items->back() : items->front()) : std::nullopt;
}
std::optional<Value> pyMin(Call &k) { return extremum(k, false); }
std::optional<Value> pyMax(Call &k) { return extremum(k, true); }
std::optional<Value> pyMap(Call &k) {
  std::vector<Values> lists;
  for (size_t i = 1; i < k.args.size(); ++i) {
    std::optional<Values> items = k.items(k.args[i]);
    if (!items)
      return Value::error();
    lists.push_back(std::move(*items));
  }
  Values out;
  for (size_t i = 0; i < std::min_element(
                             lists.begin(), lists.end(), [](auto &a, auto &b) { return a.size() < b.size(); })
                             ->size();
       ++i) {
    Values args;
    for (const Values &l : lists)
      args.push_back(l[i]);
    out.push_back(k.c.call(k.args[0], args, k.loc));
    if (out.back().isError())
      return Value::error();
  }
  return Value::tuple(std::move(out));
}
std::optional<Value> pyFilter(Call &k) {
  std::optional<Values> items = k.items(k.args[1]);
  if (!items)
    return Value::error();
  Values out;
  for (const Value &i : *items) {
    Value keep = k.args[0].isNone() ? i : k.c.call(k.args[0], std::span(&i, 1), k.loc);
    if (keep.isError())
      return keep;
    if (lang::constexprTruth(keep))
      out.push_back(i);
  }
  return Value::tuple(std::move(out));
}
std::optional<Value> pySet(Call &k) {
  if (k.args.empty())
    return lang::makeSet({});
  std::optional<Values> items = k.items(k.args[0]);
  return items ? lang::makeSet(*items) : Value::error();
}
std::optional<Value> pyDict(Call &k) {
  Values keys, values;
  if (!k.args.empty() && lang::isDict(k.args[0])) {
    keys = lang::keysOf(k.args[0]);
    values = lang::valuesOf(k.args[0]);
  } else if (!k.args.empty()) {
    std::optional<Values> pairs = k.items(k.args[0]);
    if (!pairs)
      return Value::error();
    for (const Value &p : *pairs) {
      if (!p.isTuple() || p.items().size() != 2)
        return std::nullopt;
      keys.push_back(p.items()[0]);
      values.push_back(p.items()[1]);
    }
  }
  for (const auto &[name, v] : k.named) {
    keys.push_back(Value::str(std::string(name)));
    values.push_back(v);
  }
  return lang::makeDict(keys, values);
}
std::optional<Value> pyPrint(Call &k) {
  const Value *sep = k.keyword("sep"), *end = k.keyword("end");
  std::string text;
  for (size_t i = 0; i < k.args.size(); ++i)
    text += (i ? sep ? lang::str(*sep) : " " : "") + lang::str(k.args[i]);
  k.c.staticPrint(text + (end ? lang::str(*end) : "\n"), k.loc);
  return Value::none();
}
std::optional<Value> inBase(Call &k, const char *spec) {
  if (!k.args[0].isInt() && !k.args[0].isBool())
    return std::nullopt;
  return lang::formatValue(k.c, Value::integer(k.args[0].asInt()), spec, k.loc);
}
std::optional<Value> pyHex(Call &k) { return inBase(k, "#x"); }
std::optional<Value> pyBin(Call &k) { return inBase(k, "#b"); }
std::optional<Value> pyOct(Call &k) { return inBase(k, "#o"); }
std::optional<Value> pyOrd(Call &k) {
  if (!k.args[0].isStr() || k.args[0].asStr().size() != 1)
    return std::nullopt;
  return Value::integer(static_cast<unsigned char>(k.args[0].asStr()[0]));
}
std::optional<Value> pyChr(Call &k) {
  if (!k.args[0].isInt() || k.args[0].asInt() < 0 || k.args[0].asInt() > 127)
    return std::nullopt;
  return Value::str(std::string(1, static_cast<char>(k.args[0].asInt())));
}
std::optional<Value> pyFormat(Call &k) {
  if (k.args.size() > 1 && !k.args[1].isStr())
    return std::nullopt;
  return lang::formatValue(k.c, k.args[0], k.args.size() > 1 ? k.args[1].asStr() : "", k.loc);
}
std::optional<Value> pyTuple(Call &k) {
  if (k.args.empty())
    return Value::tuple({});
  std::optional<Values> items = k.items(k.args[0]);
  return items ? Value::tuple(std::move(*items)) : Value::error();
}
/// `next` of an iterator without other references, see Evaluator::callExpr.
std::optional<Value> pyNext(Call &k) {
  std::optional<Values> items = k.items(k.args[0]);
  if (!items)
    return Value::error();
  return !items->empty() ? std::optional(items->front()) : k.args.size() > 1 ? std::optional(k.args[1]) : std::nullopt;
}
std::optional<Value> pyStr(Call &k) { return Value::str(k.args.empty() ? std::string() : lang::str(k.args[0])); }
std::optional<Value> pyRepr(Call &k) { return Value::str(lang::repr(k.args[0])); }
std::optional<Value> pyBool(Call &k) { return Value::boolean(!k.args.empty() && lang::constexprTruth(k.args[0])); }
/// The class under the name that reads it: `type(x) is int`.
std::optional<Value> pyType(Call &k) {
  const Value &v = k.args[0];
  if (v.isRecord() && !lang::isDict(v) && !lang::isSet(v))
    return Value(v.record().cls);
  std::string name = "python." + lang::kindName(v);
  if (const lang::Builtin *b = lang::findBuiltin(name))
    return Value(b);
  return Value(std::make_shared<const lang::OpaqueValue>(lang::OpaqueValue{name, 0}));
}
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
  if (k.args.size() > 1 && k.args[1].isInt() && k.args[1].asInt() >= 0 && k.args[1].asInt() < 16) {
    // As in Python: the nearest number with that many digits.
    Value text = lang::formatValue(k.c, k.args[0], "." + lang::intToString(k.args[1].asInt()) + "f", k.loc);
    return text.isError() ? text : Value::number(std::strtod(text.asStr().c_str(), nullptr));
  }
  if (k.args.size() > 1 || !(std::fabs(r) < 1e18))
    return std::nullopt;
  return Value::integer(static_cast<int64_t>(r));
}

/// The element type of an argument of finfo or iinfo: the language's, or PyTorch's or NumPy's by its name.
std::optional<lang::Dtype> elementType(const Value &v) {
  if (v.is<lang::Dtype>())
    return v.get<lang::Dtype>();
  std::string_view name;
  if (v.is<std::shared_ptr<const lang::OpaqueValue>>())
    name = v.get<std::shared_ptr<const lang::OpaqueValue>>()->name;
  else if (v.is<std::shared_ptr<const lang::Module>>()) // a class of NumPy's
    name = v.get<std::shared_ptr<const lang::Module>>()->name;
  else if (v.isStr())
    name = v.asStr();
  return lang::parseDtype(name.substr(name.rfind('.') + 1));
}

Value limits(std::string name, std::vector<std::pair<std::string, Value>> fields) {
  return Value(
      std::make_shared<const lang::OpaqueValue>(lang::OpaqueValue{std::move(name), 0, std::move(fields), false}));
}

/// torch.finfo(t), numpy.finfo(t).
std::optional<Value> pyFinfo(Call &k) {
  using lang::Scalar;
  struct Format {
    Scalar scalar;
    int mantissa, least; // bits after the point; exponent of the smallest normal number
    double most;
  };
  static const Format formats[] = {
      {Scalar::Fp16, 10, -14, 65504},
      {Scalar::Bf16, 7, -126, 0x1.fep127},
      {Scalar::Fp32, 23, -126, 0x1.fffffep127},
      {Scalar::Fp64, 52, -1022, 0x1.fffffffffffffp1023},
      {Scalar::Fp8e5, 2, -14, 57344},
      {Scalar::Fp8e4nv, 3, -6, 448},
      {Scalar::Fp8e4b8, 3, -7, 240},
      {Scalar::Fp8e5b16, 2, -15, 57344},
  };
  std::optional<lang::Dtype> t = elementType(k.args[0]);
  for (const Format &f : formats)
    if (t && *t == lang::dtype(f.scalar)) {
      Value tiny = Value::number(std::ldexp(1, f.least));
      double digits = std::floor(f.mantissa * std::log10(2.0));
      return limits("finfo object", {{"bits", Value::integer(t->bits())},
                                     {"dtype", Value::str(lang::spelling(*t))},
                                     {"eps", Value::number(std::ldexp(1, -f.mantissa))},
                                     {"max", Value::number(f.most)},
                                     {"min", Value::number(-f.most)},
                                     {"resolution", Value::number(std::pow(10.0, -digits))},
                                     {"smallest_normal", tiny},
                                     {"tiny", tiny}});
    }
  return std::nullopt;
}

/// torch.iinfo(t), numpy.iinfo(t).
std::optional<Value> pyIinfo(Call &k) {
  std::optional<lang::Dtype> t = elementType(k.args[0]);
  if (!t || !t->isInt() || t->isBool())
    return std::nullopt;
  lang::Int one = 1, span = one << (t->bits() - t->isSigned());
  return limits("iinfo object", {{"bits", Value::integer(t->bits())},
                                 {"dtype", Value::str(lang::spelling(*t))},
                                 {"max", Value::integer(span - one)},
                                 {"min", Value::integer(t->isSigned() ? -span : lang::Int(0))}});
}

struct Row {
  std::string_view name;
  size_t least, most;
  std::optional<Value> (*fn)(Call &); // nullopt: the arguments have the wrong type
  std::string_view keywords = {};     // accepted keywords, separated by blanks; "*": any
  bool looks = true;                  // inspects its arguments, so that it accepts no tensors
};
constexpr Row rows[] = {
    {"abs", 1, 1, pyAbs, {}, false},
    {"sum", 1, 2, pySum, {}, false},
    {"any", 1, 1, pyAny},
    {"all", 1, 1, pyAll},
    {"zip", 0, SIZE_MAX, pyZip, "strict", false},
    {"enumerate", 1, 2, pyEnumerate, {}, false},
    {"reversed", 1, 1, pyReversed, {}, false},
    {"sorted", 1, 1, pySorted, "key reverse"},
    {"min", 1, SIZE_MAX, pyMin, "key default"},
    {"max", 1, SIZE_MAX, pyMax, "key default"},
    {"map", 2, SIZE_MAX, pyMap, {}, false},
    {"filter", 2, 2, pyFilter},
    {"tuple", 0, 1, pyTuple, {}, false},
    {"list", 0, 1, pyTuple, {}, false},
    {"iter", 1, 1, pyTuple, {}, false},
    {"next", 1, 2, pyNext, {}, false},
    {"set", 0, 1, pySet},
    {"frozenset", 0, 1, pySet},
    {"dict", 0, 1, pyDict, "*", false},
    {"str", 0, 1, pyStr},
    {"repr", 1, 1, pyRepr},
    {"format", 1, 2, pyFormat},
    {"print", 0, SIZE_MAX, pyPrint, "sep end flush"},
    {"hex", 1, 1, pyHex},
    {"bin", 1, 1, pyBin},
    {"oct", 1, 1, pyOct},
    {"ord", 1, 1, pyOrd},
    {"chr", 1, 1, pyChr},
    {"bool", 0, 1, pyBool},
    {"type", 1, 1, pyType},
    {"pow", 2, 2, pyPow, {}, false},
    {"divmod", 2, 2, pyDivmod, {}, false},
    {"round", 1, 2, pyRound},
    // Not reachable by name: a binding passes these for PyTorch's or NumPy's.
    {"numpy.finfo", 1, 1, pyFinfo},
    {"numpy.iinfo", 1, 1, pyIinfo},
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
  std::vector<std::pair<std::string_view, Value>> named;
  for (const CallArgs::Arg &a : args.args) {
    if (a.value.isError())
      return a.value;
    if (!a.keyword.empty()) {
      if (!row || (row->keywords != "*" && row->keywords.find(a.keyword) == row->keywords.npos))
        return fail(diag::unknownKeyword, a.keywordLoc, name, a.keyword);
      named.emplace_back(a.keyword, a.value);
      continue;
    }
    if (!charge(a.value.summary().weight, loc))
      return Value::error();
    values.push_back(a.value);
  }
  if (!row)
    return fail(diag::hostObjectCalled, loc, name);
  if (values.size() < row->least || values.size() > row->most)
    return fail(diag::tooManyArguments, loc, name, static_cast<uint64_t>(row->most),
                static_cast<uint64_t>(values.size()));
  Call call{*this, values, loc, [&](const Value &v) { return iterate(v, loc); }, std::move(named)};
  bool tensors = !frame_->python && row->looks &&
                 !std::all_of(values.begin(), values.end(), [](const Value &v) { return v.isConstexpr(); });
  std::optional<Value> r = tensors ? std::nullopt : row->fn(call);
  return r ? *r : fail(diag::pythonArgument, loc, name, values.empty() ? "nothing" : describe(values[0]));
}

} // namespace tegula::sema
