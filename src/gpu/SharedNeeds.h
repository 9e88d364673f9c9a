// What single operations of GPU IR want of a block's shared memory: they get it from OrderMemory.h, and passes that keep tiles there leave room for it.
#pragma once
#include "gpu/Layouts.h"
#include "gpu/SharedMemory.h"
#include "layout/Conversion.h"
#include <optional>
#include <unordered_set>

namespace tegula::gpu {

/// Makes a tile or mbarriers that live on behind the operation.
bool makesTiles(const ir::Op &op);
/// Takes scratch for values that change hands, or a tile of its own.
bool takesScratch(const ir::Op &op);
/// Bytes of what makesTiles() says of.
uint64_t tilesBytes(const ir::Op &op);

/// For a reduction or scan: where the parts of each operand that warps exchange begin in its scratch, and behind them the bytes of all. Empty if no
/// warps exchange any.
std::vector<uint64_t> exchangedParts(const ir::Module &m, const ir::Op &op);
/// More than one thread holds an element of tensors of this layout (0: of scalars).
bool hasCopies(const ir::Module &m, uint16_t layout);
/// Bytes for places of several scalars of one operation begin so far apart.
inline constexpr unsigned scalarStride = 16;

struct Scratch {
  uint64_t bytes = 0; // none: no threads exchange anything through shared memory
  layout::ExchangeScope scope = layout::ExchangeScope::Cta; // which do
  std::optional<layout::ConversionPlan> plan = {};          // of a convert or cluster_gather
};
/// The scratch of any operation of a program. `conversions`: what they may use, and maxBytes, which they rather take turns than exceed. `isUsed`: somebody reads its result. Results that the owners of
/// elements (of scalars: the first thread) alone know are given to the others; in a cluster, those of the first CTA to the other CTAs.
Scratch scratchNeed(const ir::Module &m, const ir::Op &op, Threads threads, unsigned ctas, const layout::ConversionOptions &conversions, bool isUsed);

/// Atomics whose old values somebody reads.
std::unordered_set<const ir::Op *> usedAtomics(const ir::Block &b);
/// Operations with bytes of shared memory (`shared`, OrderMemory.h) that live at one time: when most is taken. The highest byte is the end of one of them.
std::vector<std::pair<const ir::Op *, SharedRange>> mostShared(const ir::Block &kernel);

/// The load by descriptor that a to_shared takes its values from, through views only; null if there is none.
const ir::Op *descLoadOf(const ir::Op &operand);
/// Bytes of the tile, and to place it, of a load by descriptor or an operand of asynchronous dots that no ring holds; 0 of other operations, and of an operand that
/// was loaded by descriptor, which reads that tile.
uint64_t tileBytes(const ir::Op &op);
/// Scratch (bytes) that an operation beside living rings takes at least, of `most` that there are; nothing if it may not stand there.
std::optional<uint64_t> scratchOf(const ir::Module &m, const ir::Op &op, uint64_t most);

} // namespace tegula::gpu
