/* tegula's C interface: compile kernels written in the tile language (Triton's) and launch them. No interpreter, compiler or
 * linker is needed at run time.
 *
 *   TegulaContext *ctx;  TegulaModule *mod;  TegulaFunction *add;
 *   tegula_context_create(NULL, &ctx);
 *   tegula_module_from_file(ctx, "kernels.py", &mod);
 *   tegula_module_function(mod, "add", &add);
 *   TegulaArg args[5] = {tegula_ptr(x, TEGULA_FP32, n * 4), tegula_ptr(y, TEGULA_FP32, n * 4),
 *                        tegula_ptr(out, TEGULA_FP32, n * 4), tegula_int(n), tegula_int(1024)};
 *   int64_t grid[3] = {(n + 1023) / 1024, 1, 1};
 *   if (tegula_launch(add, grid, args, 5, NULL, NULL) != TEGULA_OK)
 *     fputs(tegula_last_error(), stderr);
 *
 * Rules that hold for every declaration below, unless it says otherwise:
 *  - Strings are UTF-8. `const char *` inputs end in NUL and are copied. Text that comes back through a `const char **` or a
 *    struct belongs to the object it was asked of and lives as long as it; text of the error functions lives until the
 *    next tegula call of the same thread that can fail.
 *  - Handles are reference counted. `*_create`, `*_from_*` and every function with an `out` handle give the caller one
 *    reference (`*_release` gives it back; releasing NULL does nothing). A handle keeps what it needs alive: releasing a module
 *    before its functions, or a context before its modules, is fine.
 *  - Functions that return TegulaStatus set `*out` only on TEGULA_OK. On anything else the calling thread's last error is set.
 *  - Every function may be called from any thread at any time, also on the same handle, except where "set-up" is said: set-up
 *    functions of a handle must be finished before another thread uses that handle.
 *  - No function throws, aborts or exits because of what it is given; a wrong argument is TEGULA_INVALID_ARGUMENT.
 *  - On CPUs, atomics of scope `gpu` and `cta` are atomic among all launches of one copy of the runtime in a process. libtegula.so has one, libtegula-runtime.so another,
 *    each program or library that tegula::runtime is linked into its own; they do not know of each other, as little as of the host's threads. Kernels that update the same memory
 *    at the same time by different copies need scope `sys`.
 *  - Structs with a `size` field: set it to sizeof(the struct) (the TEGULA_*_INIT macros do). Fields may be added at the end; programs that were compiled
 *    before go on, and get the default of what they do not have.
 */
#ifndef TEGULA_TEGULA_H
#define TEGULA_TEGULA_H
#include <stddef.h>
#include <stdint.h>

#define TEGULA_VERSION_MAJOR 0
#define TEGULA_VERSION_MINOR 1
#define TEGULA_VERSION_PATCH 0
/* Changes with every incompatible change of this file. */
#define TEGULA_ABI_VERSION 1

#if defined(__GNUC__)
#define TEGULA_API __attribute__((visibility("default")))
#else
#define TEGULA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------- status and errors */

/* What a call came to. */
typedef int32_t TegulaStatus;
enum {
  TEGULA_OK = 0,
  TEGULA_INVALID_ARGUMENT = 1, /* null handle, bad grid, wrong number or kind of arguments, malformed text */
  TEGULA_COMPILE_ERROR = 2,    /* a mistake in the source: see the diagnostics */
  TEGULA_NOT_FOUND = 3,        /* no such file, kernel, device, target, stage, name */
  TEGULA_IO_ERROR = 4,         /* a file could not be read or written (never because of the cache) */
  TEGULA_OUT_OF_RESOURCES = 5, /* memory, or a limit of the target */
  TEGULA_FAULT = 6,            /* a program failed while running: see tegula_last_fault */
  TEGULA_CANCELLED = 7,        /* the launch was interrupted; what it had stored by then stays stored */
  TEGULA_UNSUPPORTED = 8,      /* understood, but this build or target cannot do it */
  TEGULA_INTERNAL_ERROR = 9,   /* a bug in tegula; the text says what to report */
  TEGULA_ASSEMBLER_ERROR = 10, /* NVIDIA's assembler refused a kernel's code: its log, and the lines of the kernel */
  TEGULA_NOT_COMPILED = 11     /* the kernel would have to be compiled, and no_jit is set (tegula_context_set_no_jit) */
};

/* "invalid argument", "compile error", ...; never NULL. */
TEGULA_API const char *tegula_status_name(TegulaStatus status);

/* The last failure of a tegula call on this thread, for people: for compile errors the rendered errors (several lines,
 * source line and carets; warnings are among the diagnostics alone), else one sentence. "" if nothing failed yet. Ends without a newline. */
TEGULA_API const char *tegula_last_error(void);
/* Its status; TEGULA_OK if nothing failed yet (or since tegula_clear_error). */
TEGULA_API TegulaStatus tegula_last_status(void);
/* Forgets the thread's last error, diagnostics and fault. */
TEGULA_API void tegula_clear_error(void);

enum { TEGULA_REMARK = 0, TEGULA_WARNING = 1, TEGULA_SEVERITY_ERROR = 2, TEGULA_NOTE = 3 };

/* One message. Lines and columns are 1-based (columns: display columns, tabs to 8, wide characters 2); 0 = no place. */
typedef struct TegulaDiagnostic {
  int32_t severity;       /* TEGULA_REMARK, ... */
  int32_t note_count;     /* of tegula_diagnostic_note */
  const char *kind;       /* stable name of the message, "undefinedName" */
  const char *message;    /* one sentence, without place or kind */
  const char *file;       /* "" if unknown */
  uint32_t line, column;
  uint32_t end_line, end_column; /* one past the last character */
  const char *rendered;   /* as on a terminal, with source line, carets and notes; ends in a newline */
} TegulaDiagnostic;

/* Diagnostics of this thread's last compiling call (module, function, compile, emit, check, launch that had to compile),
 * warnings of a successful one included. 0 after calls that said nothing. */
TEGULA_API size_t tegula_diagnostic_count(void);
TEGULA_API TegulaStatus tegula_diagnostic_get(size_t index, TegulaDiagnostic *out);
/* Notes of a diagnostic (severity TEGULA_NOTE, kind and rendered are ""). The "while instantiating" chain comes last. */
TEGULA_API TegulaStatus tegula_diagnostic_note(size_t index, size_t note, TegulaDiagnostic *out);
/* All of them as one JSON array of objects: kind, severity, message, file, line, column, endLine, endColumn, notes, fixIts. */
TEGULA_API const char *tegula_diagnostics_json(void);

/* Of what there was too little. */
typedef struct TegulaShortage {
  const char *name;          /* "shared memory", "threads", "device memory"; lives for ever */
  uint64_t required, limit;
} TegulaShortage;
/* The numbers of a TEGULA_OUT_OF_RESOURCES; TEGULA_NOT_FOUND if the last error was another one or has none. */
TEGULA_API TegulaStatus tegula_last_shortage(TegulaShortage *out);

enum {
  TEGULA_FAULT_KIND_ASSERT = 1,    /* device_assert */
  TEGULA_FAULT_KIND_BOUNDS = 2,    /* checked mode: access outside the buffer of an argument */
  TEGULA_FAULT_KIND_ALIGNMENT = 3, /* checked mode: address that is no multiple of the element size */
  TEGULA_FAULT_KIND_HAZARD = 5,    /* simulator: a race, a missing wait, a deadlock ...: a mistake in the generated code */
  TEGULA_FAULT_KIND_HANG = 6       /* no program of the launch made progress for `hang_s` seconds: the line of the loop that one is in */
};

/* Why a program failed. */
typedef struct TegulaFault {
  int32_t kind;           /* TEGULA_FAULT_KIND_* */
  int32_t program_id[3];
  const char *kernel;     /* name of the kernel */
  const char *file;
  uint32_t line, column;
  const char *function;   /* kernel or helper the line belongs to */
  const char *argument;   /* parameter the access went through; "" if unknown or an assert */
  int64_t index;          /* byte offset of the first offending element from the start of the buffer; may be negative */
  int64_t extent;         /* bytes in the buffer; -1: the pointer isn't derived from one argument (loaded from memory, made from an
                           * integer), `index` is the address and lies in no buffer of the launch */
  const char *message;    /* of the assert, or "load"/"store"/"atomic" */
} TegulaFault;

/* Details of this thread's last TEGULA_FAULT; TEGULA_NOT_FOUND if there was none since the last tegula_clear_error. */
TEGULA_API TegulaStatus tegula_last_fault(TegulaFault *out);

/* "0.1.0" */
TEGULA_API const char *tegula_version(void);
/* TEGULA_ABI_VERSION of the library, to be compared with the one compiled in. */
TEGULA_API int32_t tegula_abi_version(void);

/* ------------------------------------------------------------------------------------------------------------ data types */

/* Element types. Names in signatures: i1 i8 ... u64 fp8e5 fp8e4nv fp8e4b15 fp8e4b8 fp8e5b16 fp16 bf16 fp32 fp64. */
enum {
  TEGULA_VOID = 0, TEGULA_INT1, TEGULA_INT8, TEGULA_INT16, TEGULA_INT32, TEGULA_INT64,
  TEGULA_UINT8, TEGULA_UINT16, TEGULA_UINT32, TEGULA_UINT64,
  TEGULA_FP8E5, TEGULA_FP8E4NV, TEGULA_FP8E4B15, TEGULA_FP8E4B8, TEGULA_FP8E5B16,
  TEGULA_FP16, TEGULA_BF16, TEGULA_FP32, TEGULA_FP64
};
typedef uint8_t TegulaDtype;

/* Any accepted spelling of a scalar type (f32, fp32, float32, "tl.float32", bool ...). `is_pointer` (may be NULL: then pointers are
 * refused) tells "*fp32" apart. */
TEGULA_API TegulaStatus tegula_dtype_parse(const char *text, TegulaDtype *out, int32_t *is_pointer);
/* "fp32"; "" for numbers that are no dtype. */
TEGULA_API const char *tegula_dtype_name(TegulaDtype dtype);
/* Bytes of one element in memory; 0 for void. */
TEGULA_API uint32_t tegula_dtype_bytes(TegulaDtype dtype);

/* --------------------------------------------------------------------------------------------------------------- context */

typedef struct TegulaContext TegulaContext;   /* caches, threads, devices: usually one per process */
typedef struct TegulaModule TegulaModule;     /* a file of kernels */
typedef struct TegulaFunction TegulaFunction; /* a kernel or helper, with the cache of its compiled forms */
typedef struct TegulaKernel TegulaKernel;     /* one compiled form, immutable */
typedef struct TegulaValue TegulaValue;       /* a compile-time object, immutable */

/* Tri-state switches: 0 off, 1 on, TEGULA_DEFAULT = what the level above says (launch -> context -> environment -> off). */
enum { TEGULA_DEFAULT = -1 };

/* Where the memory of tegula_memory_allocate comes from. `allocate` gives memory that kernels of the device may use, or NULL if there is no more;
 * `free` gets the number of bytes again. Both are called from any thread, and must not call tegula functions. */
typedef struct TegulaAllocator {
  void *user;
  void *(*allocate)(void *user, int32_t device, uint64_t bytes, uint64_t alignment);
  void (*free)(void *user, int32_t device, void *memory, uint64_t bytes);
} TegulaAllocator;

