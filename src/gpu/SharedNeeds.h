// What single operations of GPU IR want of a block's shared memory: asked before lowering by passes that keep tiles there, and by lowering
// where an operation's room must not be missing later.
#pragma once
#include "ir/Ir.h"
#include <optional>

namespace tegula::gpu {

/// Makes a tile or mbarriers that live on behind the operation.
bool makesTiles(const ir::Op &op);
/// Takes scratch for values that change hands, or a tile of its own.
bool takesScratch(const ir::Op &op);
/// The load by descriptor that a to_shared takes its values from, through views only; null if there is none.
const ir::Op *descLoadOf(const ir::Op &operand);
/// Bytes of the tile, and to place it, of a load by descriptor or an operand of wgmma that no ring holds; 0 of other operations, and of an operand that
/// was loaded by descriptor, which reads that tile.
uint64_t tileBytes(const ir::Op &op);
/// Scratch (bytes) that an operation beside living rings takes at least, of `most` that there are; nothing if it may not stand there.
std::optional<uint64_t> scratchOf(const ir::Module &m, const ir::Op &op, uint64_t most);

} // namespace tegula::gpu
