// Recursive descent over the text; values are checked 64-bit integers.
#include "support/Expr.h"
#include <algorithm>
#include <bit>

namespace tegula {
namespace {

using Opt = std::optional<int64_t>;

int64_t floorDiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Errors that depend on the values of names (division by zero, overflow) are errors of an evaluation, not of a check.
enum class Mode { Evaluate, Check };

class Evaluator {
public:
  Evaluator(std::string_view s, const NameLookup &names, std::string &error, Mode mode)
      : s_(s), names_(names), error_(error), mode_(mode) {}

  Opt run() {
    Opt v = comparison();
    if (v && peek() != 0) return fail("unexpected `" + std::string(1, s_[pos_]) + "`");
    return v;
  }

private:
  char peek() {
    while (pos_ < s_.size() && (s_[pos_] == ' ' || s_[pos_] == '\t')) ++pos_;
    return pos_ < s_.size() ? s_[pos_] : 0;
  }
  bool eat(char c) { return peek() == c && (++pos_, true); }
  Opt fail(std::string why) {
    if (error_.empty()) error_ = why + " in `" + std::string(s_) + "` at column " + std::to_string(pos_ + 1);
    return std::nullopt;
  }
  Opt badValue(std::string why) { return mode_ == Mode::Check ? Opt(1) : fail(std::move(why)); }
  Opt tooLarge() { return badValue("result does not fit 64 bits"); }

  Opt combined(char op, int64_t a, int64_t b) {
    int64_t out = 0;
    if (op == '+') return __builtin_add_overflow(a, b, &out) ? tooLarge() : out;
    if (op == '-') return __builtin_sub_overflow(a, b, &out) ? tooLarge() : out;
    if (op == '*') return __builtin_mul_overflow(a, b, &out) ? tooLarge() : out;
    if (b == 0) return badValue("division by zero");
    if (b == -1) return op == '/' ? combined('-', 0, a) : 0; // the one quotient that can overflow
    int64_t q = floorDiv(a, b);
    return op == '/' ? q : a - q * b;
  }

  /// At most one comparison; 0 or 1.
  Opt comparison() {
    Opt v = sum();
    if (!v) return v;
    static constexpr std::string_view operators[] = {"<=", ">=", "==", "!=", "<", ">"};
    peek();
    for (std::string_view o : operators) {
      if (s_.substr(pos_, o.size()) != o) continue;
      pos_ += o.size();
      Opt r = sum();
      if (!r) return r;
      return o == "<="   ? *v <= *r
             : o == ">=" ? *v >= *r
             : o == "==" ? *v == *r
             : o == "!=" ? *v != *r
             : o == "<"  ? *v < *r
                         : *v > *r;
    }
    return v;
  }

  Opt sum() {
    if (++depth_ > 100) return fail("too many nested parentheses");
    Opt v = product();
    while (v) {
      char c = peek();
      if (c != '+' && c != '-') break;
      ++pos_;
      Opt r = product();
      if (!r) return r;
      v = combined(c, *v, *r);
    }
    --depth_;
    return v;
  }

  Opt product() {
    Opt v = unary();
    while (v) {
      char c = peek();
      if (c != '*' && c != '/' && c != '%') break;
      ++pos_;
      if (c == '/' && pos_ < s_.size() && s_[pos_] == '/') ++pos_;
      Opt r = unary();
      if (!r) return r;
      v = combined(c, *v, *r);
    }
    return v;
  }

  Opt unary() {
    if (eat('-')) {
      if (++depth_ > 100) return fail("too many signs");
      Opt v = unary();
      --depth_;
      return v ? combined('-', 0, *v) : v;
    }
    if (eat('(')) {
      Opt v = sum();
      if (v && !eat(')')) return fail("`)` expected");
      return v;
    }
    char c = peek();
    if (c >= '0' && c <= '9') return number();
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') return nameOrCall();
    return fail(c ? "unexpected `" + std::string(1, c) + "`" : "a value is missing at the end");
  }

