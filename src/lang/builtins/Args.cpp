// Argument getters and their messages.
#include "lang/builtins/Args.h"

namespace tegula::lang {

namespace {

std::string found(const Value &v) { return v.isNumber() || v.isStr() ? repr(v) : kindName(v); }

} // namespace

Value Args::badArgument(size_t i, const char *name, const char *needed) const {
  const Value &v = (*this)[i];
  if (v.isTensor()) {
    auto d = call_.diag().report(diag::notConstexpr, loc(i), function_, name, kindName(v));
    // Suggests the function on tensors where one on numbers was called.
    const std::string_view f = function_, parameter = name;
    if (f == "reduce" && parameter == "axis")
      d.note({}, "tl.max and tl.min reduce one block along an axis; tl.maximum and tl.minimum take two");
    else if (f == "float" || f == "int")
      d.note({}, "a tensor is converted by `.to(tl." + std::string(f) + "32)`");
    return Value::error();
  }
  bool isQuotient = v.isFloat() && std::string_view(needed) == "an integer";
  return fail(diag::badArgument, loc(i), function_, name, needed,
              found(v) + (isQuotient ? "; `//` divides integers" : ""));
}

std::optional<int64_t> Args::integer(size_t i, const char *name) const {
  const Value &v = (*this)[i];
  bool integral = v.isInt() || v.isBool();
  if (integral && v.asInt() >= INT64_MIN && v.asInt() <= INT64_MAX)
    return static_cast<int64_t>(v.asInt());
  badArgument(i, name, integral ? "an integer of 64 bits" : "an integer");
  return std::nullopt;
}

std::optional<bool> Args::flag(size_t i, const char *name) const {
  const Value &v = (*this)[i];
  if (v.isNumber() || v.isNone())
    return constexprTruth(v);
  badArgument(i, name, "True or False");
  return std::nullopt;
}

std::optional<std::string> Args::text(size_t i, const char *name) const {
  if ((*this)[i].isStr())
    return (*this)[i].asStr();
  badArgument(i, name, "a string");
  return std::nullopt;
}

std::optional<Dtype> Args::type(size_t i, const char *name) const {
  const Value &v = (*this)[i];
  if (v.isDtype())
    return v.asDtype();
  if (v.is<std::shared_ptr<const TypeValue>>())
    return v.get<std::shared_ptr<const TypeValue>>()->dtype;
  if (v.isStr())
    if (std::optional<Dtype> d = parseDtype(v.asStr()))
      return d;
  constexpr const char *needed = "a dtype such as tl.float32";
  // PyTorch's and NumPy's are objects that are called as the language's.
  std::string host =
      v.is<std::shared_ptr<const OpaqueValue>>() ? v.get<std::shared_ptr<const OpaqueValue>>()->name : std::string();
  std::optional<Dtype> meant =
      host.starts_with("torch.") || host.starts_with("numpy.") ? parseDtype(host.substr(6)) : std::nullopt;
  if (meant)
    fail(diag::badArgument, loc(i), function_, name, needed, host + "; write tl." + spelling(*meant));
  else
    badArgument(i, name, needed);
  return std::nullopt;
}

std::optional<Tensor> Args::tensor(size_t i) const {
  Value v = toTensor(call_.ctx, (*this)[i], loc(i));
  if (v.isError())
    return std::nullopt;
  return v.asTensor();
}

std::optional<unsigned> Args::axis(size_t i, const char *name, unsigned rank) const {
  std::optional<int64_t> a = integer(i, name);
  if (!a)
    return std::nullopt;
  int64_t r = rank;
  if (*a >= -r && *a < r)
    return static_cast<unsigned>(*a < 0 ? *a + r : *a);
  fail(diag::invalidAxis, loc(i), *a, -r, r);
  return std::nullopt;
}

std::optional<std::string> Args::choice(size_t i, const char *name, std::string_view what,
                                        std::string_view allowed, char prefix) const {
  std::optional<std::string> s = (*this)[i].isNone() ? std::optional<std::string>("") : text(i, name);
  if (!s || s->empty())
    return s;
  std::string padded = " " + std::string(allowed) + " ";
  auto isAllowed = [&](const std::string &word) {
    return word.find(' ') == std::string::npos && padded.find(" " + word + " ") != std::string::npos;
  };
  if (isAllowed(*s))
    return s;
  if (prefix && isAllowed(prefix + *s))
    return prefix + *s;
  std::string list;
  for (char c : allowed)
    list += c == ' ' ? ", " : std::string(1, c);
  fail(diag::unknownOption, loc(i), what, *s, list);
  return std::nullopt;
}

} // namespace tegula::lang
