/* Bundles: kernels that `tegula aot` compiled ahead of time, in one file (docs/bundle.md). This interface is in the runtime library alone
 * (libtegula-runtime.so, or tegula::runtime of the CMake package), which has no compiler in it, and in libtegula.so. A process that uses both has two runtimes: see tegula.h about atomics.
 *
 *   TegulaBundle *app;
 *   const TegulaBundleKernel *add;
 *   if (tegula_bundle_open("app.tgb", NULL, &app) != TEGULA_OK || tegula_bundle_kernel(app, "add", &add) != TEGULA_OK)
 *     fputs(tegula_bundle_error(), stderr);
 *   TegulaArg args[4] = {tegula_ptr(x, TEGULA_FP32, n * 4), tegula_ptr(y, TEGULA_FP32, n * 4), tegula_ptr(out, TEGULA_FP32, n * 4), tegula_int(n)};
 *   int64_t grid[3] = {(n + 1023) / 1024, 1, 1};
 *   tegula_bundle_launch(add, grid, args, 4, NULL);
 *
 * `tegula aot --header` writes typed functions over these. The rules of tegula.h hold: reference-free handles here, strings are copied, any thread may call
 * anything but tegula_bundle_close. Nothing is compiled, and nothing else than the bundle is read. Of the functions of tegula.h only the inline ones are
 * needed. */
#ifndef TEGULA_BUNDLE_H
#define TEGULA_BUNDLE_H
#include "tegula/tegula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements that C has no type for, as the headers of `tegula aot` name them: their bits. Pointers to a type of your own are cast. */
typedef struct TegulaHalf { uint16_t bits; } TegulaHalf;
typedef struct TegulaBfloat16 { uint16_t bits; } TegulaBfloat16;
typedef struct TegulaFp8e5 { uint8_t bits; } TegulaFp8e5;
typedef struct TegulaFp8e4 { uint8_t bits; } TegulaFp8e4;
typedef struct TegulaFp8e4b15 { uint8_t bits; } TegulaFp8e4b15;
typedef struct TegulaFp8e4b8 { uint8_t bits; } TegulaFp8e4b8;
typedef struct TegulaFp8e5b16 { uint8_t bits; } TegulaFp8e5b16;

typedef struct TegulaBundle TegulaBundle;
typedef struct TegulaBundleKernel TegulaBundleKernel; /* all entries of one name; lives as long as the bundle */

typedef struct TegulaBundleOptions {
  size_t size;
  const uint8_t *public_key; /* 32 bytes of Ed25519: the bundle must be signed with it, which needs libsodium on the machine. NULL: only changes are found */
  int32_t num_threads;       /* of launches on the CPU that do not say; 0: all cores this process may use */
  int32_t reserved;
} TegulaBundleOptions;
#define TEGULA_BUNDLE_OPTIONS_INIT {sizeof(TegulaBundleOptions), NULL, 0, 0}

/* The last failure of one of these functions on this thread, one sentence; "" if nothing failed yet. */
TEGULA_API const char *tegula_bundle_error(void);

/* Maps the file and reads its index; code is read when it is first launched. `options` may be NULL. TEGULA_NOT_FOUND, TEGULA_IO_ERROR; TEGULA_UNSUPPORTED: of
 * another version; TEGULA_INVALID_ARGUMENT: no bundle, damaged, or not signed with the key. */
TEGULA_API TegulaStatus tegula_bundle_open(const char *path, const TegulaBundleOptions *options, TegulaBundle **out);
/* The same of memory that stays as it is until tegula_bundle_close: a bundle that was linked into the program. */
TEGULA_API TegulaStatus tegula_bundle_open_memory(const void *bytes, size_t length, const TegulaBundleOptions *options, TegulaBundle **out);
/* No launch may be under way. NULL is allowed. */
TEGULA_API void tegula_bundle_close(TegulaBundle *bundle);

