// Versions accesses for the case that their masks are on for every element: most programs of a grid, and most
// iterations of a loop, are entirely within the bounds that their masks check.
//
//   mask = start + range < n; load(p, mask); ...; store(p, v, mask)     becomes     if (start + 1023 < n) { load(p); ...; store(p, v) } else { the same as before }
//
// One uniform branch replaces the comparisons of each register and the predicates, of which a thread has seven. If more
// are needed, the assembler keeps them in bits of a register and serializes loads of single elements. Vectors take one
// predicate each, and there are few of them.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// In place, after all passes that allocate shared memory or order operations: each copy keeps the bytes and the
/// barriers of the original. Applies where single elements, and no vectors, are loaded under more masks than a thread
/// has predicates, the masks follow from scalars (comparisons of values linear in ranges), and the code from the first
/// to the last access is short enough to duplicate. Only in the bodies of innermost loops: without a loop, the blocks
/// of a multiprocessor already have enough loads in flight, and more gain nothing (cross entropy backward of 50257
/// columns, H200: 0.91-1.03). Not beside dots.
void dropWholeMasks(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
