// Operations on 8- and 16-bit elements done on the 32-bit words they were loaded in: four or two elements an
// instruction. Only where the words exist as they are (loads and these operations leave them): packing single elements
// costs more than it saves.
#include "targets/nvidia/lower/LowerPart.h"
#include "targets/common/NvptxOps.h"

namespace tegula::nvidia {

using ir::Elem;
using ir::OpKind;

namespace {

/// `x` in each of the elements of a word.
uint32_t repeated(uint32_t x, unsigned bits) {
  return bits == 8 ? (x & 0xFF) * 0x01010101u : (x & 0xFFFF) * 0x00010001u;
}

std::optional<uint64_t> constantOf(llvm::ArrayRef<V> elements) {
  auto *c = llvm::dyn_cast<llvm::ConstantInt>(elements[0]);
  if (!c || !llvm::all_of(elements, [&](V x) { return x == c; }))
    return std::nullopt;
  return c->getZExtValue();
}

} // namespace

struct Lowering::Words : Part {
  using Part::Part;
  struct Bytes {
    V word;
    uint32_t bias, end; // the bytes are numbers + bias, in [0, end)
  };
  void noteBytes(OpKind kind, V result, V x, uint8_t constant);
  Bytes narrowBytesAt(const Regs &x, unsigned first, bool isSigned);
  std::optional<Regs> inWords(const Op &op), integersInWords(const Op &op), convertBytes(const Op &op);
  std::optional<Regs> halvesInPairs(OpKind kind, llvm::ArrayRef<const Regs *> in, const Value *result);
  std::optional<Regs> bytesToHalves(const Op &op, bool toHigh), convertFp8(const Op &op), halvesInPairs(const Op &op),
      roundedInPairs(const Op &op), roundedAndWidened(const Op &op), signsInWords(const Op &op),
      selectInWords(const Op &op);
  V wordAt(const Regs &x, unsigned first, unsigned bits), bytesAt(const Regs &x, unsigned first),
      pairAt(const Regs &x, unsigned first);
  V shiftWord(OpKind kind, V x, unsigned amount, unsigned bits), sumOfBytes(OpKind kind, V x, V y);
  std::array<V, 2> fp8ToHalves(V word, Elem from);
  void appendElements(Regs &out, V word, unsigned bits);
  std::optional<std::array<V, 2>> foldWords(OpKind kind, Elem e, const Regs &elements);
  V widenedConstant(llvm::ArrayRef<V> floats), narrowOf(V wide, Elem e);
  V pickBytes(V a, V c, std::array<uint8_t, 4> bytes), pairArithmetic(OpKind kind, llvm::ArrayRef<V> words, Elem e);
  Bytes biasedBytes(const Value *from, unsigned first, bool isSigned);
  void bytesToFloats(Regs &out, const Bytes &x, Elem to);
};

std::optional<Regs> Lowering::inWords(const Op &op) { return Words(*this).inWords(op); }
std::array<V, 2> Lowering::fp8ToHalves(V word, Elem from) { return Words(*this).fp8ToHalves(word, from); }
V Lowering::wordOfBytes(llvm::ArrayRef<V> elements) {
  return Words(*this).bytesAt(Regs(elements.begin(), elements.end()), 0);
}
std::optional<std::array<V, 2>> Lowering::foldWords(OpKind kind, Elem e, const Regs &elements) {
  return Words(*this).foldWords(kind, e, elements);
}

/// The words of `n` elements of `bits` starting at `first`; null if they are not whole words, or not in order.
V Lowering::Words::wordAt(const Regs &x, unsigned first, unsigned bits) {
  llvm::ArrayRef<V> elements = llvm::ArrayRef<V>(x).slice(first, 32 / bits);
  if (std::optional<uint64_t> c = constantOf(elements))
    return b_.getInt32(repeated(static_cast<uint32_t>(*c), bits));
  return targets::wordOf(elements);
}

/// The word of four bytes that stand in one word or in two: as they are, or with one selection of bytes; null if it
/// takes more.
V Lowering::Words::bytesAt(const Regs &x, unsigned first) {
  if (V word = wordAt(x, first, 8))
    return word;
  V words[2] = {};
  std::array<uint8_t, 4> bytes{};
  for (unsigned k = 0; k < 4; ++k) {
    auto [word, byte] = targets::placeInWord(x[first + k]);
    if (!word)
      return nullptr;
    unsigned which = !words[0] || words[0] == word ? 0 : 1;
    if (words[which] && words[which] != word)
      return nullptr;
    words[which] = word;
    bytes[k] = static_cast<uint8_t>(4 * which + byte);
  }
  return pickBytes(words[0], words[1] ? words[1] : words[0], bytes);
}

void Lowering::Words::appendElements(Regs &out, V word, unsigned bits) {
  V elements = b_.CreateBitCast(word, llvm::FixedVectorType::get(b_.getIntNTy(bits), 32 / bits));
  for (unsigned k = 0; k < 32 / bits; ++k)
    out.push_back(b_.CreateExtractElement(elements, k));
}

/// Shifts by a constant: the word is shifted, and what came from the neighbour cut off.
V Lowering::Words::shiftWord(OpKind kind, V x, unsigned amount, unsigned bits) {
  if (kind == OpKind::Shl)
    return b_.CreateAnd(b_.CreateShl(x, amount), repeated(0xFFFFFFFFu << amount, bits));
  uint32_t ones = (1u << bits) - 1;
  V moved = b_.CreateLShr(x, amount), kept = b_.CreateAnd(moved, repeated(ones >> amount, bits));
  if (kind == OpKind::LShr || amount == 0)
    return kept;
  // The sign is now bit (bits - 1 - amount). Adding it times 2^(amount+1) - 2 sets it and all above: no carry leaves
  // the element.
  V sign = b_.CreateAnd(moved, repeated(1u << (bits - 1 - amount), bits));
  return b_.CreateAdd(kept, b_.CreateMul(sign, b_.getInt32((2u << amount) - 2)));
}

/// x + y or x - y of the bytes of two words. The top bits are left out of the sum, or of the difference lent from: no
/// carry leaves a byte. They are what both have there and what came up to them.
V Lowering::Words::sumOfBytes(OpKind kind, V x, V y) {
  V top = b_.getInt32(repeated(0x80, 8)), rest = b_.getInt32(repeated(0x7F, 8));
  if (kind == OpKind::Add)
    return b_.CreateXor(b_.CreateAdd(b_.CreateAnd(x, rest), b_.CreateAnd(y, rest)),
                        b_.CreateAnd(b_.CreateXor(x, y), top));
  return b_.CreateXor(b_.CreateSub(b_.CreateOr(x, top), b_.CreateAnd(y, rest)),
                      b_.CreateAnd(b_.CreateXor(x, b_.CreateNot(y)), top));
}

std::optional<Regs> Lowering::Words::integersInWords(const Op &op) {
  unsigned bits = ir::bitWidth(op.result()->type.elem);
  const Regs &x = get(op.operands[0]), &y = get(op.operands[1]);
  bool isShift = op.kind == OpKind::Shl || op.kind == OpKind::LShr || op.kind == OpKind::AShr;
  Regs out;
  for (unsigned i = 0; i < x.size(); i += 32 / bits) {
    V a = wordAt(x, i, bits), c = wordAt(y, i, bits);
    // Words of constants alone are left to the folder.
    if (!a || !c || llvm::isa<llvm::Constant>(a))
      return std::nullopt;
    if (isShift) {
      auto *amount = llvm::dyn_cast<llvm::ConstantInt>(y[i]);
      if (!amount || amount->getZExtValue() >= bits || !constantOf(llvm::ArrayRef<V>(y).slice(i, 32 / bits)))
        return std::nullopt;
      V shifted = shiftWord(op.kind, a, static_cast<unsigned>(amount->getZExtValue()), bits);
      if (bits == 8)
        noteBytes(op.kind, shifted, a, static_cast<uint8_t>(amount->getZExtValue()));
      appendElements(out, shifted, bits);
      continue;
    }
    V r = op.kind == OpKind::And   ? b_.CreateAnd(a, c)
          : op.kind == OpKind::Or  ? b_.CreateOr(a, c)
          : op.kind == OpKind::Xor ? b_.CreateXor(a, c)
                                   : sumOfBytes(op.kind, a, c);
    if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(c);
        constant && bits == 8 &&
        constant->getZExtValue() == repeated(static_cast<uint32_t>(constant->getZExtValue()), 8))
      noteBytes(op.kind, r, a, static_cast<uint8_t>(constant->getZExtValue()));
    appendElements(out, r, bits);
  }
  return out;
}

