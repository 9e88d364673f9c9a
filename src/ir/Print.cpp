// Text form of modules; the grammar is in Text.h.
#include "ir/Ir.h"
#include <bit>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace tegula::ir {

namespace {

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

std::string number(double d) {
  if (std::isnan(d)) {
    uint64_t bits = std::bit_cast<uint64_t>(d);
    if (bits == 0x7FF8000000000000)
      return "nan";
    char hex[17] = {};
    std::to_chars(hex, hex + 16, bits, 16);
    return std::string("nan(0x") + hex + ")";
  }
  if (std::isinf(d))
    return d < 0 ? "-inf" : "inf";
  char text[40];
  std::string s(text, std::to_chars(text, text + sizeof text, d).ptr);
  if (s.find_first_of(".e") == std::string::npos)
    s += ".0";
  return s;
}

std::string quoted(std::string_view text) {
  constexpr const char *digits = "0123456789abcdef";
  std::string s = "\"";
  for (char c : text) {
    unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      s += '\\';
      s += c;
    } else if (u < 32 || u == 127) {
      s += "\\x";
      s += digits[u >> 4];
      s += digits[u & 15];
    } else {
      s += c;
    }
  }
  return s + '"';
}

class Printer {
public:
  void function(const Function &f);
  void op(const Op &op, unsigned indent);
  std::string take() { return std::move(out_); }

private:
  void line(unsigned indent) { out_.append(indent * 2, ' '); }
  void value(const Value *v) { out_ += '%', out_ += nameOf(v); }
  void values(std::span<Value *const> list);
  void attrs(const Op &op);
  void attr(const Op &op, const Attr &a);
  void region(const Region &r, unsigned indent, bool withArgs);
  void arguments(const Block &b);
  const std::string &nameOf(const Value *v);
  std::string freshName(std::string_view wanted);

  std::string out_;
  std::unordered_map<const Value *, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, unsigned> suffixes_; // last number given to a name
  unsigned next_ = 0;
};

std::string Printer::freshName(std::string_view wanted) {
  std::string base;
  for (char c : wanted)
    base += isNameChar(c) ? c : '_';
  // Names of digits are for values without a name.
  if (base.empty() || base.find_first_not_of("0123456789") == std::string::npos) {
    std::string n = std::to_string(next_++);
    return n;
  }
  std::string n = base;
  if (taken_.insert(n).second)
    return n;
  // The numbers up to the last one given are taken: the search goes on there.
  unsigned &last = suffixes_[base];
  do
    n = base + "." + std::to_string(++last);
  while (!taken_.insert(n).second);
  return n;
}

const std::string &Printer::nameOf(const Value *v) {
  auto it = names_.find(v);
  if (it == names_.end())
    it = names_.emplace(v, freshName(v->name)).first;
  return it->second;
}

void Printer::values(std::span<Value *const> list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i)
      out_ += ", ";
    value(list[i]);
  }
}

void Printer::attr(const Op &op, const Attr &a) {
  out_.append(a.key.name()) += " = ";
  if (auto *i = std::get_if<int64_t>(&a.value)) {
    bool isPred = a.key == attr::pred && *i >= 0 && *i <= static_cast<int64_t>(CmpPred::Uno) &&
                  (*i < static_cast<int64_t>(CmpPred::Oeq)) == (op.kind == OpKind::CmpI) &&
                  (op.kind == OpKind::CmpI || op.kind == OpKind::CmpF);
    out_ += isPred ? name(static_cast<CmpPred>(*i)) : std::to_string(*i);
  } else if (auto *d = std::get_if<double>(&a.value)) {
    out_ += number(*d);
  } else if (auto *s = std::get_if<std::string>(&a.value)) {
    out_ += quoted(*s);
  } else {
    out_ += '[';
    const auto &list = std::get<std::vector<int64_t>>(a.value);
    for (size_t i = 0; i < list.size(); ++i)
      out_ += (i ? ", " : "") + std::to_string(list[i]);
    out_ += ']';
  }
}

