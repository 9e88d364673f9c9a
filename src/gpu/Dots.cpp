// See Dots.h.
#include "gpu/Dots.h"
#include "ir/Builder.h"
#include <algorithm>

namespace tegula::gpu {

/// The text of each DotKind, in order.
static constexpr std::string_view names[] = {"fma", "fma_tiles", "mma", "async_mma"};

DotChoice dotChoice(const ir::Op &dot) {
  DotChoice c;
  auto name = std::find(std::begin(names), std::end(names), dot.instr());
  assert(name != std::end(names));
  c.kind = static_cast<DotKind>(name - std::begin(names));
  if (std::span<const int64_t> grid = dot.grid(); !grid.empty())
    c.grid = {static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]), static_cast<unsigned>(grid[2])};
  return c;
}

void setDotChoice(ir::Op &dot, const DotChoice &c) {
  dot.set(ir::attr::instr, std::string(names[static_cast<size_t>(c.kind)]));
  if (c.kind == DotKind::Mma || c.kind == DotKind::AsyncMma)
    dot.set(ir::attr::grid, std::vector<int64_t>{c.grid.m, c.grid.n, c.grid.batch});
}

int64_t registersOfDots(const ir::Block &body, int64_t threads) {
  constexpr int64_t others = 56;
  int64_t sum = others;
  for (const ir::Op *op : body.ops)
    if (op->kind == ir::OpKind::Dot)
      sum += op->result()->type.numel() * ir::byteWidth(op->result()->type.elem) / 4 / threads;
  return sum;
}

const ir::Op *zeroesOf(const ir::Op &dot) {
  const ir::Op *op = dot.operands[2]->def;
  if (!op || op->kind != ir::OpKind::Select)
    return nullptr;
  const ir::Op *condition = op->operands[0]->def;
  const auto zero = ir::constantFloat(op->operands[1]);
  return condition && condition->kind == ir::OpKind::Splat && zero && *zero == 0 ? op : nullptr;
}

bool isAsyncMma(const ir::Op &dot) { return dot.instr() == names[static_cast<size_t>(DotKind::AsyncMma)]; }

} // namespace tegula::gpu
