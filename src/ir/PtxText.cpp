// The reader of PtxText.h, and the functions of Asm.h on texts and constraints.
#include "ir/PtxText.h"
#include "ir/Asm.h"
#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <map>

namespace tegula::ir {

AsmConstraints asmConstraints(std::string_view text) {
  AsmConstraints out;
  std::string one;
  auto finish = [&] {
    if (!one.empty())
      (one[0] == '=' ? out.outputs : one[0] == '~' ? out.clobbers : out.inputs).push_back(one);
    one.clear();
  };
  unsigned depth = 0;
  for (char c : text) {
    depth += c == '{';
    depth -= c == '}' && depth;
    if (c == ',' && !depth)
      finish();
    else if (!std::isspace(static_cast<unsigned char>(c)))
      one += c;
  }
  finish();
  return out;
}

std::string_view badAsmOperand(std::string_view text, size_t operands) {
  for (size_t i = text.find('$'); i < text.size(); i = text.find('$', i)) {
    size_t begin = i++;
    if (i < text.size() && text[i] == '$') {
      ++i;
      continue;
    }
    bool braced = i < text.size() && text[i] == '{';
    i += braced;
    size_t number = 0;
    auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), number);
    i = static_cast<size_t>(end - text.data());
    bool ok = error == std::errc() && number < operands;
    if (braced) {
      size_t close = text.find('}', i);
      ok = ok && close != text.npos && (close == i || (text[i] == ':' && close == i + 2));
      i = close == text.npos ? text.size() : close + 1;
    }
    if (!ok)
      return text.substr(begin, std::max<size_t>(i - begin, 2));
  }
  return {};
}

static char letterOf(std::string_view constraint) {
  while (!constraint.empty() && (constraint[0] == '=' || constraint[0] == '&'))
    constraint.remove_prefix(1);
  return constraint.size() == 1 ? constraint[0] : '\0';
}

unsigned ptxRegisterBits(std::string_view constraint) {
  switch (letterOf(constraint)) {
  case 'b': return 1;
  case 'c': return 8;
  case 'h': return 16;
  case 'r': case 'f': return 32;
  case 'l': case 'd': return 64;
  default: return 0;
  }
}

bool isPtxFloat(std::string_view constraint) {
  char c = letterOf(constraint);
  return c == 'f' || c == 'd';
}

namespace ptx {
namespace {

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%'; }
bool isSpace(char c) { return std::isspace(static_cast<unsigned char>(c)); }

/// Bits of the type of a declaration (".b32", ".f16x2", ".pred"); 0: there is no register of this type.
unsigned declaredBits(std::string_view type) {
  if (type == "pred")
    return 1;
  if (type == "f16x2" || type == "bf16x2")
    return 32;
  if (type.starts_with("bf"))
    type.remove_prefix(1);
  if (type.size() < 2 || std::string_view("busf").find(type[0]) == std::string_view::npos)
    return 0;
  unsigned bits = 0;
  auto [end, error] = std::from_chars(type.data() + 1, type.data() + type.size(), bits);
  bool known = bits == 8 || bits == 16 || bits == 32 || bits == 64;
  return error == std::errc() && end == type.data() + type.size() && known ? bits : 0;
}

class Reader {
public:
  Reader(std::string_view text, Problem &problem) : text_(text), problem_(problem) {}

  std::optional<Program> run() {
    scopes_.emplace_back();
    for (;;) {
      skip();
      if (pos_ == text_.size())
        break;
      if (!statement())
        return std::nullopt;
    }
    if (scopes_.size() != 1)
      return fail(text_, "a `{` is not closed"), std::nullopt;
    return std::move(program_);
  }

private:
  bool fail(std::string_view text, std::string why) {
    problem_ = {text, std::move(why)};
    return false;
  }
  char at(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }

