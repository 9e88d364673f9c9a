// https://docs.python.org/3/library/string.html#format-specification-mini-language
#include "lang/Format.h"
#include "lang/Diagnostics.h"
#include "lang/Emit.h"
#include <cmath>
#include <cstdio>

namespace tegula::lang {

namespace {

/// [[fill]align][sign][#][0][width][,_][.precision][type]
struct Spec {
  char fill = ' ', align = 0, sign = '-', group = 0, type = 0;
  bool alternate = false;
  size_t width = 0;
  std::optional<size_t> precision;
};

constexpr size_t maxWidth = 1 << 16; // of a field and of its digits

std::optional<size_t> digits(std::string_view &s) {
  size_t n = 0, i = 0;
  for (; i < s.size() && s[i] >= '0' && s[i] <= '9' && n <= maxWidth; ++i)
    n = n * 10 + static_cast<size_t>(s[i] - '0');
  s.remove_prefix(i);
  return i && n <= maxWidth ? std::optional(n) : std::nullopt;
}

std::optional<Spec> parse(std::string_view s) {
  auto isAlign = [](char ch) { return ch == '<' || ch == '>' || ch == '^' || ch == '='; };
  auto takes = [&](std::string_view any) { return !s.empty() && any.find(s[0]) != any.npos; };
  Spec r;
  if (s.size() > 1 && isAlign(s[1])) {
    r.fill = s[0];
    r.align = s[1];
    s.remove_prefix(2);
  } else if (!s.empty() && isAlign(s[0])) {
    r.align = s[0];
    s.remove_prefix(1);
  }
  auto take = [&] {
    char ch = s[0];
    s.remove_prefix(1);
    return ch;
  };
  if (takes("+- "))
    r.sign = take();
  if (takes("#"))
    r.alternate = take() == '#';
  if (takes("0")) {
    r.fill = take();
    if (!r.align)
      r.align = '=';
  }
  r.width = digits(s).value_or(0);
  if (takes(",_"))
    r.group = take();
  if (takes(".")) {
    take();
    r.precision = digits(s);
    if (!r.precision)
      return std::nullopt;
  }
  if (takes("bcdeEfFgGnosxX%"))
    r.type = take();
  return s.empty() ? std::optional(r) : std::nullopt;
}

/// `prefix` (sign, 0x) stands before the filling where that is aligned by `=`.
std::string pad(const Spec &s, std::string prefix, std::string body, char usual) {
  size_t length = prefix.size() + body.size();
  if (length >= s.width)
    return prefix + body;
  size_t n = s.width - length;
  char align = s.align ? s.align : usual;
  if (align == '=')
    return prefix + std::string(n, s.fill) + body;
  size_t left = align == '<' ? 0 : align == '>' ? n : n / 2;
  return std::string(left, s.fill) + prefix + body + std::string(n - left, s.fill);
}

std::string signOf(const Spec &s, bool negative) {
  return negative ? "-" : s.sign == '-' ? "" : std::string(1, s.sign);
}

void groupDigits(std::string &body, char by, size_t every) {
  size_t end = body.find_first_not_of("0123456789abcdefABCDEF");
  for (size_t i = end == body.npos ? body.size() : end; i > every; i -= every)
    body.insert(i - every, 1, by);
}

std::optional<std::string> integerText(const Spec &s, Int v) {
  unsigned base = s.type == 'b' ? 2 : s.type == 'o' ? 8 : s.type == 'x' || s.type == 'X' ? 16 : 10;
  if (s.precision || (s.type && std::string_view("bdnoxX").find(s.type) == std::string_view::npos))
    return std::nullopt;
  bool negative = v < 0;
  unsigned __int128 u = negative ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v);
  std::string body;
  do {
    body.insert(body.begin(),
                (s.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[static_cast<unsigned>(u % base)]);
    u /= base;
  } while (u);
  if (s.group)
    groupDigits(body, s.group, base == 10 ? 3 : 4);
  std::string prefix = signOf(s, negative);
  if (s.alternate && base != 10)
    prefix += std::string("0") + s.type;
  return pad(s, prefix, body, '>');
}

std::optional<std::string> realText(const Spec &s, double v) {
  if (s.type && std::string_view("eEfFgGn%").find(s.type) == std::string_view::npos)
    return std::nullopt;
  std::string body;
  double magnitude = std::fabs(v);
  if (!s.type && !s.precision) {
    body = floatToString(magnitude);
  } else {
    char conversion = s.type == '%' ? 'f' : s.type == 'n' || !s.type ? 'g' : s.type;
    double x = s.type == '%' ? magnitude * 100 : magnitude;
    const char format[] = {'%', '.', '*', conversion, 0};
    int precision = static_cast<int>(s.precision.value_or(6));
    int n = std::snprintf(nullptr, 0, format, precision, x);
    body.resize(static_cast<size_t>(n) + 1);
    std::snprintf(body.data(), body.size(), format, precision, x);
    body.pop_back();
    if (!s.type && std::isfinite(x) && body.find_first_of(".e") == body.npos)
      body += ".0"; // a float without a conversion keeps its point
    if (s.type == '%')
      body += '%';
  }
  if (s.group)
    groupDigits(body, s.group, 3);
  return pad(s, signOf(s, std::signbit(v) && !std::isnan(v)), body, '>');
}

std::optional<std::string> textOf(const Spec &s, std::string text) {
  if ((s.type && s.type != 's') || s.align == '=' || s.group || s.alternate || s.sign != '-')
    return std::nullopt;
  if (s.precision && *s.precision < text.size())
    text.resize(*s.precision);
  return pad(s, "", std::move(text), '<');
}

std::optional<std::string> format(const Spec &s, const Value &v) {
  bool real = s.type && std::string_view("eEfFgG%").find(s.type) != std::string_view::npos;
  if (v.isInt() || (v.isBool() && (s.type && s.type != 's')))
    return s.type == 'c' ? std::optional(pad(s, "", std::string(1, static_cast<char>(v.asInt())), '<'))
           : real        ? realText(s, v.asFloat())
                         : integerText(s, v.asInt());
  return v.isFloat() ? realText(s, v.asFloat()) : textOf(s, str(v));
}

} // namespace

Value formatValue(Context &c, const Value &v, std::string_view spec, Loc loc) {
  if (spec.empty())
    return memberAttribute(v, memberFormat).value_or(Value::str(str(v)));
  std::optional<Spec> s = parse(spec);
  std::optional<std::string> text = s ? format(*s, v) : std::nullopt;
  return text ? Value::str(std::move(*text))
              : fail(c, diag::valueError, loc,
                     "Invalid format specifier '" + std::string(spec) + "' for " + kindName(v));
}

Value formatPercent(Context &c, const std::string &text, const Value &args, Loc loc) {
  const std::vector<Value> *items = sequenceItems(args);
  std::vector<Value> one{args};
  if (!items)
    items = &one;
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '%') {
      out += text[++i];
      continue;
    }
    // The flags of `%` are those of format() in another order: `-` aligns to the left, all else to the right.
    size_t end = text.find_first_not_of("-+ #0123456789.", i + 1);
    char type = end == text.npos ? 0 : text[end];
    if (!type || std::string_view("diuoxXeEfFgGsrc").find(type) == std::string_view::npos)
      return fail(c, diag::valueError, loc, "unsupported format character in '" + text + "'");
    if (next == items->size())
      return fail(c, diag::valueError, loc, "not enough arguments for format string '" + text + "'");
    std::string_view flags(text.data() + i + 1, end - i - 1);
    std::string spec;
    size_t k = 0;
    bool left = false, zero = false, plus = false;
    for (; k < flags.size() && std::string_view("-+ #0").find(flags[k]) != std::string_view::npos; ++k)
      left |= flags[k] == '-', zero |= flags[k] == '0', plus |= flags[k] == '+';
    spec += left ? "<" : zero ? "0=" : ">";
    if (plus)
      spec += "+";
    spec += flags.substr(k);
    Value v = (*items)[next++];
    if (type == 'r')
      v = Value::str(repr(v));
    else if (type == 's')
      v = Value::str(str(v));
    else if (std::string_view("diu").find(type) != std::string_view::npos && v.isFloat() &&
             std::fabs(v.asFloat()) < 0x1p126)
      v = Value::integer(static_cast<Int>(v.asFloat()));
    spec += type == 'r' || type == 's' ? 's' : type == 'i' || type == 'u' ? 'd' : type;
    Value r = formatValue(c, v, spec, loc);
    if (r.isError())
      return r;
    out += r.asStr();
    i = end;
  }
  if (next < items->size())
    return fail(c, diag::valueError, loc, "not all arguments converted by format string '" + text + "'");
  return Value::str(std::move(out));
}

