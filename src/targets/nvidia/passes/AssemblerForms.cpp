// See AssemblerForms.h.
#include "targets/nvidia/passes/AssemblerForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace tegula::nvidia {
namespace {

using llvm::StringRef;

/// d = -x as the complement plus one, which the assembler does not recognize as a negation.
std::string negated(StringRef bits, StringRef d, StringRef x) {
  return ("not.b" + bits + " " + d + ", " + x + ";\n\tadd.s" + bits + " " + d + ", " + d + ", 1;").str();
}

/// `lop3.b32 d, x, y, z, table` of which two operands are one register: the same function of two operands, else
/// nothing.
std::string ofTwoOperands(llvm::ArrayRef<StringRef> operands) {
  const StringRef d = operands[0], x = operands[1], y = operands[2], z = operands[3];
  unsigned table;
  if ((x != y && x != z && y != z) || operands[4].getAsInteger(0, table) || table > 255)
    return {};
  // The function of p and q: bit 2 * p + q. In `table` it is bit 4 * x + 2 * y + z.
  StringRef p = x, q = x == y ? z : y;
  auto value = [&](unsigned ofP, unsigned ofQ) {
    auto of = [&](StringRef r) { return r == p ? ofP : ofQ; };
    return table >> (4 * of(x) + 2 * of(y) + of(z)) & 1;
  };
  const unsigned function = p == q ? (15 * value(0, 0) & 3) | (15 * value(1, 1) & 12)
                                   : value(0, 0) | value(0, 1) << 1 | value(1, 0) << 2 | value(1, 1) << 3;
  constexpr const char *texts[] = {"mov.b32 D, 0;",
                                   "or.b32 %t, P, Q; not.b32 D, %t;",
                                   "not.b32 %t, P; and.b32 D, %t, Q;",
                                   "not.b32 D, P;",
                                   "not.b32 %t, Q; and.b32 D, P, %t;",
                                   "not.b32 D, Q;",
                                   "xor.b32 D, P, Q;",
                                   "and.b32 %t, P, Q; not.b32 D, %t;",
                                   "and.b32 D, P, Q;",
                                   "xor.b32 %t, P, Q; not.b32 D, %t;",
                                   "mov.b32 D, Q;",
                                   "not.b32 %t, P; or.b32 D, %t, Q;",
                                   "mov.b32 D, P;",
                                   "not.b32 %t, Q; or.b32 D, P, %t;",
                                   "or.b32 D, P, Q;",
                                   "mov.b32 D, -1;"};
  std::string out = "{\n\t.reg .b32 %t;\n\t";
  for (const char *c = texts[function]; *c; ++c)
    out += *c == 'D' ? d.str() : *c == 'P' ? p.str() : *c == 'Q' ? q.str() : std::string(1, *c);
  return out + "\n\t}";
}

/// The instructions in place of `name operands;`, or nothing. `hasLop3`: there is a lop3 in the text.
std::string replacement(StringRef name, llvm::ArrayRef<StringRef> operands, bool hasLop3) {
  StringRef bits = name.take_back(2);
  if (operands.size() == 2 && (name == "neg.s16" || name == "neg.s32"))
    return negated(bits, operands[0], operands[1]);
  if (operands.size() == 2 && (name == "abs.s16" || name == "abs.s32" || name == "abs.s64"))
    return ("{\n\t.reg .b" + bits + " %negated;\n\t" + negated(bits, "%negated", operands[1]) + "\n\tmax.s" + bits +
            " " + operands[0] + ", " + operands[1] + ", %negated;\n\t}")
        .str();
  if (operands.size() == 3 && (name == "mul.hi.s32" || name == "mul.hi.u32"))
    return ("{\n\t.reg .b64 %product;\n\tmul.wide." + name.take_back(3) + " %product, " + operands[1] + ", " +
            operands[2] + ";\n\tmov.b64 {_, " + operands[0] + "}, %product;\n\t}")
        .str();
  if (operands.size() == 5 && name == "lop3.b32")
    return ofTwoOperands(operands);
  if (hasLop3 && operands.size() == 3 && operands[2] == "0" && name.starts_with("setp.eq."))
    return ("setp.lt.u32 " + operands[0] + ", " + operands[1] + ", 1;").str();
  return {};
}

/// In place of one statement, without its semicolon; or nothing.
std::string replacementOfStatement(StringRef text, bool hasLop3) {
  constexpr llvm::StringLiteral all[] = {"neg.s", "abs.s", "mul.hi.", "lop3.b32",
                                         "setp.eq.s32", "setp.eq.u32", "setp.eq.b32"};
  if (llvm::none_of(llvm::ArrayRef(all).drop_back(hasLop3 ? 0 : 3),
                    [&](StringRef begin) { return text.starts_with(begin); }))
    return {};
  StringRef name = text.take_until([](char c) { return c == ' ' || c == '\t'; });
  llvm::SmallVector<StringRef, 5> operands;
  text.drop_front(name.size()).split(operands, ',');
  for (StringRef &o : operands)
    o = o.trim();
  return replacement(name, operands, hasLop3);
}

/// In place of a line, which has several statements where a user's assembly has them; or nothing.
std::string replacementOfLine(StringRef line, bool hasLop3) {
  StringRef text = line.trim();
  // LLVM's own scope for the high half of 64 bits.
  if (text.consume_front("{ .reg .b32 tmp; mov.b64 {tmp, ")) {
    auto [high, whole] = text.split("}, ");
    return ("{\n\t.reg .b64 %high;\n\tshr.u64 %high, " + whole.split(';').first + ", 32;\n\tcvt.u32.u64 " + high +
            ", %high;\n\t}")
        .str();
  }
  std::string out;
  bool isReplaced = false;
  while (!text.empty() && !text.starts_with("//")) {
    const StringRef before = text.take_while([](char c) { return c == ' ' || c == '\t' || c == '{' || c == '}'; });
    text = text.drop_front(before.size());
    const size_t end = text.starts_with("//") ? StringRef::npos : text.find(';');
    if (end == StringRef::npos) {
      out += before;
      break;
    }
    const std::string other = replacementOfStatement(text.take_front(end), hasLop3);
    isReplaced |= !other.empty();
    out += before;
    out += other.empty() ? text.take_front(end + 1).str() : other;
    text = text.drop_front(end + 1);
  }
  return isReplaced ? out + text.str() : std::string();
}

// ---- registers that start as the address of shared memory and are stepped by a loop

/// What a line says: `opcode operands;` after a predicate, or a label.
struct Line {
  StringRef opcode, operands, label;
};

Line parse(StringRef line) {
  StringRef text = line.trim();
  if (text.ends_with(":"))
    return {{}, {}, text.drop_back()};
  if (text.starts_with("@"))
    text = text.split(' ').second.ltrim();
  text = text.take_until([](char c) { return c == ';'; });
  StringRef opcode = text.take_until([](char c) { return c == ' ' || c == '\t'; });
  return {opcode, text.drop_front(opcode.size()).trim(), {}};
}

/// Does the instruction write the register? The destination is the first operand, or all of a list in braces.
bool writes(const Line &l, StringRef reg) {
  if (!l.operands.starts_with("{"))
    return l.operands.starts_with(reg) &&
           l.operands.take_until([](char c) { return c == ',' || c == ';'; }).rtrim() == reg;
  llvm::SmallVector<StringRef, 4> written;
  l.operands.take_until([](char c) { return c == '}'; }).drop_front().split(written, ',');
  return llvm::any_of(written, [&](StringRef w) { return w.trim() == reg; });
}

/// `line` with whole uses of a register renamed.
std::string renamed(StringRef line, StringRef reg, StringRef other) {
  std::string out;
  while (true) {
    size_t at = line.find(reg);
    if (at == StringRef::npos)
      return out + line.str();
    size_t end = at + reg.size();
    bool whole = end == line.size() || !llvm::isAlnum(line[end]);
    out += (line.take_front(at) + (whole ? other : reg)).str();
    line = line.drop_front(end);
  }
}

/// LLVM gives a loop's pointer that starts at the base of shared memory the register of the base. The assembler
/// computes other addresses that derive from the base anew inside the loop, and takes the register as the loop has
/// stepped it. So the base gets a register of its own, which everything between its definition and the loop reads.
void separateSharedBase(std::vector<std::string> &lines) {
  llvm::StringMap<bool> addresses; // registers that hold the symbol
  llvm::StringMap<size_t> labels;
  struct Base {
    std::string reg, source;
    size_t at;
  };
  std::vector<Base> bases;
  std::vector<Line> parsed;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line &l = parsed.emplace_back(parse(lines[i]));
    auto [to, from] = l.operands.split(',');
    if (!l.label.empty())
      labels[l.label] = i;
    else if (l.opcode.starts_with("mov.") && from.trim() == "tegula_shared")
      addresses[to.trim()] = true;
    else if (l.opcode == "cvt.u32.u64" && addresses.contains(from.trim()))
      bases.push_back({to.trim().str(), from.trim().str(), i});
  }
  if (bases.empty())
    return;
  std::vector<std::pair<size_t, size_t>> loops; // header's label, branch back to it
  for (size_t i = 0; i < lines.size(); ++i)
    if (parsed[i].opcode.starts_with("bra"))
      if (auto it = labels.find(parsed[i].operands.trim()); it != labels.end() && it->second < i)
        loops.push_back({it->second, i});
  for (size_t n = 0; n < bases.size(); ++n) {
    const Base &b = bases[n];
    size_t end = lines.size();
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i == b.at || !writes(parsed[i], b.reg))
        continue;
      size_t entry = i;
      for (auto [header, back] : loops)
        if (header > b.at && header < i && i <= back)
          entry = std::min(entry, header);
      end = std::min(end, entry);
    }
    if (end == lines.size() || end <= b.at)
      continue;
    std::string own = "%shared_base" + std::to_string(n);
    for (size_t i = b.at + 1; i < end; ++i)
      lines[i] = renamed(lines[i], b.reg, own);
    lines[b.at] = "\t.reg .b32 " + own + ";\n\tcvt.u32.u64 " + own + ", " + b.source + ";\n\tmov.b32 " + b.reg + ", " +
                  own + ";\n";
  }
}

