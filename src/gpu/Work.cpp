// See Work.h.
#include "gpu/Work.h"
#include "passes/Users.h"
#include <algorithm>
#include <unordered_set>

namespace tegula::gpu {

using namespace ir;

namespace {

struct Row {
  OpKind kind;
  int64_t usual, wide; // elements of up to 32 bits; of 64
};
/// Counted in PTX for sm_90a. Other operations take one instruction, or two for 64 bits.
constexpr Row rows[] = {
    {OpKind::SDiv, 20, 80}, {OpKind::UDiv, 16, 70},  {OpKind::SRem, 22, 85}, {OpKind::URem, 18, 75},
    {OpKind::FDiv, 8, 30},  {OpKind::FRem, 60, 120}, {OpKind::Exp, 6, 60},   {OpKind::Exp2, 3, 60},
    {OpKind::Log, 20, 70},  {OpKind::Log2, 20, 70},  {OpKind::Sin, 30, 150}, {OpKind::Cos, 30, 150},
    {OpKind::Sqrt, 8, 30},  {OpKind::Rsqrt, 3, 40},  {OpKind::Erf, 24, 120}, {OpKind::Tanh, 16, 100},
    {OpKind::UMulHi, 2, 8}, {OpKind::FpTrunc, 2, 3}, {OpKind::FpExt, 2, 2},
};

bool onlyNames(const Op &op) {
  switch (op.kind) {
  case OpKind::Const:
  case OpKind::Poison:
  case OpKind::Range:
  case OpKind::Bitcast:
    return true;
  default:
    return op.has(traits::Shape);
  }
}

} // namespace

int64_t instructionsOf(const Op &op) {
  if (onlyNames(op))
    return 0;
  int64_t sum = 0;
  for (const Region *r : op.regions)
    for (const Op *o : r->block->ops)
      sum += o->has(traits::Terminator) ? 0 : instructionsOf(*o);
  if (!op.regions.empty())
    return sum;
  const Type *t = !op.operands.empty() ? &op.operands[0]->type : !op.results.empty() ? &op.result()->type : nullptr;
  bool isWide = t && !t->isPtr && bitWidth(t->elem) == 64;
  if (op.fast() && !isWide)
    return 2;
  if (op.approx() && !isWide)
    return 4;
  auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row &r) { return r.kind == op.kind; });
  return row == std::end(rows) ? 1 + isWide : isWide ? row->wide : row->usual;
}

int64_t instructionsOf(const Op &op, int64_t threads) {
  const Type *t = !op.operands.empty() ? &op.operands[0]->type : !op.results.empty() ? &op.result()->type : nullptr;
  if (!t || t->isScalar())
    return 0;
  return instructionsOf(op) * ((t->numel() + threads - 1) / threads);
}

static Clocks clocksOf(const Block &b, const TargetInfo &target, unsigned warps,
                       const std::unordered_set<const Op *> &but) {
  const int64_t threads = int64_t{target.lanes()} * warps;
  Clocks out;
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::Dot) {
      const Type &x = op->operands[0]->type;
      const int64_t depth = x.shape[x.shape.rank() - 1];
      out.products += static_cast<double>(op->result()->type.numel() * depth) / target.dotRate(dotChoice(*op), *op);
    } else if (!but.count(op) && (op->has(traits::Pure) || op->kind == OpKind::Reduce || op->kind == OpKind::Scan)) {
      out.work += static_cast<double>(instructionsOf(*op, threads) * threads) / target.issueRate();
    }
  }
  return out;
}

Clocks clocksOf(const Block &b, const TargetInfo &target, unsigned warps) { return clocksOf(b, target, warps, {}); }

Clocks clocksWithout(const std::vector<Op *> &done, const Block &b, const TargetInfo &target, unsigned warps) {
  const Users users(b);
  std::unordered_set<const Op *> theirs(done.begin(), done.end());
  for (auto op = b.ops.rbegin(); op != b.ops.rend(); ++op)
    if (!(*op)->results.empty() && std::ranges::all_of((*op)->results, [&](const Value *v) {
          return std::ranges::all_of(users.of(v), [&](const Op *user) { return theirs.count(user); });
        }))
      theirs.insert(*op);
  return clocksOf(b, target, warps, theirs);
}

} // namespace tegula::gpu