Value formatBraces(Context &c, const std::string &text, const std::vector<Value> &args, const std::vector<Value> &named,
                   Loc loc) {
  std::string out;
  size_t next = 0;
  auto wrong = [&](const std::string &what) {
    return fail(c, diag::valueError, loc, what + " in format string '" + text + "'");
  };
  for (size_t i = 0; i < text.size(); ++i) {
    bool twice = i + 1 < text.size() && text[i + 1] == text[i];
    if (text[i] != '{' || twice) {
      if (text[i] == '}' && !twice)
        return wrong("Single '}'");
      i += text[i] == '{' || text[i] == '}';
      out += text[i];
      continue;
    }
    size_t end = text.find('}', i);
    if (end == text.npos)
      return wrong("Single '{'");
    std::string_view field = std::string_view(text).substr(i + 1, end - i - 1);
    size_t colon = field.find(':');
    std::string_view spec = colon == field.npos ? std::string_view() : field.substr(colon + 1);
    std::string_view name = field.substr(0, colon);
    bool asRepr = name.ends_with("!r");
    if (asRepr || name.ends_with("!s"))
      name.remove_suffix(2);
    const Value *v = nullptr;
    std::string_view rest = name;
    std::optional<size_t> index = name.empty() ? std::optional(next++) : digits(rest);
    if (index && rest.empty())
      v = *index < args.size() ? &args[*index] : nullptr;
    for (const Value &pair : named)
      if (pair.items()[0].asStr() == name)
        v = &pair.items()[1];
    if (!v)
      return wrong("no value for `{" + std::string(name) + "}`");
    Value r = formatValue(c, asRepr ? Value::str(repr(*v)) : *v, spec, loc);
    if (r.isError())
      return r;
    out += r.asStr();
    i = end;
  }
  return Value::str(std::move(out));
}

} // namespace tegula::lang
