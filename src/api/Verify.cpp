// tegula_verify: one launch on two devices, on copies of the arguments' memory, and a comparison of the results.
#include "api/Compile.h"
#include "api/Sized.h"
#include "runtime/Dtype.h"
#include "tune/Memory.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

using namespace tegula;
using namespace tegula::api;
using runtime::Status;

namespace {

/// Memory of the caller that arguments point into; overlapping memory is one region.
struct Region {
  uintptr_t begin = 0, end = 0;
};

void collect(const TegulaArg *args, size_t count, std::vector<Region> &out, bool &unknown) {
  for (size_t i = 0; i < count; ++i) {
    const TegulaArg &a = args[i];
    if (a.kind == TEGULA_ARG_TUPLE && a.u.items) collect(a.u.items, a.count, out, unknown);
    if (a.kind != TEGULA_ARG_POINTER || !a.u.ptr) continue;
    unknown = unknown || a.u2.extent < 0;
    auto begin = reinterpret_cast<uintptr_t>(a.u.ptr);
    out.push_back({begin, begin + static_cast<uintptr_t>(std::max<int64_t>(a.u2.extent, 0))});
  }
}

/// Joins overlapping regions.
std::vector<Region> joined(std::vector<Region> all) {
  std::sort(all.begin(), all.end(), [](const Region &a, const Region &b) { return a.begin < b.begin; });
  std::vector<Region> out;
  for (const Region &r : all)
    if (!out.empty() && r.begin < out.back().end) out.back().end = std::max(out.back().end, r.end);
    else out.push_back(r);
  return out;
}

/// Copies of the regions on one device, and the arguments that point there.
class Side {
public:
  Side(TegulaContext &c, int32_t index) : context_(c), index_(index) {}
  ~Side() {
    for (const Copy &c : copies_) device_->free(c.memory);
  }
  Side(const Side &) = delete;

  Status open(const std::vector<Region> &regions) {
    Status status;
    DeviceEntry *entry = context_.device(index_, status);
    if (!entry) return status;
    if (!entry->unusable) return entry->unusable;
    device_ = entry->device;
    constexpr uintptr_t alignment = 256; // a copy is aligned at least like its original
    for (const Region &r : regions) {
      Copy c{r, nullptr, 0};
      if (Status s = device_->allocate(r.end - r.begin + 2 * alignment, &c.memory); !s) return s;
      copies_.push_back(c);
      auto at = reinterpret_cast<uintptr_t>(c.memory);
      copies_.back().there = (at + alignment - 1) / alignment * alignment + r.begin % alignment;
      if (Status s = device_->copyIn(reinterpret_cast<void *>(copies_.back().there), reinterpret_cast<void *>(r.begin),
                                     r.end - r.begin, nullptr);
          !s)
        return s;
    }
    return Status::ok();
  }

  std::vector<TegulaArg> moved(const TegulaArg *args, size_t count) {
    std::vector<TegulaArg> out(args, args + count);
    for (TegulaArg &a : out) {
      if (a.kind == TEGULA_ARG_TUPLE && a.u.items) a.u.items = tuples_.emplace_back(moved(a.u.items, a.count)).data();
      if (a.kind == TEGULA_ARG_POINTER && a.u.ptr)
        a.u.ptr = reinterpret_cast<void *>(thereOf(reinterpret_cast<uintptr_t>(a.u.ptr)));
    }
    return out;
  }

  /// Runs the launch and copies the resulting memory. The kernel is borrowed from the function.
  TegulaStatus run(TegulaFunction &f, const int64_t grid[3], const TegulaArg *args, size_t count,
                   TegulaLaunchOptions o) {
    o.device = index_;
    o.stream = nullptr, o.memory = nullptr;
    std::vector<TegulaArg> mine = moved(args, count);
    if (TegulaStatus s = tegula_launch(&f, grid, mine.data(), mine.size(), &o, &kernel); s != TEGULA_OK) return s;
    if (TegulaStatus s = tegula_synchronize(&context_, index_, nullptr); s != TEGULA_OK) return s;
    for (Copy &c : copies_) {
      std::vector<char> &to = results.emplace_back(c.region.end - c.region.begin);
      if (Status s = device_->copyOut(to.data(), reinterpret_cast<void *>(c.there), to.size(), nullptr); !s)
        return fail(s);
    }
    return TEGULA_OK;
  }
  /// The bytes behind an argument of the caller, as this side left them.
  const char *resultAt(uintptr_t address) const {
    for (size_t i = 0; i < copies_.size(); ++i)
      if (contains(copies_[i].region, address)) return results[i].data() + (address - copies_[i].region.begin);
    return nullptr;
  }
  std::string name() const { return device_->properties().name; }