/// Bytes of the words `a` (0..3) and `c` (4..7), the lowest of the result first in `bytes`.
V Lowering::Words::pickBytes(V a, V c, std::array<uint8_t, 4> bytes) {
  if (!target_.simulate)
    return targets::nvptxPickBytes(*vec_, a, c, bytes);
  auto *four = llvm::FixedVectorType::get(b_.getInt8Ty(), 4);
  int mask[] = {bytes[0], bytes[1], bytes[2], bytes[3]};
  return b_.CreateBitCast(b_.CreateShuffleVector(b_.CreateBitCast(a, four), b_.CreateBitCast(c, four), mask),
                          b_.getInt32Ty());
}

/// What is known of the bytes of `result`, `x` combined with a constant in each: masks and shifts leave few digits, and
/// a sum with a constant is the digits with another bias.
void Lowering::Words::noteBytes(OpKind kind, V result, V x, uint8_t constant) {
  if (llvm::isa<llvm::Constant>(result))
    return;
  auto note = [&](V base, uint32_t bias, uint32_t end) { frame_.narrowBytes_[result] = {base, bias, end}; };
  switch (kind) {
  case OpKind::And:
    if (constant < 128)
      note(result, 0, constant + 1u);
    return;
  case OpKind::LShr:
    if (constant)
      note(result, 0, 256u >> constant);
    return;
  case OpKind::AShr:
    if (constant) { // the sign bit moved along, and turned over
      uint32_t sign = 0x80u >> constant;
      note(b_.CreateXor(b_.CreateAnd(b_.CreateLShr(x, constant), repeated(0xFFu >> constant, 8)), repeated(sign, 8)),
           sign, sign * 2);
    }
    return;
  case OpKind::Add:
  case OpKind::Sub: {
    auto known = frame_.narrowBytes_.find(x);
    if (known == frame_.narrowBytes_.end())
      return;
    const NarrowBytes of = known->second;
    const int summand = static_cast<int8_t>(constant),
              bias = static_cast<int>(of.bias) - (kind == OpKind::Add ? summand : -summand),
              end = static_cast<int>(of.end);
    if (bias >= 0 && bias <= 128 && end - bias <= 128)
      note(of.base, static_cast<uint32_t>(bias), of.end);
    else if (bias < 0 && end - bias <= 256)
      note(result, 0, static_cast<uint32_t>(end - bias));
    return;
  }
  default:
    return;
  }
}

