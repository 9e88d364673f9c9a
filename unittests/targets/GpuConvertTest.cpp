// Conversions between any two layouts, compiled for the simulator: what arrives is what was sent, the simulator sees no
// race, and it counts the shuffles and bank conflicts that the plan promised. Where there is a GPU, the same on it.
#include "../layout/KernelLayouts.h"
#include "GpuLibrary.h"
#include "gpu/shared/AllocateShared.h"
#include "gpu/shared/OrderMemory.h"
#include "ir/Builder.h"
#include "ir/Interp.h"
#include "ir/Verifier.h"
#include "layout/Conversion.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "runtime/ObjectLoader.h"
#include "runtime/cuda/Assembler.h"
#include "sim/Machine.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/lower/Lower.h"
#include "targets/nvidia/TargetInfo.h"
#include <cstring>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;
using layout::Dim;
using layout::LinearLayout;
using layout::test::Random;
using layout::test::someLayout;

namespace {

struct Conversion {
  LinearLayout src, dst;
  Elem elem;
  bool pointers = false; // addresses are converted instead of what they point to
  const char *target = "sim";

  unsigned warps() const { return static_cast<unsigned>(std::max(src.inSize(Dim::Warp), dst.inSize(Dim::Warp))); }
  unsigned bits() const { return pointers ? 64 : std::max(8u, 8 * byteWidth(elem)); }
  int64_t elements() const { return int64_t{1} << src.totalOutBits(); }
  nvidia::Options options() const {
    nvidia::Options o;
    o.numWarps = warps();
    o.optLevel = 1;
    return o;
  }
};

/// @k(a: ptr<T>, o: ptr<T>): o[i] = a[i], loaded in one layout and stored in another.
void build(Module &m, const Conversion &c) {
  Type args[] = {Type::ptr(c.elem), Type::ptr(c.elem)};
  Function *f = m.createFunction("k", args, {}, {});
  f->isKernel = true;
  f->argInfo.resize(2);
  Builder b(m);
  b.setFolding(false);
  b.setBlock(f->block());
  Shape shape;
  for (int64_t extent : layout::shapeOf(c.src))
    shape.push(static_cast<int32_t>(extent));
  auto addresses = [&](Value *base, const LinearLayout &l) {
    uint16_t flat = m.internLayout(layout::reshape(l, {c.elements()})), id = m.internLayout(l);
    Value *index = b.create1(OpKind::Range, {},
                             Type::tensor(Shape{static_cast<int32_t>(c.elements())}, Elem::I32).withLayout(flat),
                             {{attr::start, 0}});
    index = b.create1(OpKind::Reshape, {index}, Type::tensor(shape, Elem::I32).withLayout(id));
    Type t = Type::ptrTensor(shape, c.elem).withLayout(id);
    return b.create1(OpKind::AddPtr, {b.create1(OpKind::Splat, {base}, t), index}, t);
  };
  Type there = Type::tensor(shape, c.elem).withLayout(m.internLayout(c.dst));
  Value *from = addresses(f->block()->args[0], c.src), *to = addresses(f->block()->args[1], c.dst), *x;
  if (c.pointers) {
    Value *moved = b.create1(OpKind::Convert, {from}, to->type);
    x = b.create1(OpKind::Load, {moved}, there);
  } else {
    x = b.create1(OpKind::Load, {from}, Type::tensor(shape, c.elem).withLayout(m.internLayout(c.src)));
    x = b.create1(OpKind::Convert, {x}, there);
  }
  b.create(OpKind::Store, std::initializer_list<Value *>{to, x}, {});
  b.create(OpKind::Return, {}, {});
  gpu::allocateShared(m, nvidia::NvTargetInfo(*nvidia::parseTarget(c.target)), c.options());
  gpu::orderMemory(m, nvidia::NvTargetInfo(*nvidia::parseTarget(c.target)), c.options());
  std::string why;
  ASSERT_TRUE(verify(m, &why)) << why;
}

/// As it is lowered, not optimized yet; false: a diagnostic says why.
bool lowerInto(llvm::Module &out, const llvm::TargetMachine &machine, const Module &m, const Conversion &c,
               nvidia::GpuKernelMeta &meta, DiagEngine &diag) {
  out.setTargetTriple(machine.getTargetTriple().str());
  out.setDataLayout(machine.createDataLayout());
  const nvidia::NvTarget target = *nvidia::parseTarget(c.target);
  if (!nvidia::lower(m, target, c.options(), out, meta, diag))
    return false;
  if (!target.simulate)
    nvidia::markKernel(*out.getFunction(meta.symbol), {.threads = meta.threads});
  std::string error;
  llvm::raw_string_ostream os(error);
  EXPECT_FALSE(llvm::verifyModule(out, &os)) << error;
  return true;
}

std::vector<char> lowered(const Module &m, const Conversion &c, nvidia::GpuKernelMeta &meta, DiagEngine &diag) {
  llvm::LLVMContext context;
  nvidia::NvTarget target = *nvidia::parseTarget(c.target);
  auto machine = nvidia::createTargetMachine(target, c.options(), diag);
  llvm::Module out("k", context);
  if (!lowerInto(out, *machine, m, c, meta, diag))
    return {};
  nvidia::optimize(out, *machine, c.options());
  if (target.simulate)
    return nvidia::emitObject(out, *machine);
  std::string ptx = nvidia::emitPtx(out, *machine);
  return {ptx.c_str(), ptx.c_str() + ptx.size() + 1};
}

std::vector<char> content(const Conversion &c) {
  size_t bytes = byteWidth(c.elem);
  std::vector<char> data(static_cast<size_t>(c.elements()) * bytes);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<char>(c.elem == Elem::I1 ? i * i / 7 % 5 & 1 : (i + 1) * 0x9e3779b97f4a7c15u >> 23);
  return data;
}

/// The same on the GPU of this machine, if it is one that layouts are planned for alike.
void checkOnGpu(Conversion c, const Module &m, const std::vector<char> &a) {
  auto gpu = nvidia::gpuOfThisMachine();
  if (!gpu || gpu->sm != nvidia::parseTarget(c.target)->sm)
    return;
  c.target = gpu->sm == 90 ? "sm_90a" : gpu->sm == 89 ? "sm_89" : gpu->sm == 86 ? "sm_86" : "sm_80";
  nvidia::GpuKernelMeta meta;
  DiagEngine diag;
  std::vector<char> ptx = lowered(m, c, meta, diag), from = a, to(a.size());
  ASSERT_FALSE(ptx.empty());
  nvidia::GpuLibrary library;
  ASSERT_TRUE(library.load(ptx.data()));
  library.runKernel(meta, {{from.data(), from.size()}, {to.data(), to.size()}});
  EXPECT_EQ(to, a) << "on the GPU";
}

void check(const Conversion &c) {
  layout::ConversionOptions options;
  options.stmatrix = nvidia::parseTarget(c.target)->sm >= 90;
  options.maxBytes = 64 * 1024;
  layout::ConversionPlan plan = layout::planConversion(c.src, c.dst, c.bits(), options);
  SCOPED_TRACE(plan.print() + "\nsrc " + c.src.print() + "\ndst " + c.dst.print() + "\nbits " +
               std::to_string(c.bits()));
  Module m;
  build(m, c);
  std::vector<char> a = content(c), want(a.size()), got(a.size());
  auto at = [](std::vector<char> &v) { return reinterpret_cast<uint64_t>(v.data()); };
  Interp interp(m);
  interp.addBuffer(a.data(), a.size());
  interp.addBuffer(want.data(), want.size());
  uint64_t wantArgs[] = {at(a), at(want)}, gotArgs[] = {at(a), at(got)};
  ASSERT_TRUE(interp.run(wantArgs, {1, 1, 1}).ok);
  ASSERT_EQ(want, a);
  nvidia::GpuKernelMeta meta;
  DiagEngine diag;
  std::vector<char> object = lowered(m, c, meta, diag);
  ASSERT_FALSE(object.empty()) << (diag.all().empty() ? "" : diag.all()[0].message());
  EXPECT_EQ(meta.sharedBytes, plan.kind == layout::ConversionKind::Shared ? plan.cost.bytes : 0);
  runtime::Status status;
  auto code = runtime::LoadedObject::load(object, status);
  ASSERT_TRUE(code) << status.text;
  sim::Extent buffers[] = {{at(a), a.size()}, {at(got), got.size()}};
  sim::LaunchConfig launch;
  launch.entry = reinterpret_cast<TegulaSimEntry>(code->symbol(meta.symbol));
  launch.args = gotArgs;
  launch.threads = meta.threads;
  launch.sharedBytes = meta.sharedBytes;
  launch.buffers = buffers;
  launch.countBanks = true;
  sim::Report r = sim::launch(launch);
  ASSERT_FALSE(r.fault) << r.fault.text;
  EXPECT_EQ(got, want);
  uint64_t conflicts = 0, promised = uint64_t{plan.cost.conflicts} * c.warps();
  for (auto kind :
       {sim::SharedAccess::Load, sim::SharedAccess::Store, sim::SharedAccess::Ldmatrix, sim::SharedAccess::Stmatrix})
    conflicts += r.counters[kind].conflicts;
  if (plan.shared.store.guard.lane == 0 && plan.shared.store.guard.warp == 0)
    EXPECT_EQ(conflicts, promised);
  else // threads that stay away cannot collide
    EXPECT_LE(conflicts, promised);
  EXPECT_EQ(r.counters[sim::Instr::Shuffle], uint64_t{plan.cost.shuffles} * c.warps());
  checkOnGpu(c, m, a);
}

constexpr Elem elems[] = {Elem::I1, Elem::I8, Elem::I16, Elem::BF16, Elem::F32, Elem::I64, Elem::F64};

} // namespace

