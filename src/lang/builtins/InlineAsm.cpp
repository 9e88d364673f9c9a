// inline_asm_elementwise: statements of the target's assembly (LANGUAGE 3.6).
//
// A statement takes registers. What they hold is put together here, so that operations of the IR (asm, asm_effect) have
// one operand a register and are as elementwise as an addition: with pack=4 the bytes of a block of n elements become
// one block of n/4 words.
#include "ir/Asm.h"
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include "lang/builtins/Neighbours.h"
#include <algorithm>
#include <charconv>

namespace tegula::lang {

namespace {

using ir::Elem;
using ir::OpKind;
using ir::Shape;

/// Elements in a register as the statement sees it: all but f32 and f64 are integers. A bool takes a byte, an address
/// 64 bits.
Elem plainElem(Dtype d) {
  if (d.isPtr)
    return Elem::I64;
  switch (d.bits()) {
  case 1: case 8: return Elem::I8;
  case 16: return Elem::I16;
  case 32: return d.isFloat() ? Elem::F32 : Elem::I32;
  default: return d.isFloat() ? Elem::F64 : Elem::I64;
  }
}
Elem wordElem(unsigned bits) { return bits == 8 ? Elem::I8 : bits == 16 ? Elem::I16 : Elem::I32; }

/// How `pack` elements lie in registers: those of fewer than 32 bits together, up to 32 bits.
struct Packing {
  unsigned perRegister, registers, bits;
};
Packing packing(Dtype d, unsigned pack) {
  unsigned bits = ir::bitWidth(plainElem(d)), per = std::min(std::max(32 / bits, 1u), pack);
  return {per, pack / per, bits * per};
}

ir::Value *plain(ir::Builder &b, const Tensor &t) {
  Elem e = plainElem(t.dtype);
  if (t.dtype.isPtr)
    return b.cast(OpKind::PtrToInt, t.value, e);
  return b.cast(t.dtype.isBool() ? OpKind::ZExt : OpKind::Bitcast, t.value, e);
}

ir::Value *fromPlain(ir::Builder &b, ir::Value *x, Dtype d) {
  const ir::Type to = irType(d, x->type.shape);
  return b.create1(d.isPtr ? OpKind::IntToPtr : d.isBool() ? OpKind::Trunc : OpKind::Bitcast, {x}, to);
}

/// Elements, the first one in the lowest bits.
ir::Value *joinBits(ir::Builder &b, std::span<ir::Value *const> elements, unsigned bits) {
  if (elements.size() == 1)
    return elements[0];
  unsigned each = bits / static_cast<unsigned>(elements.size());
  ir::Value *word = nullptr;
  for (size_t i = 0; i < elements.size(); ++i) {
    ir::Value *x = b.cast(OpKind::ZExt, elements[i], wordElem(bits));
    x = i ? b.binary(OpKind::Shl, x, b.constInt(x->type, static_cast<int64_t>(i * each))) : x;
    word = word ? b.binary(OpKind::Or, word, x) : x;
  }
  return word;
}

std::vector<ir::Value *> splitBits(ir::Builder &b, ir::Value *word, unsigned count, Elem to) {
  if (count == 1)
    return {word};
  std::vector<ir::Value *> out;
  for (unsigned i = 0; i < count; ++i) {
    ir::Value *x = i ? b.binary(OpKind::LShr, word, b.constInt(word->type, i * ir::bitWidth(to))) : word;
    out.push_back(b.cast(OpKind::Trunc, x, to));
  }
  return out;
}

/// The arguments of a call, checked.
struct Statement {
  std::string text;
  ir::AsmConstraints constraints;
  std::vector<Tensor> in; // of one shape
  std::vector<Dtype> out;
  bool isTuple = false, isPure = false;
  bool isPtx = false; // constraints name registers of PTX
  unsigned pack = 1;
  Shape shape;
};

std::optional<Dtype> dtypeOf(const Value &v) {
  if (v.isDtype())
    return v.asDtype();
  if (v.is<std::shared_ptr<const TypeValue>>())
    return v.get<std::shared_ptr<const TypeValue>>()->dtype;
  return v.isStr() ? parseDtype(v.asStr()) : std::nullopt;
}

bool readResults(Args &a, Statement &s) {
  const std::vector<Value> *types = sequenceItems(a[3]);
  s.isTuple = types != nullptr;
  for (const Value &v : types ? *types : std::vector<Value>{a[3]}) {
    std::optional<Dtype> d = dtypeOf(v);
    if (!d || d->isVoid()) {
      a.badArgument(3, "dtype", "a dtype such as tl.float32, or a tuple of them");
      return false;
    }
    s.out.push_back(*d);
  }
  if (s.out.empty())
    a.badArgument(3, "dtype", "at least one dtype");
  return !s.out.empty();
}

bool readOperands(Args &a, Statement &s) {
  const std::vector<Value> *items = sequenceItems(a[2]);
  if (!items) {
    a.fail(diag::badArgument, a.loc(2), a.function(), "args", "a tuple of tensors",
           a[2].isTensor() ? kindName(a[2]) : str(a[2]));
    return false;
  }
  for (const Value &v : *items) {
    Value t = toTensor(a.ctx(), v, a.loc(2));
    auto common =
        t.isError() ? std::nullopt : commonShape(a.ctx(), s.shape, t.asTensor().shape(), a.loc(), a.loc(2), a.loc(2));
    if (!common)
      return false;
    s.shape = *common;
    s.in.push_back(t.asTensor());
  }
  for (Tensor &t : s.in)
    t = spread(a.ctx(), t, s.shape);
  return true;
}

/// One constraint for each register.
bool checkCounts(Args &a, const Statement &s) {
  unsigned outputs = 0, inputs = 0;
  for (Dtype d : s.out)
    outputs += packing(d, s.pack).registers;
  for (const Tensor &t : s.in)
    inputs += packing(t.dtype, s.pack).registers;
  if (s.constraints.outputs.size() != outputs) {
    a.fail(diag::asmCount, a.loc(1), static_cast<unsigned>(s.constraints.outputs.size()), "outputs", "results", outputs,
           s.pack);
    return false;
  }
  if (s.constraints.inputs.size() != inputs)
    a.fail(diag::asmCount, a.loc(1), static_cast<unsigned>(s.constraints.inputs.size()), "inputs", "arguments", inputs,
           s.pack);
  return s.constraints.inputs.size() == inputs;
}

/// A result of 64 bits, an integer or an address, in a PTX register of 32: they become its low half, as with Triton
/// (statements that give nothing say `dtype` of an address that they have at hand).
bool isLowHalf(const std::string &constraint, Dtype d, unsigned pack) {
  return pack == 1 && plainElem(d) == ir::Elem::I64 && ir::ptxRegisterBits(constraint) == 32;
}

/// On GPUs what the constraints name is known: registers of PTX, which must be as wide as what they hold.
bool checkRegisters(Args &a, Statement &s) {
  if (a.ctx().target().name != "cuda")
    return true;
  s.isPtx = true;
  auto fits = [&](const std::string &constraint, Dtype d, bool isResult = false) {
    if (isResult && isLowHalf(constraint, d, s.pack))
      return true;
    std::string named = constraint;
    size_t number = 0;
    auto [end, error] = std::from_chars(named.data(), named.data() + named.size(), number);
    if (error == std::errc() && end == named.data() + named.size() && number < s.constraints.outputs.size())
      named = s.constraints.outputs[number];
    if (named == "n" || named == "i")
      return true;
    unsigned have = ir::ptxRegisterBits(named), wanted = packing(d, s.pack).bits;
    if (have >= wanted || (have == 1 && d.isBool()))
      return true;
    a.fail(diag::asmConstraint, a.loc(1), constraint,
           have ? "a register of " + std::to_string(have) + " bits" : "no register of PTX", spelling(d), wanted);
    return false;
  };
  size_t at = 0;
  for (Dtype d : s.out)
    for (unsigned i = 0; i < packing(d, s.pack).registers; ++i)
      if (!fits(s.constraints.outputs[at++], d, true))
        return false;
  at = 0;
  for (const Tensor &t : s.in)
    for (unsigned i = 0; i < packing(t.dtype, s.pack).registers; ++i)
      if (!fits(s.constraints.inputs[at++], t.dtype))
        return false;
  return true;
}

bool checkText(Args &a, const Statement &s) {
  size_t operands = s.constraints.outputs.size() + s.constraints.inputs.size();
  std::string_view bad = ir::badAsmOperand(s.text, operands);
  if (!bad.empty())
    a.fail(diag::asmOperand, a.loc(0), bad, static_cast<unsigned>(operands));
  return bad.empty();
}

std::optional<Statement> readStatement(BuiltinCall &call) {
  Args a(call, "inline_asm_elementwise");
  Statement s;
  std::optional<std::string> text = a.text(0, "asm"), constraints = text ? a.text(1, "constraints") : std::nullopt;
  if (!constraints || !readOperands(a, s) || !readResults(a, s))
    return std::nullopt;
  std::optional<bool> pure = a.flag(4, "is_pure");
  std::optional<int64_t> pack = pure ? a.integer(5, "pack") : std::nullopt;
  if (!pack)
    return std::nullopt;
  if (*pack < 1 || *pack > 64 || (*pack & (*pack - 1))) {
    a.badArgument(5, "pack", "a power of 2 up to 64");
    return std::nullopt;
  }
  s.text = *text;
  s.constraints = ir::asmConstraints(*constraints);
  s.isPure = *pure;
  s.pack = static_cast<unsigned>(*pack);
  if (!checkCounts(a, s) || !checkText(a, s) || !checkRegisters(a, s))
    return std::nullopt;
  // Elements that padding adds are executed too, and groups do not go across the end of a row.
  if ((s.pack > 1 || !s.isPure) &&
      !requirePowers(call.ctx,
                     s.pack > 1 ? "inline_asm_elementwise with `pack`" : "inline_asm_elementwise with is_pure=False",
                     s.shape, a.loc(2)))
    return std::nullopt;
  return s;
}

/// The registers of the operands, in the order of their constraints.
std::vector<ir::Value *> registersOf(ir::Builder &b, const Statement &s) {
  std::vector<ir::Value *> out;
  for (const Tensor &t : s.in) {
    ir::Value *x = plain(b, t);
    std::vector<ir::Value *> elements(s.pack, x);
    if (s.pack > 1 && s.shape.rank()) {
      int64_t n = s.shape.numel();
      elements = deal(b, n < s.pack ? repeated(b, x, s.pack) : b.reshape(x, Shape{n}), s.pack);
    }
    const Packing p = packing(t.dtype, s.pack);
    for (unsigned i = 0; i < p.registers; ++i)
      out.push_back(joinBits(b, std::span(elements).subspan(i * p.perRegister, p.perRegister), p.bits));
  }
  return out;
}

/// One value for each register of the results.
std::vector<ir::Value *> execute(ir::Builder &b, const Statement &s, std::span<ir::Value *const> operands) {
  const Shape shape = operands.empty() ? Shape{} : operands[0]->type.shape;
  std::vector<ir::Type> types;
  for (Dtype d : s.out) {
    const Packing p = packing(d, s.pack);
    const bool isHalf = s.isPtx && isLowHalf(s.constraints.outputs[types.size()], d, s.pack);
    types.insert(types.end(), p.registers,
                 ir::Type::tensor(shape, isHalf              ? ir::Elem::I32
                                         : p.perRegister > 1 ? wordElem(p.bits)
                                                             : plainElem(d)));
  }
  std::string constraints;
  for (const std::vector<std::string> *part : {&s.constraints.outputs, &s.constraints.inputs, &s.constraints.clobbers})
    for (const std::string &c : *part)
      constraints += (constraints.empty() ? "" : ",") + c;
  std::string outputs;
  for (const ir::Type &t : types)
    outputs += (outputs.empty() ? "" : ",") + std::string(ir::name(t.elem));
  std::vector<ir::Attr> attrs{
      {ir::attr::text, s.text}, {ir::attr::constraints, constraints}, {ir::attr::outputs, outputs}};
  if (!s.isPure)
    return b.create(OpKind::AsmEffect, operands, types, std::move(attrs))->results;
  std::vector<ir::Value *> out;
  attrs.push_back({ir::attr::output, 0});
  for (size_t i = 0; i < types.size(); ++i) {
    attrs.back().value = static_cast<int64_t>(i);
    out.push_back(b.create(OpKind::Asm, operands, {&types[i], 1}, attrs)->result());
  }
  return out;
}

/// The next result, from its registers on.
ir::Value *assemble(ir::Builder &b, const Statement &s, Dtype d, std::span<ir::Value *const> registers) {
  const Packing p = packing(d, s.pack);
  std::vector<ir::Value *> elements;
  for (unsigned i = 0; i < p.registers; ++i) {
    std::vector<ir::Value *> part = splitBits(b, registers[i], p.perRegister, plainElem(d));
    elements.insert(elements.end(), part.begin(), part.end());
  }
  if (s.pack == 1 || !s.shape.rank()) {
    const bool isHalf = elements[0]->type.elem == ir::Elem::I32 && plainElem(d) == ir::Elem::I64;
    return fromPlain(b, isHalf ? b.cast(OpKind::ZExt, elements[0], ir::Elem::I64) : elements[0], d);
  }
  // Of a block that was repeated, each element once.
  int64_t n = s.shape.numel(), step = std::max<int64_t>(1, s.pack / n);
  std::vector<ir::Value *> slots;
  for (size_t k = 0; k < elements.size(); k += static_cast<size_t>(step))
    slots.push_back(elements[k]);
  return fromPlain(b, b.reshape(gatherUp(b, slots), s.shape), d);
}

Value inlineAsm(BuiltinCall &call) {
  std::optional<Statement> s = readStatement(call);
  if (!s)
    return Value::error();
  ir::Builder &b = call.b();
  std::vector<ir::Value *> registers = execute(b, *s, registersOf(b, *s));
  std::vector<Value> out;
  std::span<ir::Value *const> rest(registers);
  for (Dtype d : s->out) {
    out.push_back(tensor(d, assemble(b, *s, d, rest)));
    rest = rest.subspan(packing(d, s->pack).registers);
  }
  return s->isTuple ? Value::tuple(std::move(out)) : out[0];
}

constexpr Builtin rows[] = {
    {"inline_asm_elementwise", "asm, constraints, args, dtype, is_pure, pack", inlineAsm, 0,
     "A statement of assembly (PTX; on CPUs also their own) on the elements of blocks, `pack` elements a time; a tuple if `dtype` is one."},
};

} // namespace

std::span<const Builtin> asmBuiltins() { return rows; }

} // namespace tegula::lang