/// Four bytes from register `first` on whose words have few digits, as far as that is known of all of them with one
/// bias; else a null word.
Lowering::Words::Bytes Lowering::Words::narrowBytesAt(const Regs &x, unsigned first, bool isSigned) {
  Bytes out{nullptr, 0, 0};
  V bases[2] = {};
  std::array<uint8_t, 4> bytes{};
  for (unsigned k = 0; k < 4; ++k) {
    auto [word, byte] = targets::placeInWord(x[first + k]);
    auto known = word ? frame_.narrowBytes_.find(word) : frame_.narrowBytes_.end();
    if (known == frame_.narrowBytes_.end() || (k && known->second.bias != out.bias))
      return {nullptr, 0, 0};
    const NarrowBytes &of = known->second;
    const bool isInside = isSigned ? of.end <= of.bias + 128 : of.bias == 0;
    const unsigned which = !bases[0] || bases[0] == of.base ? 0 : 1;
    if (!isInside || (bases[which] && bases[which] != of.base))
      return {nullptr, 0, 0};
    bases[which] = of.base;
    bytes[k] = static_cast<uint8_t>(4 * which + byte);
    out.bias = of.bias;
    out.end = std::max(out.end, of.end);
  }
  const bool isWhole = !bases[1] && bytes == std::array<uint8_t, 4>{0, 1, 2, 3};
  out.word = isWhole ? bases[0] : pickBytes(bases[0], bases[1] ? bases[1] : bases[0], bytes);
  return out;
}

