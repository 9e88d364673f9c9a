#include "api/CompareThere.h"
#include "runtime/Dtype.h"
#include <iterator>

namespace tegula::api {

// The same as src/tune/Compare.cpp, line by line: blocks of as many elements; a block with a difference is compared
// again.
static constexpr int64_t block = 1024;
static constexpr const char kernels[] = R"(import tegula
import tegula.language as tl


@tegula.jit
def load_pair(a, b, n, T: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return tl.load(a + i, mask=i < n, other=0).to(T), tl.load(b + i, mask=i < n, other=0).to(T)


@tegula.jit
def largest(a, b, words, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    T: tl.constexpr = tl.float64 if WIDE else tl.float32
    INT: tl.constexpr = tl.int64 if WIDE else tl.int32
    x, y = load_pair(a, b, n, T, BLOCK)
    u, v = tl.abs(x), tl.abs(y)
    # Of numbers that are not negative the bits are ordered as they are.
    found = tl.maximum(tl.where(u < float("inf"), u, 0).to(INT, bitcast=True), tl.where(v < float("inf"), v, 0).to(INT, bitcast=True))
    tl.atomic_max(words, tl.max(found).to(tl.int64))


@tegula.jit
def apart_floats(a, b, words, n, TOLERANCE: tl.constexpr, MOST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    T: tl.constexpr = tl.float64 if WIDE else tl.float32
    INT: tl.constexpr = tl.int64 if WIDE else tl.int32
    x, y = load_pair(a, b, n, T, BLOCK)
    top = tl.load(words).to(INT).to(T, bitcast=True)
    limit = tl.full((BLOCK,), TOLERANCE, tl.float64).to(T) * (tl.maximum(tl.abs(x), tl.abs(y)) + top)
    limit = tl.where(limit < float("inf"), limit, tl.full((BLOCK,), MOST, tl.float64).to(T))
    # What is not finite fails here, too.
    first = tl.sum((tl.abs(x - y) <= limit).to(tl.int32))
    u, v = x.to(tl.float64), y.to(tl.float64)
    finite = (tl.abs(u) < float("inf")) & (tl.abs(v) < float("inf"))
    near = tl.abs(u - v) <= tl.full((BLOCK,), TOLERANCE, tl.float64) * (tl.maximum(tl.abs(u), tl.abs(v)) + top.to(tl.float64))
    same = (u == v) | ((u != u) & (v != v)) | (finite & near)
    second = tl.sum(same.to(tl.int32))
    if (first < BLOCK) & (second < BLOCK):
        tl.atomic_add(words + 1, (BLOCK - second).to(tl.int64))


@tegula.jit
def apart_others(a, b, words, n, BLOCK: tl.constexpr):
    x, y = load_pair(a, b, n, a.dtype.element_ty, BLOCK)
    count = tl.sum((x != y).to(tl.int32))
    if count > 0:
        tl.atomic_add(words + 1, count.to(tl.int64))
)";

CompareThere::CompareThere(TegulaContext &context, int32_t device, void *stream)
    : context_(context), index_(device), stream_(stream) {}

CompareThere::~CompareThere() {
  if (words_) device_->free(words_);
}

bool CompareThere::open() {
  if (words_) return true;
  if (!device_) {
    runtime::Status status;
    DeviceEntry *entry = context_.device(index_, status);
    if (!entry) return false;
    device_ = entry->device;
    TegulaModule *m = nullptr;
    if (tegula_module_from_text(&context_, "compare_results.py", kernels, sizeof kernels - 1, &m) != TEGULA_OK)
      return false;
    module_ = Ref(m);
    tegula_module_release(m);
    struct {
      const char *name;
      Ref<TegulaFunction> &to;
    } const all[] = {{"largest", largest_}, {"apart_floats", floats_}, {"apart_others", others_}};
    for (auto &row : all) {
      TegulaFunction *f = nullptr;
      if (tegula_module_function(m, row.name, &f) != TEGULA_OK) return false;
      row.to = Ref(f);
      tegula_function_release(f);
    }
  }
  return others_.get() && device_->allocate(2 * sizeof(int64_t), &words_);
}

bool CompareThere::launch(TegulaFunction &f, const TegulaArg *args, size_t count, int64_t elements) {
  TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
  o.device = index_;
  o.stream = stream_;
  const int64_t grid[3] = {(elements + block - 1) / block, 1, 1};
  return tegula_launch(&f, grid, args, count, &o, nullptr) == TEGULA_OK;
}

std::optional<bool> CompareThere::operator()(TegulaDtype dtype, const void *a, const void *b, uint64_t bytes,
                                             double tolerance) {
  if (!bytes) return true;
  if (!open() || !device_->fill(words_, 0, 2 * sizeof(int64_t), stream_)) return std::nullopt;
  const bool isFloat = runtime::dtypeInfo(dtype).kind == runtime::DtypeInfo::Float, isWide = dtype == TEGULA_FP64;
  // Types that are compared exactly are compared as words.
  const TegulaDtype type = isFloat ? dtype : bytes % 4 == 0 ? TEGULA_INT32 : TEGULA_INT8;
  const auto count = static_cast<int64_t>(bytes / tegula_dtype_bytes(type)), extent = static_cast<int64_t>(bytes);
  const TegulaArg x = tegula_ptr(const_cast<void *>(a), type, extent),
                  y = tegula_ptr(const_cast<void *>(b), type, extent),
                  words = tegula_ptr(words_, TEGULA_INT64, 2 * sizeof(int64_t)), n = tegula_int(count),
                  size = tegula_int(block), wide = tegula_bool(isWide);
  bool ok;
  if (isFloat) {
    const double most = isWide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    const TegulaArg first[] = {x, y, words, n, wide, size},
                    then[] = {x, y, words, n, tegula_float(tolerance), tegula_float(most), wide, size};
    ok = launch(*largest_, first, std::size(first), count) && launch(*floats_, then, std::size(then), count);
  } else {
    const TegulaArg all[] = {x, y, words, n, size};
    ok = launch(*others_, all, std::size(all), count);
  }
  int64_t found[2];
  if (!ok || !device_->copyOut(found, words_, sizeof found, stream_)) return std::nullopt;
  return found[1] == 0;
}

} // namespace tegula::api