/* Threads of the program's own, on which the programs of a launch on the CPU and on the simulator run, and the tuner compiles. `run` calls task(data, i) once for each i below `count`, from any
 * threads, as many at once as it likes, and returns when all calls have; it is called from any thread, and from several at once. */
typedef struct TegulaExecutor {
  void *user;
  void (*run)(void *user, uint32_t count, void (*task)(void *data, uint32_t index), void *data);
} TegulaExecutor;

/* What the library has to say beside the results of calls: `severity` is TEGULA_REMARK (a kernel was compiled, or came from the disk) or TEGULA_WARNING; `length` bytes, one
 * sentence without a newline, not NUL-terminated. Called from any thread, one call at a time per context; must not call tegula functions of that context. */
typedef void (*TegulaLogFn)(void *user, int32_t severity, const char *text, size_t length);

typedef struct TegulaContextOptions {
  size_t size;
  const char *cache_dir; /* NULL: $TEGULA_CACHE_DIR (empty: no disk cache), else $XDG_CACHE_HOME/tegula, else ~/.cache/tegula; "": no disk cache */
  const char *const *read_only_cache_dirs; /* searched before cache_dir, never written; what ends in .tgb is a bundle, as of tegula_context_load_bundle */
  size_t read_only_cache_dir_count;
  int32_t num_threads;   /* of launches that do not say; 0: $TEGULA_NUM_THREADS, else all cores this process may use */
  int32_t debug;         /* TEGULA_DEFAULT: $TEGULA_DEBUG: device_assert on, kernels carry debug info for gdb */
  int32_t checked;       /* TEGULA_DEFAULT: $TEGULA_CHECK: every access checked against the buffers */
  const TegulaAllocator *allocator; /* copied; what `user` is must outlive the context, as for those below. NULL: memory of the system, or of the driver */
  const TegulaExecutor *executor;   /* copied. NULL: threads of the library, started when first needed */
  TegulaLogFn log;                  /* NULL: warnings go to stderr, remarks nowhere */
  void *log_user;
} TegulaContextOptions;
#define TEGULA_CONTEXT_OPTIONS_INIT {sizeof(TegulaContextOptions), NULL, NULL, 0, 0, TEGULA_DEFAULT, TEGULA_DEFAULT, NULL, NULL, NULL, NULL}

/* `options` may be NULL. Cheap: nothing is started or read before it is needed. The environment is read here and nowhere else.
 * TEGULA_CPU_TARGET in it names an instruction set ("cpu:x86-64", "cpu:avx2", "cpu:avx512", ...; tegula_target_name) that launches are
 * compiled for in place of the richest one of this machine; an unknown one, or one this machine cannot execute, is an error.
 * TEGULA_HANG_S is a number of seconds, the `hang_s` of launches that do not say; TEGULA_TRITON_LEVEL is 3.6, 3.7 or 3.9, their
 * `language_level`; TEGULA_STRICT=1 is their `strict`, and that of tegula_module_check().
 * TEGULA_TUNE=deterministic is the `deterministic` of tuners that do not say, TEGULA_TUNE_BYTES their `copy_bytes`.
 * TEGULA_CACHE_LAYERS is a list of further read_only_cache_dirs, separated by colons; TEGULA_NO_JIT=1 and =warn are modes of tegula_context_set_no_jit; TEGULA_RECORD names a
 * manifest, a file to which what launches need of the compiler is written (docs/bundle.md).
 * TEGULA_VERIFY=1 verifies the module after every stage of each compilation, tile IR and LLVM IR: what breaks a rule ends it with
 * TEGULA_INTERNAL_ERROR, whose text names the stage. */
TEGULA_API TegulaStatus tegula_context_create(const TegulaContextOptions *options, TegulaContext **out);
TEGULA_API void tegula_context_retain(TegulaContext *context);
TEGULA_API void tegula_context_release(TegulaContext *context);

enum { TEGULA_STATIC_PRINT = 0, TEGULA_DEVICE_PRINT = 1 };
/* Receives what kernels print: whole lines, `length` bytes with the newline, not NUL-terminated. Called from any thread, one call
 * at a time per context; must not call tegula functions that compile or launch. */
typedef void (*TegulaOutputFn)(void *user, int32_t stream, const char *text, size_t length);
/* NULL restores the default, stdout. Set-up. */
TEGULA_API TegulaStatus tegula_context_set_output(TegulaContext *context, TegulaOutputFn fn, void *user);

/* Asked about every 50 ms, on the launching thread, while a launch is under way; nonzero cancels the launch, which returns
 * TEGULA_CANCELLED. While one is set, launches not known to be short run on the worker threads and the launching thread only waits. */
typedef int32_t (*TegulaInterruptFn)(void *user);
/* NULL removes it. Set-up. */
TEGULA_API TegulaStatus tegula_context_set_interrupt(TegulaContext *context, TegulaInterruptFn fn, void *user);
/* Cancels the launches of the context that are under way, and none that start later. Async-signal-safe. */
TEGULA_API void tegula_cancel(TegulaContext *context);
/* The process is about to end: waits until no other thread compiles; from then on only the calling thread may compile, others that try
 * sleep until the process is gone. Before that they call before_sleep, unless it is NULL: it gives up what the end of the process
 * needs, such as the lock of an interpreter. exit() does this by itself; language runtimes that are torn down before exit() call it
 * first. fork() waits for compilations in the same way, so that the child finds nothing half done; launches under way do not go on
 * in the child. */
TEGULA_API void tegula_shutdown(void (*before_sleep)(void));

/* --------------------------------------------------------------------------------------------------------------- devices */

typedef struct TegulaDeviceInfo {
  size_t size;
  const char *name;        /* "cpu", "cuda:0": as -d takes it */
  const char *description; /* of the hardware */
  const char *target;      /* what code is generated for: "cpu:avx512bf16" */
  const char *features;    /* "+avx2,+fma,..." */
  uint32_t cores;          /* that this process may use */
  uint32_t vector_bits;    /* width of a vector register; 0 where it means nothing */
  uint64_t memory_bytes;
  uint64_t l1_bytes, l2_bytes;
  int32_t kind;              /* TEGULA_DEVICE_* */
  uint32_t capability;       /* GPU: 90 for compute capability 9.0 */
  uint32_t max_shared_bytes; /* GPU: shared memory that one block can have */
} TegulaDeviceInfo;
enum { TEGULA_DEVICE_CPU = 0, TEGULA_DEVICE_CUDA = 1, TEGULA_DEVICE_SIM = 2 };

/* Indices: the CPU, the simulator, then GPU n at TEGULA_DEVICE_INDEX_CUDA + n, below TEGULA_DEVICE_INDEX_END. */
enum { TEGULA_DEVICE_INDEX_CPU = 0, TEGULA_DEVICE_INDEX_SIM = 1, TEGULA_DEVICE_INDEX_CUDA = 2, TEGULA_DEVICE_INDEX_END = 200 };

/* At least 2: device 0 is the CPU, device 1 the GPU simulator "sim", then come the GPUs "cuda:0", "cuda:1" ... Looks for GPUs: opens the
 * NVIDIA driver, if there is one. */
TEGULA_API size_t tegula_device_count(TegulaContext *context);
/* `out->size` must be set. Text lives as long as the context. */
TEGULA_API TegulaStatus tegula_device_info(TegulaContext *context, size_t index, TegulaDeviceInfo *out);
/* Index of a device by name ("cpu", "cuda", "cuda:1", "sim", and "sim:sm_80" ... which are not counted). TEGULA_NOT_FOUND and
 * TEGULA_UNSUPPORTED say why there is none: no driver, a driver too old ... */
TEGULA_API TegulaStatus tegula_device_find(TegulaContext *context, const char *name, int32_t *index);
/* For programs that bring their own data: $TEGULA_DEVICE, else the first GPU if there is one, else the CPU. If there is no device of the name in $TEGULA_DEVICE a warning says so, once. */
TEGULA_API int32_t tegula_device_default(TegulaContext *context);
/* Who assembles GPU code in this process: "nvJitLink 12.9", "driver 12.8" or "none". */
TEGULA_API const char *tegula_assembler_name(void);
/* A folder of Python packages (site-packages) in which NVIDIA's libraries may be found. Set-up: before the first GPU kernel is compiled. */
TEGULA_API void tegula_add_package_folder(const char *folder);

/* Memory that kernels of a device may use. Callers with memory of their own (PyTorch tensors, cudaMalloc) need none of this; for the CPU and
 * the simulator any memory of the process will do. */
enum { TEGULA_TO_DEVICE = 0, TEGULA_FROM_DEVICE = 1, TEGULA_WITHIN_DEVICE = 2 };
TEGULA_API TegulaStatus tegula_memory_allocate(TegulaContext *context, int32_t device, uint64_t bytes, void **out);
TEGULA_API void tegula_memory_free(TegulaContext *context, int32_t device, void *memory);
/* How many bytes are free now: of a GPU as its driver says, which starts the GPU if nothing has; of the CPU and the simulator what the system, and the
 * control groups (a container's limit), can give without swapping. Other programs may take them before a call of tegula_memory_allocate does. */
TEGULA_API TegulaStatus tegula_memory_available(TegulaContext *context, int32_t device, uint64_t *bytes);
/* Returns when the copy is done, and what the stream had to do before it. */
TEGULA_API TegulaStatus tegula_memory_copy(TegulaContext *context, int32_t device, int32_t direction, void *to, const void *from, uint64_t bytes,
                                           void *stream);
/* The same, and memory filled with one byte, queued on the stream: both sides must live until the stream has done it. NULL, the default stream, has done it on return on the
 * CPU and the simulator. */
TEGULA_API TegulaStatus tegula_memory_copy_async(TegulaContext *context, int32_t device, int32_t direction, void *to, const void *from, uint64_t bytes,
                                                 void *stream);
TEGULA_API TegulaStatus tegula_memory_fill(TegulaContext *context, int32_t device, void *to, uint8_t value, uint64_t bytes, void *stream);
/* Waits for the stream. TEGULA_FAULT: a kernel failed on the GPU; the text names it, tegula_last_fault has the details if it
 * was an assert. Of a stream of the CPU or the simulator: the first failure of what was queued since the last call; what was queued behind that did not run. */
TEGULA_API TegulaStatus tegula_synchronize(TegulaContext *context, int32_t device, void *stream);

/* Work of a device in order, beside that of other streams. On a GPU a CUstream; on the CPU and the simulator a thread of its own, so that launches and copies return when
 * they are queued. */
typedef struct TegulaStream TegulaStream;
TEGULA_API TegulaStatus tegula_stream_create(TegulaContext *context, int32_t device, TegulaStream **out);
TEGULA_API void tegula_stream_retain(TegulaStream *stream);
/* The last one waits for what is queued. */
TEGULA_API void tegula_stream_release(TegulaStream *stream);
/* What the `stream` of launches, copies and tegula_synchronize is; lives as long as the handle. */
TEGULA_API void *tegula_stream_handle(const TegulaStream *stream);
TEGULA_API int32_t tegula_stream_device(const TegulaStream *stream);

/* Work that is recorded once and done as a whole as often as one likes, which costs one call: on a GPU a CUDA graph, on the CPU and the simulator a list. Between
 * tegula_graph_begin and tegula_graph_end launches, tegula_memory_copy_async and tegula_memory_fill on the stream are recorded with the arguments, addresses and grids of then, and not
 * done; kernels are compiled. Copies read the host's memory when the graph runs. What waits for the stream, and events, fail meanwhile (TEGULA_INVALID_ARGUMENT). What a graph uses must
 * live as long as it is launched; kernels it keeps itself. */
