// Instr.h: loads, stores, atomics.
//
// In registers of the machine a value travels in pieces of 16, 32 or 64 bits; vectors of small elements are packed here
// piece by piece, as LLVM would take a bit cast of a whole vector through local memory.
#include "abi/SimAbi.h"
#include "targets/common/NvptxOps.h"
#include "targets/nvidia/instr/Ptx.h"

namespace tegula::nvidia {
namespace {

/// The pieces of a type in memory, as one ld or st moves them.
struct Pieces {
  unsigned count = 1, bits = 32;
  llvm::Type *type = nullptr;       // of one piece: iN
  llvm::Type *elem = nullptr;       // scalar type of the value
  unsigned elems = 1, perPiece = 1; // elements of the value; in one piece
};

unsigned sizeInBits(llvm::Type *t) {
  return t->isPointerTy() ? 64 : static_cast<unsigned>(t->getPrimitiveSizeInBits());
}

Pieces piecesOf(llvm::Type *t) {
  Pieces p;
  auto *v = llvm::dyn_cast<llvm::FixedVectorType>(t);
  p.elem = t->getScalarType();
  p.elems = v ? v->getNumElements() : 1;
  unsigned elemBits = sizeInBits(p.elem), bits = elemBits * p.elems;
  assert(bits >= 8 && bits <= 128 && (bits & (bits - 1)) == 0 && elemBits >= 8 && "no such access");
  p.bits = std::max(elemBits, std::min(32u, bits));
  p.count = bits / p.bits;
  p.perPiece = p.bits / elemBits;
  p.type = llvm::Type::getIntNTy(t->getContext(), p.bits);
  return p;
}

V toBits(llvm::IRBuilder<> &b, V x, llvm::Type *type) {
  return x->getType()->isPointerTy() ? b.CreatePtrToInt(x, type) : b.CreateBitCast(x, type);
}

V fromBits(llvm::IRBuilder<> &b, V bits, llvm::Type *type) {
  return type->isPointerTy() ? b.CreateIntToPtr(bits, type) : b.CreateBitCast(bits, type);
}

Regs split(llvm::IRBuilder<> &b, V x, const Pieces &p) {
  Regs out;
  for (unsigned k = 0; k < p.count; ++k) {
    if (p.elems == 1) {
      out.push_back(toBits(b, x, p.type));
      continue;
    }
    if (p.perPiece == 1) {
      out.push_back(toBits(b, b.CreateExtractElement(x, k), p.type));
      continue;
    }
    Regs elements;
    for (unsigned e = 0; e < p.perPiece; ++e)
      elements.push_back(b.CreateExtractElement(x, k * p.perPiece + e));
    out.push_back(targets::packWord(b, elements));
  }
  return out;
}

V join(llvm::IRBuilder<> &b, llvm::ArrayRef<V> pieces, llvm::Type *type, const Pieces &p) {
  if (p.elems == 1)
    return fromBits(b, pieces[0], type);
  V out = llvm::PoisonValue::get(type);
  for (unsigned k = 0; k < p.count; ++k) {
    if (p.perPiece == 1) {
      out = b.CreateInsertElement(out, fromBits(b, pieces[k], p.elem), k);
      continue;
    }
    V part = b.CreateBitCast(pieces[k], llvm::FixedVectorType::get(p.elem, p.perPiece));
    for (unsigned e = 0; e < p.perPiece; ++e)
      out = b.CreateInsertElement(out, b.CreateExtractElement(part, e), k * p.perPiece + e);
  }
  return out;
}

/// ".v4.b32"
std::string accessType(const Pieces &p) {
  return (p.count > 1 ? ".v" + std::to_string(p.count) : "") + ".b" + std::to_string(p.bits);
}

std::string loadName(const AccessHints &h) {
  static constexpr const char *cop[] = {"", ".ca", ".cg", ".cs", ".cv", "", ""};
  static constexpr const char *evict[] = {"", ".L1::evict_first", ".L1::evict_last"};
  if (h.isVolatile)
    return h.cache == Cache::Cv ? "ld.global.cv" : "ld.volatile.global";
  const char *nc = h.readOnly && h.cache != Cache::Cv ? ".nc" : "";
  if (h.evict != Evict::None)
    return std::string("ld.global") + nc + evict[static_cast<size_t>(h.evict)];
  return std::string("ld.global") + cop[static_cast<size_t>(h.cache)] + nc;
}

std::string storeName(const AccessHints &h) {
  static constexpr const char *cop[] = {"", "", ".cg", ".cs", "", ".wb", ".wt"};
  static constexpr const char *evict[] = {"", ".L1::evict_first", ".L1::evict_last"};
  if (h.isVolatile)
    return "st.volatile.global";
  if (h.evict != Evict::None)
    return std::string("st.global") + evict[static_cast<size_t>(h.evict)];
  return std::string("st.global") + cop[static_cast<size_t>(h.cache)];
}

bool isPlain(const AccessHints &h) { return h.cache == Cache::None && h.evict == Evict::None; }
bool isFalse(V pred) {
  auto *c = llvm::dyn_cast_or_null<llvm::ConstantInt>(pred);
  return c && c->isZero();
}
/// A predicate that is known to hold is none.
V simplified(V pred) { return llvm::isa_and_nonnull<llvm::ConstantInt>(pred) && !isFalse(pred) ? nullptr : pred; }
unsigned bytesOf(llvm::Type *t) {
  auto *v = llvm::dyn_cast<llvm::FixedVectorType>(t);
  return sizeInBits(t->getScalarType()) * (v ? v->getNumElements() : 1) / 8;
}

} // namespace

// ---- loads and stores

/// As i64 for the simulator, in the global address space for a GPU.
V Instr::globalAddress(V addr) {
  if (sim())
    return b.CreatePtrToInt(addr, b.getInt64Ty());
  return b.CreateAddrSpaceCast(addr, llvm::PointerType::get(b.getContext(), 1));
}

V Instr::simLoad(const char *name, V addr, llvm::Type *type, V pred, V other) {
  V out = slot(0, 16);
  if (pred)
    b.CreateStore(other ? other : llvm::Constant::getNullValue(type), out);
  simCall(name, b.getVoidTy(), {addr, i32(bytesOf(type)), predOrOne(pred), out});
  return loadSlot(out, type, 1)[0];
}

void Instr::simStore(const char *name, V addr, V value, V pred) {
  V in = slot(0, 16);
  b.CreateStore(value, in);
  simCall(name, b.getVoidTy(), {addr, i32(bytesOf(value->getType())), predOrOne(pred), in});
}

V Instr::ptxLoad(const std::string &instruction, V addr, llvm::Type *type, V pred, V other) {
  Pieces p = piecesOf(type);
  llvm::SmallVector<llvm::Type *, 4> types(p.count, ptxType(p.type));
  Ptx ptx(*this, Touches::Reads, types);
  std::string at = "[" + ptx.in(addr) + "]", guard = ptx.guard(pred);
  if (pred && other) {
    Regs before = split(b, other, p);
    for (unsigned k = 0; k < p.count; ++k)
      ptx.tie(k, b.CreateZExt(before[k], types[k]));
  }
  Regs got = ptx.emit(guard + instruction + accessType(p) + " " + ptx.results() + ", " + at + ";");
  for (V &x : got)
    x = b.CreateTrunc(x, p.type);
  return join(b, got, type, p);
}

void Instr::ptxStore(const std::string &instruction, V addr, V value, V pred) {
  Pieces p = piecesOf(value->getType());
  Ptx ptx(*this, Touches::Writes);
  std::string at = "[" + ptx.in(addr) + "]", values = ptx.list(split(b, value, p)), guard = ptx.guard(pred);
  ptx.emit(guard + instruction + accessType(p) + " " + at + ", " + values + ";");
}

V Instr::loadGlobal(V addr, llvm::Type *type, V pred, V other, AccessHints hints) {
  if (isFalse(pred))
    return other ? other : llvm::Constant::getNullValue(type);
  pred = simplified(pred);
  if (sim())
    return simLoad("tegula_sim_ld_global", globalAddress(addr), type, pred, other);
  V global = globalAddress(addr);
  if (pred || !isPlain(hints))
    return ptxLoad(loadName(hints), global, type, pred, other);
  // LLVM folds the offset into the instruction and knows what does not alias.
  Pieces p = piecesOf(type);
  llvm::Type *moved = p.count == 1 ? p.type : llvm::FixedVectorType::get(p.type, p.count);
  llvm::LoadInst *load = b.CreateAlignedLoad(moved, global, llvm::Align(bytesOf(type)), hints.isVolatile);
  if (hints.readOnly)
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b.getContext(), {}));
  Regs pieces;
  for (unsigned k = 0; k < p.count; ++k)
    pieces.push_back(p.count == 1 ? load : b.CreateExtractElement(load, k));
  return join(b, pieces, type, p);
}

