// The instruction layer: every GPU operation without a plain LLVM instruction, and every access to memory that threads
// share. Each function has two forms: a PTX instruction (intrinsic or inline assembly) for a GPU, and a call of the
// machine model (abi/SimAbi.h) for the simulator. Outside this layer only targets/common/NvptxOps.cpp (conversions)
// emits inline PTX; code above this layer does not depend on which form is emitted.
//
// Values: i32/i64 integers, float, double, ptr; packed registers are i32. Shared addresses are i32 (see SimAbi.h);
// global addresses are `ptr` (address space 0; on a GPU they are cast to address space 1 here). `pred` is an i1, or
// null for "always". Every function emits at the builder's insertion point and uses the current site (setSite) for the
// simulator.
#pragma once
#include "targets/nvidia/DotChoice.h"
#include "llvm/IR/IRBuilder.h"

namespace tegula::nvidia {

using V = llvm::Value *;
using Regs = llvm::SmallVector<V, 8>;

enum class Special : uint8_t {
  Tid, CtaIdX, CtaIdY, CtaIdZ, GridX, GridY, GridZ, ClusterRank, ClusterSize, ClusterIdX, ClustersX
};
enum class ShuffleMode : uint8_t { Idx, Bfly, Up, Down };
/// Cache hints of loads and stores: PTX .ca/.cg/.cv, .wb/.cg/.cs/.wt, L1::evict_first/last/no_allocate.
enum class Cache : uint8_t { None, Ca, Cg, Cs, Cv, Wb, Wt };
enum class Evict : uint8_t { None, First, Last };
struct AccessHints {
  Cache cache = Cache::None;
  Evict evict = Evict::None;
  bool isVolatile = false;
  bool readOnly = false; // ld.global.nc allowed: no thread writes this memory during the kernel
};
/// Values equal the TEGULA_ATOM_* / TEGULA_SIM_* numbers of SimAbi.h.
enum class AtomOp : uint8_t { Add, FAdd, SMin, SMax, UMin, UMax, And, Or, Xor, Xchg, Cas, Load, Store };
enum class AtomType : uint8_t { I32, I64, F16, BF16, F32, F64, I16, I8 };
enum class MemSem : uint8_t { Relaxed, Acquire, Release, AcqRel };
enum class Scope : uint8_t { Cta, Cluster, Gpu, Sys };

class Instr {
public:
  /// `simThread`: first argument of a simulated kernel (TegulaSimThread *); null for a GPU. `entry`: block for allocas.
  Instr(llvm::IRBuilder<> &b, const NvTarget &target, V simThread) : b(b), target(target), simThread_(simThread) {}
  llvm::IRBuilder<> &b;
  const NvTarget &target;
  void setSite(int site) { site_ = site; }
  /// A program is a whole cluster of CTAs, not a single CTA.
  bool clustered = false;

  V special(Special s); // i32
  V programId(unsigned axis), programCount(unsigned axis); // i32
  V smId();             // i32; the simulator has none: 0
  V globalTimer();      // i64, nanoseconds; another number in every thread
  /// Address of the CTA's first byte of dynamic shared memory (with the CTA's rank, as all own addresses),
  /// 1024-aligned.
  V sharedBase();

  // Memory. `bytes` 1, 2, 4, 8, 16 = the size of `type` (integer iN, float, double, ptr or a vector of them); addresses
  // are aligned to it.
  /// `other`: the result in a thread with pred = false (same type; null: undefined).
  V loadGlobal(V addr, llvm::Type *type, V pred, V other, AccessHints hints = {});
  void storeGlobal(V addr, V value, V pred, AccessHints hints = {});
  /// `cluster`: the address may be another CTA's (mapShared); slower even if it is not.
  V loadShared(V addr, llvm::Type *type, V pred = nullptr, V other = nullptr, bool cluster = false);
  void storeShared(V addr, V value, V pred = nullptr, bool cluster = false);
  V mapShared(V addr, V rank);
  /// Sends one to four words, or one or two double words, to another CTA's shared memory; an mbarrier of that CTA,
  /// `bar`, counts their bytes (PTX ISA 9.7.9.12, st.async).
  void sendShared(V addr, llvm::ArrayRef<V> values, V bar, V pred = nullptr);
  /// Result (old value) is null if `wantOld` is false. `values`: 1, 2 or 4 elements (vector red on sm_90, f32/f16/bf16
  /// add). Elements in registers as in VecEmitter: f16/bf16 are i16 bits. `compare` only for Cas. For a Load, `values`
  /// only gives the type; Load and Store (which has no result) take integers in global memory. If hasAtomic() is false,
  /// the caller emits a CAS loop.
  Regs atomic(bool shared, V addr, AtomOp op, AtomType type, llvm::ArrayRef<V> values, V compare, MemSem sem,
              Scope scope, V pred, bool wantOld);
  static bool hasAtomic(const NvTarget &t, bool shared, AtomOp op, AtomType type, unsigned count);

