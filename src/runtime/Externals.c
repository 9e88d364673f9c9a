/* The functions that kernels may call, resolved when this library is linked. C, because in C++ half of these names are overloaded. */
#include "runtime/Externals.h"
#include <math.h>
#include <string.h>

const TegulaExternal tegulaCpuExternals[] = {
#define CPU_SYMBOL(name) {#name, (void *)name},
#include "abi/CpuSymbols.def"
    {0, 0}};