void Instr::storeGlobal(V addr, V value, V pred, AccessHints hints) {
  if (isFalse(pred))
    return;
  pred = simplified(pred);
  if (sim())
    return simStore("tegula_sim_st_global", globalAddress(addr), value, pred);
  V global = globalAddress(addr);
  Pieces p = piecesOf(value->getType());
  // A vector of packed bytes LLVM would split into its words.
  if (pred || !isPlain(hints) || (p.count > 1 && p.perPiece == 4))
    return ptxStore(storeName(hints), global, value, pred);
  Regs pieces = split(b, value, p);
  V moved = pieces[0];
  if (p.count > 1) {
    moved = llvm::PoisonValue::get(llvm::FixedVectorType::get(p.type, p.count));
    for (unsigned k = 0; k < p.count; ++k)
      moved = b.CreateInsertElement(moved, pieces[k], k);
  }
  b.CreateAlignedStore(moved, global, llvm::Align(bytesOf(value->getType())), hints.isVolatile);
}

V Instr::loadShared(V addr, llvm::Type *type, V pred, V other, bool cluster) {
  if (isFalse(pred))
    return other ? other : llvm::Constant::getNullValue(type);
  pred = simplified(pred);
  return sim() ? simLoad("tegula_sim_ld_shared", addr, type, pred, other)
               : ptxLoad(cluster ? "ld.shared::cluster" : "ld.shared", addr, type, pred, other);
}