// ---- conversions of the bits of a 1

/// The smallest positive number of a type, in a larger one. In integers and in smaller types it is 0.
constexpr struct {
  const char *types, *number;
} smallestIn[] = {{"f32.f16", "0f33800000"},
                  {"f64.f16", "0d3E70000000000000"},
                  {"f32.bf16", "0f00010000"},
                  {"f64.f32", "0d36A0000000000000"}};

/// In place of `opcode to, from;` where `from` has the bits of 1 if the predicate holds (or, `inverted`, if it does
/// not) and of 0 otherwise. Empty where the conversion is none from floating point, or rounds up.
std::string convertedBit(StringRef opcode, StringRef to, StringRef predicate, bool inverted) {
  auto [rest, source] = opcode.rsplit('.');
  auto [how, result] = rest.rsplit('.');
  if ((source != "f16" && source != "bf16" && source != "f32" && source != "f64") || how.contains(".rp"))
    return {};
  StringRef types = opcode.take_back(result.size() + 1 + source.size());
  for (auto &[known, number] : smallestIn)
    if (types == known) {
      const char *zero = result == "f32" ? "0f00000000" : "0d0000000000000000";
      return ("selp." + result + " " + to + ", " + (inverted ? zero : number) + ", " + (inverted ? number : zero) +
              ", " + predicate + ";")
          .str();
    }
  StringRef bits = result.drop_while([](char c) { return !llvm::isDigit(c); });
  return bits == "8" || bits == "16" || bits == "32" || bits == "64"
             ? ("mov.b" + (bits == "8" ? "16" : bits) + " " + to + ", 0;").str()
             : "";
}