typedef struct TegulaGraph TegulaGraph;
TEGULA_API TegulaStatus tegula_graph_begin(TegulaStream *stream);
/* The stream works as before, whatever comes back. */
TEGULA_API TegulaStatus tegula_graph_end(TegulaStream *stream, TegulaGraph **out);
TEGULA_API void tegula_graph_retain(TegulaGraph *graph);
TEGULA_API void tegula_graph_release(TegulaGraph *graph);
/* Launches, copies and fills in it. */
TEGULA_API size_t tegula_graph_size(const TegulaGraph *graph);
/* Queues it on a stream of its device, NULL the default stream (which on the CPU and the simulator has done it on return). Launches of one graph run one after the other. What fails in it
 * ends it, and is told as of launches. Thread-safe. */
TEGULA_API TegulaStatus tegula_graph_launch(TegulaGraph *graph, void *stream);

/* A point in a stream, for others to wait for, and a time. `stream` below is of the event's device, NULL the default stream. */
typedef struct TegulaEvent TegulaEvent;
TEGULA_API TegulaStatus tegula_event_create(TegulaContext *context, int32_t device, TegulaEvent **out);
TEGULA_API void tegula_event_retain(TegulaEvent *event);
TEGULA_API void tegula_event_release(TegulaEvent *event);
/* The event is past when all that is queued on the stream now is done. Recorded again, it stands for the new point alone. One that was never recorded is past. */
TEGULA_API TegulaStatus tegula_event_record(TegulaEvent *event, void *stream);
/* Is it past? */
TEGULA_API TegulaStatus tegula_event_query(TegulaEvent *event, int32_t *past);
TEGULA_API TegulaStatus tegula_event_synchronize(TegulaEvent *event);
/* What is queued on the stream from now on waits until the event, as it was recorded last, is past. (The default stream of the CPU and the simulator waits within the call.) */
TEGULA_API TegulaStatus tegula_event_wait(TegulaEvent *event, void *stream);
/* Nanoseconds between two events of one device, both recorded; waits for them. */
TEGULA_API TegulaStatus tegula_event_elapsed(TegulaEvent *from, TegulaEvent *to, double *ns);
/* Names of targets that code can be generated for, NULL beyond the last. */
TEGULA_API const char *tegula_target_name(size_t index);

/* ---------------------------------------------------------------------------------------------------------------- values */
/* Compile-time objects: values of constexpr parameters, of captured globals, of defaults. All functions that make one give a
 * reference, or NULL with the last error set. Items are not consumed: the caller still releases its own references. */

enum {
  TEGULA_VALUE_NONE = 0, TEGULA_VALUE_BOOL, TEGULA_VALUE_INT, TEGULA_VALUE_FLOAT, TEGULA_VALUE_STR, TEGULA_VALUE_DTYPE,
  TEGULA_VALUE_TUPLE, TEGULA_VALUE_RECORD, TEGULA_VALUE_CLASS, TEGULA_VALUE_FUNCTION, TEGULA_VALUE_BUILTIN,
  TEGULA_VALUE_MODULE, TEGULA_VALUE_OPAQUE, TEGULA_VALUE_OTHER,
  TEGULA_VALUE_TENSOR, /* a tile or run-time scalar of tegula_eager_*, with its elements */
  TEGULA_VALUE_METHOD  /* `x.sum` before the call */
};

TEGULA_API TegulaValue *tegula_value_none(void);
TEGULA_API TegulaValue *tegula_value_bool(int32_t value);
TEGULA_API TegulaValue *tegula_value_int(int64_t value);
/* Decimal text, with sign, up to 127 bits. */
TEGULA_API TegulaValue *tegula_value_int_text(const char *decimal);
TEGULA_API TegulaValue *tegula_value_float(double value);
TEGULA_API TegulaValue *tegula_value_str(const char *text, size_t length);
/* Any spelling tegula_dtype_parse takes, pointers included ("*fp16"). */
TEGULA_API TegulaValue *tegula_value_dtype(const char *spelling);
TEGULA_API TegulaValue *tegula_value_tuple(TegulaValue *const *items, size_t count);
/* Python's dict and set, for code that runs at compile time: `count` keys that differ, with their values, and items that differ. */
TEGULA_API TegulaValue *tegula_value_dict(TegulaValue *const *keys, TegulaValue *const *values, size_t count);
TEGULA_API TegulaValue *tegula_value_set(TegulaValue *const *items, size_t count);
/* A namedtuple class; `defaults` are those of the last `default_count` fields. */
TEGULA_API TegulaValue *tegula_value_class(const char *name, const char *const *fields, size_t field_count,
                                           TegulaValue *const *defaults, size_t default_count);
/* An instance of a class; `count` must be its number of fields. */
TEGULA_API TegulaValue *tegula_value_record(TegulaValue *cls, TegulaValue *const *items, size_t count);
/* A class of aggregates. Of each field: its type (tl.tensor, tl.constexpr, ... as values of the language, or a class), and its default or NULL.
 * `bases`: all ancestors, nearest first; their fields come first among `fields`. Classes of one identity, if it is not 0, are one class. */
TEGULA_API TegulaValue *tegula_value_aggregate(const char *name, uint64_t identity, const char *const *fields, TegulaValue *const *types,
                                               TegulaValue *const *defaults, size_t field_count, TegulaValue *const *bases, size_t base_count);
enum { TEGULA_MEMBER_PLAIN = 0, TEGULA_MEMBER_STATIC = 1, TEGULA_MEMBER_CLASS = 2, TEGULA_MEMBER_PROPERTY = 3 };
/* Adds a method or constant to a class that tegula_value_aggregate made, before the class is first used. Methods and class may refer to each
 * other. */
TEGULA_API TegulaStatus tegula_value_add_member(TegulaValue *cls, const char *name, int32_t role, TegulaValue *member);
/* A jit or constexpr function. The value keeps the function alive. */
TEGULA_API TegulaValue *tegula_value_function(TegulaFunction *function);
/* One of the language's own modules: "triton", "triton.language", "triton.language.math", "math", ... */
TEGULA_API TegulaValue *tegula_value_module(const char *dotted_name);
/* A module whose attributes the caller knows. `resolve` gives one reference to the value of an attribute, or NULL if there is none; it is
 * called while compiling, from any thread, and the first answer for an attribute counts. `destroy` (may be NULL) is called when the
 * module is no longer used. */
typedef TegulaValue *(*TegulaResolveFn)(void *user, const char *attribute);
TEGULA_API TegulaValue *tegula_value_dynamic_module(const char *name, TegulaResolveFn resolve, void (*destroy)(void *user),
                                                    void *user);
/* Attribute of a module (functions, dtypes, submodules of the language: the "sum" of "triton.language"). NULL if there is none. */
TEGULA_API TegulaValue *tegula_value_attribute(TegulaValue *module, const char *name);
/* The names that `from m import *` binds of one of the language's own modules, sorted, one a line; `*names` is freed with tegula_free. TEGULA_NOT_FOUND: there
 * is no such module. */
TEGULA_API TegulaStatus tegula_module_names(const char *dotted_name, char **names);
/* An object that only the caller understands (a member of an enumeration, a class): can be passed on, compared (by id) and printed. */
TEGULA_API TegulaValue *tegula_value_opaque(const char *name, uint64_t id);
/* The same with attributes that kernels may read (the name and value of a member of an enumeration, the fields of a configuration); they are a part of
 * what is compared. `bare`: 0: as in a tl.constexpr, whose attribute `value` is the object itself. */
TEGULA_API TegulaValue *tegula_value_object(const char *name, uint64_t id, const char *const *names, TegulaValue *const *values, size_t n, int32_t bare);
/* An int or string that is the member `object` of an enumeration (Python's IntEnum, StrEnum): it computes and compares as `value`, and has the attributes of
 * `object`. Its attributes "repr of the host", "str of the host" and "format of the host", if there are any, are what repr(), str() and format() give. */
TEGULA_API TegulaValue *tegula_value_member(TegulaValue *value, TegulaValue *object);
/* A literal as `-c NAME=...` takes it: integer, float, true/false/none in either spelling, dtype name, 'quoted' or "quoted" string. */
TEGULA_API TegulaValue *tegula_value_parse(const char *text);

TEGULA_API void tegula_value_retain(TegulaValue *value);
TEGULA_API void tegula_value_release(TegulaValue *value);
TEGULA_API int32_t tegula_value_kind(const TegulaValue *value);
/* As Python's repr() shows it. Lives as long as the value. */
TEGULA_API const char *tegula_value_repr(TegulaValue *value);
/* Of bools and ints that fit; else TEGULA_INVALID_ARGUMENT. */
TEGULA_API TegulaStatus tegula_value_as_int(const TegulaValue *value, int64_t *out);
/* Of any number. */
TEGULA_API TegulaStatus tegula_value_as_float(const TegulaValue *value, double *out);

/* --------------------------------------------------------------------------------------------------- modules and functions */

/* Parses a file of kernels and binds its top-level names; host code in it is skipped, never run. Imports of sibling files are followed.
 * TEGULA_NOT_FOUND / TEGULA_IO_ERROR if it cannot be read, TEGULA_COMPILE_ERROR for syntax errors (all of them are reported). */
TEGULA_API TegulaStatus tegula_module_from_file(TegulaContext *context, const char *path, TegulaModule **out);
/* The same from memory; `name` stands in messages in place of a path. */
TEGULA_API TegulaStatus tegula_module_from_text(TegulaContext *context, const char *name, const char *text, size_t length,
                                                TegulaModule **out);
/* A range [begin, end) of a text that a program wrote, and the place in its own source that wrote it (1-based, in bytes). */
typedef struct TegulaOrigin {
  uint32_t begin, end;
  const char *file;
  uint32_t line, column;
} TegulaOrigin;
/* A kernel that a program wrote down as text, as tegula/tile.hpp does: messages, remarks, faults and debuggers show the places of the smallest
 * origins. Origins are nested or apart. `name` is the kernel's. Variables `_v1` and functions `_f1` that the text defines (any number, any further underscores)
 * get the names of the program's variables, where its file can be read. */
TEGULA_API TegulaStatus tegula_module_from_trace(TegulaContext *context, const char *name, const char *text, size_t length,
                                                 const TegulaOrigin *origins, size_t origin_count, TegulaModule **out);
TEGULA_API void tegula_module_retain(TegulaModule *module);
TEGULA_API void tegula_module_release(TegulaModule *module);
/* Jit functions at the top level, in order. */
TEGULA_API size_t tegula_module_kernel_count(const TegulaModule *module);
/* NULL if out of range. */
TEGULA_API const char *tegula_module_kernel_name(const TegulaModule *module, size_t index);
/* The kernel of that name; asking twice gives the same function (and its cache). TEGULA_NOT_FOUND names the nearest ones. */
TEGULA_API TegulaStatus tegula_module_function(TegulaModule *module, const char *name, TegulaFunction **out);
/* What the name `name` of the module's file is, whatever the file says: a function of another module, a traced kernel's included. So kernels in C++ call those of .py
 * files, and those of .py files call C++. Set-up, before a function of the module is asked for; no two modules may be bound to each other. */
TEGULA_API TegulaStatus tegula_module_bind(TegulaModule *module, const char *name, TegulaFunction *function);
/* A kernel by its name: "kernels.py::add" of a file, which is read; "add" of a module of the context that somebody still holds. TEGULA_NOT_FOUND; TEGULA_INVALID_ARGUMENT
 * if several modules have one. */
