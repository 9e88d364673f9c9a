// Joins the families of builtins into one name table and parses their signatures, once per process.
#include "lang/Builtin.h"
#include "lang/Emit.h"
#include "lang/builtins/Families.h"
#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdlib>
#include <unordered_map>

namespace tegula::lang {

namespace {

/// Prefixes under which a row of another name is found as well.
struct Alias {
  std::string_view prefix;
  std::string_view target;
};
constexpr Alias aliases[] = {
    {"math.", ""},
    {"extra.cuda.libdevice.", "extra.libdevice."},
    {"extra.cpu.libdevice.", "extra.libdevice."},
    {"extra.hip.libdevice.", "extra.libdevice."},
    {"libdevice.", "extra.libdevice."},
};
/// Names that tl.math mirrors.
constexpr std::string_view mathNames[] = {"abs", "add_f32x2", "ceil", "clamp", "cos", "div_rn",
                                          "erf", "exp", "exp2", "fdiv", "floor", "fma",
                                          "fma_f32x2", "log", "log2", "maximum", "minimum", "mul_f32x2",
                                          "rsqrt", "sin", "sqrt", "sqrt_rn", "sub_f32x2", "umulhi"};

bool allowed(const Alias &a, std::string_view rest) {
  return !a.target.empty() || std::find(std::begin(mathNames), std::end(mathNames), rest) != std::end(mathNames);
}

/// Parses the text of one signature. The grammar is that of Python parameters with literal defaults; rows are ours, so
/// a mistake is a bug here and asserts.
class SignatureParser {
public:
  explicit SignatureParser(std::string_view text) : s_(text) {}
  Signature parse() {
    Signature sig;
    bool keywordOnly = false;
    for (skip(); !s_.empty(); skip()) {
      Signature::Param p;
      p.keywordOnly = keywordOnly;
      if (eat('*')) {
        keywordOnly = true;
        p.keywords = eat('*');
        p.variadic = !p.keywords;
      }
      p.name = word();
      skip();
      if (eat('=')) {
        p.hasDefault = true;
        p.defaultValue = literal();
      }
      if (p.variadic || p.keywords)
        p.defaultValue = Value::tuple({});
      if (!p.name.empty())
        sig.params.push_back(std::move(p));
      skip();
      [[maybe_unused]] bool more = eat(',');
      assert((more || s_.empty()) && "malformed signature");
    }
    return sig;
  }

private:
  void skip() {
    while (!s_.empty() && s_.front() == ' ')
      s_.remove_prefix(1);
  }
  bool eat(char ch) {
    if (s_.empty() || s_.front() != ch)
      return false;
    s_.remove_prefix(1);
    return true;
  }
  std::string word() {
    size_t n = 0;
    while (n < s_.size() &&
           (std::isalnum(static_cast<unsigned char>(s_[n])) || s_[n] == '_' || s_[n] == '.' || s_[n] == '-'))
      ++n;
    std::string w(s_.substr(0, n));
    s_.remove_prefix(n);
    return w;
  }
  Value literal() {
    if (eat('"')) {
      size_t end = s_.find('"');
      Value v = Value::str(std::string(s_.substr(0, end)));
      s_.remove_prefix(end + 1);
      return v;
    }
    if (eat('(')) {
      [[maybe_unused]] bool closed = eat(')');
      assert(closed && "only the empty tuple is a default");
      return Value::tuple({});
    }
    std::string w = word();
    if (w == "None")
      return Value::none();
    if (w == "True" || w == "False")
      return Value::boolean(w == "True");
    if (std::optional<Value> named = findConstant(w))
      return *named;
    int64_t i = 0;
    auto r = std::from_chars(w.data(), w.data() + w.size(), i);
    if (r.ptr == w.data() + w.size())
      return Value::integer(i);
    return Value::number(std::strtod(w.c_str(), nullptr));
  }

  std::string_view s_;
};

struct Tables {
  std::vector<const Builtin *> all;
  std::unordered_map<std::string_view, const Builtin *> byName;
  std::unordered_map<const Builtin *, Signature> signatures;

  Tables() {
    for (auto family : families)
      for (const Builtin &b : family()) {
        all.push_back(&b);
        [[maybe_unused]] bool isNew = byName.emplace(b.name, &b).second;
        assert(isNew && "two builtins of one name");
        signatures.emplace(&b, SignatureParser(b.signature).parse());
      }
  }
};

const Tables &tables() {
  static const Tables t;
  return t;
}

const Builtin *lookup(std::string_view name) {
  auto it = tables().byName.find(name);
  return it == tables().byName.end() ? nullptr : it->second;
}

} // namespace

std::optional<Value> Context::objectAttribute(const Value &object, std::string_view name, Loc loc) {
  return attribute(*this, object, name, loc);
}

const Signature &signatureOf(const Builtin &b) {
  auto it = tables().signatures.find(&b);
  assert(it != tables().signatures.end() && "not a row of the table");
  return it->second;
}

Value callBuiltin(Context &ctx, const Builtin &b, std::span<const Value> args, std::span<const Loc> argLocs, Loc loc) {
  for (const Value &v : args) {
    if (v.isError())
      return Value::error();
    if (const auto *items = sequenceItems(v))
      if (std::any_of(items->begin(), items->end(), [](const Value &i) { return i.isError(); }))
        return Value::error();
  }
  LocScope scope(ctx, loc);
  BuiltinCall call{ctx, loc, args, argLocs};
  return b.fn(call);
}

const Builtin *findBuiltin(std::string_view name) {
  if (const Builtin *b = lookup(name))
    return b;
  for (const Alias &a : aliases)
    if (name.starts_with(a.prefix) && allowed(a, name.substr(a.prefix.size())))
      if (const Builtin *b = lookup(std::string(a.target) + std::string(name.substr(a.prefix.size()))))
        return b;
  return nullptr;
}

const Builtin *findMethod(std::string_view name) {
  if (const Builtin *b = lookup("tensor." + std::string(name)))
    return b;
  const Builtin *b = lookup(name);
  return b && (b->flags & Builtin::Method) ? b : nullptr;
}

std::span<const Builtin *const> allBuiltins() { return tables().all; }

} // namespace tegula::lang