  TegulaKernel *kernel = nullptr;
  std::vector<std::vector<char>> results; // of each region

private:
  struct Copy {
    Region region;
    void *memory;
    uintptr_t there;
  };
  static bool contains(const Region &r, uintptr_t address) {
    return r.begin <= address && (address < r.end || (r.begin == r.end && address == r.begin));
  }
  uintptr_t thereOf(uintptr_t address) const {
    for (const Copy &c : copies_)
      if (contains(c.region, address)) return c.there + (address - c.region.begin);
    return address;
  }
  TegulaContext &context_;
  int32_t index_;
  runtime::Device *device_ = nullptr;
  std::vector<Copy> copies_;
  std::vector<std::vector<TegulaArg>> tuples_;
};

/// A pointer argument of the call: its parameter, and the data for the comparison afterwards.
struct Buffer {
  std::string name;
  uintptr_t address = 0;
  uint64_t bytes = 0;
  TegulaDtype dtype = TEGULA_VOID;
};

void buffersOf(const std::string &name, const TegulaArg &a, std::vector<Buffer> &out) {
  if (a.kind == TEGULA_ARG_POINTER && a.u.ptr && a.u2.extent > 0)
    out.push_back({name, reinterpret_cast<uintptr_t>(a.u.ptr), static_cast<uint64_t>(a.u2.extent), a.dtype});
  for (uint32_t i = 0; a.kind == TEGULA_ARG_TUPLE && a.u.items && i < a.count; ++i) buffersOf(name, a.u.items[i], out);
}

/// Does tile IR guarantee the same bits on every device? Not if the order of summation depends on the device, functions
/// are approximated, a product may be fused into a sum, or dots round.
bool promisesBits(std::string_view tile, bool fusion) {
  auto has = [&](std::string_view word) { return tile.find(word) != tile.npos; };
  for (std::string_view word : {"approx = 1", " = dot ", " = exp ", " = exp2 ", " = log ", " = log2 ", " = sin ",
                                " = cos ", " = rsqrt ", " = erf ", " = tanh ", " = asm ", "call @"})
    if (has(word)) return false;
  const bool sums = has("fadd") || has("fsub"), products = has("fmul");
  if ((has(" = reduce ") || has(" = scan ") || has("atomic_rmw") || has("desc_reduce")) && (sums || products))
    return false;
  return !(fusion && sums && products);
}

/// Does the kernel use the results of atomics, which depend on the order in which programs run?
bool usesTickets(std::string_view tile) {
  for (size_t at = 0; (at = tile.find(" = atomic_", at)) != tile.npos; ++at) {
    // from the start if there is no line before
    const size_t line = tile.rfind('\n', at) + 1, name = tile.find_first_not_of(' ', line);
    const std::string value(tile.substr(name, at - name));
    for (size_t use = tile.find(value, at); use != tile.npos; use = tile.find(value, use + 1))
      if (const char next = use + value.size() < tile.size() ? tile[use + value.size()] : ' ';
          !std::isalnum(static_cast<unsigned char>(next)) && next != '_' && next != '.')
        return true;
  }
  return false;
}

/// The tolerance for results: the rounding of the intermediate arithmetic.
double toleranceFor(std::string_view tiles, TegulaDtype dtype) {
  double tolerance = tune::toleranceOf(dtype);
  auto has = [&](std::string_view word) { return tiles.find(word) != tiles.npos; };
  if (has("precision = \"tf32")) tolerance = std::max(tolerance, 0x1p-10);
  if (has("xf16")) tolerance = std::max(tolerance, tune::toleranceOf(TEGULA_FP16));
  if (has("xbf16")) tolerance = std::max(tolerance, tune::toleranceOf(TEGULA_BF16));
  if (has("xf8")) tolerance = std::max(tolerance, tune::toleranceOf(TEGULA_FP8E4NV));
  return tolerance;
}

std::string elementText(TegulaDtype d, const char *at) {
  const runtime::DtypeInfo &info = runtime::dtypeInfo(d);
  uint64_t bits = 0;
  std::memcpy(&bits, at, info.bytes);
  if (info.kind != runtime::DtypeInfo::Float) {
    const unsigned shift = 64 - 8 * info.bytes;
    return info.kind == runtime::DtypeInfo::Signed ? std::to_string(static_cast<int64_t>(bits << shift) >> shift)
                                                   : std::to_string(bits);
  }
  char text[40];
  std::snprintf(text, sizeof text, d == TEGULA_FP64 ? "%.17g" : "%.9g", runtime::floatFromBits(d, bits));
  return text;
}

/// Are the elements equal: the same bit pattern, or both NaN?
bool sameElement(TegulaDtype d, const char *a, const char *b) {
  const runtime::DtypeInfo &info = runtime::dtypeInfo(d);
  if (std::memcmp(a, b, info.bytes) == 0) return true;
  if (info.kind != runtime::DtypeInfo::Float) return false;
  uint64_t x = 0, y = 0;
  std::memcpy(&x, a, info.bytes), std::memcpy(&y, b, info.bytes);
  return std::isnan(runtime::floatFromBits(d, x)) && std::isnan(runtime::floatFromBits(d, y));
}

struct Difference {
  size_t index = 0, count = 0;
};

/// The first differing element, and the number of differing ones.
std::optional<Difference> differenceOf(TegulaDtype d, const char *a, const char *b, uint64_t bytes, bool exact,
                                       double tolerance) {
  const size_t width = runtime::dtypeInfo(d).bytes, n = bytes / width;
  const bool isFloat = runtime::dtypeInfo(d).kind == runtime::DtypeInfo::Float;
  double top = 0; // the largest of all: sums that cancel are as exact as their operands
  auto value = [&](const char *at) {
    uint64_t bits = 0;
    std::memcpy(&bits, at, width);
    return runtime::floatFromBits(d, bits);
  };
  if (isFloat && !exact)
    for (size_t i = 0; i < n; ++i)
      for (const char *at : {a + i * width, b + i * width})
        if (double v = std::fabs(value(at)); std::isfinite(v)) top = std::max(top, v);
  Difference found;
  for (size_t i = 0; i < n; ++i) {
    const char *x = a + i * width, *y = b + i * width;
    if (sameElement(d, x, y)) continue;
    if (isFloat && !exact) {
      double u = value(x), v = value(y);
      if (std::fabs(u - v) <= tolerance * (std::max(std::fabs(u), std::fabs(v)) + top)) continue;
    }
    if (!found.count++) found.index = i;
  }
  return found.count ? std::optional(found) : std::nullopt;
}

/// The lines that store through the argument, from a checked form of the kernel for a device, which records its
/// accesses.
void storesOf(TegulaFunction &f, const TegulaArg *args, size_t count, TegulaLaunchOptions o, int32_t device,
              const std::string &argument, std::set<std::string> &lines) {
  o.checked = 1, o.device = device, o.stream = nullptr, o.memory = nullptr;
  TegulaKernel *k = nullptr;
  if (tegula_compile(&f, args, count, &o, &k) != TEGULA_OK) return;
  for (const runtime::SiteInfo &s : k->info.sites) {
    bool stores = s.kind == runtime::SiteInfo::Kind::Store || s.kind == runtime::SiteInfo::Kind::Atomic;
    // Items of tuples are named "t.0", parts of descriptors "d.base".
    const std::string arg = s.arg >= 0 ? k->info.args[static_cast<size_t>(s.arg)].name : "";
    if (stores && (arg == argument || arg.starts_with(argument + ".")) && s.line)
      lines.insert(s.file + ":" + std::to_string(s.line));
  }
  release(k);
}

/// The line that stores the element. If only one device stores wrongly, it is found on that device; for a GPU, on the
/// simulator. With several stores, the launch is run with the argument ending before the element: if the first access
/// after the end is to this element, it is the store.
std::string storeOf(TegulaFunction &f, const int64_t grid[3], const TegulaArg *args, size_t count,
                    TegulaLaunchOptions o, const std::vector<Region> &regions, const Buffer &buffer, uint64_t offset) {
  Side side(*f.context, DeviceIndex::cpu);
  if (!side.open(regions)) return "";
  std::vector<TegulaArg> mine = side.moved(args, count);
  std::set<std::string> lines, others;
  storesOf(f, mine.data(), mine.size(), o, DeviceIndex::cpu, buffer.name, lines);
  storesOf(f, mine.data(), mine.size(), o, DeviceIndex::sim, buffer.name, others);
  const bool same = lines == others;
  lines.merge(others);
  if (lines.size() == 1) return "stored at " + *lines.begin();
  for (size_t i = 0; i < count; ++i)
    if (args[i].kind == TEGULA_ARG_POINTER && reinterpret_cast<uintptr_t>(args[i].u.ptr) == buffer.address)
      mine[i].u2.extent = static_cast<int64_t>(offset);
  o.checked = 1, o.num_threads = 1, o.device = DeviceIndex::cpu, o.stream = nullptr, o.memory = nullptr;
  if (same && tegula_launch(&f, grid, mine.data(), mine.size(), &o, nullptr) == TEGULA_FAULT)
    if (TegulaFault fault{}; tegula_last_fault(&fault) == TEGULA_OK && fault.kind == TEGULA_FAULT_KIND_BOUNDS &&
                             fault.index == static_cast<int64_t>(offset) && std::string_view(fault.message) != "load")
      return "stored at " + std::string(fault.file) + ":" + std::to_string(fault.line);
  std::string text;
  for (const std::string &l : lines) text += (text.empty() ? "" : ", ") + l;
  return text.empty() ? "" : "stored at one of " + text;
}

std::string tileOf(TegulaKernel &k) {
  const char *text = nullptr;
  size_t length = 0;
  return tegula_kernel_asm(&k, "tile", &text, &length) == TEGULA_OK ? std::string(text, length) : "";
}

} // namespace

