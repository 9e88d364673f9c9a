// The shared memory that single operations of GPU IR need: allocate-shared assigns it, and passes that keep tiles in
// shared memory leave room for it.
#pragma once
#include "gpu/Layouts.h"
#include "gpu/shared/SharedMemory.h"
#include "layout/Constructors.h"
#include "layout/Conversion.h"
#include <functional>
#include <optional>
#include <unordered_set>

namespace tegula::gpu {

class TargetInfo;
struct Options;

/// Does the operation allocate a tile or mbarriers that live on after it?
bool makesTiles(const ir::Op &op);
/// Does it take scratch to exchange values between threads, or a tile?
bool takesScratch(const ir::Op &op);
/// The bytes of the tiles or mbarriers of an operation for which makesTiles() holds.
uint64_t tilesBytes(const ir::Op &op);

/// For a reduction or scan: the offsets in its scratch at which the exchanged parts of each operand begin, then the
/// bytes of all. Empty if no warps exchange parts.
std::vector<uint64_t> exchangedParts(const ir::Module &m, const ir::Op &op);
/// Does more than one thread hold an element of tensors of this layout (0: scalars)?
bool hasCopies(const ir::Module &m, uint16_t layout);
/// The distance in bytes between the slots of several scalars of one operation.
inline constexpr unsigned scalarStride = 16;

struct Scratch {
  uint64_t bytes = 0; // 0: no threads exchange values through shared memory
  layout::ExchangeScope scope = layout::ExchangeScope::Cta; // the threads that exchange values
  std::optional<layout::ConversionPlan> plan = {};          // of a convert or cluster_gather
};
/// The scratch of any operation of a program. `conversions`: the instructions that conversions may use, and maxBytes: a
/// conversion takes several rounds rather than exceed it. `isUsed`: is there a user of the result? Results that only
/// the owners of elements hold (of scalars: the first thread) are passed to the other threads; in a cluster, results of
/// the first CTA to the other CTAs.
Scratch scratchNeed(const ir::Module &m, const ir::Op &op, layout::Threads threads, unsigned ctas,
                    const layout::ConversionOptions &conversions, bool isUsed);

/// The same for a kernel and a target; conversions take several rounds rather than more than `most` bytes.
Scratch scratchNeed(const ir::Module &m, const ir::Op &op, const TargetInfo &target, const Options &options,
                    uint64_t most, bool isUsed);
/// The parts that CTAs send each other in a cluster_gather: bytes of an element as it is sent, of a part, and of the
/// shared memory (Ops.def). Nullopt if all CTAs synchronize instead: for large parts, and where the gather may run more
/// than once.
struct SentParts {
  unsigned element = 0;
  uint64_t part = 0, bytes = 0;
  static constexpr uint64_t slots = 16; // offset at which the parts begin
};
std::optional<SentParts> sentParts(const ir::Op &gather);
/// The gathers of a kernel to which allocate-shared gave bytes of their own.
std::vector<const ir::Op *> sendingGathers(const ir::Block &kernel);
/// The bytes that allocate-shared assigned to an operation (`shared`); an empty range if none.
SharedRange placeOf(const ir::Op &op);

/// Does one of the threads that hold an element execute the operation and pass the result to the others? So do atomics,
/// and volatile loads, which may give each thread a different value: threads that branch differently on it would
/// synchronize at different barriers.
bool isByOwners(const ir::Op &op);
/// The operations for which isByOwners() holds and whose results have users.
std::unordered_set<const ir::Op *> usedByOwners(const ir::Block &b);
/// The operations with bytes of shared memory that are live when the highest byte is in use, with their bytes. The
/// highest byte is the end of one of them.
std::vector<std::pair<const ir::Op *, SharedRange>> mostShared(const ir::Block &kernel);

// ---- Before allocation: the memory needed beside rings, which limits how deep these may be.

/// The load by descriptor that a to_shared takes its values from, through views only; null if there is none.
const ir::Op *descLoadOf(const ir::Op &operand);
/// The least scratch that an operation takes of `most` available bytes; nullopt if the need depends on the assigned
/// bytes, or if the operation keeps a tile.
std::optional<uint64_t> scratchOf(const ir::Module &m, const ir::Op &op, uint64_t most);
/// Bytes of the tiles made before a loop, in its block, that are live while it runs: the loop or a later operation uses
/// them, or they are to_shared from position `from` on, which are live while the loop's first copies run.
uint64_t tilesAround(const ir::Op &loop, size_t from);

/// The shared memory that a block takes while rings are live, without the rings.
struct BesideRings {
  uint64_t tiles = 0;   // of the block itself
  uint64_t scratch = 0; // beside the tiles: the most of any operation, with the tiles of nested blocks
  uint64_t buffers = 0; // or of any block store
  bool isKnown = true;  // false if the needs of an operation depend on the assigned bytes, and are guessed
};
/// `isRing`: is the load or operand held in a ring? `mostOfScratch`: bytes that the conversions of a block may take
/// beside `tiles` bytes of tiles of that block and its enclosing blocks. `end`: the operation of `b`, or of a nested
/// block, to stop after; null: none.
BesideRings besideRings(const ir::Module &m, const ir::Block &b, const TargetInfo &target,
                        const std::function<bool(const ir::Op &)> &isRing,
                        const std::function<uint64_t(const ir::Block &, uint64_t tiles)> &mostOfScratch,
                        const ir::Op *end = nullptr);

} // namespace tegula::gpu
