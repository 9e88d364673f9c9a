/* Kernels as the NVIDIA target would emit it for the simulator: one reverses 128 numbers through shared memory, one reads a box
 * of 8 x 16 floats through the first tensor map of its arguments. */
#include "abi/SimAbi.h"

void reverse(TegulaSimThread *t, const void *args) {
  int32_t *data = *(int32_t *const *)args, tid = tegula_sim_sreg(t, TEGULA_SREG_TID), v;
  tegula_sim_ld_global(t, 0, (uint64_t)(uintptr_t)(data + tid), 4, 1, &v);
  tegula_sim_st_shared(t, 1, 0x400 + 4 * (uint32_t)(127 - tid), 4, 1, &v);
  tegula_sim_bar_sync(t, 2, 0, 128);
  tegula_sim_ld_shared(t, 3, 0x400 + 4 * (uint32_t)tid, 4, 1, &v);
  tegula_sim_st_global(t, 4, (uint64_t)(uintptr_t)(data + tid), 4, 1, &v);
}

/* (x: pointer, rows: i32, out: pointer), 24 bytes; the map comes at 64. Reads rows from -2 on, columns from 4 on. */
void read_box(TegulaSimThread *t, const void *args) {
  int32_t *out = *(int32_t *const *)((const char *)args + 16), tid = tegula_sim_sreg(t, TEGULA_SREG_TID), v;
  const int32_t at[2] = {4, -2};
  const uint32_t bar = 0x800, box = 0x400;
  if (tid == 0) {
    tegula_sim_mbar_init(t, 0, bar, 1);
    tegula_sim_fence_mbarrier_init(t, 0);
  }
  tegula_sim_bar_sync(t, 1, 0, 128);
  tegula_sim_mbar_arrive_expect(t, 2, bar, 512, tid == 0);
  tegula_sim_tma_load(t, 3, box, (uint64_t)(uintptr_t)args + 64, 2, at, bar, 0, tid == 0);
  tegula_sim_mbar_wait(t, 4, bar, 0);
  tegula_sim_ld_shared(t, 5, box + 4 * (uint32_t)tid, 4, 1, &v);
  tegula_sim_st_global(t, 6, (uint64_t)(uintptr_t)(out + tid), 4, 1, &v);
}

void nothing(TegulaSimThread *t, const void *args) {}
