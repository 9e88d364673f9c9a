/* A program that was compiled with the first tegula.h: it knows the structs as they began, and nothing of what was added since. Each has `size`
 * as that compiler set it, and is the last thing in its block, so that a sanitizer sees who goes beyond; `guard` tells the others. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Context Context;
typedef struct Function Function;
typedef struct Kernel Kernel;
typedef struct Value Value;
typedef struct Tuner Tuner;
typedef int32_t Status;

typedef struct {
  size_t size;
  const char *cache_dir;
  const char *const *read_only_cache_dirs;
  size_t read_only_cache_dir_count;
  int32_t num_threads, debug, checked;
} ContextOptions;

typedef struct {
  size_t size;
  const char *name, *description, *target, *features;
  uint32_t cores, vector_bits;
  uint64_t memory_bytes, l1_bytes, l2_bytes;
} DeviceInfo;

typedef struct {
  size_t size;
  const char *file, *text;
  size_t length;
  uint32_t first_line;
  int32_t kind, noinline_;
  const char *must_use;
  const char *const *do_not_specialize;
  size_t do_not_specialize_count;
  const char *const *do_not_specialize_on_alignment;
  size_t do_not_specialize_on_alignment_count;
} FunctionSource;

typedef struct {
  size_t size;
  int32_t num_warps, num_stages, num_ctas, maxnreg, num_threads, device, language_level;
  int8_t strict, wide_offsets, reserved[2];
  int8_t debug, checked, debug_info, fp_fusion, sanitize_overflow, opt_level, cooperative, programmatic_launch;
  double hang_s;
  void *stream;
} LaunchOptions;

typedef struct {
  size_t size;
  const char *name, *symbol, *hash, *target, *signature;
  int32_t num_warps, num_stages, num_ctas, checked, debug, debug_info, origin;
  uint32_t arg_count;
  uint64_t scratch_bytes, object_bytes, code_bytes;
} KernelInfo;

typedef struct {
  size_t size;
  uint64_t parse, sema, passes, plan, emit, optimize, codegen, load, total;
} Timings;

typedef struct {
  size_t size;
  const char *directory, *disabled;
  uint64_t entries, bytes, memory_hits, disk_hits, compiles, disk_writes, disk_errors, corrupted;
} CacheStat;

typedef struct {
  const char *name;
  Value *value;
} NamedValue;

typedef struct {
  size_t size;
  const NamedValue *values;
  size_t value_count;
  int32_t num_warps, num_stages, num_ctas, maxnreg;
} Config;

typedef struct {
  size_t size;
  const char *const *key;
  size_t key_count;
  int8_t deterministic, validate, progress, reserved;
  uint32_t top_k;
  double budget_ms, compile_timeout_s;
  uint64_t copy_bytes;
} TunerOptions;

/* Arguments have no `size`: they are as they were. */
typedef struct {
  uint8_t kind, dtype;
  uint16_t flags;
  uint32_t count;
  union {
    void *ptr;
    int64_t i;
  } u;
  union {
    int64_t extent;
  } u2;
} Arg;

Status tegula_context_create(const ContextOptions *, Context **);
void tegula_context_release(Context *);
Status tegula_device_info(Context *, size_t, DeviceInfo *);
Status tegula_function_create(Context *, const FunctionSource *, Function **);
Status tegula_function_bind(Function *, const char *, Value *, int32_t);
void tegula_function_release(Function *);
Value *tegula_value_module(const char *);
Value *tegula_value_int(int64_t);
void tegula_value_release(Value *);
Status tegula_launch(Function *, const int64_t[3], const Arg *, size_t, const LaunchOptions *, Kernel **);
Status tegula_kernel_info(Kernel *, KernelInfo *);
Status tegula_kernel_timings(Kernel *, Timings *);
Status tegula_cache_stat(Context *, CacheStat *);
Status tegula_tuner_create(Function *, const Config *, size_t, const TunerOptions *, Tuner **);
void tegula_tuner_release(Tuner *);
const char *tegula_tuner_config_name(const Tuner *, size_t);
const char *tegula_last_error(void);

enum { GUARD = 0x5a, ROOM = 64 };

static int failures;
static void check(int ok, const char *what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "the first program: %s: %s\n", what, tegula_last_error());
}
/* A struct of so many bytes, its `size` set, and in front of bytes that are nobody's. */
static void *sized(size_t bytes) {
  char *block = malloc(bytes + ROOM);
  if (!block) abort();
  memset(block, 0, bytes);
  memset(block + bytes, GUARD, ROOM);
  *(size_t *)block = bytes;
  return block;
}
/* It is as large as it was, and what is behind it is untouched. */
static void done(void *s, size_t bytes, const char *what) {
  check(*(size_t *)s == bytes, what);
  for (int i = 0; i < ROOM; ++i) check(((char *)s)[bytes + i] == GUARD, what);
  free(s);
}
#define NEW(type) ((type *)sized(sizeof(type)))
#define DONE(s) done(s, sizeof *(s), #s)