/// Bytes of `from` from register `first` on, as numbers that `bias` was added to so that none is negative: fewest
/// instructions where the operations they come from leave few digits.
Lowering::Words::Bytes Lowering::Words::biasedBytes(const Value *from, unsigned first, bool isSigned) {
  if (Bytes few = narrowBytesAt(get(from), first, isSigned); few.word)
    return few;
  V word = bytesAt(get(from), first);
  return word && isSigned ? Bytes{b_.CreateXor(word, repeated(0x80, 8)), 128, 256} : Bytes{word, 0, 256};
}

/// Four 8-bit integers in a word -> floats. The bytes become the low bits of numbers whose exponent makes these bits
/// count 1, and the rest of those numbers is subtracted: exact, and faster than the instructions that convert.
void Lowering::Words::bytesToFloats(Regs &out, const Bytes &x, Elem to) {
  if (to == Elem::F32) {
    for (uint8_t k = 0; k < 4; ++k) {
      V bits = pickBytes(x.word, b_.getInt32(0x4B000000), {k, 4, 4, 7}); // 2^23 and the byte
      out.push_back(b_.CreateFSub(b_.CreateBitCast(bits, b_.getFloatTy()),
                                  llvm::ConstantFP::get(b_.getFloatTy(), 0x1p23 + x.bias)));
    }
    return;
  }
  uint32_t exponent = to == Elem::F16 ? 0x64 : 0x43; // 1024 and the byte; 128 and seven bits
  // A bf16 has no place for eight bits. The eighth of a signed number makes 256 of the 128 to be subtracted.
  bool splitSign = to == Elem::BF16 && x.end > 128;
  V bytes = splitSign ? b_.CreateXor(x.word, repeated(0x80, 8)) : x.word;
  for (uint8_t k = 0; k < 4; k += 2) {
    V pair = pickBytes(bytes, b_.getInt32(repeated(exponent, 8)), {k, 4, static_cast<uint8_t>(k + 1), 4});
    V less = b_.getInt32(repeated(exponent << 8 | x.bias, 16));
    if (splitSign) {
      less = b_.CreateAnd(pair, repeated(0xFF80, 16));
      pair = b_.CreateAnd(pair, repeated(0xFF7F, 16));
    }
    appendElements(out, pairArithmetic(OpKind::FSub, {pair, less}, to), 16);
  }
}

std::optional<Regs> Lowering::Words::convertBytes(const Op &op) {
  // The language converts to narrow floats by way of float, which is exact here.
  const Op *toFloat = op.kind == OpKind::FpTrunc ? op.operands[0]->def : &op;
  if (!toFloat || (toFloat->kind != OpKind::SIToFp && toFloat->kind != OpKind::UIToFp))
    return std::nullopt;
  const Value *from = toFloat->operands[0];
  Elem to = op.result()->type.elem;
  bool isSigned = toFloat->kind == OpKind::SIToFp;
  if (from->type.elem != Elem::I8 || get(from).size() % 4 != 0 ||
      (to != Elem::F32 && to != Elem::F16 && to != Elem::BF16))
    return std::nullopt;
  Regs out;
  for (unsigned i = 0; i < get(from).size(); i += 4) {
    Bytes x = biasedBytes(from, i, isSigned);
    // 255 has eight digits, as many as a bf16: there is no bit for them all below an exponent that stays.
    if (!x.word || llvm::isa<llvm::Constant>(x.word) || (to == Elem::BF16 && x.end > 128 && !isSigned))
      return std::nullopt;
    bytesToFloats(out, x, to);
  }
  return out;
}

/// 8-bit integers become the low (or high) bytes of 16-bit ones: one selection of bytes for two.
std::optional<Regs> Lowering::Words::bytesToHalves(const Op &op, bool toHigh) {
  const Regs &x = get(op.operands[0]);
  if (op.operands[0]->type.elem != Elem::I8 || op.result()->type.elem != Elem::I16 || x.size() % 2 != 0)
    return std::nullopt;
  Regs out;
  for (unsigned i = 0; i < x.size(); i += 2) {
    auto [a, lowByte] = targets::placeInWord(x[i]);
    auto [c, highByte] = targets::placeInWord(x[i + 1]);
    if (!a || !c)
      return std::nullopt;
    auto low = static_cast<uint8_t>(lowByte), high = static_cast<uint8_t>(4 + highByte);
    // Twice, so that both ways take the same bytes; what is not wanted falls to the mask, which other masks often
    // swallow.
    appendElements(out, b_.CreateAnd(pickBytes(a, c, {low, low, high, high}), repeated(toHigh ? 0xFF00 : 0x00FF, 16)),
                   16);
  }
  return out;
}

