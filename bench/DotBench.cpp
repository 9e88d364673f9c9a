// GFLOP/s of emitDot with all operands in cache, against OpenBLAS on one thread and the peak of a pure multiply-add
// loop.
//
//   dot-bench [target]     (default cpu:native; set OPENBLAS_NUM_THREADS=1)
#include "JitLibrary.h"
#include "targets/common/VecUtil.h"
#include "targets/cpu/emit/Dot.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>

#ifdef TEGULA_WITH_OPENBLAS
extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                            int);
#endif

namespace tegula::cpu {
namespace {

using Fn = void (*)(void *, void *, void *);

/// Best of several samples of about 2 ms each, in nanoseconds per call.
template <typename F> double bestNs(F f) {
  using Clock = std::chrono::steady_clock;
  double best = 1e300;
  int64_t calls = 1;
  for (int sample = 0; sample < 40; ++sample) {
    auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i)
      f();
    double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::min(best, ns / static_cast<double>(calls));
    if (ns < 2e6)
      calls = std::max<int64_t>(calls + 1, static_cast<int64_t>(2e6 / best));
  }
  return best;
}

struct Shape {
  int64_t m, n, k;
  ir::Elem elem, acc;
};
const Shape shapes[] = {{128, 128, 128, ir::Elem::F32, ir::Elem::F32},  {128, 128, 64, ir::Elem::F32, ir::Elem::F32},
                        {64, 256, 128, ir::Elem::F32, ir::Elem::F32},   {128, 128, 32, ir::Elem::F32, ir::Elem::F32},
                        {64, 64, 32, ir::Elem::F32, ir::Elem::F32},     {32, 32, 32, ir::Elem::F32, ir::Elem::F32},
                        {16, 16, 16, ir::Elem::F32, ir::Elem::F32},     {256, 256, 512, ir::Elem::F32, ir::Elem::F32},
                        {128, 128, 1024, ir::Elem::F32, ir::Elem::F32}, {128, 128, 128, ir::Elem::BF16, ir::Elem::F32},
                        {128, 128, 64, ir::Elem::BF16, ir::Elem::F32},  {64, 256, 128, ir::Elem::BF16, ir::Elem::F32},
                        {128, 128, 128, ir::Elem::I8, ir::Elem::I32},   {128, 128, 128, ir::Elem::F64, ir::Elem::F64},
                        {1, 128, 128, ir::Elem::F32, ir::Elem::F32},    {4, 128, 128, ir::Elem::F32, ir::Elem::F32},
                        {128, 1, 128, ir::Elem::F32, ir::Elem::F32},    {128, 4, 128, ir::Elem::F32, ir::Elem::F32},
                        {128, 16, 128, ir::Elem::F32, ir::Elem::F32}};

/// 24 independent chains of multiply-adds: all that the core can do.
void addPeak(JitLibrary &lib) {
  lib.addPointers("peak", [&lib](VecEmitter &v, llvm::ArrayRef<llvm::Value *> args) {
    llvm::IRBuilder<> &b = v.b;
    constexpr unsigned chains = 12;
    llvm::Type *t = v.vecType(ir::Elem::F32, lib.target().vectorBits / 32);
    auto *entry = b.GetInsertBlock(), *loop = llvm::BasicBlock::Create(b.getContext(), "l", entry->getParent()),
         *exit = llvm::BasicBlock::Create(b.getContext(), "x", entry->getParent());
    llvm::Value *x = b.CreateAlignedLoad(t, args[0], llvm::Align(4));
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    auto *iv = b.CreatePHI(b.getInt64Ty(), 2);
    iv->addIncoming(b.getInt64(1000), entry);
    std::vector<llvm::PHINode *> acc;
    for (unsigned i = 0; i < chains; ++i) {
      acc.push_back(b.CreatePHI(t, 2));
      acc.back()->addIncoming(llvm::ConstantFP::get(t, i), entry);
    }
    std::vector<llvm::Value *> next;
    for (unsigned i = 0; i < chains; ++i)
      next.push_back(targets::Arith(v).mulAdd(x, x, acc[i]));
    auto *left = b.CreateSub(iv, b.getInt64(1));
    iv->addIncoming(left, loop);
    for (unsigned i = 0; i < chains; ++i)
      acc[i]->addIncoming(next[i], loop);
    b.CreateCondBr(b.CreateICmpNE(left, b.getInt64(0)), loop, exit);
    b.SetInsertPoint(exit);
    llvm::Value *sum = next[0];
    for (unsigned i = 1; i < chains; ++i)
      sum = b.CreateFAdd(sum, next[i]);
    b.CreateAlignedStore(sum, args[2], llvm::Align(4));
  });
}

int run(const char *target) {
  JitLibrary lib(target);
  addPeak(lib);
  std::vector<DotPlan> plans;
  for (size_t i = 0; i < std::size(shapes); ++i) {
    const Shape &s = shapes[i];
    plans.push_back(dotPlan(lib.target(), s.elem, s.elem, s.acc, s.m, s.n, s.k, "ieee"));
    lib.addPointers("dot" + std::to_string(i), [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> a) {
      emitDot(v, lib.target(), plans.back(), a[0], a[1], a[2], true);
    });
  }
  if (!lib.load())
    return 1;
  auto buffer = [](int64_t bytes) { // a page more than needed, zero
    void *p = std::aligned_alloc(64, static_cast<size_t>((bytes + 8191) / 64 * 64));
    std::memset(p, 0, static_cast<size_t>(bytes));
    return p;
  };
  auto peakFn = reinterpret_cast<Fn>(lib.symbol("peak"));
  void *px = buffer(64), *py = buffer(64);
  double peak = 1000.0 * 12 * 2 * (lib.target().vectorBits / 32) / bestNs([&] { peakFn(px, px, py); });
  printf("%s: f32 multiply-add peak %.1f GFLOP/s\n", target, peak);
  for (size_t i = 0; i < std::size(shapes); ++i) {
    const Shape &s = shapes[i];
    const DotPlan &p = plans[i];
    void *a = buffer(p.aElems * ir::byteWidth(p.aElem)), *b = buffer(p.bElems * ir::byteWidth(p.bElem)),
         *c = buffer(s.m * p.cRowStride * ir::byteWidth(p.accElem));
    auto fn = reinterpret_cast<Fn>(lib.symbol("dot" + std::to_string(i)));
    double flop = 2.0 * static_cast<double>(s.m * s.n * s.k), gflops = flop / bestNs([&] { fn(a, b, c); });
    printf("%4ld x %4ld x %4ld %-4s block %2u x %2u  %8.1f GFLOP/s  %5.1f%% of f32 peak", s.m, s.n, s.k,
           ir::name(s.elem), p.mr, p.nr, gflops, 100 * gflops / peak);
#ifdef TEGULA_WITH_OPENBLAS
    if (s.elem == ir::Elem::F32) {
      double blas = flop / bestNs([&] {
                      cblas_sgemm(101, 111, 111, int(s.m), int(s.n), int(s.k), 1, static_cast<float *>(a), int(s.k),
                                  static_cast<float *>(b), int(s.n), 1, static_cast<float *>(c), int(s.n));
                    });
      printf("   OpenBLAS %8.1f", blas);
    }
#endif
    printf("\n");
    for (void *q : {a, b, c})
      std::free(q);
  }
  return 0;
}

} // namespace
} // namespace tegula::cpu

int main(int argc, char **argv) { return tegula::cpu::run(argc > 1 ? argv[1] : "cpu:native"); }
