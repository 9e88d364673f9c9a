// What single operations of GPU IR want of a block's shared memory: allocate-shared gives it to them, and passes that
// keep tiles there leave room for it.
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

/// Makes a tile or mbarriers that live on after the operation.
bool makesTiles(const ir::Op &op);
/// Takes scratch for values that change hands, or a tile of its own.
bool takesScratch(const ir::Op &op);
/// Bytes of what makesTiles() says of.
uint64_t tilesBytes(const ir::Op &op);

/// For a reduction or scan: where the parts of each operand that warps exchange begin in its scratch, and after them
/// the bytes of all. Empty if no warps exchange any.
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
/// The scratch of any operation of a program. `conversions`: what they may use, and maxBytes, which they rather take
/// turns than exceed. `isUsed`: somebody reads its result. Results that the owners of elements (of scalars: the first
/// thread) alone know are given to the others; in a cluster, those of the first CTA to the other CTAs.
Scratch scratchNeed(const ir::Module &m, const ir::Op &op, layout::Threads threads, unsigned ctas,
                    const layout::ConversionOptions &conversions, bool isUsed);

/// The same of a kernel for a target; conversions rather take turns than more than `most` bytes.
Scratch scratchNeed(const ir::Module &m, const ir::Op &op, const TargetInfo &target, const Options &options,
                    uint64_t most, bool isUsed);
/// A cluster_gather whose parts are sent: bytes of an element on the way, and of its shared memory (Ops.def); nothing
/// if all CTAs rather synchronize, as for large parts, and where it may run more than once.
struct SentParts {
  unsigned element = 0;
  uint64_t part = 0, bytes = 0;
  static constexpr uint64_t slots = 16; // where they begin
};
std::optional<SentParts> sentParts(const ir::Op &gather);
/// Those of a kernel that allocate-shared gave bytes of their own.
std::vector<const ir::Op *> sendingGathers(const ir::Block &kernel);
/// The bytes that allocate-shared gave an operation (`shared`); none: an empty range.
SharedRange placeOf(const ir::Op &op);

/// Is it done by one of the threads that hold an element, which tells the others? Atomics, and volatile loads, which
/// may give each thread another value: threads that went different ways by it would meet at different barriers.
bool isByOwners(const ir::Op &op);
/// Those whose results somebody reads.
std::unordered_set<const ir::Op *> usedByOwners(const ir::Block &b);
/// Operations with bytes of shared memory that live at one time: when most is taken. The highest byte is the end of one
/// of them.
std::vector<std::pair<const ir::Op *, SharedRange>> mostShared(const ir::Block &kernel);

// ---- Before the memory is dealt out: what is beside rings. How deep those may be follows from it.

/// The load by descriptor that a to_shared takes its values from, through views only; null if there is none.
const ir::Op *descLoadOf(const ir::Op &operand);
/// Scratch that an operation takes at least, of `most` bytes that there are; nothing if that depends on what it gets,
/// or if it keeps a tile.
std::optional<uint64_t> scratchOf(const ir::Module &m, const ir::Op &op, uint64_t most);
/// Bytes of the tiles made before a loop, in its block, that live while it runs: it or what is after it uses them, or
/// they are to_shared from position `from` on, beside which the loop's first copies run.
uint64_t tilesAround(const ir::Op &loop, size_t from);

/// What a block takes of shared memory while rings live, without those.
struct BesideRings {
  uint64_t tiles = 0;   // of the block itself
  uint64_t scratch = 0; // and beside them: the most of any operation, with the tiles of blocks inside,
  uint64_t buffers = 0; // or of any block store
  bool isKnown = true;  // no operation's needs depend on what it gets; else they are guessed
};
/// `isRing`: loads and operands that rings hold. `mostOfScratch`: bytes that the conversions of a block may have,
/// beside that many bytes of tiles of it and those around. `end`: the operation of `b`, or of a block in it, to stop
/// after; null: all of them.
BesideRings besideRings(const ir::Module &m, const ir::Block &b, const TargetInfo &target,
                        const std::function<bool(const ir::Op &)> &isRing,
                        const std::function<uint64_t(const ir::Block &, uint64_t tiles)> &mostOfScratch,
                        const ir::Op *end = nullptr);

} // namespace tegula::gpu
