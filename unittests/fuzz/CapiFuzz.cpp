// The C interface: the input chooses a series of calls and their arguments, right and wrong ones: null handles, sizes
// and enumerations that are none, negative counts, any text. No call may do more than fail with a reason. Code
// generators are stand-ins (StubTargets.cpp).
//
// What the interface does not allow is left out: handles that were given back, pointers that point nowhere, text
// without an end.
#include "Choices.h"
#include "tegula/tegula.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

using tegula::fuzz::Choices;

namespace {

const char *const source = R"(import triton
import triton.language as tl

@triton.jit
def helper(a, b):
    return a + b

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr = 16):
    i = tl.arange(0, 16)
    tl.store(y + i, helper(tl.load(x + i), n))

@triton.jit
def scalars(a: tl.int8, b: tl.uint64, c: tl.float16, d: tl.pointer_type(tl.float32), e=3, f=None):
    tl.static_print("e", e)

@triton.jit
def tuples(t, d, *rest):
    for v in tl.static_range(len(rest)):
        tl.device_print("v", v)

@triton.jit
def described(d, C: tl.constexpr):
    d.store([0, 0], d.load([0, 0]))
)";

const char *const texts[] = {"", "k", "add",
                             "scalars", "tuples", "described",
                             "cpu", "sim", "sim:sm_80",
                             "cuda", "cuda:0", "sm_90a",
                             "sm_80", "tile", "tree",
                             "ast", "source", "obj",
                             "llvm", "ptx", "cubin",
                             "gpu", "*fp32", "fp16",
                             "i1", "void", "x",
                             "y", "n", "BLOCK",
                             "t", "'s'", "0x10",
                             "1e5", "-3", "None",
                             "triton", "math", "triton.language",
                             "tensor", "sum", "load",
                             "\xff\xfe", "a.b.c", "99999999999999999999999999999999999999999999",
                             "cpu:avx2"};
const char *const signatures[] = {"x:*fp32, y:*fp32:16, n:i32",
                                  "x:*fp16, y:*fp16, n:1, BLOCK:32",
                                  "a:i8, b:u64, c:fp16, d:*fp32",
                                  "d:tensordesc<fp16[8, 8]>, C:1",
                                  "t:i32, d:None, rest:i32",
                                  "x:*i32, y:*i32, n:i64:16",
                                  ":",
                                  "x:",
                                  "x:*fp32:0"};

class Session {
public:
  explicit Session(Choices c) : c_(c) {
    context_ = sharedContext();
    TegulaModule *m = nullptr;
    if (tegula_module_from_text(context_, "fuzz.py", source, std::strlen(source), &m) == TEGULA_OK)
      modules_.push_back(m);
    for (size_t i = 0; i < tegula_module_kernel_count(m); ++i) {
      TegulaFunction *f = nullptr;
      if (tegula_module_function(m, tegula_module_kernel_name(m, i), &f) == TEGULA_OK)
        functions_.push_back(f);
    }
  }
  ~Session() {
    for (TegulaKernel *k : kernels_)
      tegula_kernel_release(k);
    for (TegulaFunction *f : functions_)
      tegula_function_release(f);
    for (TegulaModule *m : modules_)
      tegula_module_release(m);
    for (TegulaValue *v : values_)
      tegula_value_release(v);
  }

  void run() {
    using Call = void (Session::*)();
    static constexpr Call calls[] = {&Session::contexts, &Session::devices, &Session::makeValue, &Session::makeValue,
                                     &Session::useValue, &Session::module, &Session::create, &Session::setUp,
                                     &Session::launch, &Session::launch, &Session::compile, &Session::emit,
                                     &Session::kernel, &Session::descriptor, &Session::errors, &Session::together,
                                     &Session::describe, &Session::saved, &Session::layouts, &Session::circle};
    for (int i = 0; i < 24 && !c_.empty(); ++i) {
      (this->*calls[c_.below(std::size(calls))])();
      if (tegula_last_status() == TEGULA_INTERNAL_ERROR) {
        std::fprintf(stderr, "internal error: %s\n", tegula_last_error());
        std::abort();
      }
      tegula_clear_error();
    }
  }

private:
  static TegulaContext *sharedContext() {
    static TegulaContext *shared = [] {
      TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
      o.cache_dir = "";
      o.num_threads = 2;
      TegulaContext *made = nullptr;
      if (tegula_context_create(&o, &made) != TEGULA_OK)
        std::abort();
      tegula_context_set_output(
          made, [](void *, int32_t, const char *, size_t) {}, nullptr);
      return made;
    }();
    return shared;
  }