TEGULA_API TegulaStatus tegula_context_function(TegulaContext *context, const char *name, TegulaFunction **out);
/* Everything that can be said without argument types (`tegula check`). TEGULA_COMPILE_ERROR if there are errors. */
TEGULA_API TegulaStatus tegula_module_check(TegulaModule *module);

/* PLAIN: undecorated, for constexpr functions to call. BUILTIN: runs at compile time too, but may be handed run-time values. */
enum { TEGULA_FUNCTION_JIT = 0, TEGULA_FUNCTION_CONSTEXPR = 1, TEGULA_FUNCTION_PLAIN = 2, TEGULA_FUNCTION_BUILTIN = 3 };

/* A function handed over as text, by a binding that has live function objects. */
typedef struct TegulaFunctionSource {
  size_t size;
  const char *file;       /* of the user, for messages and debug info */
  const char *text;       /* the `def`, with or without decorators; common indentation is fine */
  size_t length;
  uint32_t first_line;    /* line number of the first line of `text` in the file, 1-based */
  int32_t kind;           /* TEGULA_FUNCTION_* */
  int32_t noinline_;      /* 0 or 1 */
  const char *must_use;   /* not NULL: the result must be used; the text is the hint ("" for none) */
  /* Parameter names, as in the decorator. */
  const char *const *do_not_specialize;
  size_t do_not_specialize_count;
  const char *const *do_not_specialize_on_alignment;
  size_t do_not_specialize_on_alignment_count;
  int32_t exact;          /* 0 or 1: arithmetic as written; no product is fused into a sum, no integer checked for overflow */
  /* What annotates each parameter ("constexpr", "i64", "*fp32", "" for nothing), if annotation_count is their number; else the text says it. For
   * languages in which an annotation is an object that may have another name in the text. */
  const char *const *annotations;
  size_t annotation_count;
} TegulaFunctionSource;

/* The function's captured names are bound afterwards; it must not be compiled before. */
TEGULA_API TegulaStatus tegula_function_create(TegulaContext *context, const TegulaFunctionSource *source,
                                               TegulaFunction **out);
TEGULA_API void tegula_function_retain(TegulaFunction *function);
TEGULA_API void tegula_function_release(TegulaFunction *function);
TEGULA_API const char *tegula_function_name(const TegulaFunction *function);
/* Names that the text reads and does not define: what has to be bound (names of Python builtins included: leave those unbound). */
TEGULA_API size_t tegula_function_free_name_count(const TegulaFunction *function);
TEGULA_API const char *tegula_function_free_name(const TegulaFunction *function, size_t index);
/* Binds a captured name. `allowed` = 0: the global exists but may not be used in a kernel (a plain int ...), and using it is an error that
 * says so. Functions may refer to each other and to themselves. Set-up; TEGULA_INVALID_ARGUMENT after the first compile. */
TEGULA_API TegulaStatus tegula_function_bind(TegulaFunction *function, const char *name, TegulaValue *value, int32_t allowed);
/* Replaces the default of a parameter (those that are literals in the text are known already). Set-up. */
TEGULA_API TegulaStatus tegula_function_set_default(TegulaFunction *function, size_t parameter, TegulaValue *value);
/* Gives the name that a kernel has for debuggers and profilers, as NUL-terminated text of at most `size` bytes; 0 if it cannot; negative: the
 * function's own will do. Called before each compilation, on the compiling thread; `signature` as of TegulaKernelInfo. What follows the last
 * dot must be an identifier. */
typedef int32_t (*TegulaNamer)(void *user, const char *signature, char *name, size_t size);
/* Without it, or with null, kernels are named after the function. Set-up. */
TEGULA_API TegulaStatus tegula_function_set_namer(TegulaFunction *function, TegulaNamer namer, void *user);
/* Calls `end` when the function is no more, on the thread that gives it up last: for what a namer's `user` holds. At any time; all that were
 * given are called, the last one first. */
TEGULA_API TegulaStatus tegula_function_at_end(TegulaFunction *function, void (*end)(void *user), void *user);
/* 64 hexadecimal digits (or fewer): hash of the text and of everything reachable from it. Ends set-up. */
TEGULA_API const char *tegula_function_hash(TegulaFunction *function);

enum {
  TEGULA_PARAM_CONSTEXPR = 1,                    /* annotated tl.constexpr */
  TEGULA_PARAM_VARIADIC = 2,                     /* *args: takes a tuple */
  TEGULA_PARAM_POINTER = 4,                      /* annotated as a pointer; `dtype` is the pointee */
  TEGULA_PARAM_CONST = 8,                        /* annotated as a pointer to const */
  TEGULA_PARAM_DO_NOT_SPECIALIZE = 16,
  TEGULA_PARAM_DO_NOT_SPECIALIZE_ON_ALIGNMENT = 32
};
typedef struct TegulaParam {
  const char *name;
  uint32_t flags;               /* TEGULA_PARAM_* */
  TegulaDtype dtype;            /* annotated element type, TEGULA_VOID if none */
  TegulaValue *default_value;   /* borrowed from the function; NULL if there is none, or while the function is being set up */
} TegulaParam;
TEGULA_API size_t tegula_function_param_count(const TegulaFunction *function);
TEGULA_API TegulaStatus tegula_function_param(const TegulaFunction *function, size_t index, TegulaParam *out);

/* ------------------------------------------------------------------------------------------------------------- arguments */

enum {
  TEGULA_ARG_MISSING = 0, /* the parameter's default is used */
  TEGULA_ARG_POINTER = 1, /* `dtype` the element type, `u.ptr` the address on the device, `extent` in bytes */
  TEGULA_ARG_INT = 2,     /* `u.i`; becomes i32 if it fits, else i64; 1 is folded, divisibility by 16 noticed */
  TEGULA_ARG_UINT = 3,    /* `u.u` in [2^63, 2^64): becomes u64. (Smaller ones are taken as TEGULA_ARG_INT.) */
  TEGULA_ARG_FLOAT = 4,   /* `u.f`; becomes fp32 unless the parameter is annotated otherwise */
  TEGULA_ARG_BOOL = 5,    /* `u.i` 0 or 1; becomes i1 */
  TEGULA_ARG_NONE = 6,    /* None, a compile-time value */
  TEGULA_ARG_VALUE = 7,   /* `u.value`: a compile-time object (borrowed for the call), for any parameter */
  TEGULA_ARG_TUPLE = 8    /* `count` items at `u.items`, each specialised by itself; `u2.cls` not NULL: a namedtuple of that class */
};
enum {
  TEGULA_ARG_READ_ONLY = 1, /* the memory must not be written: a kernel that stores through it is refused before it runs */
  /* POINTER: kernels may go 2^30 elements and more from the address, in either direction, whatever `extent` says: their offsets are computed
   * in 64 bits, as they are where `extent` is that large */
  TEGULA_ARG_WIDE = 2,
  /* POINTER: all bytes of `extent` belong to the tensor, as they do unless its strides leave gaps. tegula_kernel_launch then refuses a kernel that writes to one of
   * two arguments that share elements at different places, unless it was compiled for that ("~1" in signatures) */
  TEGULA_ARG_DENSE = 4
};

/* One argument; 24 bytes, no ownership: everything pointed to must live until the call returns. */
typedef struct TegulaArg {
  uint8_t kind;       /* TEGULA_ARG_* */
  TegulaDtype dtype;  /* POINTER: of the elements. INT, FLOAT: forces the type; TEGULA_VOID = by the rules of the language */
  uint16_t flags;     /* TEGULA_ARG_READ_ONLY, TEGULA_ARG_WIDE, TEGULA_ARG_DENSE */
  uint32_t count;     /* TUPLE: number of items */
  union {
    void *ptr;
    int64_t i;
    uint64_t u;
    double f;
    const struct TegulaArg *items;
    TegulaValue *value;
  } u;
  union {
    /* POINTER: bytes from `ptr` on that may be accessed; -1 = unknown (checked mode: nothing is checked). Kernels are compiled in two forms: one
     * whose int32 offsets may be computed in 32 bits, and one (2^30 elements or more, or TEGULA_ARG_WIDE) where int32 arithmetic that leads
     * to an offset or a mask does not wrap around. */
    int64_t extent;
    TegulaValue *cls; /* TUPLE: class, or NULL */
  } u2;
} TegulaArg;

static inline TegulaArg tegula_ptr(void *address, TegulaDtype dtype, int64_t bytes) {
  TegulaArg a = {TEGULA_ARG_POINTER, dtype, 0, 0, {NULL}, {0}};
  a.u.ptr = address;
  a.u2.extent = bytes;
  return a;
}
static inline TegulaArg tegula_const_ptr(const void *address, TegulaDtype dtype, int64_t bytes) {
  TegulaArg a = tegula_ptr((void *)address, dtype, bytes);
  a.flags = TEGULA_ARG_READ_ONLY;
  return a;
}
static inline TegulaArg tegula_int(int64_t value) {
  TegulaArg a = {TEGULA_ARG_INT, TEGULA_VOID, 0, 0, {NULL}, {0}};
  a.u.i = value;
  return a;
}
static inline TegulaArg tegula_float(double value) {
  TegulaArg a = {TEGULA_ARG_FLOAT, TEGULA_VOID, 0, 0, {NULL}, {0}};
  a.u.f = value;
  return a;
}
static inline TegulaArg tegula_bool(int32_t value) {
  TegulaArg a = {TEGULA_ARG_BOOL, TEGULA_VOID, 0, 0, {NULL}, {0}};
  a.u.i = value != 0;
  return a;
}
static inline TegulaArg tegula_constant(TegulaValue *value) {
  TegulaArg a = {TEGULA_ARG_VALUE, TEGULA_VOID, 0, 0, {NULL}, {0}};
  a.u.value = value;
  return a;
}

/* A tensor descriptor as argument: where a tensor lies, and the block that the kernel reads and writes of it at a time. Kernels are compiled
 * for the element type, block shape and padding; base, shape and strides are run-time arguments. */
enum {
  TEGULA_PADDING_ZERO = 0, /* what elements outside of the tensor read as */
  TEGULA_PADDING_NAN = 1,
  TEGULA_ROUND_TF32 = 2 /* to be added to the padding: float32 is rounded to tf32 (nearest even) when it is read */
};
/* Memory for one such argument; its contents are the library's. */
typedef struct TegulaTensorDescriptor {
  TegulaArg parts[24];
} TegulaTensorDescriptor;
/* Makes an argument of its parts (arrays of `rank` numbers, outermost dimension first; strides in elements). It is good for as
 * long as `storage` lives and stays where it is. TEGULA_INVALID_ARGUMENT unless there are 1 to 5 dimensions, the base is a pointer aligned to 16
 * bytes, all strides but the last are multiples of 16 bytes and the last is 1, extents are positive, and block extents are powers of
 * two with at least 16 bytes in the last dimension. */
TEGULA_API TegulaStatus tegula_tensor_descriptor(TegulaTensorDescriptor *storage, TegulaArg base, size_t rank, const int64_t *shape,
                                                 const int64_t *strides, const int64_t *block_shape, int32_t padding, TegulaArg *out);

/* ---------------------------------------------------------------------------------------------------- compiling, launching */

