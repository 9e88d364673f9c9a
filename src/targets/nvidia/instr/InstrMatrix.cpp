// Instr.h: matrix moves and products.
#include "abi/SimAbi.h"
#include "targets/nvidia/instr/Ptx.h"

namespace tegula::nvidia {
namespace {

constexpr const char *typeNames[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "f64", "f32", "s32"};
const char *nameOf(MmaType t) { return typeNames[static_cast<size_t>(t)]; }

int code(MmaType t) { return static_cast<int>(t); }

/// Elements of 32 bytes, the K of every wgmma.
unsigned wgmmaK(MmaType a) { return a == MmaType::TF32 ? 8 : a == MmaType::F16 || a == MmaType::BF16 ? 16 : 32; }

bool isZero(V x) {
  auto *c = llvm::dyn_cast<llvm::Constant>(x);
  return c && c->isNullValue();
}

bool isInteger(MmaType t) { return t == MmaType::S8 || t == MmaType::U8; }

std::string matrices(unsigned count, bool trans) {
  return ".sync.aligned.m8n8.x" + std::to_string(count) + (trans ? ".trans" : "") + ".shared.b16 ";
}

llvm::SmallVector<llvm::Type *, 8> typesOf(llvm::ArrayRef<V> xs) {
  llvm::SmallVector<llvm::Type *, 8> types;
  for (V x : xs)
    types.push_back(x->getType());
  return types;
}

/// One wgmma; operands in their spelling.
std::string wgmmaText(const Instr::Wgmma &w, const std::string &d, const std::string &a, bool aInMemory,
                      const std::string &bDesc, const std::string &scale) {
  assert((w.a == MmaType::F16 || w.a == MmaType::BF16 || !(w.transA || w.transB)) && "only 16-bit operands transpose");
  std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(w.n) + "k" + std::to_string(wgmmaK(w.a)) +
                     "." + nameOf(w.d) + "." + nameOf(w.a) + "." + nameOf(w.b) + " " + d + ", " + a + ", " + bDesc +
                     ", " + scale;
  if (!isInteger(w.a))
    text += std::string(", ") + (w.negA ? "-1" : "1") + ", " + (w.negB ? "-1" : "1");
  if (w.a == MmaType::F16 || w.a == MmaType::BF16) {
    if (aInMemory)
      text += w.transA ? ", 1" : ", 0";
    text += w.transB ? ", 1" : ", 0";
  }
  return text + ";";
}

} // namespace

// ---- ldmatrix, stmatrix, mma.sync

Regs Instr::ldmatrix(V addr, unsigned count, bool trans) {
  if (sim()) {
    V out = slot(0, 4 * count);
    simCall("tegula_sim_ldmatrix", b.getVoidTy(), {addr, i32(count), i32(trans), out});
    return loadSlot(out, b.getInt32Ty(), count);
  }
  llvm::SmallVector<llvm::Type *, 4> types(count, b.getInt32Ty());
  Ptx p(*this, Touches::Reads, types, /*convergent=*/true);
  std::string at = p.in(addr), to = count == 1 ? "{$0}" : p.results();
  return p.emit("ldmatrix" + matrices(count, trans) + to + ", [" + at + "];");
}

void Instr::stmatrix(V addr, llvm::ArrayRef<V> regs, bool trans) {
  unsigned count = static_cast<unsigned>(regs.size());
  if (sim()) {
    simCall("tegula_sim_stmatrix", b.getVoidTy(), {addr, i32(count), i32(trans), storeSlot(0, regs)});
    return;
  }
  Ptx p(*this, Touches::Writes, {}, /*convergent=*/true);
  std::string at = p.in(addr), from = p.list(regs, /*alwaysBraces=*/true);
  p.emit("stmatrix" + matrices(count, trans) + "[" + at + "], " + from + ";");
}

Regs Instr::mma(unsigned k, MmaType d, MmaType a, MmaType bType, llvm::ArrayRef<V> aRegs, llvm::ArrayRef<V> bRegs,
                llvm::ArrayRef<V> c) {
  if (sim()) {
    V out = slot(3, 4 * 8);
    V pa = storeSlot(0, aRegs), pb = storeSlot(1, bRegs), pc = storeSlot(2, c);
    simCall("tegula_sim_mma", b.getVoidTy(), {i32(k), i32(code(d)), i32(code(a)), i32(code(bType)), pa, pb, pc, out});
    return loadSlot(out, c[0]->getType(), c.size());
  }
  Ptx p(*this, Touches::Nothing, typesOf(c), /*convergent=*/true);
  std::string as = p.list(aRegs, true), bs = p.list(bRegs, true), cs = p.list(c, true);
  std::string shape = d == MmaType::F64 ? "m8n8k4" : "m16n8k" + std::to_string(k);
  return p.emit("mma.sync.aligned." + shape + ".row.col." + nameOf(d) + "." + nameOf(a) + "." + nameOf(bType) + "." +
                nameOf(d) + " " + p.results() + ", " + as + ", " + bs + ", " + cs + ";");
}

// ---- wgmma

Regs Instr::wgmma(const Wgmma &w, llvm::ArrayRef<V> aRegs, V aDesc, V bDesc, V scaleD, llvm::ArrayRef<V> acc) {
  if (sim()) {
    V none = llvm::ConstantPointerNull::get(b.getPtrTy());
    V pa = aRegs.empty() ? none : storeSlot(1, aRegs), d = storeSlot(0, acc);
    simCall("tegula_sim_wgmma", b.getVoidTy(),
            {i32(w.n), i32(code(w.d)), i32(code(w.a)), i32(code(w.b)), pa, aDesc ? aDesc : b.getInt64(0), bDesc,
             b.CreateZExt(scaleD, b.getInt32Ty()), i32(w.negA), i32(w.negB), i32(w.transA), i32(w.transB), d});
    return loadSlot(d, acc[0]->getType(), acc.size());
  }
  Ptx p(*this, Touches::Writes, typesOf(acc), /*convergent=*/true);
  for (size_t k = 0; k < acc.size(); ++k)
    p.tie(k, acc[k]);
  std::string a = aRegs.empty() ? p.in(aDesc) : p.list(aRegs, true), bText = p.in(bDesc), scale = p.in(scaleD);
  return p.emit(wgmmaText(w, p.results(), a, aRegs.empty(), bText, scale));
}

Regs Instr::wgmmaGroups(const Wgmma &w, const WgmmaRounds &rounds, V aDesc, V bDesc, llvm::ArrayRef<V> acc, V unread) {
  assert((rounds.count == 1 || !unread) && "several rounds add to what the first one began");
  assert((rounds.count == 1 || aDesc) && "registers of A do not change from round to round");
  unsigned perTile = w.n / 2;
  if (sim()) {
    Regs now(acc.begin(), acc.end());
    for (size_t k = 0; k < now.size() && unread; ++k)
      now[k] = b.CreateSelect(unread, llvm::Constant::getNullValue(now[k]->getType()), now[k]);
    for (unsigned i = 0; i < rounds.count; ++i) {
      wgmmaFence({});
      for (const WgmmaStep &s : rounds.steps) {
        V *tile = &now[s.tile * perTile];
        Regs d = wgmma(w, s.aRegs, aDesc ? b.CreateAdd(aDesc, b.getInt64(s.aOffset + i * rounds.aGrowth)) : nullptr,
                       b.CreateAdd(bDesc, b.getInt64(s.bOffset + i * rounds.bGrowth)), b.getTrue(),
                       llvm::ArrayRef<V>(tile, perTile));
        std::copy(d.begin(), d.end(), tile);
      }
      wgmmaCommit();
    }
    return now;
  }
  Ptx p(*this, Touches::Writes, typesOf(acc), /*convergent=*/true);
  // Sums that begin at zero are not read: zeroes in registers would be moved there while an older wgmma runs, which
  // ptxas waits for (C7517).
  const bool isNew = llvm::all_of(acc, isZero), isLoop = rounds.count > 1;
  for (size_t k = 0; k < acc.size() && !isNew; ++k)
    p.tie(k, acc[k]);
  std::string aBase = aDesc ? p.in(aDesc) : "", bBase = p.in(bDesc), scale = p.in(b.getTrue()),
              first = unread   ? p.in(b.CreateNot(unread))
                      : !isNew ? ""
                      : isLoop ? "begun"
                               : p.in(b.getFalse());
  std::string text = "{\n\t.reg .b64 \tatile, btile;\n\t", again;
  if (isLoop) {
    // Unrolled, the assembler would have the whole text before it again.
    text += ".reg .b64 \taround, bround;\n\t.reg .b32 \tleft;\n\t.reg .pred \tmore;\n\tmov.b64 \taround, " + aBase +
            ";\n\tmov.b64 \tbround, " + bBase + ";\n\tmov.b32 \tleft, " + std::to_string(rounds.count) + ";\n\t" +
            (isNew ? ".reg .pred \tbegun;\n\tmov.pred \tbegun, 0;\n\t" : "");
    for (size_t k = 0; k < acc.size() && isNew && rounds.clears; ++k)
      text += "mov.b32 \t$" + std::to_string(k) + ", 0;\n\t";
    text += "again:\n\t.pragma \"nounroll\";\n\t";
    again = std::string(isNew ? "mov.pred \tbegun, -1;\n\t" : "") + "add.s64 \taround, around, " +
            std::to_string(rounds.aGrowth) + ";\n\tadd.s64 \tbround, bround, " + std::to_string(rounds.bGrowth) +
            ";\n\tsub.s32 \tleft, left, 1;\n\tsetp.ne.s32 \tmore, left, 0;\n\t@more bra \tagain;\n\t";
    aBase = "around";
    bBase = "bround";
  }
  text += "wgmma.fence.sync.aligned;\n\t";
  auto at = [&](const char *name, const std::string &base, uint64_t offset) {
    if (offset == 0)
      return base;
    text += std::string("add.s64 \t") + name + ", " + base + ", " + std::to_string(offset) + ";\n\t";
    return std::string(name);
  };
  for (size_t i = 0; i < rounds.steps.size(); ++i) {
    const WgmmaStep &s = rounds.steps[i];
    const bool begins =
        (isNew || unread) && std::none_of(rounds.steps.begin(), rounds.steps.begin() + static_cast<long>(i),
                                          [&](const WgmmaStep &before) { return before.tile == s.tile; });
    std::string a = aDesc ? at("atile", aBase, s.aOffset) : p.list(s.aRegs, true),
                bText = at("btile", bBase, s.bOffset);
    text +=
        wgmmaText(w, p.results(s.tile * perTile, perTile), a, aDesc != nullptr, bText, begins ? first : scale) + "\n\t";
  }
  return p.emit(text + "wgmma.commit_group.sync.aligned;\n\t" + again + "}");
}

Regs Instr::wgmmaFence(llvm::ArrayRef<V> regs) {
  if (sim()) {
    simCall("tegula_sim_wgmma_fence", b.getVoidTy(), {});
    return {regs.begin(), regs.end()};
  }
  Ptx p(*this, Touches::Writes, typesOf(regs), /*convergent=*/true);
  for (size_t k = 0; k < regs.size(); ++k)
    p.tie(k, regs[k]);
  return p.emit("wgmma.fence.sync.aligned;");
}

void Instr::wgmmaCommit() {
  effect({.text = "wgmma.commit_group.sync.aligned;",
          .args = {},
          .simName = "tegula_sim_wgmma_commit",
          .simArgs = {},
          .convergent = true});
}

Regs Instr::wgmmaWait(unsigned n, llvm::ArrayRef<V> acc, bool behindLoop) {
  if (sim()) {
    V d = storeSlot(0, acc);
    simCall("tegula_sim_wgmma_wait", b.getVoidTy(), {i32(n), d, i32(static_cast<int64_t>(acc.size()))});
    return acc.empty() ? Regs{} : loadSlot(d, acc[0]->getType(), acc.size());
  }
  Ptx p(*this, Touches::Writes, typesOf(acc), /*convergent=*/true);
  for (size_t k = 0; k < acc.size(); ++k)
    p.tie(k, acc[k]);
  std::string wait = "wgmma.wait_group.sync.aligned " + std::to_string(n) + ";";
  if (behindLoop) // an address of shared memory is no odd number, but the assembler does not know it
    wait = "{ .reg .pred odd; again: " + wait + " setp.eq.u32 odd, " + p.in(sharedBase()) + ", 1; @odd bra again; }";
  return p.emit(wait);
}

} // namespace tegula::nvidia