void Instr::storeShared(V addr, V value, V pred, bool cluster) {
  if (isFalse(pred))
    return;
  pred = simplified(pred);
  return sim() ? simStore("tegula_sim_st_shared", addr, value, pred)
               : ptxStore(cluster ? "st.shared::cluster" : "st.shared", addr, value, pred);
}

void Instr::sendShared(V addr, llvm::ArrayRef<V> values, V bar, V pred) {
  if (isFalse(pred))
    return;
  pred = simplified(pred);
  if (sim()) {
    simCall("tegula_sim_st_async", b.getVoidTy(),
            {addr, storeSlot(0, values), i32(static_cast<int64_t>(values.size()) * bytesOf(values[0]->getType())), bar,
             predOrOne(pred)});
    return;
  }
  Ptx p(*this, Touches::Writes);
  const std::string vector = values.size() > 1 ? ".v" + std::to_string(values.size()) : "";
  std::string to = p.in(addr), data = p.list(values), count = p.in(bar), guard = p.guard(pred);
  p.emit(guard + "st.async.shared::cluster.mbarrier::complete_tx::bytes" + vector + ".b" +
         std::to_string(8 * bytesOf(values[0]->getType())) + " [" + to + "], " + data + ", [" + count + "];");
}

V Instr::mapShared(V addr, V rank) {
  if (sim()) {
    // This function has no site.
    auto *type = llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getInt32Ty(), b.getInt32Ty()}, false);
    llvm::Module *m = b.GetInsertBlock()->getModule();
    llvm::CallInst *call = b.CreateCall(m->getOrInsertFunction("tegula_sim_mapa", type), {simThread_, addr, rank});
    call->setDoesNotThrow();
    return call;
  }
  Ptx p(*this, Touches::Nothing, {b.getInt32Ty()});
  std::string from = p.in(addr), to = p.in(rank);
  return p.emit("mapa.shared::cluster.u32 $0, " + from + ", " + to + ";")[0];
}

