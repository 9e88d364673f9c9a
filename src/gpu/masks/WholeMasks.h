// Accesses whose masks let every element through, without the masks: most programs of a grid, and most iterations of a
// loop, lie wholly inside of what their masks guard.
//
//   mask = start + range < n; load(p, mask); ...; store(p, v, mask)     becomes     if (start + 1023 < n) { load(p); ...; store(p, v) } else { the same as before }
//
// One branch that all threads take alike stands for the comparisons of each register and for predicates, of which a
// thread has seven: where there are more, the assembler keeps them in bits of a register and orders loads of single
// elements one after the other. Vectors have a predicate for each, and few of them.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// In place, after all that places or orders operations: each side has the bytes and the barriers of what it is a copy
/// of. Where single elements, and no vectors, are loaded under more masks than a thread has predicates, the masks
/// follow from scalars (comparisons of what is linear in ranges), and what stands between the first and the last access
/// is not too long to be there twice. In the bodies of innermost loops; without a loop there are as many loads under
/// way as blocks on a multiprocessor, and more of them gain nothing (cross entropy backward of 50257 columns, H200:
/// 0.91-1.03). Not beside dots.
void dropWholeMasks(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