  /// White space, comments.
  void skip() {
    for (;;) {
      if (isSpace(at())) {
        ++pos_;
      } else if (at() == '/' && at(1) == '/') {
        while (pos_ < text_.size() && at() != '\n')
          ++pos_;
      } else if (at() == '/' && at(1) == '*') {
        size_t end = text_.find("*/", pos_ + 2);
        pos_ = end == text_.npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }
  bool accept(char c) {
    skip();
    if (at() != c)
      return false;
    ++pos_;
    return true;
  }
  std::string_view word() {
    skip();
    size_t begin = pos_;
    while (isWord(at()) || (at() == '$' && at(1) == '$'))
      pos_ += at() == '$' ? 2 : 1;
    return text_.substr(begin, pos_ - begin);
  }
  /// The statement that begins here, for messages.
  std::string_view rest(size_t begin) const {
    size_t end = text_.find_first_of(";\n}", begin);
    std::string_view s = text_.substr(begin, end == text_.npos ? end : end - begin);
    while (!s.empty() && isSpace(s.back()))
      s.remove_suffix(1);
    return s;
  }

  bool statement() {
    size_t begin = pos_;
    if (accept('{')) {
      if (scopes_.size() == 64)
        return fail(rest(begin), "scopes are nested more than 64 levels deep");
      scopes_.emplace_back();
      return true;
    }
    if (accept('}')) {
      if (scopes_.size() == 1)
        return fail(text_.substr(begin, 1), "no scope is open here");
      scopes_.pop_back();
      return true;
    }
    if (accept(';'))
      return true;
    if (at() == '.')
      return directive();
    return instruction();
  }

  bool end(size_t begin) {
    skip();
    // The last statement of a scope or of the text may lack it: LLVM puts each statement on a line of its own.
    return accept(';') || at() == '}' || pos_ == text_.size() || fail(rest(begin), "no `;` behind it");
  }

  bool directive() {
    size_t begin = pos_++;
    if (word() != "reg")
      return fail(rest(begin), "only registers can be declared");
    if (!accept('.'))
      return fail(rest(begin), "there is no such register type");
    std::string_view type = word();
    unsigned bits = declaredBits(type);
    if (!bits)
      return fail(rest(begin), "there is no such register type");
    do {
      std::string_view name = word();
      if (name.empty())
        return fail(rest(begin), "a name is missing");
      if (!accept('<')) {
        declare(std::string(name), name, bits);
        continue;
      }
      std::string_view digits = word();
      unsigned count = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), count);
      if (!accept('>') || count == 0 || count > 4096)
        return fail(rest(begin), "the number of registers is not between 1 and 4096");
      for (unsigned i = 0; i < count; ++i)
        declare(std::string(name) + std::to_string(i), name, bits);
    } while (accept(','));
    return end(begin);
  }
  void declare(std::string key, std::string_view name, unsigned bits) {
    scopes_.back()[std::move(key)] = static_cast<unsigned>(program_.registers.size());
    program_.registers.push_back({name, bits});
  }

  bool instruction() {
    size_t begin = pos_;
    Instruction in;
    if (accept('@')) {
      bool negated = accept('!');
      in.guard.emplace();
      if (!operand(*in.guard))
        return false;
      in.guard->negated = negated;
    }
    skip();
    size_t start = pos_;
    do {
      // Suffixes may have `::` in them (shared::cta).
      size_t from = pos_;
      while (isWord(at()) || (at() == ':' && at(1) == ':'))
        pos_ += at() == ':' ? 2 : 1;
      in.opcode.push_back(text_.substr(from, pos_ - from));
    } while (at() == '.' && ++pos_);
    if (in.opcode[0].empty())
      return fail(rest(begin).empty() ? text_.substr(begin, 1) : rest(begin), "this is no instruction");
    if (at() == ':')
      return fail(rest(begin), "labels and jumps are not known");
    skip();
    while (at() != ';' && at() != '}' && pos_ < text_.size()) {
      in.operands.emplace_back();
      if (!operand(in.operands.back()))
        return false;
      if (!accept(',') && !accept('|'))
        break;
    }
    std::string_view text = text_.substr(start, pos_ - start);
    while (!text.empty() && isSpace(text.back()))
      text.remove_suffix(1);
    in.text = text;
    program_.instructions.push_back(std::move(in));
    return end(begin);
  }

  bool operand(Operand &o) {
    skip();
    size_t begin = pos_;
    o.negated = accept('!');
    skip();
    if (at() == '{') {
      ++pos_;
      o.kind = Operand::Kind::Vector;
      do {
        o.items.emplace_back();
        if (o.items.size() > 8)
          return fail(rest(begin), "it has too many parts");
        if (depth_ > 4)
          return fail(rest(begin), "it is nested too deep");
        ++depth_;
        bool ok = operand(o.items.back());
        --depth_;
        if (!ok)
          return false;
      } while (accept(','));
      if (!accept('}'))
        return fail(rest(begin), "a `}` is missing");
    } else if (at() == '[') {
      size_t close = text_.find(']', pos_);
      pos_ = close == text_.npos ? text_.size() : close + 1;
    } else if (at() == '$' && at(1) != '$') {
      if (!given(o))
        return fail(rest(begin), "there is no operand of this number");
    } else if (std::isdigit(static_cast<unsigned char>(at())) || at() == '-') {
      if (!number(o))
        return fail(rest(begin), "this is no number");
    } else {
      std::string_view name = word();
      if (name.empty())
        return fail(rest(begin).empty() ? text_.substr(begin, 1) : rest(begin), "this is no operand");
      // Parts of specials: %tid.x.
      if (name[0] == '%' && !find(name, o) && at() == '.') {
        ++pos_;
        std::string_view part = word();
        name = {name.data(), static_cast<size_t>(part.data() + part.size() - name.data())};
      }
      if (name == "_")
        o.kind = Operand::Kind::Sink;
      else if (!find(name, o)) {
        if (name[0] != '%')
          return fail(name, "no register of this name is declared");
        o.kind = Operand::Kind::Special;
      }
    }
    o.text = text_.substr(begin, pos_ - begin);
    return true;
  }