// ---- atomics

namespace {

/// Element types: bits, PTX suffix of FAdd.
struct AtomRow {
  unsigned bits;
  const char *floatAdd;
};
constexpr AtomRow atomRows[] = {{32, ""},     {64, ""}, {16, ".noftz.f16"}, {16, ".noftz.bf16"}, {32, ".f32"},
                                {64, ".f64"}, {16, ""}, {8, ""}};

std::string operationName(AtomOp op, AtomType type, unsigned count) {
  const AtomRow &row = atomRows[static_cast<size_t>(type)];
  std::string bits = std::to_string(row.bits);
  switch (op) {
  case AtomOp::Add:
    return ".add.u" + bits;
  case AtomOp::SMin:
    return ".min.s" + bits;
  case AtomOp::SMax:
    return ".max.s" + bits;
  case AtomOp::UMin:
    return ".min.u" + bits;
  case AtomOp::UMax:
    return ".max.u" + bits;
  case AtomOp::And:
    return ".and.b" + bits;
  case AtomOp::Or:
    return ".or.b" + bits;
  case AtomOp::Xor:
    return ".xor.b" + bits;
  case AtomOp::Xchg:
    return ".exch.b" + bits;
  case AtomOp::Cas:
    return ".cas.b" + bits;
  case AtomOp::Load:
  case AtomOp::Store:
    return ".b" + bits;
  case AtomOp::FAdd:
    break;
  }
  bool pairs = row.bits == 16 && count > 1;
  unsigned operands = pairs ? count / 2 : count;
  std::string text = ".add", name = row.floatAdd;
  if (size_t at = name.rfind('.'); operands > 1) // ".noftz" comes before the vector, the type after it
    name.insert(at, ".v" + std::to_string(operands));
  return text + name + (pairs ? "x2" : "");
}

} // namespace

bool Instr::hasAtomic(const NvTarget &t, bool shared, AtomOp op, AtomType type, unsigned count) {
  bool is16 = atomRows[static_cast<size_t>(type)].bits == 16;
  if (op == AtomOp::Load || op == AtomOp::Store)
    return count == 1 && !shared &&
           (type == AtomType::I8 || type == AtomType::I16 || type == AtomType::I32 || type == AtomType::I64);
  if (type == AtomType::I8)
    return false;
  if (op == AtomOp::FAdd) {
    if (type == AtomType::I32 || type == AtomType::I64 || type == AtomType::I16)
      return false;
    if (type == AtomType::BF16 && t.sm < 90)
      return false;
    if (count == 1 || (count == 2 && is16))
      return true;
    return t.sm >= 90 && !shared && type != AtomType::F64 && (count == 2 || count == 4 || (count == 8 && is16));
  }
  if (count != 1)
    return false;
  if (is16)
    return op == AtomOp::Cas;
  bool isFloat = type == AtomType::F32 || type == AtomType::F64;
  return !isFloat || op == AtomOp::Xchg || op == AtomOp::Cas;
}

