// See AssemblerForms.h.
#include "targets/nvidia/AssemblerForms.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tegula::nvidia {
namespace {

using llvm::StringRef;

/// d = -x as the complement plus one, which the assembler does not recognize as a negation.
std::string negated(StringRef bits, StringRef d, StringRef x) {
  return ("not.b" + bits + " " + d + ", " + x + ";\n\tadd.s" + bits + " " + d + ", " + d + ", 1;").str();
}

/// The instructions in place of `name operands;`, or nothing.
std::string replacement(StringRef name, llvm::ArrayRef<StringRef> operands) {
  StringRef bits = name.take_back(2);
  if (operands.size() == 2 && (name == "neg.s16" || name == "neg.s32"))
    return negated(bits, operands[0], operands[1]);
  if (operands.size() == 2 && (name == "abs.s16" || name == "abs.s32" || name == "abs.s64"))
    return ("{\n\t.reg .b" + bits + " %negated;\n\t" + negated(bits, "%negated", operands[1]) + "\n\tmax.s" + bits + " " + operands[0] +
            ", " + operands[1] + ", %negated;\n\t}")
        .str();
  if (operands.size() == 3 && (name == "mul.hi.s32" || name == "mul.hi.u32"))
    return ("{\n\t.reg .b64 %product;\n\tmul.wide." + name.take_back(3) + " %product, " + operands[1] + ", " + operands[2] +
            ";\n\tmov.b64 {_, " + operands[0] + "}, %product;\n\t}")
        .str();
  return {};
}

std::string replacementOfLine(StringRef line) {
  StringRef text = line.trim();
  if (!text.starts_with("neg.s") && !text.starts_with("abs.s") && !text.starts_with("mul.hi."))
    return {};
  auto [name, rest] = text.split(' ');
  llvm::SmallVector<StringRef, 3> operands;
  rest.split(';').first.split(operands, ',');
  for (StringRef &o : operands)
    o = o.trim();
  return replacement(name.trim(), operands);
}

} // namespace

std::string replaceForAssembler(std::string_view ptx) {
  std::string out;
  out.reserve(ptx.size() + ptx.size() / 16);
  for (StringRef rest(ptx); !rest.empty();) {
    size_t end = rest.find('\n');
    StringRef line = rest.take_front(end == StringRef::npos ? rest.size() : end + 1);
    rest = rest.drop_front(line.size());
    std::string other = replacementOfLine(line);
    out += other.empty() ? line.str() : "\t" + other + "\n";
  }
  return out;
}

} // namespace tegula::nvidia