  // ---- what calls are given

  template <typename T> T *some(const std::vector<T *> &of) {
    return of.empty() || c_.chance(24) ? nullptr : of[c_.below(of.size())];
  }
  TegulaContext *context() { return c_.chance(24) ? nullptr : context_; }
  TegulaFunction *function() { return some(functions_); }
  TegulaKernel *kernelHandle() { return some(kernels_); }
  TegulaValue *value() { return some(values_); }
  /// Text that lives to the end of the session.
  const char *text() {
    if (c_.chance(16))
      return nullptr;
    if (!c_.chance(8))
      return c_.of(texts);
    kept_.push_back(std::make_unique<std::string>(c_.text(40)));
    return kept_.back()->c_str();
  }
  size_t size(size_t right) { return c_.chance(8) ? c_.below(2) ? c_.below(right + 1) : right : right; }
  void function(const char *name) {
    TegulaFunction *f = nullptr;
    if (tegula_module_function(some(modules_), name, &f) == TEGULA_OK)
      functions_.push_back(f);
  }
  void add(TegulaValue *v) {
    if (v)
      values_.push_back(v);
  }
  TegulaArg argument(int depth = 0) {
    TegulaArg a{};
    a.kind = static_cast<uint8_t>(c_.chance(12) ? c_.below(256) : c_.below(9));
    a.dtype = static_cast<uint8_t>(c_.chance(4)                   ? c_.below(24)
                                   : a.kind == TEGULA_ARG_POINTER ? TEGULA_FP32
                                                                  : TEGULA_VOID);
    a.flags = static_cast<uint16_t>(c_.chance(8) ? c_.number(1) : 0);
    a.u.i = c_.integer();
    a.u2.extent = c_.chance(3) ? c_.integer() : 0;
    if (a.kind == TEGULA_ARG_POINTER)
      a.u.ptr = memory_ + c_.below(64);
    if (a.kind == TEGULA_ARG_VALUE)
      a.u.value = value(), a.u2.extent = 0;
    if (a.kind == TEGULA_ARG_TUPLE) {
      a.count = depth < 40 ? static_cast<uint32_t>(c_.below(4)) : 0;
      a.u2.cls = c_.chance(2) ? value() : nullptr;
      items_.push_back(std::make_unique<std::vector<TegulaArg>>());
      std::vector<TegulaArg> &items = *items_.back();
      for (uint32_t i = 0; i < a.count; ++i)
        items.push_back(argument(depth + 1));
      a.u.items = c_.chance(24) ? nullptr : items.data();
    }
    if (!descriptors_.empty() && c_.chance(6))
      a = *descriptors_[c_.below(descriptors_.size())];
    return a;
  }
  std::vector<TegulaArg> arguments() {
    std::vector<TegulaArg> list;
    // Mostly what `add` takes.
    if (!c_.chance(3))
      list = {tegula_ptr(memory_, TEGULA_FP32, 256), tegula_ptr(memory_ + 64, TEGULA_FP32, 256),
              tegula_int(c_.integer())};
    for (size_t n = c_.below(5); n > 0; --n) {
      TegulaArg a = argument();
      if (!list.empty() && c_.chance(2))
        list[c_.below(list.size())] = a;
      else
        list.push_back(a);
    }
    return list;
  }
  TegulaLaunchOptions options() {
    TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
    int32_t *fields[] = {&o.num_warps, &o.num_stages, &o.num_ctas, &o.maxnreg, &o.num_threads, &o.device};
    for (size_t n = c_.below(3); n > 0; --n)
      *fields[c_.below(std::size(fields))] = static_cast<int32_t>(c_.integer());
    int8_t *switches[] = {&o.debug, &o.checked, &o.debug_info, &o.fp_fusion, &o.sanitize_overflow,
                          &o.opt_level, &o.cooperative, &o.programmatic_launch, &o.wide_offsets, &o.clusters};
    for (size_t n = c_.below(3); n > 0; --n)
      *switches[c_.below(std::size(switches))] = static_cast<int8_t>(c_.number(1));
    o.size = size(sizeof o);
    return o;
  }
  std::vector<TegulaNamedValue> constants() {
    std::vector<TegulaNamedValue> list;
    for (size_t n = c_.below(3); n > 0; --n)
      list.push_back({text(), value()});
    return list;
  }