/// The f16 pairs of the four fp8 in a word: exact.
std::array<V, 2> Lowering::Words::fp8ToHalves(V word, Elem from) {
  if (from == Elem::F8E5M2) // the high byte of an f16
    return {pickBytes(word, b_.getInt32(0), {4, 0, 4, 1}), pickBytes(word, b_.getInt32(0), {4, 2, 4, 3})};
  if (!target_.simulate)
    return targets::nvptxWidenE4m3(*vec_, word);
  V four = b_.CreateBitCast(word, llvm::FixedVectorType::get(b_.getInt8Ty(), 4));
  V halves = b_.CreateBitCast(vec_->narrow(vec_->widen(four, from), Elem::F16),
                              llvm::FixedVectorType::get(b_.getInt32Ty(), 2));
  return {b_.CreateExtractElement(halves, uint64_t(0)), b_.CreateExtractElement(halves, 1)};
}

std::optional<Regs> Lowering::Words::convertFp8(const Op &op) {
  // The language converts to bf16 by way of float, which is exact here, as is f16.
  const Op *widening = op.kind == OpKind::FpTrunc ? op.operands[0]->def : &op;
  if (!widening || widening->kind != OpKind::FpExt)
    return std::nullopt;
  Elem from = widening->operands[0]->type.elem, to = op.result()->type.elem;
  const Regs &x = get(widening->operands[0]);
  bool canWiden = from == Elem::F8E5M2 || (from == Elem::F8E4M3FN && target_.sm >= 89);
  if (!canWiden || x.size() % 2 != 0 || (to != Elem::F32 && to != Elem::F16 && to != Elem::BF16))
    return std::nullopt;
  Regs pairs;
  for (unsigned i = 0; i < x.size();) {
    if (V word = x.size() - i >= 4 ? wordAt(x, i, 8) : nullptr; word && !llvm::isa<llvm::Constant>(word)) {
      std::array<V, 2> both = fp8ToHalves(word, from);
      pairs.append(both.begin(), both.end());
      i += 4;
    } else if (V half = word ? nullptr : targets::halfWordOf(b_, x[i], x[i + 1])) { // a fragment's neighbours
      pairs.push_back(fp8ToHalves(b_.CreateZExt(half, b_.getInt32Ty()), from)[0]);
      i += 2;
    } else {
      return std::nullopt;
    }
  }
  Regs out;
  for (V pair : pairs) {
    if (to == Elem::F16) {
      appendElements(out, pair, 16);
      continue;
    }
    V both = vec_->widen(b_.CreateBitCast(pair, llvm::FixedVectorType::get(b_.getInt16Ty(), 2)), Elem::F16);
    V floats[] = {b_.CreateExtractElement(both, uint64_t(0)), b_.CreateExtractElement(both, 1)};
    if (to == Elem::F32)
      out.append({floats[0], floats[1]});
    else
      appendElements(out, targets::packWord(b_, {vec_->narrow(floats[0], to), vec_->narrow(floats[1], to)}), 16);
  }
  return out;
}

/// x + y, x - y, x * y or x * y + z of the two f16 or bf16 in each of these words, rounded once. So are those that the
/// simulator computes by way of float: its 24 bits are enough for either format's sums and products. For one rounding
/// of both it takes more, one element after the other.
V Lowering::Words::pairArithmetic(OpKind kind, llvm::ArrayRef<V> words, Elem e) {
  if (!target_.simulate)
    return targets::nvptxPairArithmetic(*vec_, kind, words, e);
  auto *two = llvm::FixedVectorType::get(b_.getInt16Ty(), 2);
  V p = vec_->widen(b_.CreateBitCast(words[0], two), e), q = vec_->widen(b_.CreateBitCast(words[1], two), e);
  V r = kind == OpKind::FAdd ? b_.CreateFAdd(p, q) : kind == OpKind::FSub ? b_.CreateFSub(p, q) : b_.CreateFMul(p, q);
  return b_.CreateBitCast(vec_->narrow(r, e), b_.getInt32Ty());
}

