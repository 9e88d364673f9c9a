/* Running kernels that were compiled ahead of time (`tegula compile --emit obj`) and linked into the program: the runtime alone, no
 * compiler, no LLVM. CMake: find_package(tegula), link tegula::runtime and the object file.
 *
 *   extern int32_t add(const void *, const TegulaCpuLaunch *, int64_t, int64_t, void *);   // the object's entry point
 *   struct { float *x, *y, *out; int32_t n; } args = {x, y, out, n};   // runtime arguments in order, natural alignment
 *   TegulaRuntime *rt;
 *   tegula_runtime_create(0, &rt);
 *   int64_t grid[3] = {(n + 1023) / 1024, 1, 1};
 *   TegulaStatus s = tegula_runtime_run(rt, add, &args, 0, grid, 0, NULL);
 *
 * Entry point, argument offsets and scratch bytes of a kernel stand in its metadata (tegula_kernel_metadata_json). Kernels compiled with
 * --check cannot be run this way. Thread-safe: any number of threads may run kernels at once; atomics of theirs that meet those of kernels which libtegula.so launches
 * need scope `sys` (tegula.h). */
#ifndef TEGULA_RUNTIME_H
#define TEGULA_RUNTIME_H
#include "tegula/CpuAbi.h"
#include "tegula/tegula.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TegulaRuntime TegulaRuntime; /* a pool of threads */

/* `num_threads` 0: all cores this process may use. Threads start when first needed. */
TEGULA_API TegulaStatus tegula_runtime_create(int32_t num_threads, TegulaRuntime **out);
/* No run may be under way. NULL is allowed. */
TEGULA_API void tegula_runtime_destroy(TegulaRuntime *runtime);
/* Runs the programs of the grid and returns when they are done. `threads` 0: those of the runtime. `fault` may be NULL; on TEGULA_FAULT
 * it says which program failed. device_print goes to nowhere. */
TEGULA_API TegulaStatus tegula_runtime_run(TegulaRuntime *runtime, TegulaCpuEntry entry, const void *args, uint64_t scratch_bytes,
                                const int64_t grid[3], int32_t threads, TegulaCpuFault *fault);

#ifdef __cplusplus
}
#endif
#endif