  // ---- calls

  void contexts() {
    TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
    o.size = size(sizeof o);
    o.cache_dir = c_.chance(4) ? "/nonexistent/tegula" : "";
    const char *dirs[] = {text(), nullptr, "/nonexistent/other"};
    o.read_only_cache_dirs = c_.chance(2) ? dirs : nullptr;
    o.read_only_cache_dir_count = c_.chance(3) ? c_.below(4) : 0;
    o.num_threads = static_cast<int32_t>(c_.integer());
    o.debug = static_cast<int32_t>(c_.integer());
    TegulaContext *made = nullptr;
    if (tegula_context_create(c_.chance(4) ? nullptr : &o, c_.chance(16) ? nullptr : &made) == TEGULA_OK) {
      tegula_cancel(made);
      TegulaCacheStat s{};
      s.size = size(sizeof s);
      tegula_cache_stat(made, &s);
    }
    tegula_context_release(made);
    tegula_context_set_output(nullptr, nullptr, nullptr);
    tegula_context_set_interrupt(context(), nullptr, nullptr);
  }

  void devices() {
    TegulaContext *c = context();
    TegulaDeviceInfo info{};
    info.size = size(sizeof info);
    tegula_device_info(c, static_cast<size_t>(c_.integer()), &info);
    int32_t index = 0;
    if (const char *name = text())
      tegula_device_find(c, name, &index);
    int32_t device = c_.chance(2) ? index : static_cast<int32_t>(c_.integer());
    void *memory = nullptr;
    // Beyond the fuzzer's own limit of memory there is only the refusal to see.
    uint64_t bytes = c_.chance(4) ? UINT64_MAX - c_.below(100) : c_.below(5000);
    if (tegula_memory_allocate(c, device, bytes, &memory) == TEGULA_OK) {
      tegula_memory_copy(c, device, static_cast<int32_t>(c_.below(4)) - 1, memory, memory_,
                         std::min<uint64_t>(bytes, 64), nullptr);
      tegula_memory_free(c, device, memory);
    }
    tegula_synchronize(c, device, nullptr);
    tegula_target_name(static_cast<size_t>(c_.integer()));
    tegula_stage_name(static_cast<size_t>(c_.integer()));
    tegula_status_name(static_cast<TegulaStatus>(c_.integer()));
    tegula_dtype_name(static_cast<TegulaDtype>(c_.number(1)));
    tegula_dtype_bytes(static_cast<TegulaDtype>(c_.number(1)));
  }

  void makeValue() {
    TegulaValue *items[] = {value(), value(), value()};
    const char *fields[] = {text(), text(), text()};
    size_t n = c_.below(4), m = c_.below(4);
    switch (c_.below(17)) {
    case 0:
      return add(tegula_value_none());
    case 1:
      return add(tegula_value_bool(static_cast<int32_t>(c_.integer())));
    case 2:
      return add(tegula_value_int(c_.integer()));
    case 3:
      return add(tegula_value_int_text(text()));
    case 4:
      return add(tegula_value_float(static_cast<double>(c_.integer())));
    case 5:
      return add(tegula_value_str(items[0] ? "abc" : nullptr, n));
    case 6:
      return add(tegula_value_dtype(text()));
    case 7:
      return c_.chance(4)   ? add(tegula_value_dict(c_.chance(8) ? nullptr : items, items, n))
             : c_.chance(4) ? add(tegula_value_set(items, n))
                            : add(tegula_value_tuple(c_.chance(8) ? nullptr : items, n));
    case 8:
      return add(tegula_value_class(text(), c_.chance(8) ? nullptr : fields, n, c_.chance(8) ? nullptr : items, m));
    case 9:
      return add(tegula_value_record(value(), items, n));
    case 10:
      return add(tegula_value_function(function()));
    case 11:
      return add(tegula_value_module(text()));
    case 12:
      return add(tegula_value_parse(text()));
    case 13:
      return add(tegula_value_aggregate(text(), c_.number(1), c_.chance(8) ? nullptr : fields, items, items, m,
                                        c_.chance(8) ? nullptr : items, c_.below(2) ? n : 0));
    case 14:
      return add(tegula_value_dynamic_module(text(), c_.chance(8) ? nullptr : resolve, nullptr, this));
    case 15:
      return add(tegula_value_member(value(), value()));
    default:
      return add(tegula_value_opaque(text(), c_.number(1)));
    }
  }