/// The f16 or bf16 that a float was widened from; null if it was not, or nobody knows.
V Lowering::Words::narrowOf(V wide, Elem e) {
  if (auto *half = llvm::dyn_cast<llvm::FPExtInst>(wide); half && e == Elem::F16) {
    auto *bits = llvm::dyn_cast<llvm::BitCastInst>(half->getOperand(0));
    return bits && bits->getSrcTy()->isIntegerTy(16) ? bits->getOperand(0) : nullptr;
  }
  auto *bits = e == Elem::BF16 ? llvm::dyn_cast<llvm::BitCastInst>(wide) : nullptr;
  auto *upper = bits ? llvm::dyn_cast<llvm::BinaryOperator>(bits->getOperand(0)) : nullptr;
  auto *constant =
      upper && upper->getType()->isIntegerTy(32) ? llvm::dyn_cast<llvm::ConstantInt>(upper->getOperand(1)) : nullptr;
  const bool isKept =
      constant && upper->getOpcode() == llvm::Instruction::And && constant->getZExtValue() == 0xFFFF0000;
  if (!isKept && !(constant && upper->getOpcode() == llvm::Instruction::Shl && constant->getZExtValue() == 16))
    return nullptr;
  V word = upper->getOperand(0);
  if (auto *one = llvm::dyn_cast<llvm::ZExtInst>(word); one && !isKept && one->getSrcTy()->isIntegerTy(16))
    return one->getOperand(0);
  Regs halves;
  appendElements(halves, word, 16);
  return halves[isKept];
}

/// A sum, difference or product of two floats that were f16 or bf16 and is rounded to what they were: 24 bits are
/// enough for twice as many and two more, so that the second rounding finds what one alone would (S. A. Figueroa, "When
/// is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995). A product of bf16 below 2^-126 is rounded once here,
/// and there as float, too.
std::optional<Regs> Lowering::Words::roundedInPairs(const Op &op) {
  const Op *wide = op.operands[0]->def;
  const Elem e = op.result()->type.elem;
  if (op.rtz() || !wide || wide->result()->type.elem != Elem::F32 ||
      (wide->kind != OpKind::FAdd && wide->kind != OpKind::FSub && wide->kind != OpKind::FMul))
    return std::nullopt;
  llvm::SmallVector<Regs, 2> narrow;
  for (const Value *v : wide->operands) {
    if (v->def && v->def->kind == OpKind::FpExt && v->def->operands[0]->type.elem == e) {
      narrow.push_back(get(v->def->operands[0]));
      continue;
    }
    Regs &own = narrow.emplace_back(); // copies of a row, say, that was widened before
    for (V x : get(v)) {
      own.push_back(narrowOf(x, e));
      if (!own.back())
        return std::nullopt;
    }
  }
  return halvesInPairs(wide->kind, {&narrow[0], &narrow[1]}, op.result());
}

/// Floats that are rounded to 16 bits and widened again, as code that follows the roundings of another does: two by one
/// conversion, whose halves are floats with one instruction each.
std::optional<Regs> Lowering::Words::roundedAndWidened(const Op &op) {
  const Value *result = op.result();
  const Elem e = result->type.elem;
  const bool isWidened =
      llvm::any_of(frame_.users_.of(result), [](const Op *user) { return user->kind == OpKind::FpExt; });
  if (target_.simulate || !isWidened || (e != Elem::F16 && e != Elem::BF16) || op.operands[0]->type.elem != Elem::F32 ||
      registersOf(result->type) % 2 != 0 || !frame_.equalRegisters(result).empty())
    return std::nullopt;
  const Regs &x = get(op.operands[0]);
  Regs out;
  for (unsigned i = 0; i < x.size(); i += 2) {
    if (x[i] == x[i + 1]) // computed once
      return std::nullopt;
    appendElements(out, targets::packWord(b_, {vec_->narrow(x[i], e, op.rtz()), vec_->narrow(x[i + 1], e, op.rtz())}),
                   16);
  }
  return out;
}