  // Warps. Masks are the full warp.
  V shuffle(ShuffleMode mode, V value32, V lane);
  V ballot(V pred);
  V elect(); // i1, true in one lane
  /// Add, SMin, SMax, UMin, UMax, And, Or, Xor over the warp, the result in every lane; i32.
  V redux(AtomOp op, V value32);
  /// x == y or p, in one instruction: LLVM would emit two selects for a `p` that many comparisons share.
  V equalOr(V x, V y, V p);
  void syncWarp();

  // Barriers, fences.
  void barrier();                                // all threads of the CTA
  void namedBarrier(unsigned id, unsigned count); // bar.sync
  void namedArrive(unsigned id, unsigned count);
  void clusterArrive(bool relaxed);
  void clusterWait();
  /// Orders earlier generic accesses before later asynchronous-proxy accesses, of shared memory only or of all memory.
  void fenceProxyAsync(bool allMemory = false); // nothing before sm_90, which has no asynchronous proxy
  void memoryFence(Scope scope);

  // Matrix moves and products. Register counts follow from shapes (docs/hopper.md, fragment tables).
  Regs ldmatrix(V addr, unsigned count, bool trans);
  void stmatrix(V addr, llvm::ArrayRef<V> regs, bool trans);
  /// m16n8k`k`; f64: m8n8k4. a, b packed i32 (f64: double); c, d float / i32 / double (f16 accumulator: packed i32).
  Regs mma(unsigned k, MmaType d, MmaType a, MmaType b, llvm::ArrayRef<V> aRegs, llvm::ArrayRef<V> bRegs,
           llvm::ArrayRef<V> c);
  struct Wgmma {
    unsigned n;
    MmaType d, a, b;
    bool transA = false, transB = false; // MN-major operand in shared memory
    bool negA = false, negB = false;
  };
  /// `aRegs` (4 packed i32) or `aDesc` (i64, aRegs empty). `scaleD` i1: false ignores the old acc. Returns the new
  /// accumulators.
  Regs wgmma(const Wgmma &w, llvm::ArrayRef<V> aRegs, V aDesc, V bDesc, V scaleD, llvm::ArrayRef<V> acc);
  /// One product of a group: the tile of its accumulators (n / 2 registers each), and the offsets of its operands in
  /// the unit of descriptors.
  struct WgmmaStep {
    unsigned tile;
    uint64_t aOffset, bOffset;
    llvm::ArrayRef<V> aRegs; // if A is in registers; aDesc is null then
  };
  /// The steps, repeated `count` times; both descriptors grow per round. If `count` > 1, A is in shared memory.
  struct WgmmaRounds {
    llvm::ArrayRef<WgmmaStep> steps;
    unsigned count = 1;
    uint64_t aGrowth = 0, bGrowth = 0;
    bool clears = false; // several rounds: writes zeros to the registers of sums that begin at zero
  };
  /// Fence, products and commit as one statement, so that LLVM handles the accumulators once and not per product. Each
  /// round is a commit group. `unread` (an i1, null: false; one round only): if true, the sums begin at zero and `acc`
  /// is ignored.
  Regs wgmmaGroups(const Wgmma &w, const WgmmaRounds &rounds, V aDesc, V bDesc, llvm::ArrayRef<V> acc,
                   V unread = nullptr);
  /// wgmma.fence, required before the first wgmma after a write to its registers `regs` (accumulators, A). Returns them
  /// as values defined by the fence; otherwise LLVM could sink the writes below it.
  Regs wgmmaFence(llvm::ArrayRef<V> regs);
  void wgmmaCommit();
  /// wait_group n. Returns `acc` as values that may be read, so that LLVM keeps the reads after the wait. `behindLoop`:
  /// emit the wait as a loop that exits after its first iteration. If straight-line code follows a pipelined loop,
  /// ptxas up to 13.0 treats its reads of accumulators as reads in the loop and serializes the wgmmas (C7514); a block
  /// boundary that ptxas cannot remove prevents that.
  Regs wgmmaWait(unsigned n, llvm::ArrayRef<V> acc, bool behindLoop = false);