  /// Attributes of modules that the caller answers for: one of the values, now and then one that is made from them.
  static TegulaValue *resolve(void *user, const char *name) {
    auto *self = static_cast<Session *>(user);
    if (!*name || self->values_.empty())
      return nullptr;
    TegulaValue *v = self->values_[static_cast<unsigned char>(*name) % self->values_.size()];
    if (name[1])
      return tegula_value_tuple(&v, 1);
    tegula_value_retain(v);
    return v;
  }

  /// Functions, classes and modules that refer to each other.
  void circle() {
    static constexpr const char *body = "def f(x, d=None): return g(x, m.a, m.bc, C)";
    std::vector<TegulaFunction *> made;
    const size_t before = values_.size();
    for (uint64_t n = 1 + c_.below(4); n > 0; --n) {
      TegulaFunctionSource s{};
      s.size = sizeof s;
      s.file = "circle.py", s.text = body, s.length = std::strlen(body), s.kind = static_cast<int32_t>(c_.below(4));
      TegulaFunction *f = nullptr;
      if (tegula_function_create(context_, &s, &f) != TEGULA_OK)
        std::abort();
      made.push_back(f);
      functions_.push_back(f);
      add(tegula_value_function(f));
    }
    add(tegula_value_aggregate("C", 0, nullptr, nullptr, nullptr, 0, nullptr, 0));
    add(tegula_value_dynamic_module("m", resolve, nullptr, this));
    static constexpr const char *names[] = {"g", "m", "C"};
    for (uint64_t n = c_.below(12); n > 0; --n) {
      TegulaValue *v = value(), *cls = value();
      switch (c_.below(4)) {
      case 0:
        tegula_value_add_member(cls, "x", static_cast<int32_t>(c_.below(5)), v);
        break;
      case 1:
        tegula_function_set_default(made[c_.below(made.size())], 1, v);
        break;
      default:
        tegula_function_bind(made[c_.below(made.size())], c_.of(names), v, 1);
      }
    }
    if (c_.below(2))
      tegula_function_hash(made[0]);
    // Some are given back at once, in any order; what others need of them stays.
    for (TegulaFunction *f : made)
      if (c_.below(2)) {
        std::erase(functions_, f);
        tegula_function_release(f);
      }
    for (size_t i = values_.size(); i-- > before;)
      if (c_.below(2)) {
        tegula_value_release(values_[i]);
        values_.erase(values_.begin() + static_cast<ptrdiff_t>(i));
      }
  }

  void useValue() {
    TegulaValue *v = value();
    tegula_value_kind(v);
    tegula_value_repr(v);
    int64_t i;
    double d;
    tegula_value_as_int(v, c_.chance(8) ? nullptr : &i);
    tegula_value_as_float(v, c_.chance(8) ? nullptr : &d);
    add(tegula_value_attribute(v, text()));
    // Deep nesting by a chain of calls.
    if (v && c_.chance(8)) {
      tegula_value_retain(v);
      for (int64_t n = c_.below(2) ? 20000 : 10; n > 0 && v; --n) {
        TegulaValue *outer = tegula_value_tuple(&v, 1);
        tegula_value_release(v);
        v = outer;
      }
      add(v);
    }
  }