/// Is it a selection of 1 or 0, whose operands these are?
bool selectsBit(StringRef opcode, llvm::ArrayRef<StringRef> operands) {
  return opcode.starts_with("selp.") && operands.size() == 4 &&
         ((operands[1] == "1" && operands[2] == "0") || (operands[1] == "0" && operands[2] == "1"));
}

llvm::SmallVector<StringRef, 4> operandsOf(const Line &l) {
  llvm::SmallVector<StringRef, 4> operands;
  l.operands.split(operands, ',');
  for (StringRef &o : operands)
    o = o.trim(" \t{}");
  return operands;
}

bool selectsBit(StringRef line) {
  const StringRef text = line.ltrim();
  if (!text.starts_with("selp.") && !text.starts_with("@"))
    return false;
  const Line l = parse(text);
  return selectsBit(l.opcode, operandsOf(l));
}

/// Registers whose one definition in the function is known stand for it: the selection, the predicate and the
/// conversion keep their places.
void replaceConvertedBits(std::vector<std::string> &lines) {
  if (llvm::none_of(lines, [](const std::string &line) { return selectsBit(line); }))
    return; // as usual: all definitions are counted below
  struct Bit {
    std::string predicate, selected; // registers
    bool inverted;
  };
  llvm::StringMap<Bit> bits; // by register
  llvm::StringMap<unsigned> definitions;
  struct Conversion {
    size_t line;
    std::string opcode, to, from;
  };
  std::vector<Conversion> conversions;
  auto replace = [&] {
    for (const Conversion &c : conversions)
      if (const Bit &bit = bits[c.from];
          definitions[c.from] == 1 && definitions[bit.selected] == 1 && definitions[bit.predicate] == 1)
        if (std::string other = convertedBit(c.opcode, c.to, bit.predicate, bit.inverted); !other.empty())
          lines[c.line] = "\t" + other + "\n";
    bits.clear(), definitions.clear(), conversions.clear();
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    StringRef text = lines[i];
    if (text.contains(".entry ") || text.contains(".func "))
      replace();
    if (text.count(';') > 1) { // inline assembly: may write all it names
      for (StringRef rest = text; !(rest = rest.drop_until([](char c) { return c == '%'; })).empty();
           rest = rest.drop_front())
        definitions["%" + rest.drop_front().take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }).str()] += 2;
      continue;
    }
    Line l = parse(text);
    const llvm::SmallVector<StringRef, 4> operands = operandsOf(l);
    size_t written =
        l.operands.starts_with("{") ? l.operands.take_until([](char c) { return c == '}'; }).count(',') + 1 : 1;
    for (StringRef o : llvm::ArrayRef(operands).take_front(written))
      if (o.starts_with("%"))
        ++definitions[o];
    if (selectsBit(l.opcode, operands))
      bits[operands[0]] = {operands[3].str(), operands[0].str(), operands[1] == "0"};
    else if (l.opcode.starts_with("mov.b") && operands.size() == 2 && bits.contains(operands[1]) &&
             !l.operands.contains('{'))
      bits[operands[0]] = Bit(bits[operands[1]]);
    else if (l.opcode.starts_with("cvt.") && operands.size() == 2 && bits.contains(operands[1]))
      conversions.push_back({i, l.opcode.str(), operands[0].str(), operands[1].str()});
  }
  replace();
}

} // namespace