  bool find(std::string_view name, Operand &o) const {
    for (size_t i = scopes_.size(); i-- > 0;)
      if (auto it = scopes_[i].find(std::string(name)); it != scopes_[i].end()) {
        o.kind = Operand::Kind::Register;
        o.index = it->second;
        return true;
      }
    return false;
  }

  bool given(Operand &o) {
    ++pos_;
    bool braced = at() == '{';
    pos_ += braced;
    const char *first = text_.data() + pos_;
    auto [end, error] = std::from_chars(first, text_.data() + text_.size(), o.index);
    if (error != std::errc() || o.index > 1000)
      return false;
    pos_ += static_cast<size_t>(end - first);
    // ${0:x}: how LLVM prints it.
    while (braced && pos_ < text_.size() && at() != '}')
      ++pos_;
    pos_ += braced;
    o.kind = Operand::Kind::Given;
    return true;
  }

  bool number(Operand &o) {
    bool minus = at() == '-';
    pos_ += minus;
    skip();
    char kind = at() == '0' ? static_cast<char>(std::tolower(static_cast<unsigned char>(at(1)))) : '\0';
    size_t digits = pos_ + 2;
    bool hexFloat = (kind == 'f' || kind == 'd') && isHex(digits, kind == 'f' ? 8 : 16);
    if (hexFloat) {
      size_t count = kind == 'f' ? 8 : 16;
      std::from_chars(text_.data() + digits, text_.data() + digits + count, o.bits, 16);
      pos_ = digits + count;
      o.kind = Operand::Kind::Float;
      o.wide = kind == 'd';
      if (minus)
        o.bits ^= uint64_t{1} << (o.wide ? 63 : 31);
      return !isWord(at());
    }
    size_t end = pos_;
    while (end < text_.size() && (isWord(text_[end]) || text_[end] == '.'))
      ++end;
    std::string_view body = text_.substr(pos_, end - pos_);
    // An exponent may have a sign.
    if (kind != 'x' && !body.empty() && (body.back() == 'e' || body.back() == 'E') && end + 1 < text_.size() &&
        (text_[end] == '+' || text_[end] == '-')) {
      do
        ++end;
      while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end])));
      body = text_.substr(pos_, end - pos_);
    }
    pos_ = end;
    if (kind != 'x' && body.find_first_of(".eE") != body.npos) {
      double value = 0;
      auto [stop, error] = std::from_chars(body.data(), body.data() + body.size(), value);
      o.kind = Operand::Kind::Float;
      o.wide = true;
      o.bits = std::bit_cast<uint64_t>(minus ? -value : value);
      return error == std::errc() && stop == body.data() + body.size();
    }
    if (!body.empty() && (body.back() == 'U' || body.back() == 'u'))
      body.remove_suffix(1);
    int base = kind == 'x' ? 16 : kind == 'b' ? 2 : kind == '\0' || body.size() == 1 ? 10 : 8;
    if (base == 16 || base == 2)
      body.remove_prefix(std::min<size_t>(2, body.size()));
    o.kind = Operand::Kind::Int;
    auto [stop, error] = std::from_chars(body.data(), body.data() + body.size(), o.bits, base);
    if (minus)
      o.bits = 0 - o.bits;
    return error == std::errc() && stop == body.data() + body.size() && !body.empty();
  }
  bool isHex(size_t from, size_t count) const {
    if (from + count > text_.size())
      return false;
    std::string_view s = text_.substr(from, count);
    return std::all_of(s.begin(), s.end(), [](char c) { return std::isxdigit(static_cast<unsigned char>(c)); });
  }

  std::string_view text_;
  Problem &problem_;
  size_t pos_ = 0;
  unsigned depth_ = 0;
  Program program_;
  std::vector<std::map<std::string, unsigned, std::less<>>> scopes_;
};

} // namespace

std::optional<Program> parse(std::string_view text, Problem &problem) { return Reader(text, problem).run(); }

} // namespace ptx

bool looksLikePtx(std::string_view text) {
  using ptx::isSpace, ptx::isWord;
  size_t i = 0;
  auto rest = [&] { return text.substr(i); };
  for (;;) {
    while (i < text.size() && (isSpace(text[i]) || text[i] == ';' || text[i] == '{'))
      ++i;
    if (rest().starts_with("//") || rest().starts_with("/*")) {
      bool line = text[i + 1] == '/';
      size_t end = text.find(line ? "\n" : "*/", i + 2);
      i = end == text.npos ? text.size() : end + (line ? 1 : 2);
      continue;
    }
    break;
  }
  if (i == text.size() || rest().starts_with(".reg") || text[i] == '@')
    return true;
  size_t begin = i;
  while (i < text.size() && isWord(text[i]))
    ++i;
  std::string_view name = text.substr(begin, i - begin);
  // A CPU's instructions have no dots, but for conditional branches (aarch64).
  return i > begin && i < text.size() && text[i] == '.' && name != "b" && name != "bc";
}

} // namespace tegula::ir