  // Asynchronous copies (PTX ISA 9.7.9.25). `srcBytes` i32 <= bytes, or null = bytes.
  void cpAsync(V dstShared, V srcGlobal, unsigned bytes, V srcBytes, V pred, AccessHints hints = {});
  void cpAsyncCommit();
  void cpAsyncWait(unsigned n);
  void cpAsyncMbarArrive(V bar);
  struct MbarInit {
    V bar;
    unsigned count; // arrivals of a phase
  };
  /// Initializes all of `bars` by one thread, and fences so that block copies see them (PTX ISA 9.7.13.4). A single
  /// branch guards it, because the assembler would make a branch of each predicate. Only PTX takes the predicate; for
  /// the simulator see Lowering::byFirstThread.
  void mbarInit(llvm::ArrayRef<MbarInit> bars, V pred = nullptr);
  void mbarInval(llvm::ArrayRef<V> bars, V pred = nullptr);
  void mbarArrive(V bar, V pred = nullptr, bool cluster = false); // cluster: bar is an address from mapShared
  void mbarArriveExpect(V bar, V bytes, V pred = nullptr);
  void mbarWait(V bar, V parity);           // loops until the phase is complete
  void prefetchTensorMap(V map);
  void tmaLoad(V dst, V map, llvm::ArrayRef<V> coord, V bar, V multicastMask, V pred); // multicastMask i16 or null
  void tmaStore(V map, llvm::ArrayRef<V> coord, V src, V pred);
  void tmaReduce(V map, llvm::ArrayRef<V> coord, V src, AtomOp op, V pred);
  void bulkLoad(V dst, V src, V bytes, V bar, V pred);
  void bulkStore(V dst, V src, V bytes, V pred);
  void bulkCommit();
  void bulkWait(unsigned n, bool readOnly);

  /// Takes effect only in whole-program assembly with a register bound at entry (KernelBounds), by ptxas or
  /// cuModuleLoadDataEx; libnvJitLink and cuLink* assemble relocatably and ignore the instruction (info C7504).
  void setMaxRegisters(unsigned regs, bool increase);
  void gridDependency(bool wait); // griddepcontrol.wait / launch_dependents

  // Elementary functions of float with a hardware instruction: ex2, lg2, rsqrt, sqrt, rcp, divFull within 2 ulp (lg2:
  // 2^-22 absolute near 1), tanhApprox within 2^-11 relative. The simulator computes them by VecEmitter.
  V ex2(V x);
  V lg2(V x);
  V rsqrt(V x);
  V sqrtApprox(V x);
  V rcpApprox(V x);
  V divFull(V x, V y);
  V tanhApprox(V x);

  /// Returns the i32 or i64 `x` as a value that LLVM cannot analyze, so that LLVM does not rewrite arithmetic on it.
  V opaque(V x);
  /// The same, on the simulator too; returns values other than 32- and 64-bit integers unchanged.
  V unknown(V x);

  // Debugging. Bits of one element, zero-extended to i64.
  /// Fills the launch record (GpuAbi.h) for the assertion at `site`, an i32, and traps; does not return, though the
  /// builder's block stays open. Simulator: for the current site.
  void assertFail(V record, V site);
  /// GPU: printf of gpuFormat with gpuArgs (i32, i64, float, double, ptr); simulator: the rest. Negative operand:
  /// prefix only.
  void print(int operand, V index64, V bits64, llvm::StringRef gpuFormat, llvm::ArrayRef<V> gpuArgs);
  void backEdge(); // simulator: lets other threads run; GPU: nothing

private:
  friend class Ptx;
  bool sim() const { return target.simulate; }
  V i32(int64_t n) { return b.getInt32(static_cast<uint32_t>(n)); }
  V predOrOne(V pred) { return pred ? b.CreateZExt(pred, b.getInt32Ty()) : i32(1); }
  /// A call of a function of abi/SimAbi.h: the thread and the site come first, then `args`.
  V simCall(const char *name, llvm::Type *result, llvm::ArrayRef<V> args);
  /// Stack memory that the simulator's functions read and write: one slot per `index`, which all calls share.
  V slot(unsigned index, uint64_t bytes);
  V storeSlot(unsigned index, llvm::ArrayRef<V> regs);
  Regs loadSlot(V slot, llvm::Type *type, size_t count);

  /// An instruction without a result. PTX: `text` with $0, $1 ... for `args`, guarded by `pred` if it is not null.
  /// Simulator: function `simName` with `simArgs`.
  struct Effect {
    std::string text;
    llvm::ArrayRef<V> args;
    const char *simName;
    llvm::ArrayRef<V> simArgs;
    V pred = nullptr;
    bool convergent = false;
  };
  void effect(const Effect &e);
  /// The same for functions whose last parameter is the predicate.
  void guarded(std::string text, llvm::ArrayRef<V> args, const char *simName, V pred);

  V globalAddress(V addr);
  V simLoad(const char *name, V addr, llvm::Type *type, V pred, V other);
  void simStore(const char *name, V addr, V value, V pred);
  V ptxLoad(const std::string &instruction, V addr, llvm::Type *type, V pred, V other);
  void ptxStore(const std::string &instruction, V addr, V value, V pred);

  V simThread_;
  int site_ = 0;
  llvm::Function *slotsOf_ = nullptr;
  llvm::SmallVector<llvm::AllocaInst *, 4> slots_;
};

} // namespace tegula::nvidia