static const char *text = "def add(x, out, n, BLOCK: tl.constexpr):\n"
                          "    i = tl.arange(0, BLOCK)\n"
                          "    tl.store(out + i, tl.load(x + i, mask=i < n) * 2.0 + 1.0, mask=i < n)\n";

static Function *addOf(Context *context) {
  FunctionSource *source = NEW(FunctionSource);
  source->file = "first.py", source->text = text, source->length = strlen(text), source->first_line = 1;
  Function *f = NULL;
  check(tegula_function_create(context, source, &f) == 0, "tegula_function_create");
  --source->size;
  Function *none = NULL;
  check(tegula_function_create(context, source, &none) == 1, "a source that is too small");
  ++source->size;
  DONE(source);
  Value *tl = tegula_value_module("triton.language");
  check(f && tegula_function_bind(f, "tl", tl, 1) == 0, "tegula_function_bind");
  tegula_value_release(tl);
  return f;
}

static void launches(Context *context, Function *f) {
  static float x[16], out[16];
  for (int i = 0; i < 16; ++i) x[i] = (float)i, out[i] = -1;
  enum { POINTER = 1, INT = 2, FP32 = 17 };
  Arg args[4] = {{POINTER, FP32, 0, 0, {x}, {sizeof x}}, {POINTER, FP32, 0, 0, {out}, {sizeof out}}, {INT, 0, 0, 0, {NULL}, {0}}, {INT, 0, 0, 0, {NULL}, {0}}};
  args[2].u.i = 10, args[3].u.i = 16;
  const int64_t grid[3] = {1, 1, 1};
  LaunchOptions *options = NEW(LaunchOptions);
  options->strict = options->debug = options->checked = options->debug_info = options->fp_fusion = options->sanitize_overflow = options->opt_level = -1;
  options->num_warps = 2;
  Kernel *kernel = NULL;
  for (int i = 0; i < 3; ++i) check(tegula_launch(f, grid, args, 4, options, &kernel) == 0, "tegula_launch");
  check(out[9] == 19 && out[10] == -1, "what the kernel stored");
  DONE(options);

  KernelInfo *info = NEW(KernelInfo);
  check(kernel && tegula_kernel_info(kernel, info) == 0 && !strcmp(info->name, "add") && info->num_warps == 2 && info->code_bytes > 0, "tegula_kernel_info");
  DONE(info);
  Timings *timings = NEW(Timings);
  check(kernel && tegula_kernel_timings(kernel, timings) == 0 && timings->total > 0, "tegula_kernel_timings");
  DONE(timings);
  CacheStat *stat = NEW(CacheStat);
  check(tegula_cache_stat(context, stat) == 0 && stat->compiles == 1 && stat->corrupted == 0, "tegula_cache_stat");
  DONE(stat);
}

/* Configurations stand next to one another: the distance is that of the program. */
static void tunes(Function *f) {
  Config *configs = sized(3 * sizeof(Config));
  NamedValue values[3] = {{"BLOCK", NULL}, {"BLOCK", NULL}, {"BLOCK", NULL}};
  for (int i = 0; i < 3; ++i) {
    values[i].value = tegula_value_int(16 << i);
    configs[i].size = sizeof(Config), configs[i].values = &values[i], configs[i].value_count = 1, configs[i].num_warps = 1 << i;
  }
  TunerOptions *options = NEW(TunerOptions);
  options->deterministic = 1;
  Tuner *tuner = NULL;
  check(tegula_tuner_create(f, configs, 3, options, &tuner) == 0, "tegula_tuner_create");
  const char *last = tuner ? tegula_tuner_config_name(tuner, 2) : NULL;
  check(last && !strcmp(last, "BLOCK: 64, num_warps: 4"), "tegula_tuner_config_name");
  DONE(options);
  configs->size = 3 * sizeof(Config);
  done(configs, 3 * sizeof(Config), "configs");
  for (int i = 0; i < 3; ++i) tegula_value_release(values[i].value);
  tegula_tuner_release(tuner);
}

int firstProgram(void) {
  ContextOptions *options = NEW(ContextOptions);
  options->cache_dir = "", options->num_threads = 2;
  Context *context = NULL;
  check(tegula_context_create(options, &context) == 0, "tegula_context_create");
  DONE(options);
  if (!context) return failures;
  DeviceInfo *device = NEW(DeviceInfo);
  check(tegula_device_info(context, 0, device) == 0 && !strcmp(device->name, "cpu") && device->cores > 0, "tegula_device_info");
  DONE(device);
  Function *f = addOf(context);
  if (f) {
    launches(context, f);
    tunes(f);
  }
  tegula_function_release(f);
  tegula_context_release(context);
  return failures;
}