/* Memory around an address. */
typedef struct TegulaMemory {
  void *begin;
  uint64_t bytes;
} TegulaMemory;
/* Gives the memory that a pointer argument is a view of, which begins at or before its address: a tensor's storage. 0: only what the argument says
 * is known. Called on the launching thread during the launch, and only by launches whose accesses are checked (checked mode, the simulator);
 * `arg` is the element of the call's array, or of a tuple in it. Must not call tegula functions. */
typedef int32_t (*TegulaMemoryFn)(void *user, const TegulaArg *arg, TegulaMemory *out);

/* Options of a launch. All zero but `size`, device and the tri-states is the default; the GPU ones are accepted and ignored by the CPU. */
typedef struct TegulaLaunchOptions {
  size_t size;
  int32_t num_warps;          /* 0: 4. A power of two */
  int32_t num_stages;         /* 0: 3 */
  int32_t num_ctas;           /* 0: 1 */
  int32_t maxnreg;            /* 0: no cap */
  int32_t num_threads;        /* CPU threads of this launch; 0: the context's. Not part of the cache key */
  int32_t device;             /* index of the device. -1: $TEGULA_DEVICE, else the GPU that the first device pointer belongs to, else the CPU */
  int32_t language_level;     /* whose rules hold where versions of Triton differ: 36, 37, 39; 0: $TEGULA_TRITON_LEVEL, else 39 */
  int8_t strict;              /* tri-state: extensions that Triton does not have are refused; TEGULA_DEFAULT follows $TEGULA_STRICT */
  int8_t wide_offsets;        /* 1: as if an argument had TEGULA_ARG_WIDE; 0: the arguments say. For tegula_compile_signature and tegula_emit, too */
  int8_t keep_subnormals;     /* 1: float32 exp2 and the fast functions of libdevice keep subnormal numbers on a GPU, where they are 0 otherwise */
  int8_t clusters;            /* GPU: 1: with num_ctas 1 the compiler may share the long rows of a program among the blocks of a cluster; -1: it may not; 0: $TEGULA_CLUSTERS says (unset: it may) */
  int8_t debug;               /* tri-state: device_assert and `assert` active */
  int8_t checked;             /* tri-state: accesses checked */
  int8_t debug_info;          /* tri-state: DWARF for gdb; TEGULA_DEFAULT follows `debug` of the context or environment */
  int8_t fp_fusion;           /* tri-state: a*b+c may become fma; default on */
  int8_t sanitize_overflow;   /* tri-state: with debug, integer overflow is a fault; default on */
  int8_t opt_level;           /* 0..3, TEGULA_DEFAULT: 2 */
  int8_t cooperative;         /* GPU: all programs run at once, or the launch is refused */
  int8_t programmatic_launch; /* GPU: may start before the kernel in front of it in the stream has ended */
  double hang_s;              /* CPU, simulator: seconds after which a launch that makes no progress (no program ends or gets past a loop in
                               * which it waits) ends with TEGULA_FAULT; 0: $TEGULA_HANG_S, else never; negative: never. No key part */
  void *stream;               /* GPU: CUstream (cudaStream_t) of the device, NULL the default stream; else NULL or a tegula_stream_handle of the device */
  TegulaMemoryFn memory;      /* NULL: arguments may go as far as their `extent` */
  void *memory_user;
  int64_t programs;           /* programs of the launches to come, for tegula_compile, tegula_compile_signature and tegula_emit: some GPU code depends on how many
                               * there are; 0: not known. tegula_launch has its grid */
  const char *integers;       /* "n=4096, m=16": values of integer parameters of the launches to come, for tegula_compile_signature and tegula_emit; NULL: not known */
} TegulaLaunchOptions;
#define TEGULA_LAUNCH_OPTIONS_INIT \
  {sizeof(TegulaLaunchOptions), 0, 0, 0, 0, 0, -1, 0, -1, 0, 0, 0, -1, -1, -1, -1, -1, -1, 0, 0, 0, NULL, NULL, NULL, 0, NULL}

/* Runs grid[0] * grid[1] * grid[2] programs of the kernel, compiling it first if this combination of argument types, facts, constants
 * and options is new. `args[i]` is for parameter i; missing ones at the end take their defaults. On the CPU the call returns
 * when all programs have run, unless the options have a stream. A grid with a 0 compiles and runs nothing; a negative extent, or more than 2^31 - 1 in
 * one dimension or 2^62 programs in all, is TEGULA_INVALID_ARGUMENT. On a GPU the call queues the launch on the stream and returns (it may be captured into
 * a CUDA graph); pointers must be accessible from that GPU, and an error of the running kernel comes back from a later call. `options` may be NULL. `kernel` may be NULL; else it gets
 * the compiled kernel, borrowed from the function (retain it to keep it longer). */
TEGULA_API TegulaStatus tegula_launch(TegulaFunction *function, const int64_t grid[3], const TegulaArg *args, size_t arg_count,
                                      const TegulaLaunchOptions *options, TegulaKernel **kernel);
/* A launch that is made again and again: of one kernel, for one class of arguments (types, divisibility by 16, being 1, which pointers share memory, constants), with one set of options. What a launch
 * looks up is looked up once, and a call compares its arguments with the class while it packs them. It keeps its function, kernel and context alive, and no memory that arguments point to.
 * It never changes: any number of threads may launch it at once. */
typedef struct TegulaBoundLaunch TegulaBoundLaunch;
/* Finds the kernel for these arguments and options as tegula_launch does (in memory, a bundle, the cache, by compiling), without running it. `options`, which may be NULL, hold for all calls but
 * for what those say themselves. A loop with split="auto" is shared by as many blocks as this grid leaves idle, whatever grids come later. */
TEGULA_API TegulaStatus tegula_bound_create(TegulaFunction *function, const int64_t grid[3], const TegulaArg *args, size_t arg_count, const TegulaLaunchOptions *options, TegulaBoundLaunch **out);
TEGULA_API void tegula_bound_retain(TegulaBoundLaunch *bound);
TEGULA_API void tegula_bound_release(TegulaBoundLaunch *bound);
/* The kernel, borrowed. */
TEGULA_API TegulaKernel *tegula_bound_kernel(const TegulaBoundLaunch *bound);
/* Launches it. `args[i]` is for parameter i; what is TEGULA_ARG_MISSING, or missing at the end, is as it was bound, and with an `arg_count` of 0 all are, whose memory must then still be there. `grid` NULL: as it
 * was bound. Of `options` (NULL: as bound) stream and memory matter. Arguments of another class are TEGULA_INVALID_ARGUMENT, and the text names the first one: nothing is compiled or run. Otherwise as tegula_launch; a call
 * on a stream that is being captured becomes a node of the CUDA graph. */
TEGULA_API TegulaStatus tegula_bound_launch(TegulaBoundLaunch *bound, const int64_t grid[3], const TegulaArg *args, size_t arg_count, const TegulaLaunchOptions *options);
/* The same for callers whose arguments always have the types that were bound, element types and constness of pointers among them. `words[i]` holds the i-th argument that is no constant: an address, or a number as it
 * lies in memory, followed by anything. `extents[j]` are the bytes behind the j-th pointer among them, -1: not known. 1: it was launched, and `status` says what became of it. 0: nothing was done, and tegula_bound_launch takes or refuses
 * the arguments: they are of another class, share memory, or this launch takes none as words. */
TEGULA_API int32_t tegula_bound_launch_words(TegulaBoundLaunch *bound, const int64_t grid[3], const uint64_t *words, size_t count, const int64_t *extents, size_t pointer_count, const TegulaLaunchOptions *options,
                                             TegulaStatus *status);
/* The same without running: specialises, compiles, loads. Pointers may be NULL (taken as aligned). Gives a reference. */
TEGULA_API TegulaStatus tegula_compile(TegulaFunction *function, const TegulaArg *args, size_t arg_count,
                                       const TegulaLaunchOptions *options, TegulaKernel **out);

typedef struct TegulaNamedValue {
  const char *name;
  TegulaValue *value;
} TegulaNamedValue;

/* Compiles for a target from a description of the arguments, with no device. `signature` holds one item per parameter that is neither in
 * `constants` nor has a default, in any order: "x:*f32:16, n:i32, stride:1" is name:type[:divisibility] or name:literal (a value known at
 * compile time); a tuple is (item, item), a named one Name(field=item, field=item). "out:*f32:16:x" is the buffer of `x`, an earlier pointer of that type: the kernel then takes one buffer for both only, and
 * a program sees through each what it wrote through the other, as launches that give one pointer twice do by themselves. "x:*f32:16:~1, y:*f32:~1" are pointers, items of tuples too,
 * whose memory may overlap with that of others with the same number in any way, as launches notice it where extents are known; behind a tensor descriptor it is said of its base. The type of a tensor descriptor is tensordesc<f16[128, 64]>, with :nan for that padding, :tf32 for that
 * rounding and :16 for what divides its extents and strides, or :[1, 16; 16] for each extent and each stride but the last. So TegulaKernelInfo::signature can be read back, unless it has aggregates or functions.
 * `target` as `-t` takes it; NULL: this machine. The kernel can be launched if the machine can run the target, else tegula_kernel_launch says
 * TEGULA_UNSUPPORTED. */
TEGULA_API TegulaStatus tegula_compile_signature(TegulaFunction *function, const char *signature,
                                                 const TegulaNamedValue *constants, size_t constant_count, const char *target,
                                                 const TegulaLaunchOptions *options, TegulaKernel **out);
/* Compiles the text of tile IR: what stage "tile" of a kernel shows, or the like by hand; `name` stands in messages in place of a file. Its kernel
 * takes the run-time arguments alone, in order. `target` as for tegula_compile_signature. TEGULA_COMPILE_ERROR if the text is wrong. */
TEGULA_API TegulaStatus tegula_compile_tile(TegulaContext *context, const char *name, const char *text, size_t length, const char *target,
                                            const TegulaLaunchOptions *options, TegulaKernel **out);
/* Runs the compiler only as far as `stage` (see tegula_kernel_asm) and gives its text or bytes. `*text` is NUL-terminated (the NUL is not
 * counted in `*length`) and is freed with tegula_free. */
TEGULA_API TegulaStatus tegula_emit(TegulaFunction *function, const char *signature, const TegulaNamedValue *constants,
                                    size_t constant_count, const char *target, const TegulaLaunchOptions *options,
                                    const char *stage, char **text, size_t *length);
TEGULA_API void tegula_free(void *memory);

/* --------------------------------------------------------------------------------------------------------------- kernels */

TEGULA_API void tegula_kernel_retain(TegulaKernel *kernel);
TEGULA_API void tegula_kernel_release(TegulaKernel *kernel);

enum {
  TEGULA_FROM_COMPILER = 0,  /* compiled by this process */
  TEGULA_FROM_DISK_CACHE = 1,
  TEGULA_FROM_BYTES = 2,     /* tegula_kernel_load */
  TEGULA_FROM_BUNDLE = 3     /* tegula_context_load_bundle */
};