namespace {

/// One launch on two devices, and the differences afterwards.
struct Comparison {
  TegulaFunction &f;
  const int64_t *grid;
  const TegulaArg *args;
  size_t count;
  TegulaLaunchOptions options;
  std::vector<Region> regions;
  double tolerance;
  std::string tiles, found; // found: "" if nothing differs
  bool exact = true;

  /// TEGULA_FAULT: a launch that fails on both devices has no results to compare. A launch that fails on a CPU or the
  /// simulator is not run on a GPU, where an error would make the process's context unusable.
  TegulaStatus run(int32_t first, int32_t second) {
    found.clear();
    Side a(*f.context, first), b(*f.context, second);
    for (Side *s : {&a, &b})
      if (Status status = s->open(regions); !status) return fail(status);
    const TegulaStatus one = a.run(f, grid, args, count, options);
    const std::string oneError = one == TEGULA_OK ? "" : tegula_last_error();
    if (one != TEGULA_OK && one != TEGULA_FAULT) return one;
    if (one == TEGULA_FAULT && first < DeviceIndex::firstCuda && second >= DeviceIndex::firstCuda) return one;
    const TegulaStatus two = b.run(f, grid, args, count, options);
    if (two != TEGULA_OK && two != TEGULA_FAULT) return two;
    if (one != TEGULA_OK && two != TEGULA_OK) return TEGULA_FAULT;
    if (one != two) {
      found = (one ? a : b).name() + " fails, " + (one ? b : a).name() +
              " does not: " + (one ? oneError : tegula_last_error());
      return TEGULA_OK;
    }
    tiles = tileOf(*a.kernel) + tileOf(*b.kernel);
    exact = tolerance == 0 || (tolerance < 0 && promisesBits(tiles, options.fp_fusion != 0));
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < count; ++i)
      buffersOf(i < f.params().size() ? f.params()[i].name : std::to_string(i), args[i], buffers);
    for (const Buffer &buffer : buffers) {
      const char *x = a.resultAt(buffer.address), *y = b.resultAt(buffer.address);
      if (!x || !y) continue;
      const uint64_t width = runtime::dtypeInfo(buffer.dtype).bytes;
      std::optional<Difference> d = differenceOf(buffer.dtype, x, y, buffer.bytes, exact,
                                                 tolerance > 0 ? tolerance : toleranceFor(tiles, buffer.dtype));
      if (!d) continue;
      std::string store = storeOf(f, grid, args, count, options, regions, buffer, d->index * width);
      found = "`" + buffer.name + "`[" + std::to_string(d->index) + "] is " +
              elementText(buffer.dtype, x + d->index * width) + " on " + a.name() + ", " +
              elementText(buffer.dtype, y + d->index * width) + " on " + b.name() + " (" + std::to_string(d->count) +
              " of " + std::to_string(buffer.bytes / width) + " differ)" + (store.empty() ? "" : "; " + store);
      return TEGULA_OK;
    }
    return TEGULA_OK;
  }
};

} // namespace