  Opt number() {
    int64_t v = 0;
    while (pos_ < s_.size() && ((s_[pos_] >= '0' && s_[pos_] <= '9') || s_[pos_] == '_')) {
      char c = s_[pos_++];
      if (c == '_') continue;
      if (__builtin_mul_overflow(v, int64_t(10), &v) || __builtin_add_overflow(v, int64_t(c - '0'), &v))
        return fail("number does not fit 64 bits");
    }
    return v;
  }

  Opt nameOrCall() {
    size_t start = pos_;
    while (pos_ < s_.size() &&
           (std::isalnum(static_cast<unsigned char>(s_[pos_])) || s_[pos_] == '_' || s_[pos_] == '.'))
      ++pos_;
    std::string name(s_.substr(start, pos_ - start));
    if (peek() == '(') return call(name);
    if (Opt v = names_(name)) return v;
    pos_ = start;
    return fail("`" + name + "` is not the name of an integer argument or constant");
  }

  Opt call(const std::string &name) {
    ++pos_;
    std::vector<int64_t> args;
    while (!eat(')')) {
      Opt v = sum();
      if (!v) return v;
      args.push_back(*v);
      if (!eat(',') && peek() != ')') return fail("`,` or `)` expected");
    }
    std::string bare = name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
    if (bare == "cdiv" && args.size() == 2) {
      if (args[1] == 0) return badValue("division by zero");
      if (args[0] == INT64_MIN) return tooLarge();
      return -floorDiv(-args[0], args[1]);
    }
    if (bare == "next_power_of_2" && args.size() == 1) {
      if (args[0] > (int64_t(1) << 62)) return tooLarge();
      return args[0] <= 0 ? 0 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(args[0])));
    }
    if ((bare == "min" || bare == "max") && !args.empty())
      return bare == "min" ? *std::min_element(args.begin(), args.end()) : *std::max_element(args.begin(), args.end());
    return fail("`" + name + "` with " + std::to_string(args.size()) +
                " arguments is not known here; there are cdiv(a, b), " + "min(...), max(...), next_power_of_2(a)");
  }

  std::string_view s_;
  const NameLookup &names_;
  std::string &error_;
  Mode mode_;
  size_t pos_ = 0;
  int depth_ = 0;
};

} // namespace

std::optional<int64_t> evaluate(std::string_view text, const NameLookup &names, std::string &error) {
  error.clear();
  return Evaluator(text, names, error, Mode::Evaluate).run();
}

namespace {
/// The items of a grid; none: there are too many.
std::vector<std::string> extentsOf(std::string_view text, std::string &error) {
  std::vector<std::string> items = splitList(text);
  if (items.size() <= 3) return items;
  error = "a grid has 1 to 3 extents, found " + std::to_string(items.size());
  return {};
}
} // namespace

bool evaluateGrid(std::string_view text, const NameLookup &names, int64_t grid[3], std::string &error) {
  std::vector<std::string> items = extentsOf(text, error);
  if (items.empty()) return false;
  std::fill(grid, grid + 3, 1);
  for (size_t i = 0; i < items.size(); ++i) {
    Opt v = evaluate(items[i], names, error);
    if (!v) return false;
    grid[i] = *v;
  }
  return true;
}

bool checkGrid(std::string_view text, const std::function<bool(std::string_view)> &isName, std::string &error) {
  error.clear();
  const NameLookup names = [&](std::string_view name) { return isName(name) ? Opt(1) : std::nullopt; };
  std::vector<std::string> items = extentsOf(text, error);
  return !items.empty() && std::all_of(items.begin(), items.end(), [&](const std::string &item) {
    return Evaluator(item, names, error, Mode::Check).run().has_value();
  });
}

std::vector<std::string> splitList(std::string_view text) {
  std::vector<std::string> out;
  int depth = 0;
  size_t start = 0;
  auto push = [&](size_t end) {
    std::string_view item = text.substr(start, end - start);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    out.emplace_back(item);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
    if (text[i] == ',' && depth == 0) {
      push(i);
      start = i + 1;
    }
  }
  push(text.size());
  return out;
}

} // namespace tegula