TEST(GpuConversions, BetweenLayoutsOfKernels) {
  Random rnd(41);
  for (int k = 0; k < 120 && !testing::Test::HasFailure(); ++k) {
    layout::Extents shape{int64_t{8} << rnd.below(3), int64_t{8} << rnd.below(3)};
    Elem e = rnd.chance(40) ? Elem::BF16 : elems[rnd.below(std::size(elems))];
    unsigned warps = 1u << rnd.below(4), bits = std::max(8u, 8 * byteWidth(e));
    check({someLayout(rnd, shape, warps, bits), someLayout(rnd, shape, warps, bits), e, rnd.chance(15),
           rnd.chance(25) ? "sim:sm_80" : "sim"});
  }
}

TEST(GpuConversions, BetweenRandomLayoutsOfAnyRank) {
  Random rnd(42);
  for (int k = 0; k < 80 && !testing::Test::HasFailure(); ++k) {
    layout::DimList outs;
    unsigned rank = 1 + static_cast<unsigned>(rnd.below(3));
    for (unsigned i = rank; i-- > 0;)
      outs.push({layout::tensorDim(i), static_cast<uint8_t>(rnd.below(rank == 1 ? 11 : 4))});
    unsigned warpBits = static_cast<unsigned>(rnd.below(4));
    bool mixed = rnd.chance(30);
    LinearLayout a = rnd.distributed(outs, 5, warpBits, mixed), b = rnd.distributed(outs, 5, warpBits, mixed);
    check({a, b, elems[rnd.below(std::size(elems))], rnd.chance(15)});
  }
}