typedef struct TegulaKernelInfo {
  size_t size;
  const char *name;          /* of the kernel function */
  const char *symbol;        /* of the entry point in the object file */
  const char *hash;          /* 64 hexadecimal digits: the cache key */
  const char *target;        /* "cpu:avx512bf16" */
  const char *signature;     /* "x:*fp32:16, n:i32, BLOCK:1024": parameters as specialised, in order */
  int32_t num_warps, num_stages, num_ctas;
  int32_t checked, debug, debug_info;
  int32_t origin;            /* TEGULA_FROM_* */
  uint32_t arg_count;        /* runtime arguments */
  uint64_t scratch_bytes;    /* per thread */
  uint64_t object_bytes;     /* size of the object file */
  uint64_t code_bytes;       /* machine code in memory; 0 if not loaded */
  /* GPU, else 0. Registers and spills are known once code was assembled or loaded. */
  uint32_t threads;          /* per block */
  uint32_t cluster_ctas;     /* blocks that work on one program */
  uint32_t registers, spill_bytes, local_bytes; /* per thread */
  uint32_t shared_bytes;     /* per block */
  uint32_t blocks_per_core;  /* that fit on one multiprocessor; 0 if not loaded */
} TegulaKernelInfo;
/* `out->size` must be set. Text lives as long as the kernel. */
TEGULA_API TegulaStatus tegula_kernel_info(TegulaKernel *kernel, TegulaKernelInfo *out);
/* The same, and the arguments with types and offsets, as one JSON object. */
TEGULA_API const char *tegula_kernel_metadata_json(TegulaKernel *kernel);

/* What the compiler has to say about a kernel that is no mistake: an access that is not vectorized, a loop that is not pipelined, registers
 * that are spilled. Lines and columns are 1-based, 0 = no place. Text lives as long as the kernel. */
typedef struct TegulaRemark {
  const char *kind;    /* stable name, "notVectorized" */
  const char *message; /* one sentence */
  const char *file;    /* "" if unknown */
  uint32_t line, column;
} TegulaRemark;
TEGULA_API size_t tegula_kernel_remark_count(TegulaKernel *kernel);
TEGULA_API TegulaStatus tegula_kernel_remark(TegulaKernel *kernel, size_t index, TegulaRemark *out);

/* What a stage made: "source", "ast" (syntax tree), "tree" (instantiated tree with types), "tile" (tile IR after the passes); for CPUs
 * "cpu" (plan of loops), "llvm", "asm", "obj" (bytes); for GPUs "gpu" (IR with layouts), "llvm", "ptx", "cubin" (bytes); for the
 * simulator "gpu", "llvm", "obj". Stages other than source and what was loaded are made anew on the first request and then kept; text lives as
 * long as the kernel. TEGULA_NOT_FOUND lists the names. */
TEGULA_API TegulaStatus tegula_kernel_asm(TegulaKernel *kernel, const char *stage, const char **text, size_t *length);
/* The same function for the same arguments, constants and options on another target (as `-t` takes it): to look at, not to launch. Gives a
 * reference. */
TEGULA_API TegulaStatus tegula_kernel_compile_for(TegulaKernel *kernel, const char *target, TegulaKernel **out);
/* Names of all stages in order; NULL beyond the last. And those of one kernel. */
TEGULA_API const char *tegula_stage_name(size_t index);
TEGULA_API const char *tegula_kernel_stage_name(TegulaKernel *kernel, size_t index);

/* Nanoseconds spent making the kernel, by stage; all 0 but load and total for one that came from the disk. */
typedef struct TegulaTimings {
  size_t size;
  uint64_t parse;    /* of the file or function it came from */
  uint64_t sema;     /* instantiation */
  uint64_t passes;
  uint64_t plan;     /* tile IR to loop nests */
  uint64_t emit;     /* loop nests to LLVM IR */
  uint64_t optimize; /* LLVM's optimizer */
  uint64_t codegen;  /* LLVM IR to object file */
  uint64_t load;     /* object file to callable code */
  uint64_t total;    /* from the call to the kernel, parse and cache look-up included */
  uint64_t assemble; /* GPU: PTX to cubin */
} TegulaTimings;
TEGULA_API TegulaStatus tegula_kernel_timings(TegulaKernel *kernel, TegulaTimings *out);

/* Launches a compiled kernel: as tegula_launch, without looking for a specialisation. `args` are those of the function's parameters;
 * constants are ignored, and an argument that breaks a fact the kernel was specialised on (type, divisibility, value 1, fewer than 2^30
 * elements) is TEGULA_INVALID_ARGUMENT. Of `options` (may be NULL) only num_threads, stream, hang_s and memory matter. */
TEGULA_API TegulaStatus tegula_kernel_launch(TegulaKernel *kernel, const int64_t grid[3], const TegulaArg *args, size_t arg_count,
                                             const TegulaLaunchOptions *options);

/* What a launch would take, by the cost model (docs/autotuning.md): `*ns` nanoseconds on the device that the kernel was compiled for, from counts of
 * its work and a table of devices. Nothing is launched or measured, and no device need be there: a kernel for sm_90a is estimated for the device of its
 * context, else for the first GPU of that capability in the table; one for the simulator as if for the GPU. Made to compare forms of one kernel: equal
 * inputs give equal numbers, on every machine. `args` as for tegula_kernel_launch; memory behind pointers isn't touched, only its extent counts, and the
 * address may be null. Of `options` (may be NULL) only num_threads matters, on CPUs. `*why` (`why` may be NULL) says what bounds the launch, then
 * what was counted, a line each; it lives until the next estimate of the thread. TEGULA_UNSUPPORTED: nothing is known of the kernel's work. */
TEGULA_API TegulaStatus tegula_kernel_estimate(TegulaKernel *kernel, const int64_t grid[3], const TegulaArg *args, size_t arg_count,
                                               const TegulaLaunchOptions *options, double *ns, const char **why);

/* As tegula_compile, without code, in a few hundredths of the time: a kernel that can be estimated (as far as that does not take what the assembler alone
 * knows: registers, spills) and asked what it is, and that cannot be launched or saved. Each call makes one anew; no cache has it. */
TEGULA_API TegulaStatus tegula_sketch(TegulaFunction *function, const TegulaArg *args, size_t arg_count, const TegulaLaunchOptions *options,
                                      TegulaKernel **out);

/* The kernel as bytes: code, arguments and options, and the stages that were asked for so far. `*bytes` is freed with tegula_free. */
TEGULA_API TegulaStatus tegula_kernel_save(TegulaKernel *kernel, char **bytes, size_t *length);
/* The kernel that was saved so, in this process or another one of the same version of the library. `context` NULL: one that all such calls of the
 * process share, made with the default options and never destroyed. `device` is what it will be launched on, by
 * index; -1: any that runs its code. If none does, it can be looked at, not launched. Of stages it has the code and those that were saved; it
 * cannot be compiled for another target. The code is executed as it is: load what you trust. TEGULA_INVALID_ARGUMENT: the bytes are damaged;
 * TEGULA_UNSUPPORTED: of another version, or not for that device. */
TEGULA_API TegulaStatus tegula_kernel_load(TegulaContext *context, const char *bytes, size_t length, int32_t device, TegulaKernel **out);

/* ---------------------------------------------------------------------------------------------------------------- tuning */

/* One configuration of a kernel: values for some of its parameters, options for its launches. */
typedef struct TegulaConfig {
  size_t size;
  const TegulaNamedValue *values; /* of constexpr parameters */
  size_t value_count;
  int32_t num_warps, num_stages, num_ctas, maxnreg; /* as in TegulaLaunchOptions; 0: what the launch says */
  TegulaFunction *function;       /* launched in this configuration: one with the same parameters, whose text knows the values already (tegula_module_from_trace). NULL: the tuner's */
} TegulaConfig;

typedef struct TegulaTuner TegulaTuner; /* a kernel with configurations, and which of them is fastest for which arguments */

typedef struct TegulaTunerOptions {
  size_t size;
  const char *const *key;  /* parameters for whose values a choice is good; NULL: all numbers that are arguments. Types of pointers always count */
  size_t key_count;
  int8_t deterministic;    /* tri-state: the cost model chooses, nothing is timed; TEGULA_DEFAULT: $TEGULA_TUNE is "deterministic" */
  int8_t validate;         /* tri-state: configurations whose results differ from those of more than half of all are not used; default on */
  int8_t progress;         /* tri-state: a line about the progress on stderr; TEGULA_DEFAULT: if that is a terminal */
  int8_t persist;          /* tri-state: results are kept in, and taken from, the user's and the project's files (docs/autotuning.md); default on */
  uint32_t top_k;          /* only so many are timed, which the cost model likes best; 0: all */
  double budget_ms;        /* no further configuration is timed after so long; 0: all are */
  double compile_timeout_s; /* a configuration that takes longer to compile is left out; 0: 30 */
  uint64_t copy_bytes;     /* memory for copies of what kernels change; 0: $TEGULA_TUNE_BYTES, else 4 GiB */
  int8_t search;           /* tri-state: the model and what was measured say which configurations are compiled and timed (docs/autotuning.md, "Search"); then
                            * the budget is that of the whole search, compilation included. TEGULA_DEFAULT: spaces of more than 32 configurations are searched,
                            * of smaller ones and of lists all are timed */
  uint8_t cuda_graph;      /* 1: GPUs are timed by rows of launches in CUDA graphs, with warm caches, where launches can be recorded; else one by one, with a warning */
  int8_t reserved[6];
} TegulaTunerOptions;
#define TEGULA_TUNER_OPTIONS_INIT {sizeof(TegulaTunerOptions), NULL, 0, -1, -1, -1, -1, 0, 0, 0, 0, -1, 0, {0}}

/* `options` may be NULL. Everything is copied; `size` of the first configuration is the distance between them. TEGULA_INVALID_ARGUMENT if there are no configurations, or one names no constexpr parameter. */
TEGULA_API TegulaStatus tegula_tuner_create(TegulaFunction *function, const TegulaConfig *configs, size_t count, const TegulaTunerOptions *options,
                                            TegulaTuner **out);
/* Values of one parameter, or, if the function has no parameter of that name, of num_warps, num_stages, num_ctas or maxnreg. */
typedef struct TegulaAxis {
  const char *name;
  const char *text; /* values separated by commas: what tegula_value_parse takes, powers(16, 128) (16, 32, 64, 128), range(1, 4) (1, 2, 3), range(0, 64, 16);
                     * NULL: `values` are given */
  TegulaValue *const *values;
  size_t value_count;
} TegulaAxis;
/* Configurations as a product: one value of each axis, where that is one. */
typedef struct TegulaSpace {
  size_t size;
  const TegulaAxis *axes;
  size_t axis_count;
  /* Is this a configuration? 1: yes, 0: no, less: it cannot be told, which ends the call with the error of tegula_fail(). NULL: all are. */
  int32_t (*where)(void *user, const TegulaConfig *config);
  void *user;
} TegulaSpace;
/* As tegula_tuner_create with the configurations of a space, at most 100000 of them, the last axis changing fastest. `space` NULL: at the first launch with
 * a new key tegula_propose makes one. */
TEGULA_API TegulaStatus tegula_tuner_create_space(TegulaFunction *function, const TegulaSpace *space, const TegulaTunerOptions *options, TegulaTuner **out);
TEGULA_API void tegula_tuner_retain(TegulaTuner *tuner);
TEGULA_API void tegula_tuner_release(TegulaTuner *tuner);

/* Gives the grid for a configuration; nonzero if there is none, which ends the launch with TEGULA_INVALID_ARGUMENT. */
typedef int32_t (*TegulaGridFn)(void *user, const TegulaConfig *config, int64_t grid[3]);
/* As tegula_launch, with the configuration that is fastest for such arguments; arguments for its parameters are ignored (TEGULA_ARG_MISSING will do).
 * The first launch with a new key tunes: compiles the configurations on all cores and runs them on the arguments given, whose memory
 * is set back before every run and at the end, so that the kernel has run once when the call returns. Configurations that need too many
 * resources or fail a static_assert take no part. A run that fails ends it with that run's status; the text names the configuration. */
