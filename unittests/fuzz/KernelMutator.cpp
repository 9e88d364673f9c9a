// Token and line changes; nothing here knows the language beyond its spelling.
#include "KernelMutator.h"
#include <algorithm>
#include <array>
#include <cctype>

namespace tegula::fuzz {

namespace {

constexpr const char *dtypes[] = {
    "i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
    "f16", "bf16", "f32", "f64", "fp8e5", "fp8e4nv", "fp8e4b15", "fp8e4b8", "fp8e5b16",
    "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8e5", "float8e4nv", "float8e4b15", "float8e4b8", "float8e5b16"};
constexpr unsigned shortNames = 18; // of these, spelled as in signatures

constexpr const char *numbers[] = {"0",
                                   "1",
                                   "2",
                                   "3",
                                   "4",
                                   "5",
                                   "7",
                                   "8",
                                   "15",
                                   "16",
                                   "31",
                                   "32",
                                   "33",
                                   "63",
                                   "64",
                                   "65",
                                   "100",
                                   "127",
                                   "128",
                                   "255",
                                   "256",
                                   "512",
                                   "1024",
                                   "4096",
                                   "32768",
                                   "65536",
                                   "1048576",
                                   "1048577",
                                   "2147483647",
                                   "2147483648",
                                   "4294967295",
                                   "4294967296",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "170141183460469231731687303715884105727",
                                   "0.0",
                                   "1.0",
                                   "0.5",
                                   "1e-45",
                                   "1e38",
                                   "3.5e38",
                                   "1e308",
                                   "1e400",
                                   "0x7f",
                                   "None",
                                   "True",
                                   "False",
                                   "float('nan')",
                                   "float('inf')",
                                   "''",
                                   "()",
                                   "(1, 2)",
                                   "[]",
                                   "(2,)",
                                   "[4, 8]"};

// An operator becomes one of its own group, now and then any.
constexpr std::array<const char *, 11> operators[] = {
    {"+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|"},
    {"<", "<=", ">", ">=", "==", "!=", "is", "is not", "in", "and", "or"},
    {"=", "+=", "-=", "*=", "//=", "%=", ">>=", "<<=", "&=", "|=", "^="},
    {",", ".", ":", "(", ")", "[", "]", "~", "not ", "-", "@"}};

constexpr const char *wrappers[] = {"-{}",
                                    "~{}",
                                    "not {}",
                                    "{}[None, :]",
                                    "{}[:, None]",
                                    "{}[None]",
                                    "{}[0]",
                                    "{}[:]",
                                    "({},)",
                                    "({}, {})",
                                    "[{}]",
                                    "{}.to(tl.float16)",
                                    "{}.to(tl.int8)",
                                    "{}.to(tl.float8e5)",
                                    "{}.to(tl.int64, bitcast=True)",
                                    "{}.T",
                                    "{}.dtype",
                                    "{}.shape",
                                    "({} + {})",
                                    "({} * {})",
                                    "({} if {} else 0)",
                                    "({} == {})",
                                    "({} / {})",
                                    "{}()",
                                    "{}({})",
                                    "*{}",
                                    "{}.sum(0)",
                                    "{}.reshape(4, 4)",
                                    "tl.arange(0, {})",
                                    "tl.zeros([{}, {}], tl.float32)",
                                    "range({})",
                                    "tl.static_range({})",
                                    "tl.dot({}, {})",
                                    "tl.trans({})",
                                    "tl.load({})",
                                    "tl.max({}, 0)",
                                    "tl.cumsum({}, 0)",
                                    "tl.sort({})",
                                    "tl.where({}, {}, {})",
                                    "tl.cat({}, {}, can_reorder=True)",
                                    "tl.join({}, {})",
                                    "tl.split({})",
                                    "tl.broadcast_to({}, (8, 8))",
                                    "tl.gather({}, {}, 0)",
                                    "tl.histogram({}, 16)",
                                    "tl.expand_dims({}, 0)",
                                    "tl.atomic_add({}, {})",
                                    "tl.full((16,), {}, {})",
                                    "tl.cast({}, tl.bfloat16)",
                                    "tl.flip({}, 0)",
                                    "tl.associative_scan({}, 0, {})",
                                    "tl.reduce({}, 0, {})",
                                    "tl.constexpr({})",
                                    "lambda: {}",
                                    "len({})"};

template <size_t N> const char *any(KernelMutator &m, const char *const (&table)[N]) { return table[m.below(N)]; }

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string joinLines(const std::vector<std::string> &lines) {
  std::string out;
  for (const std::string &l : lines)
    out += l + "\n";
  return out;
}

std::string indentOf(const std::string &line) {
  return line.substr(0, std::min(line.find_first_not_of(' '), line.size()));
}

} // namespace

std::vector<KernelMutator::Token> KernelMutator::split(std::string_view s) {
  std::vector<Token> out;
  auto isName = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80); };
  for (size_t i = 0; i < s.size();) {
    Token t;
    while (i < s.size() && (s[i] == ' ' || s[i] == '\t'))
      t.space += s[i++];
    size_t start = i;
    if (i == s.size()) {
      t.kind = 'l';
    } else if (s[i] == '\n') {
      ++i, t.kind = 'l';
    } else if (s[i] == '"' || s[i] == '\'') {
      char quote = s[i++];
      while (i < s.size() && s[i] != quote && s[i] != '\n')
        ++i;
      i += i < s.size() && s[i] == quote;
      t.kind = 's';
    } else if (std::isdigit(static_cast<unsigned char>(s[i]))) {
      while (i < s.size() && (isName(s[i]) || s[i] == '.'))
        ++i;
      t.kind = 'd';
    } else if (isName(s[i])) {
      while (i < s.size() && isName(s[i]))
        ++i;
      t.kind = 'n';
    } else {
      bool twice =
          i + 1 < s.size() &&
          (s[i + 1] == '=' || (s[i + 1] == s[i] && std::string_view("*/<>").find(s[i]) != std::string_view::npos));
      i += twice ? 2 : 1;
      t.kind = 'o';
    }
    t.text = s.substr(start, i - start);
    out.push_back(std::move(t));
  }
  return out;
}

