/* The functions that kernels may call, resolved when this library is linked. C, because in C++ half of these names are overloaded. */
#include "runtime/Externals.h"
#include "abi/SimAbi.h"
#include <math.h>
#include <string.h>

const TegulaExternal tegulaCpuExternals[] = {
#define CPU_SYMBOL(name) {#name, (void *)name},
#include "abi/CpuSymbols.def"
    {0, 0}};

const TegulaExternal tegulaSimExternals[] = {
#define SIM_SYMBOL(name) {#name, (void *)name},
#include "abi/SimSymbols.def"
    {0, 0}};