TegulaStatus tegula_verify(TegulaFunction *f, const int64_t grid[3], const TegulaArg *args, size_t count,
                           const TegulaLaunchOptions *options, int32_t first, int32_t second, double tolerance,
                           char **text) {
  if (!f || !grid || (!args && count) || !text) return fail(TEGULA_INVALID_ARGUMENT, "tegula_verify: null argument");
  Comparison c{*f, grid, args, count, TEGULA_LAUNCH_OPTIONS_INIT, {}, tolerance, {}, {}};
  if (options && !takeSized(options, c.options))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_verify: `size` of the options is not set");
  bool unknown = false;
  collect(args, count, c.regions, unknown);
  if (unknown) return fail(TEGULA_INVALID_ARGUMENT, "tegula_verify: the extent of a pointer is not known");
  c.regions = joined(std::move(c.regions));
  if (TegulaStatus s = c.run(first, second); s != TEGULA_OK) return s;
  // Programs that take numbers from atomics take others in another order; one thread runs them in order. A GPU has an
  // order of its own.
  if (!c.found.empty() && usesTickets(c.tiles)) {
    c.options.num_threads = 1;
    if (TegulaStatus s = c.run(first, second); s != TEGULA_OK) return s;
    if (!c.found.empty() && std::max(first, second) >= DeviceIndex::firstCuda)
      c.found += " (it uses what atomics give back, which depends on the order of programs)";
  }
  *text = strdup(c.found.empty() ? c.exact ? "=" : "~" : c.found.c_str());
  return TEGULA_OK;
}