std::string KernelMutator::join(const std::vector<Token> &tokens) {
  std::string out;
  for (const Token &t : tokens)
    out += t.space + t.text;
  return out;
}

int KernelMutator::pick(const std::vector<Token> &tokens, char kind) {
  std::vector<int> found;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (kind ? tokens[i].kind == kind : tokens[i].kind != 'l')
      found.push_back(static_cast<int>(i));
  return found.empty() ? -1 : found[below(found.size())];
}

bool KernelMutator::isDtype(const Token &t) const {
  return t.kind == 'n' && std::find(std::begin(dtypes), std::end(dtypes), t.text) != std::end(dtypes);
}

/// Left out, doubled, or changed places with another.
void KernelMutator::changeToken(std::vector<Token> &t) {
  int a = pick(t, 0), b = pick(t, a < 0 ? 0 : t[static_cast<size_t>(a)].kind);
  if (a < 0 || b < 0)
    return;
  switch (below(4)) {
  case 0:
    t.erase(t.begin() + a);
    break;
  case 1:
    t.insert(t.begin() + a, Token(t[static_cast<size_t>(a)]));
    break;
  default:
    std::swap(t[static_cast<size_t>(a)].text, t[static_cast<size_t>(b)].text);
  }
}

/// A name after a dot (an attribute: mostly a function of the language) becomes another one of the language, others
/// become others of the text.
void KernelMutator::changeName(std::vector<Token> &t) {
  int a = pick(t, 'n'), b = pick(t, 'n');
  if (a < 0)
    return;
  bool attribute = a > 0 && t[static_cast<size_t>(a) - 1].text == ".";
  bool known = !names_.empty() && below(16) < (attribute ? 12 : 1);
  t[static_cast<size_t>(a)].text = known ? names_[below(names_.size())] : t[static_cast<size_t>(b)].text;
}