typedef struct TegulaBundleEntry {
  size_t size;
  const char *kernel;
  const char *target;    /* "cpu:avx2", "sm_90a" */
  const char *needs;     /* what a machine must have: "x86-64-v3", "cubin sm_90a" */
  const char *signature; /* "x:*fp32:16, n:i32, BLOCK:1024"; "" if the entry cannot be read */
  const char *problem;   /* why it cannot be used, one sentence; "" if it can, by a machine that has what it needs */
  uint64_t code_bytes;
  uint64_t scratch_bytes; /* CPU, per thread */
  int32_t num_warps, num_stages, num_ctas, maxnreg;
} TegulaBundleEntry;
TEGULA_API size_t tegula_bundle_entry_count(const TegulaBundle *bundle);
/* `out->size` must be set. Text lives as long as the bundle. */
TEGULA_API TegulaStatus tegula_bundle_entry(TegulaBundle *bundle, size_t index, TegulaBundleEntry *out);
/* Reads every byte. TEGULA_INVALID_ARGUMENT: one was changed; the error names the entry. */
TEGULA_API TegulaStatus tegula_bundle_check(TegulaBundle *bundle);

/* TEGULA_NOT_FOUND lists the names; TEGULA_UNSUPPORTED: the bundle has it for other machines only, and the error says for which. */
TEGULA_API TegulaStatus tegula_bundle_kernel(TegulaBundle *bundle, const char *name, const TegulaBundleKernel **out);

/* `grid` NULL: the manifest's expressions, evaluated with the entry's constants and the integer arguments. Runs the entry whose facts hold for the arguments, the one with most facts, of those for this machine's best instruction set. `args[i]` is for parameter i; missing
 * ones, constexpr parameters above all, take any value that the bundle has (the first in the manifest). Constexpr values are numbers, or tegula_text().
 * Of the options these matter: device (an index of TegulaContext: 0 the CPU, 1 the simulator, 2 + n GPU n; -1: the GPU that the first pointer belongs to, else the CPU; where the
 * bundle has nothing for CPUs, the current GPU, or the simulator),
 * stream, num_threads, hang_s, wide_offsets (1: tensors of 2^30 elements and more that say no extent), and num_warps, num_stages, num_ctas, maxnreg where they are not 0: only such entries are taken. On the CPU the call returns when all
 * programs have run. TEGULA_NOT_FOUND: no entry fits; the error says what is missing. TEGULA_FAULT: a program failed. device_print goes to standard output. */
TEGULA_API TegulaStatus tegula_bundle_launch(const TegulaBundleKernel *kernel, const int64_t grid[3], const TegulaArg *args, size_t arg_count,
                                             const TegulaLaunchOptions *options);
/* Waits for the stream of a GPU and reports what its kernels did wrong; at once on other devices. */
TEGULA_API TegulaStatus tegula_bundle_wait(TegulaBundle *bundle, int32_t device, void *stream);
/* Memory that kernels of a device may use, for programs that have none of their own; on the CPU any memory will do. `direction` as of tegula_memory_copy. */
TEGULA_API TegulaStatus tegula_bundle_allocate(TegulaBundle *bundle, int32_t device, uint64_t bytes, void **out);
TEGULA_API void tegula_bundle_free(TegulaBundle *bundle, int32_t device, void *memory);
TEGULA_API TegulaStatus tegula_bundle_copy(TegulaBundle *bundle, int32_t device, int32_t direction, void *to, const void *from, uint64_t bytes, void *stream);

/* A compile-time value by its text ("'gelu'" or "gelu", "fp16"); only for tegula_bundle_launch. */
enum { TEGULA_ARG_TEXT = 9 };
static inline TegulaArg tegula_text(const char *text) {
  TegulaArg a = {TEGULA_ARG_TEXT, TEGULA_VOID, 0, 0, {NULL}, {0}};
  a.u.ptr = (void *)text;
  return a;
}
/* A tensor descriptor without the compiler's library; as tegula_tensor_descriptor, and for tegula_bundle_launch only. */
TEGULA_API TegulaStatus tegula_bundle_descriptor(TegulaTensorDescriptor *storage, TegulaArg base, size_t rank, const int64_t *shape, const int64_t *strides,
                                                 const int64_t *block_shape, int32_t padding, TegulaArg *out);

#ifdef __cplusplus
}
#endif
#endif