void Printer::attrs(const Op &op) {
  if (op.attrs.empty())
    return;
  out_ += " {";
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    if (i)
      out_ += ", ";
    attr(op, op.attrs[i]);
  }
  out_ += '}';
}

void Printer::arguments(const Block &b) {
  out_ += '(';
  for (size_t i = 0; i < b.args.size(); ++i) {
    if (i)
      out_ += ", ";
    value(b.args[i]);
    out_ += ": " + str(b.args[i]->type);
  }
  out_ += ')';
}

void Printer::region(const Region &r, unsigned indent, bool withArgs) {
  if (withArgs && !r.block->args.empty()) {
    arguments(*r.block);
    out_ += ' ';
  }
  out_ += "{\n";
  for (const Op *o : r.block->ops)
    op(*o, indent + 1);
  line(indent);
  out_ += '}';
}

void Printer::op(const Op &op, unsigned indent) {
  line(indent);
  values(op.results);
  if (!op.results.empty())
    out_ += " = ";
  out_ += info(op.kind).name;
  if (!op.operands.empty())
    out_ += ' ';
  values(op.operands);
  attrs(op);
  for (size_t i = 0; i < op.results.size(); ++i)
    out_ += (i ? ", " : " : ") + str(op.results[i]->type);
  for (size_t i = 0; i < op.regions.size(); ++i) {
    out_ += i == 0 ? " " : op.kind == OpKind::If ? " else " : op.kind == OpKind::Partitions ? " and " : " do ";
    region(*op.regions[i], indent, true);
  }
  out_ += '\n';
}

void Printer::function(const Function &f) {
  names_.clear();
  taken_.clear();
  suffixes_.clear();
  next_ = 0;
  out_ += f.isKernel ? "kernel " : "func ";
  if (f.noinline_)
    out_ += "noinline ";
  if (f.isOrdered)
    out_ += "ordered ";
  out_ += '@' + f.name + '(';
  for (size_t i = 0; i < f.block()->args.size(); ++i) {
    const Value *v = f.block()->args[i];
    const ArgInfo info = i < f.argInfo.size() ? f.argInfo[i] : ArgInfo();
    names_[v] = freshName(info.name.empty() ? v->name : info.name);
    out_ += (i ? ", %" : "%") + names_[v] + ": " + str(v->type);
    std::string facts;
    if (info.divisibility != 1)
      facts += ", divisibility = " + std::to_string(info.divisibility);
    if (info.isConst)
      facts += ", const = 1";
    if (!info.isSigned)
      facts += ", signed = 0";
    if (info.sameAs >= 0)
      facts += ", same_as = " + std::to_string(info.sameAs);
    if (info.overlap)
      facts += ", overlap = " + std::to_string(info.overlap);
    if (info.access >= 0)
      facts += ", access = " + std::to_string(info.access);
    if (!facts.empty())
      out_ += " {" + facts.substr(2) + "}";
  }
  out_ += ')';
  for (size_t i = 0; i < f.resultTypes.size(); ++i)
    out_ += (i ? ", " : " -> ") + str(f.resultTypes[i]);
  out_ += ' ';
  region(*f.body, 0, false);
  out_ += '\n';
}

} // namespace

std::string print(const Module &m) {
  Printer p;
  std::string text;
  for (size_t i = 0; i < m.layouts.size(); ++i)
    text += "layout L" + std::to_string(i + 1) + " = " + m.layouts[i].print() + "\n";
  for (const Function *f : m.functions)
    p.function(*f);
  return text + p.take();
}

std::string print(const Function &f) {
  Printer p;
  p.function(f);
  return p.take();
}

std::string print(const Op &op) {
  Printer p;
  p.op(op, 0);
  return p.take();
}

} // namespace tegula::ir