/// Whether the assembler could join an addition with a product. LLVM's products say how they round; those of PTX
/// statements need not.
static bool mayFuse(StringRef ptx) {
  return ptx.contains("mul.f32") || ptx.contains("mul.ftz.f32") || ptx.contains("mul.sat.f32");
}

/// add.rn.f32 and sub.rn.f32 without the rounding, which is the same.
static void dropRounding(std::string &line) {
  StringRef text = line;
  if (StringRef opcode = text.ltrim(); opcode.starts_with("add.rn.f32 ") || opcode.starts_with("sub.rn.f32 "))
    line.erase(text.size() - opcode.size() + 3, 3);
}

std::string replaceForAssembler(std::string_view ptx) {
  std::vector<std::string> lines;
  for (StringRef rest(ptx); !rest.empty();) {
    size_t end = rest.find('\n');
    lines.push_back(rest.take_front(end == StringRef::npos ? rest.size() : end + 1).str());
    rest = rest.drop_front(lines.back().size());
  }
  separateSharedBase(lines);
  replaceConvertedBits(lines);
  std::string out;
  out.reserve(ptx.size() + ptx.size() / 16);
  const bool dropsRounding = !mayFuse(ptx), hasLop3 = StringRef(ptx).contains("lop3.b32");
  for (std::string &line : lines) {
    if (dropsRounding)
      dropRounding(line);
    std::string other = replacementOfLine(line, hasLop3);
    out += other.empty() ? line : "\t" + other + "\n";
  }
  return out;
}

} // namespace tegula::nvidia