  void module() {
    TegulaModule *m = nullptr;
    std::string body = c_.chance(4) ? c_.text(200) : source;
    if (tegula_module_from_text(context(), text(), body.data(), body.size(), &m) == TEGULA_OK)
      modules_.push_back(m);
    m = some(modules_);
    tegula_module_check(m);
    tegula_module_kernel_name(m, static_cast<size_t>(c_.integer()));
    function(text());
    TegulaModule *file = nullptr;
    if (tegula_module_from_file(context(), c_.chance(2) ? "/" : text(), &file) == TEGULA_OK)
      tegula_module_release(file);
  }

  void create() {
    static constexpr const char *bodies[] = {"def f(x, n=1):\n    tl.store(x, n)\n",
                                             "@triton.jit\ndef f(*a): pass\n",
                                             "  def f(q: tl.constexpr): return g(q)\n",
                                             "",
                                             "x = 1\n",
                                             "lambda: 1"};
    std::string body = c_.chance(4) ? c_.text(120) : c_.of(bodies);
    const char *names[] = {"x", text(), nullptr};
    TegulaFunctionSource s{};
    s.size = size(sizeof s);
    s.file = text();
    s.text = c_.chance(24) ? nullptr : body.c_str();
    s.length = body.size();
    s.first_line = static_cast<uint32_t>(c_.integer());
    s.kind = static_cast<int32_t>(c_.chance(4) ? c_.integer() : c_.below(3));
    s.noinline_ = static_cast<int32_t>(c_.below(2));
    s.must_use = c_.chance(4) ? text() : nullptr;
    s.do_not_specialize = c_.chance(4) ? nullptr : names;
    s.do_not_specialize_count = c_.chance(3) ? c_.below(4) : 0;
    s.do_not_specialize_on_alignment = c_.chance(4) ? nullptr : names;
    s.do_not_specialize_on_alignment_count = c_.chance(3) ? c_.below(4) : 0;
    TegulaFunction *f = nullptr;
    if (tegula_function_create(context(), c_.chance(24) ? nullptr : &s, &f) == TEGULA_OK)
      functions_.push_back(f);
  }

  void setUp() {
    TegulaFunction *f = function();
    for (size_t i = 0; i < tegula_function_free_name_count(f); ++i)
      tegula_function_bind(f, tegula_function_free_name(f, i), value(), static_cast<int32_t>(c_.below(2)));
    tegula_function_bind(f, text(), value(), 1);
    tegula_function_set_default(f, static_cast<size_t>(c_.integer()), value());
    tegula_function_free_name(f, static_cast<size_t>(c_.integer()));
    tegula_function_set_namer(f, c_.chance(4) ? namer : nullptr, nullptr);
    TegulaParam p;
    tegula_function_param(f, static_cast<size_t>(c_.below(2) ? c_.below(6) : c_.integer()), &p);
    tegula_function_name(f);
    if (c_.chance(4))
      tegula_function_hash(f);
  }
  static int32_t namer(void *, const char *signature, char *name, size_t size) {
    std::memset(name, signature[0] == 'x' ? 'a' : '.', size);
    return 1;
  }

  void launch() {
    std::vector<TegulaArg> args = arguments();
    int64_t grid[3] = {1, 1, 1};
    if (c_.chance(3))
      grid[c_.below(3)] = c_.integer();
    // Empty programs still take time.
    int64_t programs;
    if (__builtin_mul_overflow(grid[0], grid[1], &programs) || __builtin_mul_overflow(programs, grid[2], &programs) ||
        programs > 1 << 20)
      programs = 0;
    for (int64_t &g : grid)
      if (g > 1 << 20 && programs == 0)
        g = c_.chance(2) ? INT64_MAX : (int64_t(1) << 31);
    TegulaLaunchOptions o = options();
    TegulaKernel *k = nullptr;
    TegulaFunction *f = function();
    for (int again = c_.below(2) ? 2 : 1; again > 0; --again)
      tegula_launch(f, c_.chance(24) ? nullptr : grid, args.empty() || c_.chance(24) ? nullptr : args.data(),
                    args.size(), c_.chance(3) ? &o : nullptr, &k);
    if (TegulaKernel *made = c_.chance(2) ? k : kernelHandle())
      tegula_kernel_launch(made, grid, args.data(), args.size(), c_.chance(3) ? &o : nullptr);
  }