void KernelMutator::changeNumber(std::vector<Token> &t) {
  int a = pick(t, 'd');
  if (a < 0)
    return;
  std::string &n = t[static_cast<size_t>(a)].text;
  switch (below(4)) {
  case 0:
    n = any(*this, numbers);
    break;
  case 1:
    n = below(8) ? std::to_string(below(20)) : "-" + n;
    break;
  default:
    n = std::to_string(uint64_t{1} << below(10));
  }
}

void KernelMutator::changeDtype(std::vector<Token> &t) {
  std::vector<size_t> found;
  for (size_t i = 0; i < t.size(); ++i)
    if (isDtype(t[i]))
      found.push_back(i);
  if (found.empty())
    return changeName(t);
  Token &d = t[found[below(found.size())]];
  bool brief =
      std::find(std::begin(dtypes), std::begin(dtypes) + shortNames, d.text) != std::begin(dtypes) + shortNames;
  d.text = dtypes[brief ? below(shortNames) : shortNames + below(std::size(dtypes) - shortNames)];
}

void KernelMutator::changeOperator(std::vector<Token> &t) {
  // Brackets, commas and dots are most of all operators, and to change them mostly breaks the syntax.
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t i = 0; i < t.size(); ++i)
    for (size_t group = 0; group + 1 < std::size(operators); ++group)
      if (t[i].kind == 'o' &&
          std::find(operators[group].begin(), operators[group].end(), t[i].text) != operators[group].end())
        found.emplace_back(i, group);
  if (found.empty())
    return;
  auto [at, group] = found[below(found.size())];
  const auto &choices = operators[below(16) ? group : below(std::size(operators))];
  t[at].text = " " + std::string(choices[below(choices.size())]) + " ";
}

