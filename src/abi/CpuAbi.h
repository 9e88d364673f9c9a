/* The contract between code generated for CPUs and the runtime that calls it. Plain C; both sides include this file and
 * nothing else of each other. Change TEGULA_CPU_ABI_VERSION with any change here (it is part of every cache key). */
#ifndef TEGULA_ABI_CPUABI_H
#define TEGULA_ABI_CPUABI_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TEGULA_CPU_ABI_VERSION 5

/* The fault of a program; written once per launch, by the program that wins the race on `claimed`. */
typedef struct TegulaCpuFault {
  int32_t claimed;      /* 0: free; set to 1 by an atomic exchange */
  int32_t code;         /* TEGULA_FAULT_* */
  int32_t site;         /* index into the kernel's table of sites (line, column, argument, message) */
  int32_t pid[3];
  int64_t index; /* bounds, alignment: byte offset of the first such element from the start of the argument's buffer */
  int64_t
      extent; /* size of the buffer in bytes; -1: the pointer isn't derived from one argument, `index` is the address */
} TegulaCpuFault;

enum {
  TEGULA_FAULT_NONE = 0,
  TEGULA_FAULT_ASSERT = 1,       /* device_assert */
  TEGULA_FAULT_BOUNDS = 2,       /* checked mode: access outside the buffer */
  TEGULA_FAULT_ALIGNMENT = 3,    /* checked mode: address not a multiple of the element size */
  TEGULA_FAULT_CANCELLED = 4,    /* `cancel` was seen */
  TEGULA_FAULT_HANG = 6          /* set by the runtime: no progress for too long */
};

/* Memory that an argument may touch, in the order of the kernel's pointer arguments. */
typedef struct TegulaCpuExtent {
  uint64_t begin;       /* address */
  uint64_t bytes;
} TegulaCpuExtent;

/* TegulaCpuLaunch.flags */
enum {
  TEGULA_LAUNCH_ATOMICS = 1, /* `atomics` may be called; without it all atomics are atomic */
  /* set by `atomics`: until the entry returns, no other launch of this process runs code with atomics of scope gpu or
   * cta */
  TEGULA_LAUNCH_ALONE = 2
};

struct TegulaCpuLaunch;
/* One call prints one operand of one device_print for one program. `data` holds `count` elements, row-major, of the
 * kernel's print site `site` (which has dtype, shape, prefix). Must be safe to call from any thread. */
typedef void (*TegulaCpuPrintFn)(const struct TegulaCpuLaunch *launch, int32_t site, int32_t operand,
                                 const int32_t pid[3], const void *data, int64_t count);

/* Called repeatedly by a loop whose condition depends on memory, as it may wait for another program of the launch: may
 * run that program before it returns. `turn`: 1 at the first call of this execution of the loop, then 2, ... */
typedef void (*TegulaCpuWaitFn)(const struct TegulaCpuLaunch *launch, int64_t turn);
/* Called by a program that saw `cancel` in the loop `site`, before it returns. */
typedef void (*TegulaCpuStoppedFn)(const struct TegulaCpuLaunch *launch, int32_t site, int32_t x, int32_t y, int32_t z);

/* Called by kernels with atomics, once in each call of the entry, before its first program. `plain`: 1 if the kernel
 * has a form in which atomics are plain reads and writes; then TEGULA_LAUNCH_ALONE may be set when it returns. May
 * wait for a launch that is alone. */
typedef void (*TegulaCpuAtomicsFn)(const struct TegulaCpuLaunch *launch, int32_t plain);

typedef struct TegulaCpuLaunch {
  int32_t grid[3];                 /* extents, each >= 1 */
  int32_t flags;                   /* TEGULA_LAUNCH_* */
  const volatile int32_t *cancel;  /* polled at loop back edges and between programs; never null */
  TegulaCpuFault *fault;           /* never null */
  const TegulaCpuExtent *extents;  /* checked kernels only: one per pointer argument */
  TegulaCpuPrintFn print;
  void *user;                      /* for the runtime's use */
  int64_t (*clock)(void);          /* nanoseconds since some moment */
  TegulaCpuWaitFn wait;            /* never null, as is the next */
  TegulaCpuStoppedFn stopped;
  TegulaCpuAtomicsFn atomics;      /* null without TEGULA_LAUNCH_ATOMICS */
  uint64_t number;                 /* no other launch of this process has it; 0: not known */
} TegulaCpuLaunch;

/* Entry point, one symbol per kernel. Runs programs begin <= linear < end, where linear = x + grid[0] * (y + grid[1]
 * * z), or y + grid[1] * (x + grid[0] * z) or another bijection, if the order cannot be observed. `args` is the packed
 * argument block: runtime arguments in order, each at its natural alignment (pointers 8 bytes, i1 as one byte 0/1).
 * `scratch` is private to the calling thread, 64-byte aligned, at least KernelMeta.scratchBytes long. Its contents are
 * undefined on entry, with one exception: if its first eight bytes are the launch's number, which is not 0, the
 * contents are as an earlier call for this launch left them. Returns a TEGULA_FAULT_ code; on a fault the remaining
 * programs of the range are skipped. */
typedef int32_t (*TegulaCpuEntry)(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end,
                                  void *scratch);

#ifdef __cplusplus
}
#endif
#endif
