// See Dots.h.
#include "gpu/Dots.h"

namespace tegula::gpu {

bool isWgmma(const ir::Op &dot) { return dot.operands[1]->type.isShared && !dot.intAttr("fma"); }

} // namespace tegula::gpu