std::optional<Regs> Lowering::Words::halvesInPairs(const Op &op) {
  llvm::SmallVector<const Regs *, 3> in;
  for (const Value *v : op.operands)
    in.push_back(&get(v));
  return halvesInPairs(op.kind, in, op.result());
}

std::optional<Regs> Lowering::Words::halvesInPairs(OpKind kind, llvm::ArrayRef<const Regs *> in, const Value *result) {
  Elem e = result->type.elem;
  unsigned n = registersOf(result->type);
  if ((e != Elem::F16 && e != Elem::BF16) || n % 2 != 0 || (kind == OpKind::Fma && target_.simulate) ||
      !frame_.equalRegisters(result).empty())
    return std::nullopt;
  auto all = [&](auto &&is) { return llvm::all_of(in, is); };
  for (unsigned i = 0; i < n; i += 2) // runs of equal registers are computed once, constants not here
    if (all([&](const Regs *r) { return (*r)[i] == (*r)[i + 1]; }) || all([&](const Regs *r) {
          return llvm::isa<llvm::Constant>((*r)[i]) && llvm::isa<llvm::Constant>((*r)[i + 1]);
        }))
      return std::nullopt;
  Regs out;
  for (unsigned i = 0; i < n; i += 2) {
    llvm::SmallVector<V, 3> words;
    for (const Regs *r : in)
      words.push_back(pairAt(*r, i));
    appendElements(out, pairArithmetic(kind, words, e), 16);
  }
  return out;
}

/// Signs of the words that elements were loaded in. The formats of 8 bits whose 0x80 is NaN are not among them.
std::optional<Regs> Lowering::Words::signsInWords(const Op &op) {
  const Elem e = op.result()->type.elem;
  if ((e != Elem::F16 && e != Elem::BF16) || registersOf(op.result()->type) % 2 != 0)
    return std::nullopt;
  const Regs &x = get(op.operands[0]);
  Regs out;
  for (unsigned i = 0; i < x.size(); i += 2) {
    V word = wordAt(x, i, 16);
    if (!word || llvm::isa<llvm::Constant>(word))
      return std::nullopt;
    appendElements(out,
                   op.kind == OpKind::FNeg ? b_.CreateXor(word, repeated(0x8000, 16))
                                           : b_.CreateAnd(word, repeated(0x7FFF, 16)),
                   16);
  }
  return out;
}

/// Words whose elements one mask chooses, as those of rows that end with a whole vector: of elements, or of bf16 that
/// are widened on the way, where the other choice is a constant that bf16 has.
std::optional<Regs> Lowering::Words::selectInWords(const Op &op) {
  const ir::Type &t = op.result()->type;
  const Op *from = op.operands[1]->def;
  const bool isWidened =
      t.elem == Elem::F32 && from && from->kind == OpKind::FpExt && from->operands[0]->type.elem == Elem::BF16;
  const unsigned bits = isWidened ? 16 : ir::bitWidth(t.elem), n = registersOf(t);
  if ((bits != 8 && bits != 16) || n % (32 / bits) != 0 || !frame_.equalRegisters(op.result()).empty())
    return std::nullopt;
  const Regs &masks = get(op.operands[0]), &x = get(isWidened ? from->operands[0] : op.operands[1]),
             &y = get(op.operands[2]);
  if (masks.size() != n || x.size() != n || y.size() != n)
    return std::nullopt;
  Regs out;
  for (unsigned i = 0; i < n; i += 32 / bits) {
    const auto mask = llvm::ArrayRef<V>(masks).slice(i, 32 / bits), other = llvm::ArrayRef<V>(y).slice(i, 32 / bits);
    V word = wordAt(x, i, bits), otherWord = isWidened ? widenedConstant(other) : wordAt(y, i, bits);
    if (!llvm::all_of(mask, [&](V m) { return m == mask[0]; }) || !word || !otherWord ||
        llvm::isa<llvm::Constant>(word))
      return std::nullopt;
    V chosen = b_.CreateSelect(mask[0], word, otherWord);
    if (!isWidened) {
      appendElements(out, chosen, bits);
      continue;
    }
    out.push_back(b_.CreateBitCast(b_.CreateShl(chosen, 16), b_.getFloatTy()));
    out.push_back(b_.CreateBitCast(b_.CreateAnd(chosen, 0xFFFF0000), b_.getFloatTy()));
  }
  return out;
}