  void compile() {
    TegulaLaunchOptions o = options();
    TegulaKernel *k = nullptr;
    TegulaStatus s;
    if (c_.chance(2)) {
      std::vector<TegulaArg> args = arguments();
      s = tegula_compile(function(), args.data(), args.size(), c_.chance(3) ? &o : nullptr,
                         c_.chance(24) ? nullptr : &k);
    } else {
      std::vector<TegulaNamedValue> named = constants();
      s = tegula_compile_signature(function(), c_.of(signatures), named.data(), named.size(), text(), &o, &k);
    }
    if (s == TEGULA_OK)
      kernels_.push_back(k);
  }

  void emit() {
    TegulaLaunchOptions o = options();
    std::vector<TegulaNamedValue> named = constants();
    char *made = nullptr;
    size_t length = 0;
    if (tegula_emit(function(), c_.of(signatures), named.data(), named.size(), text(), c_.chance(2) ? &o : nullptr,
                    text(), &made, &length) == TEGULA_OK &&
        made[length] != 0)
      std::abort();
    tegula_free(made);
  }

  void kernel() {
    TegulaKernel *k = kernelHandle();
    TegulaKernelInfo info{};
    info.size = size(sizeof info);
    tegula_kernel_info(k, c_.chance(24) ? nullptr : &info);
    tegula_kernel_metadata_json(k);
    TegulaRemark r;
    tegula_kernel_remark(k, static_cast<size_t>(c_.integer()), &r);
    const char *stage = nullptr;
    size_t length = 0;
    tegula_kernel_asm(k, text(), &stage, &length);
    tegula_kernel_stage_name(k, static_cast<size_t>(c_.integer()));
    TegulaTimings t{};
    t.size = size(sizeof t);
    tegula_kernel_timings(k, &t);
    TegulaKernel *other = nullptr;
    if (tegula_kernel_compile_for(k, text(), &other) == TEGULA_OK)
      kernels_.push_back(other);
  }

  /// Kernels as bytes, as they are and damaged, and as the text of their tile IR.
  void saved() {
    TegulaKernel *k = kernelHandle(), *made = nullptr;
    char *bytes = nullptr;
    size_t length = 0;
    if (tegula_kernel_save(k, &bytes, &length) == TEGULA_OK) {
      for (size_t n = c_.below(3); n > 0; --n)
        bytes[c_.below(length)] ^= static_cast<char>(c_.number(1));
      if (tegula_kernel_load(sharedContext(), bytes, c_.chance(8) ? c_.below(length) : length,
                             static_cast<int32_t>(c_.chance(2) ? -1 : c_.integer()), &made) == TEGULA_OK)
        kernels_.push_back(made);
      tegula_free(bytes);
    }
    const char *tile = nullptr;
    if (tegula_kernel_asm(k, "tile", &tile, &length) != TEGULA_OK) {
      tile = text();
      length = tile ? std::strlen(tile) : c_.below(2);
    }
    TegulaLaunchOptions o = options();
    if (tegula_compile_tile(sharedContext(), text(), tile, length, text(), &o, &made) == TEGULA_OK)
      kernels_.push_back(made);
  }

  void layouts() {
    static constexpr const char *operations[] = {"compose", "invert", "pseudoinvert", "invert_and_compose",
                                                 "multiply", "divide_left", "divide_right", "none"};
    TegulaLayoutDim dims[2][2][3];
    uint32_t bases[2][64 * 3];
    TegulaLayout l[2];
    for (int i = 0; i < 2; ++i) {
      size_t bits = 0;
      for (auto &side : dims[i])
        for (TegulaLayoutDim &d : side) d = {text(), static_cast<uint32_t>(c_.chance(16) ? c_.integer() : c_.below(4))};
      l[i] = {size(sizeof l[i]), dims[i][0], dims[i][1], c_.below(4), c_.below(4), bases[i]};
      for (size_t d = 0; d < l[i].in_count; ++d) bits += dims[i][0][d].bits;
      for (uint32_t &b : bases[i]) b = static_cast<uint32_t>(c_.below(5));
      if (bits > 62) l[i].in_count = 0; // there are not so many bases
    }
    TegulaLayout *out = nullptr;
    uint32_t rank;
    tegula_layout_rank(&l[0], &rank);
    if (tegula_layout_operate(c_.chance(16) ? text() : c_.of(operations), &l[0], c_.chance(8) ? nullptr : &l[1],
                              &out) == TEGULA_OK)
      tegula_free(out);
  }