/// The assembler takes them, and no value goes through local memory.
TEST(GpuConversions, AssembledWithoutLocalMemory) {
  runtime::Status status;
  const auto *assembler = runtime::cuda::Assembler::get(status);
  if (!assembler)
    GTEST_SKIP() << "no assembler: " << status.text;
  Random rnd(43);
  for (int k = 0; k < 28 && !testing::Test::HasFailure(); ++k) {
    Elem e = elems[static_cast<size_t>(k) % std::size(elems)];
    unsigned bits = std::max(8u, 8 * byteWidth(e));
    bool old = rnd.chance(50);
    Conversion c{someLayout(rnd, {32, 32}, 2, bits), someLayout(rnd, {32, 32}, 2, bits), e, rnd.chance(15),
                 old ? "sm_80" : "sm_90a"};
    Module m;
    build(m, c);
    nvidia::GpuKernelMeta meta;
    DiagEngine diag;
    std::vector<char> ptx = lowered(m, c, meta, diag);
    runtime::cuda::Assembly assembly;
    runtime::cuda::AssembleOptions options;
    options.arch = c.target;
    status = assembler->assemble({ptx.data(), ptx.size()}, "k", options, assembly);
    ASSERT_TRUE(status) << status.text;
    ASSERT_FALSE(assembly.cubin.empty());
    EXPECT_EQ(assembly.stats.stackBytes, 0u)
        << "bits " << c.bits() << "\nsrc " << c.src.print() << "\ndst " << c.dst.print();
  }
}

