// From argument bytes to the arguments of cuTensorMapEncodeTiled, and the cache of a kernel's few maps.
#include "runtime/TensorMaps.h"
#include "support/Gate.h"
#include "runtime/Dtype.h"

namespace tegula::runtime {

/// The driver's CUtensorMapDataType; every 8-bit type is bytes. Signedness matters for minimum and maximum.
static int32_t dataType(TegulaDtype d) {
  static constexpr int8_t table[] = {-1, 0, 0, 1, 3, 5, 0, 1, 2, 4, 0, 0, 0, 0, 0, 6, 9, 7, 8};
  static_assert(sizeof table == TEGULA_FP64 + 1);
  return d <= TEGULA_FP64 ? table[d] : -1;
}

int64_t integerOf(const ArgInfo &a, const char *args) {
  const char *from = args + a.offset;
  auto as = [&](auto v) {
    std::memcpy(&v, from, sizeof v);
    return static_cast<int64_t>(v);
  };
  if (a.isPtr) return as(int64_t());
  switch (a.dtype) {
  case TEGULA_INT1: case TEGULA_UINT8: return as(uint8_t());
  case TEGULA_INT8: return as(int8_t());
  case TEGULA_INT16: return as(int16_t());
  case TEGULA_UINT16: return as(uint16_t());
  case TEGULA_INT32: return as(int32_t());
  case TEGULA_UINT32: return as(uint32_t());
  default: return as(int64_t());
  }
}

/// The value of an argument; 1 without one.
static int64_t factorOf(int32_t arg, const KernelInfo &info, const char *args) {
  return arg < 0 ? 1 : integerOf(info.args[static_cast<size_t>(arg)], args);
}

static int64_t valueOf(const TensorMapTerm &t, const KernelInfo &info, const char *args, const int32_t *grid) {
  int64_t n = t.value * factorOf(t.arg, info, args) * factorOf(t.arg2, info, args);
  return t.gridAxis < 0 ? n : n * grid[t.gridAxis];
}

/// The driver orders dimensions from the innermost, and measures strides in bytes.
static sim::TensorMapSpec specOf(const TensorMapInfo &m, const KernelInfo &info, const char *args,
                                 const int32_t *grid) {
  sim::TensorMapSpec s;
  constexpr int32_t roundedFloat = 11; // TFLOAT32
  s.dataType = m.roundTf32 ? roundedFloat : dataType(m.dtype);
  s.rank = static_cast<uint32_t>(m.box.size());
  s.address = static_cast<uint64_t>(valueOf(m.base, info, args, grid));
  const int64_t bytes = sim::tensorElementBytes(s.dataType);
  for (uint32_t i = 0; i < s.rank; ++i) {
    uint32_t d = s.rank - 1 - i;
    s.dims[i] = static_cast<uint64_t>(valueOf(m.extents[d], info, args, grid));
    s.box[i] = m.box[d];
    if (i == 0) s.dims[0] /= m.merged;
    else s.strides[i - 1] = static_cast<uint64_t>(valueOf(m.strides[d], info, args, grid) * bytes);
  }
  // UINT64, UINT32, UINT16
  if (const int64_t word = m.merged * bytes; m.merged > 1) s.dataType = word == 8 ? 4 : word == 4 ? 2 : 1;
  s.swizzle = m.swizzle == 128 ? 3 : m.swizzle == 64 ? 2 : m.swizzle == 32 ? 1 : 0;
  s.l2Promotion = 2; // whole lines of 128 bytes
  s.oobFill = m.nanFill;
  return s;
}

static bool same(const sim::TensorMapSpec &a, const sim::TensorMapSpec &b) {
  // The parts that the kernel fixes (type, rank, box, modes) are equal for all entries of one map.
  return a.address == b.address && std::memcmp(a.dims, b.dims, sizeof a.dims) == 0 &&
         std::memcmp(a.strides, b.strides, sizeof a.strides) == 0;
}

TensorMaps::TensorMaps(const KernelInfo &info, Encode encode) : encode_(encode), recent_(info.tensorMaps.size()) {}

const TensorMaps::Entry *TensorMaps::find(Recent &r, const sim::TensorMapSpec &spec) const {
  for (size_t i = 0; i < r.entries.size(); ++i) {
    size_t at = (r.last + i) % r.entries.size();
    if (same(r.entries[at].spec, spec)) return r.last = at, &r.entries[at];
  }
  return nullptr;
}

Status TensorMaps::append(const KernelInfo &info, const void *device, char *args, const int32_t *grid) {
  constexpr size_t remembered = 8;
  if (recent_.empty()) return Status::ok();
  GateSection section;
  std::lock_guard lock(mutex_);
  char *to = args + mapsOffset(info);
  for (size_t i = 0; i < recent_.size(); ++i, to += tensorMapBytes) {
    Recent &r = recent_[i];
    sim::TensorMapSpec spec = specOf(info.tensorMaps[i], info, args, grid);
    const Entry *e = find(r, spec);
    if (!e) {
      Entry fresh{spec, {}};
      if (std::string why = encode_(device, spec, fresh.map); !why.empty()) {
        std::string name = info.args[static_cast<size_t>(info.tensorMaps[i].base.arg)].name;
        if (name.ends_with(".base")) name.resize(name.size() - 5);
        return Status::error(TEGULA_INVALID_ARGUMENT,
                             "`" + info.name + "`: tensor descriptor of `" + name + "`: " + why);
      }
      r.last = r.next;
      r.next = (r.next + 1) % remembered;
      if (r.last < r.entries.size()) r.entries[r.last] = fresh;
      else r.entries.push_back(fresh);
      e = &r.entries[r.last];
    }
    std::memcpy(to, e->map, tensorMapBytes);
  }
  return Status::ok();
}

} // namespace tegula::runtime