  void descriptor() {
    int64_t shape[5], strides[5], block[5];
    for (int d = 0; d < 5; ++d) {
      shape[d] = c_.chance(4) ? c_.integer() : 64;
      strides[d] = d == 1 ? 1 : c_.chance(4) ? c_.integer() : 64;
      block[d] = c_.chance(4) ? c_.integer() : 8;
    }
    storage_.push_back(std::make_unique<TegulaTensorDescriptor>());
    auto out = std::make_unique<TegulaArg>();
    TegulaArg base = c_.chance(3) ? argument() : tegula_ptr(memory_, TEGULA_FP16, 8192);
    size_t rank = c_.chance(4) ? static_cast<size_t>(c_.integer()) : 2;
    if (tegula_tensor_descriptor(storage_.back().get(), base, rank, shape, strides, block,
                                 static_cast<int32_t>(c_.chance(4) ? c_.integer() : c_.below(4)),
                                 out.get()) == TEGULA_OK)
      descriptors_.push_back(std::move(out));
  }

  void errors() {
    TegulaDiagnostic d;
    for (size_t i = 0; i <= tegula_diagnostic_count(); ++i)
      if (tegula_diagnostic_get(i, &d) == TEGULA_OK)
        for (int32_t n = 0; n < d.note_count; ++n) {
          TegulaDiagnostic note;
          if (tegula_diagnostic_note(i, static_cast<size_t>(n), &note) != TEGULA_OK)
            std::abort();
        }
    tegula_diagnostic_get(static_cast<size_t>(c_.integer()), &d);
    TegulaFault f;
    tegula_last_fault(c_.chance(4) ? nullptr : &f);
    TegulaShortage shortage;
    tegula_last_shortage(&shortage);
    tegula_diagnostics_json();
  }

  /// Two threads compile and launch the same functions.
  void together() {
    TegulaFunction *f = function();
    TegulaValue *v = value();
    int64_t n = c_.integer();
    auto work = [&, this] {
      TegulaArg args[] = {tegula_ptr(memory_, TEGULA_FP32, 256), tegula_ptr(memory_, TEGULA_FP32, 256), tegula_int(n),
                          tegula_int(64)};
      const int64_t grid[3] = {2, 1, 1};
      tegula_launch(f, grid, args, 4, nullptr, nullptr);
      tegula_value_repr(v);
      tegula_function_hash(f);
      TegulaParam p;
      tegula_function_param(f, 0, &p);
    };
    std::thread other(work);
    work();
    other.join();
  }

  /// Everything that describes a function or a module.
  void describe() {
    TegulaFunction *f = function();
    for (size_t i = 0; i < tegula_function_param_count(f) + 1; ++i) {
      TegulaParam p;
      tegula_function_param(f, i, &p);
    }
    tegula_cache_clear(c_.chance(2) ? nullptr : context_, nullptr);
  }

  Choices c_;
  TegulaContext *context_;
  std::vector<TegulaModule *> modules_;
  std::vector<TegulaFunction *> functions_;
  std::vector<TegulaKernel *> kernels_;
  std::vector<TegulaValue *> values_;
  std::vector<std::unique_ptr<std::string>> kept_;
  std::vector<std::unique_ptr<std::vector<TegulaArg>>> items_;
  std::vector<std::unique_ptr<TegulaTensorDescriptor>> storage_;
  std::vector<std::unique_ptr<TegulaArg>> descriptors_;
  alignas(64) char memory_[8192] = {};
};

} // namespace

/// Sizes that nobody has are asked for, too.
extern "C" const char *__asan_default_options() { return "allocator_may_return_null=1"; }

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  setenv("TEGULA_NVJITLINK", "/nonexistent", 1);
  setenv("TEGULA_PTXAS", "", 1);
  setenv("TEGULA_LIBCUDA", "/nonexistent", 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Session(Choices(std::span(data, size))).run();
  return 0;
}