/// A bit of a lane is compared with zero once, not for each register: LLVM goes through all users of the first such
/// comparison at each further one.
TEST(GpuConversions, BitsOfThreadsAreAskedForOnce) {
  // A bit of the lane changes places with one of the register, 128 registers of a thread.
  std::vector<uint64_t> from(12), to(12);
  for (unsigned i = 0; i < 12; ++i)
    from[i] = to[i] = uint64_t{1} << i;
  std::swap(to[0], to[7]);
  layout::DimList ins{{Dim::Register, 7}, {Dim::Lane, 5}, {Dim::Warp, 0}}, outs{{Dim::Dim0, 12}};
  Conversion c{LinearLayout(ins, outs, from), LinearLayout(ins, outs, to), Elem::F32, false, "sm_90a"};
  ASSERT_EQ(layout::planConversion(c.src, c.dst, 32).kind, layout::ConversionKind::Shuffles);
  Module m;
  build(m, c);
  DiagEngine diag;
  llvm::LLVMContext context;
  llvm::Module out("k", context);
  nvidia::GpuKernelMeta meta;
  auto machine = nvidia::createTargetMachine(*nvidia::parseTarget(c.target), c.options(), diag);
  ASSERT_TRUE(lowerInto(out, *machine, m, c, meta, diag));
  size_t comparisons = 0, selections = 0;
  for (const llvm::Function &f : out)
    for (const llvm::Instruction &i : llvm::instructions(f)) {
      comparisons += llvm::isa<llvm::ICmpInst>(i);
      selections += llvm::isa<llvm::SelectInst>(i);
    }
  EXPECT_GE(selections, 128u);
  EXPECT_EQ(comparisons, 1u);
}

/// Scratch stays within its limit by turns.
TEST(GpuConversions, LargeTilesTakeTurns) {
  Conversion c{layout::dealt({128, 256}, {1, 0}, 4, {32, 8}), layout::mmaAccumulator({128, 256}, {4, 2, 1}), Elem::F32};
  layout::ConversionOptions limited;
  limited.maxBytes = 64 * 1024;
  EXPECT_EQ(layout::planConversion(c.src, c.dst, 32).cost.bytes, 128u * 1024);
  EXPECT_EQ(layout::planConversion(c.src, c.dst, 32, limited).shared.repetitions, 2u);
  check(c);
}

/// No common direction of registers, so no turns: more than a block has.
TEST(GpuConversions, TooMuchScratchIsReported) {
  unsigned bits = 16;
  std::vector<uint64_t> rows, columns;
  for (unsigned i = 0; i < bits; ++i) {
    rows.push_back(uint64_t{1} << i);
    columns.push_back(uint64_t{1} << (bits - 1 - i));
  }
  layout::DimList ins{{Dim::Register, 6}, {Dim::Lane, 5}, {Dim::Warp, 5}},
      outs{{Dim::Dim0, static_cast<uint8_t>(bits)}};
  Conversion c{LinearLayout(ins, outs, rows), LinearLayout(ins, outs, columns), Elem::I64};
  Module m;
  build(m, c);
  nvidia::GpuKernelMeta meta;
  DiagEngine diag;
  EXPECT_FALSE(lowered(m, c, meta, diag).empty()); // the launch says no: how much a block has is known there
  EXPECT_EQ(meta.sharedBytes, 524288u);
  ASSERT_EQ(meta.sharedTiles.size(), 1u);
  EXPECT_EQ(meta.sharedTiles[0].bytes, 524288u);
  EXPECT_EQ(meta.sharedTiles[0].what, "convert");
}