TEGULA_API TegulaStatus tegula_tuner_launch(TegulaTuner *tuner, TegulaGridFn grid, void *user, const TegulaArg *args, size_t arg_count,
                                            const TegulaLaunchOptions *options, TegulaKernel **kernel);
/* The same without the launch: index of the configuration, tuning if need be. */
TEGULA_API TegulaStatus tegula_tuner_choose(TegulaTuner *tuner, TegulaGridFn grid, void *user, const TegulaArg *args, size_t arg_count,
                                            const TegulaLaunchOptions *options, size_t *config);
/* A space for a kernel whose constexpr parameters are not all given: which of those are extents of tiles follows from what changes in the kernel when they
 * do, what kind of kernel it is from its loops, dots and reductions, and their values from both, the shapes and the device. Nothing is run or timed. Only
 * parameters that have neither an argument nor a default are proposed, and num_warps and num_stages unless `options` has them. `*json`, freed with
 * tegula_free: kind ("matmul", "attention", "rows", "elementwise"), axes: objects with name, role, values, reason; configs: arrays of values in the axes'
 * order; reasons: texts. TEGULA_INVALID_ARGUMENT where a parameter needs a value that only the caller knows, the text names it. */
TEGULA_API TegulaStatus tegula_propose(TegulaFunction *function, TegulaGridFn grid, void *user, const TegulaArg *args, size_t arg_count,
                                       const TegulaLaunchOptions *options, char **json);
/* What a tuning found, as a JSON object: function, key, device, chosen (index), by ("measured", "model", "file": nothing was tried now), seconds, clock ("graphs", "events", "steady", "given"; "" where nothing was timed), compared, blind (arguments that could not be
 * set back), configs: objects with config (text), state ("ok", "failed", "faulted", "rejected", "untried"), median_ns, low_ns, high_ns, runs, estimate_ns,
 * kind (of the reason), reason; recipe, as of tegula_propose, where the space was proposed; guess: what was tried first because an entry of another
 * version or device says so, an object with config, device, version, used ("first": it was timed first, "chosen": nothing was timed); warnings and remarks, texts. Of the choice that the last tegula_tuner_launch or _choose of this thread made or found; "{}" before. Lives until that thread's next one. */
TEGULA_API const char *tegula_tuner_report_json(TegulaTuner *tuner);
/* "BLOCK: 64, num_warps: 4"; lives as long as the tuner, NULL beyond the last. */
TEGULA_API const char *tegula_tuner_config_name(const TegulaTuner *tuner, size_t config);
/* The configuration itself; lives as long as the tuner, NULL beyond the last. */
TEGULA_API const TegulaConfig *tegula_tuner_config(const TegulaTuner *tuner, size_t config);

/* Joins all that is known of the kernel to the project's file, or to `path` if that is not NULL. */
TEGULA_API TegulaStatus tegula_tuner_write_project(TegulaTuner *tuner, const char *path);
/* Forgets what the user's files know of a kernel with this source, whatever the device, the arguments and the version: the configurations with these texts
 * (tegula_tuner_config_name; one that faulted because of a driver that was mended, say), or everything if there are none. `*count`, which may be NULL: how many
 * results of configurations went. The project's file and others stay as they are. TEGULA_NOT_FOUND: a configuration that no result is of; the others went. */
TEGULA_API TegulaStatus tegula_results_forget(TegulaFunction *function, const char *const *configs, size_t config_count, size_t *count);
/* A file of results as tables for people; `*text` is freed with tegula_free. */
TEGULA_API TegulaStatus tegula_results_show(const char *path, char **text);
/* Joins files of results into one, the better founded measurements win; `out` may be one of them. */
TEGULA_API TegulaStatus tegula_results_merge(const char *const *paths, size_t count, const char *out);

/* For bindings whose users write the launches in their own language: the same tuning, with callbacks in place of a function and arguments. */
typedef struct TegulaTuneBuffer {
  const char *name; /* of the argument */
  void *address;    /* on the device */
  int64_t bytes;    /* from there on; -1: unknown */
  TegulaDtype dtype;
  uint8_t read, written; /* by the kernel */
  uint8_t is_reset;      /* 1: the caller sets it back before each run; no need to say that it could not be copied */
  uint8_t reserved[4];
} TegulaTuneBuffer;
typedef struct TegulaTuneCode {
  size_t size;
  const TegulaTuneBuffer *buffers; /* that the compiled kernel reads and writes; copied, as is the code */
  size_t buffer_count;
  const void *code; /* configurations of equal code are timed once; NULL: each is */
  size_t code_length;
  double estimate_ns; /* of the cost model; 0: none */
} TegulaTuneCode;
typedef struct TegulaTuning TegulaTuning; /* one under way */
typedef struct TegulaTuneRequest {
  size_t size;
  const char *const *configs; /* canonical texts, "BLOCK: 64, num_warps: 4" */
  size_t count;
  TegulaFunction *function; /* whose results they are; NULL: they are not kept */
  const char *name;         /* of the kernel, for messages */
  const char *arguments;    /* class of the arguments: "M=4096, x:*fp16" */
  int32_t device;
  void *stream;
  const TegulaTunerOptions *options; /* may be NULL */
  void *user;
  /* Each gives TEGULA_OK, or fails with tegula_fail(). Resources, the assembler and a compile error (that is a static_assert's) and, of `compile`, a
   * fault where it was rehearsed end the part of this configuration, other codes the tuning, which returns them. All are called on the thread of tegula_tune(). */
  /* The configurations that compile will be asked for, in that order. May be NULL. */
  void (*prepare)(void *user, const size_t *configs, size_t count);
  TegulaStatus (*compile)(void *user, size_t config, TegulaTuneCode *out);
  TegulaStatus (*run)(void *user, size_t config); /* one launch on the stream */
  /* Times a configuration in place of the tuner: median, 20 % and 80 % quantiles. May be NULL. `tuning` is for tegula_tuning_restore. */
  TegulaStatus (*measure)(void *user, size_t config, TegulaTuning *tuning, double ns[3]);
  /* Of a space, which is searched unless the options say otherwise: for each configuration `axis_count` indices of values, or NULL: a list. */
  const uint32_t *coordinates;
  size_t axis_count;
  /* Estimates of the cost model without compiling (tegula_sketch), nanoseconds; 0 where there is none. May be NULL. On the thread of tegula_tune(). */
  void (*sketch)(void *user, const size_t *configs, size_t count, double *ns);
  /* As `run`, on a stream whose work is recorded in a CUDA graph (`cuda_graph` of the options): nothing may be waited for. Whatever it fails with but TEGULA_FAULT and
   * TEGULA_CANCELLED: these launches cannot be recorded. NULL: none can. */
  TegulaStatus (*run_on)(void *user, size_t config, void *stream);
} TegulaTuneRequest;
/* `*report` is as of tegula_tuner_report_json, freed with tegula_free; it is also given (else NULL) where no configuration can be used. */
TEGULA_API TegulaStatus tegula_tune(TegulaContext *context, const TegulaTuneRequest *request, char **report);
/* Within `measure`: sets back what kernels read and write, to be called before each run. */
TEGULA_API TegulaStatus tegula_tuning_restore(TegulaTuning *tuning);
/* The same, queued on another stream than the request's, one that is being captured, say. */
TEGULA_API TegulaStatus tegula_tuning_restore_on(TegulaTuning *tuning, void *stream);
/* Times what `work` queues on the stream that it is given, in rows that are recorded in CUDA graphs: nanoseconds of one in each of `count` rows (20 at most), which all
 * together take about `ms` milliseconds; caches are warm. `work` is called many times, and waits for nothing. TEGULA_UNSUPPORTED: nothing came to that stream, or the device
 * has none; else the error of `work` or of the driver. */
TEGULA_API TegulaStatus tegula_graph_times(TegulaContext *context, int32_t device, TegulaStatus (*work)(void *user, void *stream), void *user, double ms, double *ns, size_t count);
/* Runs the first program of a launch on the simulator, on copies of the arguments' memory, as $TEGULA_TUNE_DRY=sim does with each configuration of a tuner.
 * TEGULA_FAULT: it accessed memory outside of its arguments, raced or trapped. TEGULA_OK: it did not, or cannot be run there. Waits for the stream; thread-safe. */
TEGULA_API TegulaStatus tegula_rehearse(TegulaFunction *function, const int64_t grid[3], const TegulaArg *args, size_t arg_count, const TegulaLaunchOptions *options);
/* Sets the calling thread's last error, for callbacks; gives `status` back. */
TEGULA_API TegulaStatus tegula_fail(TegulaStatus status, const char *text);

/* -------------------------------------------------------------------------------------- the language, one operation at a time */

/* For bindings whose users step through a kernel: the binding runs the function in its own language, and each operation on tiles is one
 * call here. It is checked, promoted and evaluated by the rules that the compiler follows, element by element: exact, and slow. */
typedef struct TegulaEager TegulaEager; /* one launch; used by one thread at a time, set-up or not */

/* Of `options` (may be NULL) language_level, debug and sanitize_overflow matter. device_assert is always active. */
TEGULA_API TegulaStatus tegula_eager_create(TegulaContext *context, const TegulaLaunchOptions *options, TegulaEager **out);
TEGULA_API void tegula_eager_release(TegulaEager *eager);
/* The program that the following operations belong to. */
TEGULA_API TegulaStatus tegula_eager_set_program(TegulaEager *eager, const int32_t program_id[3], const int32_t grid[3]);
/* Memory that programs may touch; `name` stands in messages. What lies outside of all is TEGULA_FAULT, unless a kernel makes addresses from
 * integers, or `bytes` is negative, which means unknown: then nothing is checked from there on. */
TEGULA_API TegulaStatus tegula_eager_add_buffer(TegulaEager *eager, const char *name, void *begin, int64_t bytes, int32_t writable);

enum { TEGULA_TENSOR_POINTER = 1, TEGULA_TENSOR_CONST = 2 /* of a pointer: must not be stored through */ };
/* A run-time scalar of these bits (in the low ones); `flags` TEGULA_TENSOR_*. NULL with the last error set if `dtype` is none. */
TEGULA_API TegulaValue *tegula_eager_scalar(TegulaDtype dtype, uint32_t flags, uint64_t bits);

typedef struct TegulaEagerArg {
  TegulaValue *value;
  const char *keyword; /* NULL: positional */
} TegulaEagerArg;
/* Calls a function of the language, a jit function or a namedtuple class. TEGULA_COMPILE_ERROR where the compiler would refuse it, TEGULA_FAULT
 * where the program would fail. */
TEGULA_API TegulaStatus tegula_eager_call(TegulaEager *eager, TegulaValue *callee, const TegulaEagerArg *args, size_t count, TegulaValue **out);
/* An operator by its spelling ("+", "//", "<=", "and", "[]" with the index as second operand ...; unary: "neg", "pos", "invert", "not"), or "decay"
 * (what an assignment makes of a number) and "truth" (what a condition makes of a value). */
TEGULA_API TegulaStatus tegula_eager_operate(TegulaEager *eager, const char *name, TegulaValue *const *operands, size_t count, TegulaValue **out);
TEGULA_API TegulaStatus tegula_eager_attribute(TegulaEager *eager, TegulaValue *object, const char *name, TegulaValue **out);