Regs Instr::atomic(bool shared, V addr, AtomOp op, AtomType type, llvm::ArrayRef<V> values, V compare, MemSem sem,
                   Scope scope, V pred, bool wantOld) {
  llvm::Type *elem = values[0]->getType();
  pred = simplified(pred);
  unsigned count = static_cast<unsigned>(values.size());
  if (sim()) {
    Regs in;
    if (compare)
      in.push_back(compare);
    in.append(values.begin(), values.end());
    V from = storeSlot(0, in);
    uint64_t bytes = uint64_t(bytesOf(elem)) * count;
    V old = wantOld ? slot(1, bytes) : llvm::ConstantPointerNull::get(b.getPtrTy());
    V address = shared ? b.CreateZExt(addr, b.getInt64Ty()) : globalAddress(addr);
    simCall("tegula_sim_atom", b.getVoidTy(),
            {i32(shared), address, i32(static_cast<int>(type)), i32(count), i32(static_cast<int>(op)),
             i32(static_cast<int>(sem)), i32(static_cast<int>(scope)), predOrOne(pred), from, old});
    return wantOld ? loadSlot(old, elem, count) : Regs{};
  }
  assert(hasAtomic(target, shared, op, type, count) && "no such instruction");
  static constexpr const char *sems[] = {".relaxed", ".acquire", ".release", ".acq_rel"};
  static constexpr const char *scopes[] = {".cta", ".cluster", ".gpu", ".sys"};
  if (op == AtomOp::Load || op == AtomOp::Store) {
    bool isLoad = op == AtomOp::Load;
    assert(sem == MemSem::Relaxed || sem == (isLoad ? MemSem::Acquire : MemSem::Release));
    llvm::SmallVector<llvm::Type *, 1> result;
    if (isLoad)
      result.push_back(ptxType(elem));
    Ptx p(*this, Touches::Writes, result);
    std::string at = "[" + p.in(globalAddress(addr)) + "]", value = isLoad ? "" : ", " + p.in(values[0]),
                guard = p.guard(pred);
    Regs got =
        p.emit(guard + (isLoad ? "ld" : "st") + sems[static_cast<size_t>(sem)] + scopes[static_cast<size_t>(scope)] +
               ".global" + operationName(op, type, 1) + " " + (isLoad ? p.results() + ", " : "") + at + value + ";");
    return wantOld && isLoad ? Regs{b.CreateTrunc(got[0], elem)} : Regs(wantOld, llvm::UndefValue::get(elem));
  }
  // red knows no acquire, and no compare-and-swap or exchange. The assembler makes none of an atom whose result nobody
  // reads.
  bool isRed =
      !wantOld && (sem == MemSem::Relaxed || sem == MemSem::Release) && op != AtomOp::Cas && op != AtomOp::Xchg;
  unsigned bits = atomRows[static_cast<size_t>(type)].bits;
  unsigned perOperand = bits == 16 && count > 1 ? 2 : 1;
  unsigned width = bits * perOperand;
  llvm::Type *operandType = op != AtomOp::FAdd || bits == 16 ? b.getIntNTy(width)
                            : bits == 32                     ? b.getFloatTy()
                                                             : b.getDoubleTy();
  llvm::SmallVector<llvm::Type *, 4> results;
  if (!isRed)
    results.assign(count / perOperand, operandType);
  Ptx p(*this, Touches::Writes, results);
  Regs operands;
  for (unsigned k = 0; k < count; k += perOperand) {
    if (perOperand == 1) {
      operands.push_back(toBits(b, values[k], operandType));
      continue;
    }
    V low = b.CreateZExt(values[k], operandType), high = b.CreateZExt(values[k + 1], operandType);
    operands.push_back(b.CreateOr(low, b.CreateShl(high, 16)));
  }
  std::string at = "[" + p.in(shared ? addr : globalAddress(addr)) + "]";
  if (compare)
    at += ", " + p.in(toBits(b, compare, operandType));
  std::string in = p.list(operands), guard = p.guard(pred);
  const std::string order = sems[static_cast<size_t>(sem)], scopeText = scopes[static_cast<size_t>(scope)],
                    space = shared ? ".shared" : ".global";
  // The assembler takes the modifiers in either order. For single elements it is the one in which Triton writes them,
  // which programs look for; its compare-and-swap leaves out the scope of the GPU, the default.
  const bool isSingle = !isRed && count == 1 && !shared;
  std::string name = (isRed ? "red" : "atom") +
                     (isSingle ? space + (op == AtomOp::Cas && scope == Scope::Gpu ? "" : scopeText) + order
                               : order + scopeText + space) +
                     operationName(op, type, count);
  Regs got = p.emit(guard + name + " " + (isRed ? "" : p.results() + ", ") + at + ", " + in + ";");
  if (!wantOld)
    return {};
  Regs old;
  for (unsigned k = 0; k < count; ++k) {
    V x = got[k / perOperand];
    if (perOperand == 2)
      x = b.CreateTrunc(k % 2 ? b.CreateLShr(x, 16) : x, b.getInt16Ty());
    old.push_back(fromBits(b, x, elem));
  }
  return old;
}

} // namespace tegula::nvidia
