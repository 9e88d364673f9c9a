/* The contract between kernels compiled for NVIDIA GPUs and the runtime that launches them. Plain C.
 *
 * Parameters of a kernel: its runtime arguments in order at natural alignment (the packed block of CpuAbi.h, byte for
 * byte), then, if the kernel has tensor maps, padding to a multiple of 64 and its maps, 128 bytes each, in order,
 * then one 8-byte pointer to the launch's TegulaGpuRecord, aligned to 8. On the simulator the record pointer is left
 * out. The block is launched as one packed buffer (CU_LAUNCH_PARAM_BUFFER_POINTER). With tensor maps the driver gets
 * the parameters one by one, because the place of a parameter aligned to 64 depends on the offset of the constant bank
 * (ptxas 12.9, sm_90: the first at 48 modulo 64). Blocks are one-dimensional: 32 * numWarps threads. */
#ifndef TEGULA_ABI_GPUABI_H
#define TEGULA_ABI_GPUABI_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TEGULA_GPU_ABI_VERSION 2

/* Lives in host memory the device can write (pinned, mapped); one per stream slot, zeroed by the runtime. The first
 * thread that fails claims it (atomic exchange at system scope), fills it, and traps. */
typedef struct TegulaGpuRecord {
  int32_t claimed;
  int32_t code;      /* TEGULA_FAULT_* of CpuAbi.h */
  int32_t site;      /* index into the kernel's sites */
  int32_t pid[3];
  int32_t reserved[2];
} TegulaGpuRecord;

/* device_print goes through the driver's vprintf: one call per element with a format made by the compiler. */

#ifdef __cplusplus
}
#endif
#endif