typedef struct TegulaTensorInfo {
  size_t size;
  TegulaDtype dtype;   /* of the elements; of a pointer's pointee */
  uint8_t reserved[3];
  uint32_t flags;      /* TEGULA_TENSOR_* */
  uint32_t rank;       /* 0: a scalar */
  int32_t shape[24];
  uint64_t count;      /* of elements */
  const uint64_t *bits; /* row-major, each in the low bits of its word; lives as long as the value */
} TegulaTensorInfo;
/* `out->size` must be set. TEGULA_INVALID_ARGUMENT for anything but TEGULA_VALUE_TENSOR. */
TEGULA_API TegulaStatus tegula_value_tensor(const TegulaValue *value, TegulaTensorInfo *out);
/* The number that the bits of an element of a floating-point type stand for. */
TEGULA_API double tegula_float_from_bits(TegulaDtype dtype, uint64_t bits);
/* And the element for a number, as an argument of a launch is rounded: to nearest even. Of fp16, bf16, fp32, fp64. */
TEGULA_API uint64_t tegula_float_to_bits(TegulaDtype dtype, double number);
/* `lower:upper:step` of a subscript; None where absent. NULL with the last error set if one is NULL. */
TEGULA_API TegulaValue *tegula_value_slice(TegulaValue *lower, TegulaValue *upper, TegulaValue *step);
/* Items of a tuple, fields of a record; 0 and NULL for anything else. An item is a new reference. */
TEGULA_API size_t tegula_value_item_count(const TegulaValue *value);
TEGULA_API TegulaValue *tegula_value_item(const TegulaValue *value, size_t index);
/* The class of a record, as a new reference; NULL for anything else. The same object's classes compare equal by tegula_value_same. */
TEGULA_API TegulaValue *tegula_value_record_class(const TegulaValue *value);
/* The function of a TEGULA_VALUE_METHOD, which takes the object first; a new reference. */
TEGULA_API TegulaValue *tegula_value_method(const TegulaValue *value);
/* 1: they are the same class or the same tensor object. */
TEGULA_API int32_t tegula_value_same(const TegulaValue *a, const TegulaValue *b);

/* -------------------------------------------------------------------------------------------------------- linear layouts */

/* A map of tuples of indices to tuples of coordinates that is linear over the bits: the image of an index is the exclusive or of the images of
 * its bits. Layouts of tiles in registers and memory are such maps. Names are any text and each stands once on a side; at most 28
 * dimensions on a side, 31 bits in one, 62 bits of inputs and 63 of outputs. */
typedef struct TegulaLayoutDim {
  const char *name;
  uint32_t bits; /* it has 2^bits values */
} TegulaLayoutDim;
typedef struct TegulaLayout {
  size_t size; /* sizeof(TegulaLayout) */
  const TegulaLayoutDim *ins, *outs;
  size_t in_count, out_count;
  const uint32_t *bases; /* for each bit of each input, the first input's lowest bit first, `out_count` coordinates */
} TegulaLayout;
/* "compose" (b of a), "invert", "pseudoinvert" (the least preimage), "invert_and_compose" (where b has what a has), "multiply" (side by side; in
 * dimensions of both a has the low bits), "divide_left" and "divide_right" (a = b * out, a = out * b; TEGULA_NOT_FOUND if there is none). `b` is
 * NULL where there is no second operand. `*out` is one block, freed with tegula_free. */
TEGULA_API TegulaStatus tegula_layout_operate(const char *operation, const TegulaLayout *a, const TegulaLayout *b, TegulaLayout **out);
/* Bits of outputs that are reached: all of them if every output is, as many as there are of inputs if no two inputs have one image. */
TEGULA_API TegulaStatus tegula_layout_rank(const TegulaLayout *layout, uint32_t *out);

/* ------------------------------------------------------------------------------------------- bundles: compiled ahead of time */

/* Kernels that were compiled elsewhere, in one file (docs/bundle.md): launches of this context take them where they would compile. The source must be the same, wherever its
 * file lies; of an entry for each of several targets the best one that the machine runs is taken. `public_key` (32 bytes, Ed25519) may be NULL; else the file must be signed with it.
 * Set-up. What of the file is for another version of the library is told on stderr, by name; the rest is used. */
TEGULA_API TegulaStatus tegula_context_load_bundle(TegulaContext *context, const char *path, const uint8_t *public_key);
/* What happens where a launch finds its kernel neither in memory, nor in a bundle, nor in the disk cache. Without no_jit it is compiled. With it an entry of the bundles is taken that relies
 * on less (one compiled for numbers that need not be divisible by 16, say); if there is none, ERROR fails with TEGULA_NOT_COMPILED, WARN writes the same to stderr and compiles. */
enum { TEGULA_NO_JIT_OFF = 0, TEGULA_NO_JIT_ERROR = 1, TEGULA_NO_JIT_WARN = 2 };
TEGULA_API TegulaStatus tegula_context_set_no_jit(TegulaContext *context, int32_t mode);
TEGULA_API int32_t tegula_context_no_jit(const TegulaContext *context);
/* Writes what launches take from the compiler, a cache or a bundle from now on to a manifest, as $TEGULA_RECORD does: at the latest when the context or the process ends. Entries of a file that is
 * there already stay. NULL: ends it. Set-up. */
TEGULA_API TegulaStatus tegula_context_record(TegulaContext *context, const char *path);

/* A bundle in the making. */
typedef struct TegulaAot TegulaAot;
enum {
  TEGULA_CLASSES_GENERIC = 0, /* the class that is given, and of each form (tensors of any size, null pointers) the one that relies on nothing, and that for pointers which overlap */
  TEGULA_CLASSES_GIVEN = 1,
  TEGULA_CLASSES_ALL = 2,     /* every one that tegula_specializations lists */
  TEGULA_CLASSES_DISTINCT = 3 /* of these all in which no two parameters are one buffer */
};
TEGULA_API TegulaStatus tegula_aot_create(TegulaContext *context, TegulaAot **out);
TEGULA_API void tegula_aot_release(TegulaAot *aot);
/* Queues a kernel. `signature`, `constants` and `options` as of tegula_compile_signature; `targets` NULL: this machine's CPU by the name of its instruction set. `grid`, which may be NULL: expressions
 * over integer arguments and constants, for tegula_aot_header. */
TEGULA_API TegulaStatus tegula_aot_add(TegulaAot *aot, TegulaFunction *function, const char *signature, const TegulaNamedValue *constants, size_t constant_count,
                                       const char *const *targets, size_t target_count, const TegulaLaunchOptions *options, const char *grid, int32_t classes);
/* Queues what a manifest says. `targets`, if there are any, in place of those in it; `classes` -1: what it says. What a program recorded is for machines of the kind that it ran on, CPUs or GPUs (the simulator
 * is one): of `targets` it takes these only, unless TEGULA_AOT_ANY_TARGET is set before. */
TEGULA_API TegulaStatus tegula_aot_add_manifest(TegulaAot *aot, const char *path, const char *const *targets, size_t target_count, int32_t classes);
enum {
  TEGULA_AOT_ANY_TARGET = 1, /* what was recorded on a CPU is compiled for GPUs, too, and the other way round */
  TEGULA_AOT_KEEP_GOING = 2  /* what cannot be compiled is left out, and tegula_aot_left_out says so */
};
/* Both are off at first; other bits are an error. */
TEGULA_API TegulaStatus tegula_aot_set_flags(TegulaAot *aot, uint32_t flags);
/* Compiles what is queued, on all cores. The first mistake ends it, unless TEGULA_AOT_KEEP_GOING is set, and the text says which kernel it is of. `*entries`, which may be NULL: how many there are. */
TEGULA_API TegulaStatus tegula_aot_compile(TegulaAot *aot, size_t *entries);
/* What is not in the bundle though a manifest lists it, with the reason: one line for each class that cannot be compiled, one for all that were recorded for machines
 * of another kind. `*count`: how many there are. `*text` is freed with tegula_free. */
TEGULA_API TegulaStatus tegula_aot_left_out(TegulaAot *aot, char **text, size_t *count);
/* Writes the bundle. `secret_key`: 64 bytes to sign it with, or NULL. */
TEGULA_API TegulaStatus tegula_aot_write(TegulaAot *aot, const char *path, const uint8_t *secret_key);
/* A header for C and C++ with one typed function for each kernel; `name` is that of the file, from which names are made. `*text` is freed with tegula_free. */
TEGULA_API TegulaStatus tegula_aot_header(TegulaAot *aot, const char *name, char **text);
/* What is queued and the bundle does not have for one of its targets: one line each; `*count` of them. `*text` is freed with tegula_free. Nothing is compiled. */
TEGULA_API TegulaStatus tegula_aot_gaps(TegulaAot *aot, const char *bundle, const uint8_t *public_key, char **text, size_t *count);
/* A pair of keys for bundles (Ed25519): needs libsodium. */
TEGULA_API TegulaStatus tegula_aot_make_keys(uint8_t public_key[32], uint8_t secret_key[64]);
/* Every class that launches can ask for with arguments of these types and these constants, as a JSON object: kernel, parameters (objects with name and classes), count and
 * signatures (`limit` at most) of those with buffers of their own; one_buffer: groups of parameters of which several may be one buffer; forms: for the usual launches, tensors of 2^30 elements or more, and on CPUs null
 * pointers, each with options, count and signatures, those of shared buffers included; all: the number of all. */
TEGULA_API TegulaStatus tegula_specializations(TegulaFunction *function, const char *signature, const TegulaNamedValue *constants, size_t constant_count,
                                               const TegulaLaunchOptions *options, size_t limit, char **json);

/* Runs one launch on two devices, each on copies of the arguments' memory (host memory whose extents are known), and compares what is in it then: `*text`, freed with tegula_free, is "=" (the same bits, which the
 * kernel promises: no sums in an order of the device's own, no approximations, nothing that may be fused), "~" (as near as arithmetic allows), or the first difference: argument, index, both values, and the
 * line of the kernel that stored it. `tolerance` is relative to the larger element and to the largest of all; 0: the same bits; negative: what the element types and the kernel allow. A failure of one device is a
 * difference; TEGULA_FAULT: both failed, or a CPU or the simulator as `first`, and then nothing is run on a GPU, where an error takes the context of the process. The caller's memory stays as it is. */
TEGULA_API TegulaStatus tegula_verify(TegulaFunction *function, const int64_t grid[3], const TegulaArg *args, size_t arg_count, const TegulaLaunchOptions *options, int32_t first, int32_t second,
                                      double tolerance, char **text);

/* ----------------------------------------------------------------------------------------------------------------- cache */

typedef struct TegulaCacheStat {
  size_t size;
  const char *directory;    /* "" if there is no disk cache; lives until the next tegula_cache_stat of the thread */
  const char *disabled;     /* why the disk cache is off (unwritable, owned by someone else ...); "" if it is on */
  uint64_t entries, bytes;  /* on disk now */
  uint64_t memory_hits;     /* of this context: launches and compiles that found their kernel in memory (slow-path look-ups only) */
  uint64_t disk_hits, compiles, disk_writes, disk_errors, corrupted;
} TegulaCacheStat;
/* `out->size` must be set. Looks at the directory. */
TEGULA_API TegulaStatus tegula_cache_stat(TegulaContext *context, TegulaCacheStat *out);
/* Removes every entry of the writable directory (and nothing else in it). Kernels in memory stay. `removed` may be NULL. */
TEGULA_API TegulaStatus tegula_cache_clear(TegulaContext *context, uint64_t *removed);

#ifdef __cplusplus
}
#endif
#endif
