/* In the source tree: forwards to the one definition. The installed package has that definition in this place. */
#include "../../src/abi/CpuAbi.h"
