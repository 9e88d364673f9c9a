// Serialization of KernelInfo; the order of the fields is the format (CacheFile.h holds its version).
#include "runtime/Kernel.h"
#include "runtime/Dtype.h"
#include "runtime/TensorMaps.h"
#include <algorithm>
#include <unistd.h>

namespace tegula::runtime {

static void write(ByteWriter &w, const SiteInfo &s) {
  w.u8(static_cast<uint8_t>(s.kind));
  w.str(s.file), w.str(s.function), w.str(s.text);
  w.u32(s.line), w.u32(s.column), w.u32(static_cast<uint32_t>(s.arg));
  w.u8(s.hex);
  w.u64(s.operands.size());
  for (const PrintOperand &o : s.operands) {
    w.u8(o.dtype), w.u8(o.isPtr);
    w.u64(o.shape.size());
    for (int64_t n : o.shape) w.u64(static_cast<uint64_t>(n));
  }
}

static bool read(ByteReader &r, SiteInfo &s, size_t args) {
  uint8_t kind = r.u8();
  if (kind > static_cast<uint8_t>(SiteInfo::Kind::Other)) return false;
  s.kind = static_cast<SiteInfo::Kind>(kind);
  s.file = r.str(), s.function = r.str(), s.text = r.str();
  s.line = r.u32(), s.column = r.u32(), s.arg = static_cast<int32_t>(r.u32());
  if (s.arg < -1 || s.arg >= static_cast<int64_t>(args)) return false;
  s.hex = r.flag();
  s.operands.resize(r.count(10));
  for (PrintOperand &o : s.operands) {
    o.dtype = r.u8(), o.isPtr = r.flag();
    if (o.dtype > TEGULA_FP64) return false;
    o.shape.resize(r.count(8));
    for (int64_t &n : o.shape) {
      n = static_cast<int64_t>(r.u64());
      if (n < 1) return false;
    }
  }
  return !r.failed();
}

static void write(ByteWriter &w, const TensorMapTerm &t) {
  w.u32(static_cast<uint32_t>(t.arg)), w.u32(static_cast<uint32_t>(t.arg2)), w.u64(static_cast<uint64_t>(t.value)),
      w.u32(static_cast<uint32_t>(t.gridAxis));
}
static void read(ByteReader &r, TensorMapTerm &t) {
  t.arg = static_cast<int32_t>(r.u32()), t.arg2 = static_cast<int32_t>(r.u32()),
  t.value = static_cast<int64_t>(r.u64()), t.gridAxis = static_cast<int32_t>(r.u32());
}

static void write(ByteWriter &w, const TensorMapInfo &m) {
  w.u8(m.dtype), w.u8(m.nanFill), w.u8(m.swizzle), w.u8(m.roundTf32), w.u8(m.merged);
  w.u64(m.box.size());
  write(w, m.base);
  for (size_t d = 0; d < m.box.size(); ++d) write(w, m.extents[d]), write(w, m.strides[d]), w.u32(m.box[d]);
}

static bool read(ByteReader &r, TensorMapInfo &m, size_t args) {
  m.dtype = r.u8(), m.nanFill = r.flag(), m.swizzle = r.u8(), m.roundTf32 = r.flag(), m.merged = r.u8();
  size_t rank = r.count(36);
  if (m.dtype > TEGULA_FP64 || m.merged < 1 || m.merged > 8 || rank < 1 || rank > 5) return false;
  m.extents.resize(rank), m.strides.resize(rank), m.box.resize(rank);
  auto isArg = [&](int32_t i) { return i >= -1 && i < static_cast<int64_t>(args); };
  auto known = [&](const TensorMapTerm &t) {
    return isArg(t.arg) && isArg(t.arg2) && t.gridAxis >= -1 && t.gridAxis < 3;
  };
  read(r, m.base);
  bool ok = known(m.base) && m.base.arg >= 0;
  for (size_t d = 0; d < rank; ++d) {
    read(r, m.extents[d]), read(r, m.strides[d]), m.box[d] = r.u32();
    ok = ok && known(m.extents[d]) && known(m.strides[d]);
  }
  return ok && !r.failed();
}

template <typename W, typename P> static void writePlace(W &w, const P &p) {
  w.str(p.file), w.u32(p.line), w.u32(p.column);
}
template <typename R, typename P> static void readPlace(R &r, P &p) {
  p.file = r.str(), p.line = r.u32(), p.column = r.u32();
}

/// Packed into one word with clusterCtas, so that files without them are read as before.
static constexpr uint32_t splitsBit = 256, formsBit = 512, blocksShift = 16;

void write(ByteWriter &w, const KernelInfo &k) {
  w.str(k.name), w.str(k.symbol);
  w.u64(k.args.size());
  for (const ArgInfo &a : k.args) {
    w.str(a.name);
    w.u8(a.dtype), w.u8(a.isPtr), w.u8(a.read), w.u8(a.written);
    w.u32(a.offset);
  }
  w.u32(k.argBytes);
  w.u64(k.scratchBytes), w.u64(k.stackBytes);
  w.u8(k.checked), w.u8(k.waits);
  const GpuInfo &g = k.gpu;
  for (uint32_t n : {g.threads,
                     g.clusterCtas | (g.splitsByGrid ? splitsBit : 0) | (k.forms.asks() ? formsBit : 0) |
                         uint32_t{g.mostBlocks} << blocksShift,
                     g.sharedBytes, g.use.registers, g.use.spillBytes, g.use.localBytes, g.use.sharedBytes})
    w.u32(n);
  w.u8(g.cooperative), w.u8(g.programmaticLaunch);
  w.u64(k.sites.size());
  for (const SiteInfo &s : k.sites) write(w, s);
  w.u64(g.tiles.size());
  for (const SharedTileInfo &t : g.tiles) w.u64(t.bytes), w.str(t.what), writePlace(w, t);
  w.u64(k.remarks.size());
  for (const RemarkInfo &m : k.remarks) w.str(m.kind), w.str(m.text), writePlace(w, m);
  w.u64(k.tensorMaps.size());
  for (const TensorMapInfo &m : k.tensorMaps) write(w, m);
  write(w, k.work);
  if (k.forms.asks()) write(w, k.forms);
}

bool read(ByteReader &r, KernelInfo &k) {
  k.name = r.str(), k.symbol = r.str();
  k.args.resize(r.count(15));
  for (ArgInfo &a : k.args) {
    a.name = r.str();
    a.dtype = r.u8(), a.isPtr = r.flag(), a.read = r.flag(), a.written = r.flag();
    a.offset = r.u32();
    if (a.dtype > TEGULA_FP64) return false;
  }
  k.argBytes = r.u32();
  for (const ArgInfo &a : k.args)
    if (uint64_t(a.offset) + (a.isPtr ? 8 : dtypeInfo(a.dtype).bytes) > k.argBytes) return false;
  k.scratchBytes = r.u64(), k.stackBytes = r.u64();
  k.checked = r.flag(), k.waits = r.flag();
  GpuInfo &g = k.gpu;
  for (uint32_t *n : {&g.threads, &g.clusterCtas, &g.sharedBytes, &g.use.registers, &g.use.spillBytes,
                      &g.use.localBytes, &g.use.sharedBytes})
    *n = r.u32();
  g.splitsByGrid = g.clusterCtas & splitsBit;
  const bool hasForms = g.clusterCtas & formsBit;
  g.mostBlocks = static_cast<uint8_t>(g.clusterCtas >> blocksShift);
  g.clusterCtas &= ~(splitsBit | formsBit | uint32_t{UINT8_MAX} << blocksShift);
  g.cooperative = r.flag(), g.programmaticLaunch = r.flag();
  if (g.threads > 1024 || g.clusterCtas < 1 || g.clusterCtas > 16) return false;
  k.sites.resize(r.count(46));
  for (SiteInfo &s : k.sites)
    if (!read(r, s, k.args.size())) return false;
  g.tiles.resize(r.count(32));
  for (SharedTileInfo &t : g.tiles) t.bytes = r.u64(), t.what = r.str(), readPlace(r, t);
  k.remarks.resize(r.count(32));
  for (RemarkInfo &m : k.remarks) m.kind = r.str(), m.text = r.str(), readPlace(r, m);
  k.tensorMaps.resize(r.count(51));
  if (k.tensorMaps.size() > maxTensorMaps) return false;
  for (TensorMapInfo &m : k.tensorMaps)
    if (!read(r, m, k.args.size())) return false;
  return read(r, k.work, k.args.size()) && (!hasForms || read(r, k.forms, k.args.size())) && !r.failed();
}

Status tooMuchShared(const KernelInfo &info, uint64_t needed, uint64_t limit, const std::string &where) {
  std::string text = "`" + info.name + "` needs " + std::to_string(needed) + " bytes per block, " + where + " has " +
                     std::to_string(limit);
  if (!info.gpu.tiles.empty()) {
    const SharedTileInfo &t = info.gpu.tiles.front();
    text += "; most of it, " + std::to_string(t.bytes) + " bytes, is for ";
    text += t.file.empty() ? "`" + t.what + "`"
                           : "the tile of " + t.file + ":" + std::to_string(t.line) + ":" + std::to_string(t.column);
  }
  return Status::exhausted("shared memory", needed, limit, text + ". Smaller blocks or a smaller num_stages help");
}

CpuKernel::CpuKernel(KernelInfo info, TegulaCpuEntry entry) : info_(std::move(info)), entry_(entry) {
  // Signal handlers run on any thread; printing makes text and passes it to the user's code.
  constexpr size_t forHandlers = 32 << 10, forPrinting = 512 << 10;
  bool prints = std::any_of(info_.sites.begin(), info_.sites.end(),
                            [](const SiteInfo &s) { return s.kind == SiteInfo::Kind::Print; });
  stackNeed_ = std::min<uint64_t>(info_.stackBytes, uint64_t(1) << 40) + (prints ? forPrinting : forHandlers);
  // Stacks are touched as far as they are used, scratch may be touched completely: at most half of the machine's
  // memory.
  uint64_t memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGE_SIZE));
  inFlightLimit_ = std::clamp<uint64_t>(memory / 2 / (info_.scratchBytes / 4096 * 4096 + 16384), 1, maxInFlight);
}

std::unique_ptr<CpuKernel> CpuKernel::load(KernelInfo info, std::span<const char> object, Status &status) {
  std::unique_ptr<LoadedObject> loaded = LoadedObject::load(object, status);
  if (!loaded) return nullptr;
  void *entry = loaded->symbol(info.symbol);
  if (!entry) {
    status = Status::error(TEGULA_INTERNAL_ERROR, "the object has no entry point `" + info.symbol + "`");
    return nullptr;
  }
  auto k = std::make_unique<CpuKernel>(std::move(info), reinterpret_cast<TegulaCpuEntry>(entry));
  k->object_ = std::move(loaded);
  return k;
}

} // namespace tegula::runtime