/// An argument (what stands between commas of one pair of brackets) is left out, doubled or exchanged with its
/// neighbour.
void KernelMutator::changeArgument(std::vector<Token> &t) {
  std::vector<size_t> commas;
  for (size_t i = 0; i < t.size(); ++i)
    if (t[i].text == ",")
      commas.push_back(i);
  if (commas.empty())
    return;
  size_t comma = commas[below(commas.size())], begin = comma, end = comma + 1;
  auto isOpen = [&](const Token &x) { return x.text == "(" || x.text == "[" || x.text == "{"; };
  auto isClose = [&](const Token &x) { return x.text == ")" || x.text == "]" || x.text == "}"; };
  for (int depth = 0; begin > 0; --begin) {
    const Token &x = t[begin - 1];
    depth += isClose(x) ? 1 : isOpen(x) ? -1 : 0;
    if (depth < 0 || (depth == 0 && x.text == ","))
      break;
  }
  for (int depth = 0; end < t.size(); ++end) {
    depth += isOpen(t[end]) ? 1 : isClose(t[end]) ? -1 : 0;
    if (depth < 0 || (depth == 0 && t[end].text == ","))
      break;
  }
  auto at = [&](size_t i) { return t.begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<Token> first(at(begin), at(comma)), second(at(comma + 1), at(end));
  std::vector<Token> made;
  switch (below(4)) {
  case 0:
    made = second;
    break;
  case 1:
    made = first;
    break;
  case 2:
    made = second, made.push_back({"", ",", 'o'}), made.insert(made.end(), first.begin(), first.end());
    break;
  default:
    made = first, made.push_back({"", ",", 'o'}), made.insert(made.end(), first.begin(), first.end());
  }
  t.erase(at(begin), at(end));
  t.insert(at(begin), made.begin(), made.end());
}

/// A name or number becomes an operand of something.
void KernelMutator::wrapName(std::vector<Token> &t) {
  int a = pick(t, below(4) ? 'n' : 'd');
  if (a < 0)
    return;
  std::string name = t[static_cast<size_t>(a)].text, made;
  for (const char *p = any(*this, wrappers); *p; ++p) {
    made += *p == '{' ? name : std::string(1, *p);
    p += *p == '{';
  }
  t[static_cast<size_t>(a)].text = made;
}

/// Lines are left out, doubled, moved, indented, or put under a statement.
std::string KernelMutator::changeLine(const std::string &text) {
  std::vector<std::string> lines = linesOf(text);
  if (lines.size() < 3)
    return text;
  static constexpr const char *heads[] = {"for i in range(4):",
                                          "for i in range(n):",
                                          "for j in tl.static_range(3):",
                                          "while n > 0:",
                                          "if n > 3:",
                                          "if tl.program_id(0) == 0:",
                                          "for i in range(0, n, 2):",
                                          "if True:",
                                          "while False:",
                                          "for k in tl.range(n, num_stages=3):",
                                          "for i in tl.range(8, loop_unroll_factor=4):",
                                          "with x:",
                                          "try:",
                                          "def inner():",
                                          "else:",
                                          "elif n:"};
  size_t a = 1 + below(lines.size() - 1), b = 1 + below(lines.size() - 1);
  auto at = [&](size_t i) { return lines.begin() + static_cast<std::ptrdiff_t>(i); };
  switch (below(7)) {
  case 0:
    lines.erase(at(a));
    break;
  case 1:
    lines.insert(at(a), std::string(lines[b]));
    break;
  case 2:
    std::swap(lines[a], lines[b]);
    break;
  case 3:
    lines[a].insert(0, "    ");
    break;
  case 4:
    if (lines[a].starts_with("    "))
      lines[a].erase(0, 4);
    break;
  default: {
    std::string indent = indentOf(lines[a]);
    size_t n = 1 + below(3);
    for (size_t i = a; i < std::min(a + n, lines.size()); ++i)
      lines[i].insert(0, "    ");
    lines.insert(at(a), indent + any(*this, heads));
  }
  }
  return joinLines(lines);
}

std::string KernelMutator::mutate(std::string text, unsigned changes) {
  using Change = void (KernelMutator::*)(std::vector<Token> &);
  static constexpr Change table[] = {
      &KernelMutator::changeToken, &KernelMutator::changeName, &KernelMutator::changeNumber,
      &KernelMutator::changeNumber, &KernelMutator::changeNumber, &KernelMutator::changeDtype,
      &KernelMutator::changeDtype, &KernelMutator::changeOperator, &KernelMutator::changeOperator,
      &KernelMutator::changeArgument, &KernelMutator::wrapName, &KernelMutator::wrapName};
  for (unsigned i = 0; i < changes; ++i) {
    if (below(5) == 0) {
      text = changeLine(text);
      continue;
    }
    std::vector<Token> tokens = split(text);
    (this->*table[below(std::size(table))])(tokens);
    text = join(tokens);
  }
  return text;
}

std::string KernelMutator::splice(const std::string &text, const std::string &other) {
  std::vector<std::string> lines = linesOf(text), more = linesOf(other);
  if (lines.size() < 3 || more.size() < 3)
    return text;
  size_t from = 1 + below(more.size() - 1), n = std::min<size_t>(1 + below(4), more.size() - from),
         to = 1 + below(lines.size() - 1);
  std::string indent = indentOf(lines[to]);
  for (size_t i = 0; i < n; ++i)
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(to + i),
                 indent + more[from + i].substr(indentOf(more[from + i]).size()));
  return joinLines(lines);
}

std::optional<CompileLine> compileLine(std::string_view text) {
  constexpr std::string_view head = "# compile: ";
  std::string_view line = text.substr(0, text.find('\n'));
  size_t open = line.find('('), close = line.rfind(')');
  if (!line.starts_with(head) || open == line.npos || close == line.npos || close < open)
    return std::nullopt;
  return CompileLine{std::string(line.substr(head.size(), open - head.size())),
                     std::string(line.substr(open + 1, close - open - 1))};
}

} // namespace tegula::fuzz
