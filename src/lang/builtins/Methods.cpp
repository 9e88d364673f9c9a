// Methods of Python's own objects on compile-time values: of str, int, float, tuple (lists are tuples) and dict. In
// kernels they are there as in Triton, where a constexpr hands attributes on to what it holds.
#include "lang/Containers.h"
#include "lang/Format.h"
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

namespace tegula::lang {

namespace {

// Strings.

constexpr std::string_view blanks = " \t\n\r\v\f";

Value mapped(BuiltinCall &call, int (*f)(int)) {
  std::string s = call.args[0].asStr();
  for (char &ch : s)
    ch = static_cast<char>(f(static_cast<unsigned char>(ch)));
  return Value::str(std::move(s));
}
Value strUpper(BuiltinCall &call) { return mapped(call, std::toupper); }
Value strLower(BuiltinCall &call) { return mapped(call, std::tolower); }
Value strCapitalize(BuiltinCall &call) {
  std::string s = strLower(call).asStr();
  if (!s.empty())
    s[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(s[0])));
  return Value::str(std::move(s));
}

Value allOf(BuiltinCall &call, int (*f)(int)) {
  const std::string &s = call.args[0].asStr();
  return Value::boolean(!s.empty() && std::all_of(s.begin(), s.end(), [&](unsigned char ch) { return f(ch) != 0; }));
}
Value strIsdigit(BuiltinCall &call) { return allOf(call, std::isdigit); }
Value strIsalpha(BuiltinCall &call) { return allOf(call, std::isalpha); }
Value strIsalnum(BuiltinCall &call) { return allOf(call, std::isalnum); }

/// startswith and endswith take one text or a tuple of them.
Value beginsOrEnds(BuiltinCall &call, const char *function, bool begins) {
  Args a(call, function);
  std::vector<Value> one{a[1]};
  const std::vector<Value> *options = sequenceItems(a[1]) ? sequenceItems(a[1]) : &one;
  bool found = false;
  for (const Value &o : *options) {
    if (!o.isStr())
      return a.badArgument(1, "prefix", "a string or a tuple of strings");
    std::string_view s = a[0].asStr();
    found |= begins ? s.starts_with(o.asStr()) : s.ends_with(o.asStr());
  }
  return Value::boolean(found);
}
Value strStartswith(BuiltinCall &call) { return beginsOrEnds(call, "startswith", true); }
Value strEndswith(BuiltinCall &call) { return beginsOrEnds(call, "endswith", false); }

Value without(BuiltinCall &call, const char *function, bool prefix) {
  std::optional<std::string> t = Args(call, function).text(1, "text");
  std::string s = call.args[0].asStr();
  if (!t)
    return Value::error();
  if (prefix ? s.starts_with(*t) : s.ends_with(*t))
    s.erase(prefix ? 0 : s.size() - t->size(), t->size());
  return Value::str(std::move(s));
}
Value strRemoveprefix(BuiltinCall &call) { return without(call, "removeprefix", true); }
Value strRemovesuffix(BuiltinCall &call) { return without(call, "removesuffix", false); }

Value stripped(BuiltinCall &call, const char *function, bool left, bool right) {
  Args a(call, function);
  std::optional<std::string> chars = a[1].isNone() ? std::optional(std::string(blanks)) : a.text(1, "chars");
  if (!chars)
    return Value::error();
  std::string_view s = a[0].asStr();
  size_t first = left ? s.find_first_not_of(*chars) : 0;
  size_t last = right ? s.find_last_not_of(*chars) : s.size() - 1;
  if (s.empty() || first == s.npos || last == s.npos)
    return Value::str("");
  return Value::str(std::string(s.substr(first, last - first + 1)));
}
Value strStrip(BuiltinCall &call) { return stripped(call, "strip", true, true); }
Value strLstrip(BuiltinCall &call) { return stripped(call, "lstrip", true, false); }
Value strRstrip(BuiltinCall &call) { return stripped(call, "rstrip", false, true); }

Value strSplit(BuiltinCall &call) {
  Args a(call, "split");
  std::optional<std::string> by = a[1].isNone() ? std::optional(std::string()) : a.text(1, "sep");
  std::optional<int64_t> most = by ? a.integer(2, "maxsplit") : std::nullopt;
  if (!most)
    return Value::error();
  if (!a[1].isNone() && by->empty())
    return a.badArgument(1, "sep", "a string that is not empty");
  std::string_view s = a[0].asStr();
  std::vector<Value> out;
  auto more = [&] { return *most < 0 || out.size() < static_cast<size_t>(*most); };
  if (by->empty()) {
    for (size_t i = s.find_first_not_of(blanks); i != s.npos;) {
      size_t end = more() ? s.find_first_of(blanks, i) : s.npos;
      std::string_view word = s.substr(i, end == s.npos ? s.npos : end - i);
      out.push_back(Value::str(std::string(word.substr(0, word.find_last_not_of(blanks) + 1))));
      i = end == s.npos ? s.npos : s.find_first_not_of(blanks, end);
    }
    return Value::tuple(std::move(out));
  }
  for (size_t at; more() && (at = s.find(*by)) != s.npos; s.remove_prefix(at + by->size()))
    out.push_back(Value::str(std::string(s.substr(0, at))));
  out.push_back(Value::str(std::string(s)));
  return Value::tuple(std::move(out));
}

Value strPartition(BuiltinCall &call) {
  std::optional<std::string> by = Args(call, "partition").text(1, "sep");
  const std::string &s = call.args[0].asStr();
  if (!by)
    return Value::error();
  size_t at = s.find(*by);
  if (at == s.npos)
    return Value::tuple({Value::str(s), Value::str(""), Value::str("")});
  return Value::tuple({Value::str(s.substr(0, at)), Value::str(*by), Value::str(s.substr(at + by->size()))});
}

Value strJoin(BuiltinCall &call) {
  Args a(call, "join");
  const std::vector<Value> *items = sequenceItems(a[1]);
  std::string out;
  for (size_t i = 0; items && i < items->size(); ++i) {
    if (!(*items)[i].isStr() || out.size() > (1 << 20))
      return a.badArgument(1, "iterable", "strings of 1 MiB at most");
    out += (i ? a[0].asStr() : "") + (*items)[i].asStr();
  }
  return items ? Value::str(std::move(out)) : a.badArgument(1, "iterable", "a tuple of strings");
}

Value strReplace(BuiltinCall &call) {
  Args a(call, "replace");
  std::optional<std::string> from = a.text(1, "old"), to = from ? a.text(2, "new") : std::nullopt;
  if (!to)
    return Value::error();
  std::string out;
  std::string_view s = a[0].asStr();
  for (size_t at; !from->empty() && (at = s.find(*from)) != s.npos; s.remove_prefix(at + from->size())) {
    if (out.size() > (1 << 20))
      return a.badArgument(0, "self", "a string of 1 MiB at most");
    (out += s.substr(0, at)) += *to;
  }
  return Value::str(out += s);
}

Value strCount(BuiltinCall &call) {
  std::optional<std::string> t = Args(call, "count").text(1, "sub");
  if (!t || t->empty())
    return t ? Value::integer(static_cast<Int>(call.args[0].asStr().size() + 1)) : Value::error();
  Int n = 0;
  for (size_t at = call.args[0].asStr().find(*t); at != std::string::npos;
       at = call.args[0].asStr().find(*t, at + t->size()))
    ++n;
  return Value::integer(n);
}

Value found(BuiltinCall &call, const char *function, bool last, bool must) {
  Args a(call, function);
  std::optional<std::string> t = a.text(1, "sub");
  if (!t)
    return Value::error();
  size_t at = last ? a[0].asStr().rfind(*t) : a[0].asStr().find(*t);
  if (at == std::string::npos && must)
    return a.fail(diag::valueError, a.loc(1), "substring not found");
  return Value::integer(at == std::string::npos ? -1 : static_cast<Int>(at));
}
Value strFind(BuiltinCall &call) { return found(call, "find", false, false); }
Value strRfind(BuiltinCall &call) { return found(call, "rfind", true, false); }
Value strIndex(BuiltinCall &call) { return found(call, "index", false, true); }

Value strFormat(BuiltinCall &call) {
  return formatBraces(call.ctx, call.args[0].asStr(), call.args[1].items(), call.args[2].items(), call.loc);
}
Value strZfill(BuiltinCall &call) {
  std::optional<int64_t> width = Args(call, "zfill").integer(1, "width");
  std::string s = call.args[0].asStr();
  if (!width)
    return Value::error();
  size_t sign = !s.empty() && (s[0] == '-' || s[0] == '+') ? 1 : 0;
  if (*width > static_cast<int64_t>(s.size()) && *width < (1 << 16))
    s.insert(sign, static_cast<size_t>(*width) - s.size(), '0');
  return Value::str(std::move(s));
}

// Numbers.

unsigned __int128 magnitude(const Value &v) {
  Int i = v.asInt();
  return i < 0 ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
}
Value intBitLength(BuiltinCall &call) {
  unsigned __int128 m = magnitude(call.args[0]);
  auto high = static_cast<uint64_t>(m >> 64), low = static_cast<uint64_t>(m);
  return Value::integer(high ? 64 + std::bit_width(high) : std::bit_width(low));
}
Value intBitCount(BuiltinCall &call) {
  unsigned __int128 m = magnitude(call.args[0]);
  return Value::integer(std::popcount(static_cast<uint64_t>(m >> 64)) + std::popcount(static_cast<uint64_t>(m)));
}
Value intIsInteger(BuiltinCall &) { return Value::boolean(true); }
Value floatIsInteger(BuiltinCall &call) {
  double v = call.args[0].asFloat();
  return Value::boolean(std::isfinite(v) && v == std::floor(v));
}

// Tuples, lists and dicts.

Value tupleIndex(BuiltinCall &call) {
  Args a(call, "index");
  const std::vector<Value> &items = a[0].items();
  auto it = std::find_if(items.begin(), items.end(), [&](const Value &v) { return equal(v, a[1]); });
  return it == items.end() ? a.fail(diag::valueError, a.loc(1), repr(a[1]) + " is not in the list")
                           : Value::integer(it - items.begin());
}
Value tupleCount(BuiltinCall &call) {
  const std::vector<Value> &items = call.args[0].items();
  return Value::integer(
      std::count_if(items.begin(), items.end(), [&](const Value &v) { return equal(v, call.args[1]); }));
}
Value tupleCopy(BuiltinCall &call) { return Value::tuple(call.args[0].items()); }
Value itself(BuiltinCall &call) { return call.args[0]; }

Value dictGet(BuiltinCall &call) {
  const Value *v = findKey(call.args[0], call.args[1]);
  return v ? *v : call.args[2];
}
Value dictKeys(BuiltinCall &call) { return Value::tuple(keysOf(call.args[0])); }
Value dictValues(BuiltinCall &call) { return Value::tuple(valuesOf(call.args[0])); }
Value dictCopy(BuiltinCall &call) { return makeDict(keysOf(call.args[0]), valuesOf(call.args[0])); }
Value dictItems(BuiltinCall &call) {
  std::vector<Value> out;
  for (size_t i = 0; i < keysOf(call.args[0]).size(); ++i)
    out.push_back(Value::tuple({keysOf(call.args[0])[i], valuesOf(call.args[0])[i]}));
  return Value::tuple(std::move(out));
}

constexpr Builtin rows[] = {
    {"python.str.upper", "self", strUpper, 0, "In capitals."},
    {"python.str.lower", "self", strLower, 0, "In small letters."},
    {"python.str.capitalize", "self", strCapitalize, 0, "The first letter in capitals."},
    {"python.str.isdigit", "self", strIsdigit, 0, "Digits only."},
    {"python.str.isalpha", "self", strIsalpha, 0, "Letters only."},
    {"python.str.isalnum", "self", strIsalnum, 0, "Letters and digits only."},
    {"python.str.startswith", "self, prefix", strStartswith, 0, "Begins so, or with one of a tuple."},
    {"python.str.endswith", "self, suffix", strEndswith, 0, "Ends so, or with one of a tuple."},
    {"python.str.removeprefix", "self, prefix", strRemoveprefix, 0, "Without that beginning."},
    {"python.str.removesuffix", "self, suffix", strRemovesuffix, 0, "Without that end."},
    {"python.str.strip", "self, chars=None", strStrip, 0, "Without blanks at both ends."},
    {"python.str.lstrip", "self, chars=None", strLstrip, 0, "Without blanks in front."},
    {"python.str.rstrip", "self, chars=None", strRstrip, 0, "Without blanks at the end."},
    {"python.str.split", "self, sep=None, maxsplit=-1", strSplit, 0, "The parts between separators."},
    {"python.str.partition", "self, sep", strPartition, 0,
     "What stands before the separator, it, and what stands behind."},
    {"python.str.join", "self, iterable", strJoin, 0, "The strings with this one between them."},
    {"python.str.replace", "self, old, new", strReplace, 0, "With each `old` replaced."},
    {"python.str.count", "self, sub", strCount, 0, "How often it contains a text."},
    {"python.str.find", "self, sub", strFind, 0, "Where a text begins, or -1."},
    {"python.str.rfind", "self, sub", strRfind, 0, "Where a text begins for the last time, or -1."},
    {"python.str.index", "self, sub", strIndex, 0, "Where a text begins."},
    {"python.str.format", "self, *args, **kwargs", strFormat, 0, "With values in the place of {}."},
    {"python.str.zfill", "self, width", strZfill, 0, "With zeros in front."},
    {"python.int.bit_length", "self", intBitLength, 0, "Bits of the magnitude."},
    {"python.int.bit_count", "self", intBitCount, 0, "Ones among the bits of the magnitude."},
    {"python.int.is_integer", "self", intIsInteger, 0, "True."},
    {"python.int.conjugate", "self", itself, 0, "The number itself."},
    {"python.float.is_integer", "self", floatIsInteger, 0, "Has no fraction."},
    {"python.float.conjugate", "self", itself, 0, "The number itself."},
    {"python.tuple.index", "self, value", tupleIndex, 0, "Where a value stands."},
    {"python.tuple.count", "self, value", tupleCount, 0, "How often a value occurs."},
    {"python.tuple.copy", "self", tupleCopy, 0, "A list of its own."},
    {"python.dict.get", "self, key, default=None", dictGet, 0, "The value of a key, or the default."},
    {"python.dict.keys", "self", dictKeys, 0, "The keys."},
    {"python.dict.values", "self", dictValues, 0, "The values."},
    {"python.dict.items", "self", dictItems, 0, "Pairs of key and value."},
    {"python.dict.copy", "self", dictCopy, 0, "A dict of its own."},
};

} // namespace

std::span<const Builtin> methodBuiltins() { return rows; }

} // namespace tegula::lang
