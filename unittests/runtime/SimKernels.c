/* A kernel as the NVIDIA target would emit it for the simulator: reverses 128 numbers through shared memory. */
#include "abi/SimAbi.h"

void reverse(TegulaSimThread *t, const void *args) {
  int32_t *data = *(int32_t *const *)args, tid = tegula_sim_sreg(t, TEGULA_SREG_TID), v;
  tegula_sim_ld_global(t, 0, (uint64_t)(uintptr_t)(data + tid), 4, 1, &v);
  tegula_sim_st_shared(t, 1, 0x400 + 4 * (uint32_t)(127 - tid), 4, 1, &v);
  tegula_sim_bar_sync(t, 2, 0, 128);
  tegula_sim_ld_shared(t, 3, 0x400 + 4 * (uint32_t)tid, 4, 1, &v);
  tegula_sim_st_global(t, 4, (uint64_t)(uintptr_t)(data + tid), 4, 1, &v);
}
