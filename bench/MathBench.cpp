// Speed of element-wise operations on data in L1: nanoseconds per 1000 elements, and elements per nanosecond.
//
//   math-bench [target]     (default cpu:native)
#include "JitLibrary.h"
#include <chrono>
#include <cstdio>

namespace tegula::cpu {
namespace {

using ir::Elem;
using ir::OpKind;

struct Row {
  OpKind kind;
  Elem from, to;
  double low, high; // operands are spread over this range
};
const Row rows[] = {
    {OpKind::FAdd, Elem::F32, Elem::F32, -1, 1},         {OpKind::FDiv, Elem::F32, Elem::F32, 1, 2},
    {OpKind::Exp, Elem::F32, Elem::F32, -20, 20},        {OpKind::Exp2, Elem::F32, Elem::F32, -20, 20},
    {OpKind::Log, Elem::F32, Elem::F32, 0.1, 100},       {OpKind::Log2, Elem::F32, Elem::F32, 0.1, 100},
    {OpKind::Sin, Elem::F32, Elem::F32, -20, 20},        {OpKind::Cos, Elem::F32, Elem::F32, -20, 20},
    {OpKind::Sin, Elem::F32, Elem::F32, -1e9, 1e9},      {OpKind::Sqrt, Elem::F32, Elem::F32, 0, 10},
    {OpKind::Rsqrt, Elem::F32, Elem::F32, 0.1, 10},      {OpKind::Erf, Elem::F32, Elem::F32, -4, 4},
    {OpKind::Tanh, Elem::F32, Elem::F32, -5, 5},         {OpKind::FRem, Elem::F32, Elem::F32, 1, 100},
    {OpKind::MaxNum, Elem::F32, Elem::F32, -1, 1},       {OpKind::Maximum, Elem::F32, Elem::F32, -1, 1},
    {OpKind::Exp, Elem::F64, Elem::F64, -20, 20},        {OpKind::Log, Elem::F64, Elem::F64, 0.1, 100},
    {OpKind::Sin, Elem::F64, Elem::F64, -20, 20},        {OpKind::Erf, Elem::F64, Elem::F64, -4, 4},
    {OpKind::SDiv, Elem::I32, Elem::I32, 1, 1000},       {OpKind::UMulHi, Elem::I32, Elem::I32, 1, 1000},
    {OpKind::SDiv, Elem::I64, Elem::I64, 1, 1000},       {OpKind::FAdd, Elem::BF16, Elem::BF16, 0, 0},
    {OpKind::FAdd, Elem::F16, Elem::F16, 0, 0},          {OpKind::FpTrunc, Elem::F32, Elem::BF16, -1, 1},
    {OpKind::FpTrunc, Elem::F32, Elem::F16, -1, 1},      {OpKind::FpTrunc, Elem::F32, Elem::F8E5M2, -1, 1},
    {OpKind::FpTrunc, Elem::F32, Elem::F8E4M3FN, -1, 1}, {OpKind::FpExt, Elem::F8E4M3FN, Elem::F32, 0, 0},
    {OpKind::FpExt, Elem::F8E5M2, Elem::F32, 0, 0},      {OpKind::FpExt, Elem::BF16, Elem::F32, 0, 0},
    {OpKind::FpToSI, Elem::F32, Elem::I32, -100, 100},   {OpKind::FpToSI, Elem::F32, Elem::I8, -100, 100}};

int run(const char *target) {
  using Clock = std::chrono::steady_clock;
  JitLibrary lib(target);
  unsigned lanes = 2 * lib.target().vectorBits / 32; // two registers of f32: some overlap
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Row &r = rows[i];
    std::vector<Elem> args(static_cast<size_t>(ir::info(r.kind).operands), r.from);
    lib.addElementwise("f" + std::to_string(i), lanes, args, r.to, [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) {
      ir::Op op{};
      op.kind = r.kind;
      return v.elementwise(op, x, r.from, r.to);
    });
  }
  if (!lib.load())
    return 1;
  constexpr int64_t n = 1024;
  alignas(64) static uint8_t in[8 * n], out[8 * n];
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Row &r = rows[i];
    for (int64_t j = 0; j < n; ++j) {
      double x = r.low + (r.high - r.low) * static_cast<double>(j) / n;
      float f = static_cast<float>(x);
      int64_t k = static_cast<int64_t>(x);
      const void *p = r.from == Elem::F32   ? static_cast<void *>(&f)
                      : r.from == Elem::F64 ? static_cast<void *>(&x)
                                            : &k;
      std::memcpy(in + j * ir::byteWidth(r.from), p, ir::byteWidth(r.from));
    }
    const void *operands[] = {in, in, in};
    auto fn = lib.elementwise("f" + std::to_string(i));
    double best = 1e300;
    for (int sample = 0; sample < 60; ++sample) {
      auto start = Clock::now();
      for (int c = 0; c < 20; ++c)
        fn(operands, out, n);
      best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / 20);
    }
    printf("%-8s %-7s -> %-7s [%g, %g]  %8.1f ns / 1000  %6.2f / ns\n", ir::info(r.kind).name, ir::name(r.from),
           ir::name(r.to), r.low, r.high, best * 1000 / n, n / best);
  }
  return 0;
}

} // namespace
} // namespace tegula::cpu

int main(int argc, char **argv) { return tegula::cpu::run(argc > 1 ? argv[1] : "cpu:native"); }
