// device_print, device_assert, and the table of places in the source that run-time reports refer to.
#include "targets/common/Frame.h"
#include "targets/nvidia/lower/Lower.h"

namespace tegula::nvidia {

using ir::OpKind;
using targets::Site;

int Lowering::siteOf(const Op &op) {
  auto [it, isNew] = sites_.try_emplace(&op, static_cast<int>(meta_.sites.size()));
  if (!isNew)
    return it->second;
  Site::Kind kind = op.kind == OpKind::Load                                        ? Site::Kind::Load
                    : op.kind == OpKind::Store                                     ? Site::Kind::Store
                    : op.kind == OpKind::Print                                     ? Site::Kind::Print
                    : op.kind == OpKind::Assert                                    ? Site::Kind::Assert
                    : op.kind == OpKind::AtomicRmw || op.kind == OpKind::AtomicCas ? Site::Kind::Atomic
                                                                                   : Site::Kind::Other;
  Site s = targets::siteAt(m_, op, kind, source_->name);
  if (kind == Site::Kind::Load || kind == Site::Kind::Store || kind == Site::Kind::Atomic)
    s.arg = baseArgument(op.operands[0]);
  meta_.sites.push_back(std::move(s));
  return it->second;
}

/// printf text of one element: "pid (x, y, z) idx (i, j) prefix: value"; percent signs of the prefix are doubled. The
/// rules of prefixes and widths are the runtime's (runtime/Print.cpp), which formats for the other devices.
static std::string printFormat(const Site &site, size_t operand, const char *value) {
  std::string prefix;
  for (char ch : site.text)
    prefix += ch == '%' ? std::string("%%") : std::string(1, ch);
  bool operands = !site.operands.empty();
  if (operands) {
    while (!prefix.empty() && prefix.back() == ' ')
      prefix.pop_back();
    if (prefix.empty() || prefix.back() != ':')
      prefix += ':';
    prefix += ' ';
  }
  if ((prefix.size() > 2 || !operands) && !prefix.empty() && prefix[0] != ' ')
    prefix.insert(0, 1, ' ');
  std::string text = "pid (%d, %d, %d)";
  if (!operands)
    return text + prefix + "\n";
  text += " idx (";
  const ir::Shape &shape = site.operands[operand].type.shape;
  for (unsigned k = 0; k < shape.rank(); ++k)
    text += (k ? ", %" : "%") + std::to_string(std::to_string(shape[k] - 1).size()) + "d";
  text += ")" + prefix;
  if (site.operands.size() > 1)
    text += "(operand " + std::to_string(operand) + ") ";
  return text + value + "\n";
}

/// How a value is printed: conversion of printf, and the value in the type that conversion reads.
std::pair<std::string, V> Lowering::printable(const Site &site, size_t operand, V x) {
  const Site::Operand &o = site.operands[operand];
  if (o.type.isPtr)
    return {"0x%llx", b_.CreatePtrToInt(x, b_.getInt64Ty())};
  unsigned bits = ir::bitWidth(o.type.elem);
  if (site.hex)
    return {"0x%0" + std::to_string((bits + 3) / 4) + (bits > 32 ? "llx" : "x"),
            b_.CreateZExt(bitsOf(x), bits > 32 ? b_.getInt64Ty() : b_.getInt32Ty())};
  if (ir::isFloat(o.type.elem))
    return {"%f", o.type.elem == ir::Elem::F64 ? x : b_.CreateFPExt(vec_->widen(x, o.type.elem), b_.getDoubleTy())};
  llvm::Type *wide = bits > 32 ? b_.getInt64Ty() : b_.getInt32Ty();
  bool isSigned = o.isSigned && bits > 1;
  return {std::string(bits > 32 ? "%ll" : "%") + (isSigned ? "d" : "u"),
          isSigned ? b_.CreateSExt(x, wide) : b_.CreateZExt(x, wide)};
}

void Lowering::print(const Op &op) {
  int number = siteOf(op);
  const Site site = meta_.sites[static_cast<size_t>(number)];
  in_->setSite(number);
  auto one = [&](int operand, V index, V x, V owns, llvm::ArrayRef<V> coordinates) {
    ifThen(owns, [&] {
      Regs args = {in_->programId(0), in_->programId(1), in_->programId(2)};
      args.append(coordinates.begin(), coordinates.end());
      std::string conversion;
      if (operand >= 0) {
        auto [text, value] = printable(site, static_cast<size_t>(operand), x);
        conversion = text;
        args.push_back(value);
      }
      V bits = x ? b_.CreateZExtOrTrunc(bitsOf(x), b_.getInt64Ty()) : b_.getInt64(0);
      in_->print(operand, index, bits, printFormat(site, static_cast<size_t>(std::max(operand, 0)), conversion.c_str()),
                 args);
    });
  };
  if (op.operands.empty())
    one(-1, b_.getInt64(0), nullptr, conjunction(ownsElements(0), isDoneHere(op)), {});
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const ir::Type &t = op.operands[k]->type;
    const Regs &x = get(op.operands[k]);
    for (unsigned r = 0; r < x.size(); ++r) {
      Regs at;
      for (unsigned axis = 0; axis < t.shape.rank(); ++axis)
        at.push_back(coordinate(t.layout, axis, r));
      one(static_cast<int>(k), t.isScalar() ? b_.getInt64(0) : b_.CreateZExt(flatIndex(t.layout, r), b_.getInt64Ty()),
          x[r], conjunction(ownsElements(t.layout), isDoneHere(op)), at);
    }
  }
}

void Lowering::assertion(const Op &op) {
  in_->setSite(siteOf(op));
  V bad = nullptr;
  const Regs &x = get(op.operands[0]);
  for (unsigned r = 0; r < x.size(); ++r) {
    V b = b_.CreateNot(x[r]);
    if (op.operands.size() > 1)
      b = b_.CreateAnd(b, get(op.operands[1])[r]);
    bad = bad ? b_.CreateOr(bad, b) : b;
  }
  V site = b_.getInt32(static_cast<uint32_t>(siteOf(op)));
  if (target_.simulate)
    return ifThen(bad, [&] { in_->assertFail(record_, site); });
  if (!failedSite_)
    failAssertions();
  llvm::BasicBlock *after = newBlock("end");
  failedSite_->addIncoming(site, b_.GetInsertBlock());
  b_.CreateCondBr(bad, failedSite_->getParent(), after);
  b_.SetInsertPoint(after);
}

/// The end that all failed assertions share: as one of its own for each, the report was 20 instructions of PTX, and the
/// address of the record had so many users that LLVM's register coalescer took 5 s for 2000 sums that are checked for
/// overflow.
void Lowering::failAssertions() {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(newBlock("failed"));
  b_.SetCurrentDebugLocation({}); // is of no line
  failedSite_ = b_.CreatePHI(b_.getInt32Ty(), 8);
  in_->assertFail(record_, failedSite_);
  b_.CreateUnreachable();
}

} // namespace tegula::nvidia