/// The word of two bf16 that are these floats, constants; null if they are none.
V Lowering::Words::widenedConstant(llvm::ArrayRef<V> floats) {
  uint32_t word = 0;
  for (unsigned k = 0; k < 2; ++k) {
    const auto *c = llvm::dyn_cast<llvm::ConstantFP>(floats[k]);
    const uint32_t bits = c ? static_cast<uint32_t>(c->getValueAPF().bitcastToAPInt().getZExtValue()) : 1;
    if (bits & 0xFFFF)
      return nullptr;
    word |= k ? bits : bits >> 16;
  }
  return b_.getInt32(word);
}

/// Two chains side by side of many words: an instruction waits for the one before.
std::optional<std::array<V, 2>> Lowering::Words::foldWords(OpKind kind, Elem e, const Regs &elements) {
  llvm::SmallVector<V, 32> words;
  for (unsigned i = 0; i < elements.size(); i += 2) {
    V word = wordAt(elements, i, 16);
    if (!word || llvm::isa<llvm::Constant>(word))
      return std::nullopt;
    words.push_back(word);
  }
  constexpr size_t chainsFrom = 8; // words
  for (size_t chains = words.size() >= chainsFrom ? 2 : 1; words.size() > 1; words.resize(chains), chains = 1)
    for (size_t i = chains; i < words.size(); ++i)
      words[i % chains] = pairArithmetic(kind, {words[i % chains], words[i]}, e);
  Regs halves;
  appendElements(halves, words[0], 16);
  return std::array{halves[0], halves[1]};
}

V Lowering::Words::pairAt(const Regs &x, unsigned first) {
  if (V word = wordAt(x, first, 16))
    return word;
  return targets::packWord(b_, llvm::ArrayRef<V>(x).slice(first, 2));
}

/// Nullopt where elements are no words, or the operation is none that words can do.
std::optional<Regs> Lowering::Words::inWords(const Op &op) {
  const ir::Type &t = op.result()->type;
  if (!t.isTensor() || t.isPtr)
    return std::nullopt;
  switch (op.kind) {
  case OpKind::Add:
  case OpKind::Sub:
    if (ir::bitWidth(t.elem) != 8)
      return std::nullopt;
    [[fallthrough]];
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Xor:
  case OpKind::Shl:
  case OpKind::LShr:
  case OpKind::AShr: {
    unsigned bits = ir::bitWidth(t.elem);
    if ((bits != 8 && bits != 16) || registersOf(t) % (32 / bits) != 0)
      return std::nullopt;
    if (const Op *from = op.operands[0]->def; op.kind == OpKind::Shl && from && from->kind == OpKind::ZExt)
      if (const Regs &by = get(op.operands[1]); constantOf(by) == 8)
        if (std::optional<Regs> high = bytesToHalves(*from, /*toHigh=*/true))
          return high;
    return integersInWords(op);
  }
  case OpKind::ZExt:
    return bytesToHalves(op, /*toHigh=*/false);
  case OpKind::SIToFp:
  case OpKind::UIToFp:
    return convertBytes(op);
  case OpKind::FpExt:
    return convertFp8(op);
  case OpKind::FpTrunc:
    if (std::optional<Regs> bytes = convertBytes(op))
      return bytes;
    if (std::optional<Regs> pairs = roundedInPairs(op))
      return pairs;
    if (std::optional<Regs> pairs = roundedAndWidened(op))
      return pairs;
    return convertFp8(op);
  case OpKind::FAdd:
  case OpKind::FSub:
  case OpKind::FMul:
  case OpKind::Fma:
    return halvesInPairs(op);
  case OpKind::FNeg:
  case OpKind::FAbs:
    return signsInWords(op);
  case OpKind::Select:
    return selectInWords(op);
  default:
    return std::nullopt;
  }
}

} // namespace tegula::nvidia
