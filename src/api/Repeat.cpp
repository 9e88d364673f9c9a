// Making a Repeat, and packing calls with it.
#include "api/Repeat.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include "runtime/Dtype.h"
#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tegula::api {

using lang::Scalar;

/// The kind, the type and the flags.
static uint32_t headOf(const TegulaArg &a) {
  uint32_t head;
  std::memcpy(&head, &a, sizeof head);
  return head;
}
static uint32_t headOf(uint8_t kind, TegulaDtype dtype, uint16_t flags) {
  TegulaArg a{};
  a.kind = kind, a.dtype = dtype, a.flags = flags;
  return headOf(a);
}
static_assert(offsetof(TegulaArg, kind) < 4 && offsetof(TegulaArg, dtype) < 4 && offsetof(TegulaArg, flags) == 2 &&
              sizeof(TegulaArg::flags) == 2);

/// Fills in the conditions for arguments of the same kind as `a`, which took the long path.
bool Repeat::stepOf(const Param &p, const TegulaArg &a, Step &s) {
  // the span of 32 bits, and the first signed one
  constexpr uint64_t words32 = UINT32_MAX, low32 = static_cast<uint64_t>(INT32_MIN);
  s.head = headOf(a.kind, a.dtype, 0);
  s.headMask = headOf(0xFF, static_cast<TegulaDtype>(0xFF), a.kind == TEGULA_ARG_POINTER ? TEGULA_ARG_WIDE : 0);
  bool runtime = !p.isConstexpr, wideType = p.annotation.isInt() && !p.annotation.isBool();
  const auto aligns = [&] { s.alignment = 15, s.divisible = a.u.u % 16 == 0; };
  const auto constant = [&] { return s.is = Is::Constant, s.low = a.u.u, s.span = 0, true; };
  switch (a.kind) {
  case TEGULA_ARG_POINTER:
    s.is = Is::Pointer;
    if (p.specializeAlignment) aligns();
    s.low = 1, s.span = UINT64_MAX - 1; // null pointers are launched with checks, see Launch.cpp
    if (runtime)
      s.extents = bigTensorElements *
                  runtime::dtypeInfo(p.annotated ? static_cast<TegulaDtype>(p.annotation.scalar) : a.dtype).bytes;
    return runtime && a.u2.extent < s.extents && !(a.flags & TEGULA_ARG_WIDE);
  case TEGULA_ARG_INT:
    // A 1 that became a constant stays one, and so does the value of a constexpr parameter.
    if (!runtime || (!p.annotated && a.dtype == TEGULA_VOID && a.u.i == 1 && p.specialize)) return constant();
    s.is = Is::Int;
    if (p.specializeAlignment && (!p.annotated || wideType)) aligns();
    s.notOne = !p.annotated && a.dtype == TEGULA_VOID;
    if (s.notOne) { // its size determines its type
      const bool isWide = a.u.i != static_cast<int32_t>(a.u.i);
      s.low = isWide ? low32 + words32 + 1 : low32, s.span = isWide ? UINT64_MAX - words32 - 1 : words32;
    }
    if (a.dtype == TEGULA_INT32) s.low = low32, s.span = words32;
    if (a.dtype == TEGULA_UINT32) s.span = words32;
    if (a.dtype == TEGULA_UINT64) s.span = INT64_MAX;
    return true;
  case TEGULA_ARG_FLOAT: return runtime ? s.is = Is::Float, true : constant();
  case TEGULA_ARG_BOOL:
    if (!runtime) return constant();
    return s.is = Is::Bool, s.span = 1, true;
  case TEGULA_ARG_NONE: return s.is = Is::None, true;
  case TEGULA_ARG_VALUE:
    if (!a.u.value) return false;
    s.is = Is::Value;
    s.low = a.u.value->keyWords()[0], s.span = a.u.value->keyWords()[1];
    return true;
  default: return false;
  }
}

/// The bytes of a runtime argument that are copied unchanged; 0: this type takes the long path.
static uint8_t plainBytes(Scalar s) {
  switch (s) {
  case Scalar::Int1: case Scalar::Int8: case Scalar::UInt8: return 1;
  case Scalar::Int16: case Scalar::UInt16: return 2;
  case Scalar::Int32: case Scalar::UInt32: case Scalar::Fp32: return 4;
  case Scalar::Int64: case Scalar::UInt64: case Scalar::Fp64: return 8;
  default: return 0;
  }
}

std::unique_ptr<const Repeat> Repeat::of(TegulaFunction &f, const TegulaArg *args, size_t count,
                                         const TegulaLaunchOptions &options, const CallOptions &call,
                                         TegulaKernel &kernel, bool keepsArgs) {
  if (!kernel.code || kernel.code->needsExtents() || kernel.info.argBytes > maxBytes) return nullptr;
  std::unique_ptr<Repeat> r(new Repeat(kernel));
  takeSized(&options, r->options_);
  r->options_.size = options.size; // is compared, too
  r->options_.stream = nullptr;
  r->threads_ = call.threads;
  r->hangNs_ = call.hangNs;
  r->device_ = call.device;
  const std::vector<Param> &params = f.params();
  r->block_.resize(kernel.info.argBytes);
  static constexpr TegulaArg missing{};
  static_assert(missing.kind == TEGULA_ARG_MISSING);
  size_t next = 0; // of kernel.pack
  SeenPointers pointers;
  for (size_t i = 0; i < params.size(); ++i) {
    const Param &p = params[i];
    const TegulaArg *a = i < count && args[i].kind != TEGULA_ARG_MISSING ? &args[i] : &p.defaultArg;
    Step s;
    if (a->kind == TEGULA_ARG_MISSING || !stepOf(p, *a, s)) return nullptr;
    if (s.is >= Is::Pointer) {
      if (next == kernel.pack.size() || kernel.pack[next].leaf != i || kernel.pack[next].isPtr != (s.is == Is::Pointer))
        return nullptr;
      const PackItem &item = kernel.pack[next++];
      bool floats = item.scalar == Scalar::Fp32 || item.scalar == Scalar::Fp64;
      s.bytes = item.isPtr ? 8 : plainBytes(item.scalar);
      s.offset = static_cast<uint16_t>(item.offset);
      if (item.isPtr) {
        s.pointee = static_cast<TegulaDtype>(item.scalar);
        s.sameAs = static_cast<int16_t>(pointers.add(static_cast<uint32_t>(i), s.pointee, *a));
      }
      if (item.written) s.headMask |= headOf(0, TEGULA_VOID, TEGULA_ARG_READ_ONLY);
      // Arguments that need a conversion, or a check against the range of their type, take the long path.
      if (s.bytes == 0 || (!item.isPtr && floats != (s.is == Is::Float))) return nullptr;
      // A number with a type from the caller (a C++ signature's) is checked by matches().
      bool isSaid = a->dtype != TEGULA_VOID;
      if (s.is == Is::Int && isSaid && (a->dtype != static_cast<TegulaDtype>(item.scalar) || s.bytes < 4))
        return nullptr;
      if (s.is == Is::Int &&
          (item.scalar == Scalar::Int1 || (!isSaid && item.checkRange && item.scalar != Scalar::Int64)))
        return nullptr;
    }
    Kept kept;
    kept.parameter = static_cast<uint32_t>(i);
    const bool fits = matches(s, *a, r->block_.data());
    r->isKept_ &= fits;
    // The memory after an object may differ at the next call, and None has no bits.
    if (fits && s.is != Is::Value && s.is != Is::None)
      kept.head = headOf(*a), kept.bits = a->u.u, kept.extent = s.is == Is::Pointer ? a->u2.extent : 0;
    const auto place = static_cast<std::ptrdiff_t>(s.is == Is::Pointer ? r->pointers_++ : r->steps_.size());
    r->kept_.insert(r->kept_.begin() + place, kept);
    r->steps_.insert(r->steps_.begin() + place, s);
    r->fallbacks_.insert(r->fallbacks_.begin() + place, keepsArgs                                 ? a
                                                        : p.defaultArg.kind != TEGULA_ARG_MISSING ? &p.defaultArg
                                                                                                  : &missing);
  }
  if (pointers.overlap()) {
    r->overlap_.resize(SeenPointers::most);
    r->overlap_.resize(pointers.groups(r->overlap_.data()));
  }
  return next == kernel.pack.size() ? std::move(r) : nullptr;
}

bool Repeat::hasOptions(const TegulaLaunchOptions &options) const {
  // All fields before the stream are compared; the later ones are for kernels with checks, which have no Repeat.
  return std::memcmp(&options, &options_, offsetof(TegulaLaunchOptions, stream)) == 0;
}

const Repeat *Repeat::forOptions(TegulaFunction &f, const TegulaArg *args, size_t count,
                                 const TegulaLaunchOptions &options, const CallOptions &call) const {
  const Repeat *r = this;
  for (unsigned forms = 1; !r->hasOptions(options); ++forms) {
    const Repeat *next = r->next_.load(std::memory_order_acquire);
    if (!next) {
      std::unique_ptr<const Repeat> made = forms < mostForms ? of(f, args, count, options, call, kernel_) : nullptr;
      if (!made) return nullptr;
      // Another thread may have been faster, with the same options or others.
      if (r->next_.compare_exchange_strong(next, made.get(), std::memory_order_acq_rel)) next = made.release();
    }
    r = next;
  }
  return r;
}

/// Is it equal to the kept argument, except for the extent?
inline bool Repeat::Kept::is(const TegulaArg &a) const { return headOf(a) == head && a.u.u == bits; }

// Inlined: a call for each argument was a tenth of a launch with 19 of them.
[[gnu::always_inline]] inline bool Repeat::matches(const Step &s, const TegulaArg &a, char *block) {
  if ((headOf(a) & s.headMask) != s.head) return false;
  const uint64_t bits = a.u.u;
  if (s.is == Is::Value) [[unlikely]]
    return a.u.value && a.u.value->keyWords()[0] == s.low && a.u.value->keyWords()[1] == s.span;
  if ((bits - s.low > s.span) | (((bits & s.alignment) == 0) != s.divisible) | (s.notOne & (bits == 1))) return false;
  char *to = block + s.offset;
  if (s.is == Is::Pointer) {
    std::memcpy(to, &bits, 8);
    return a.u2.extent < s.extents;
  }
  if (s.is == Is::Int || s.is == Is::Bool) {
    if (s.bytes == 4) std::memcpy(to, &bits, 4);
    else if (s.bytes == 8) std::memcpy(to, &bits, 8);
    else std::memcpy(to, &bits, s.bytes);
  } else if (s.is == Is::Float) {
    const float single = static_cast<float>(a.u.f);
    if (s.bytes == 8) std::memcpy(to, &a.u.f, 8);
    else std::memcpy(to, &single, 4);
  }
  return true;
}

inline const TegulaArg &Repeat::given(size_t step, const TegulaArg *args, size_t count) const {
  const size_t i = kept_[step].parameter;
  return i < count && args[i].kind != TEGULA_ARG_MISSING ? args[i] : *fallbacks_[step];
}

/// Are the same pointers equal, and do the same ones overlap, as in the kept call?
bool Repeat::sharesAsKept(const TegulaArg *args, size_t count) const {
  SeenPointers pointers;
  for (size_t k = 0; k < pointers_; ++k)
    if (pointers.add(kept_[k].parameter, steps_[k].pointee, given(k, args, count)) != steps_[k].sameAs) return false;
  if (!pointers.overlap()) [[likely]]
    return overlap_.empty();
  uint8_t groups[SeenPointers::most];
  const unsigned pointerCount = pointers.groups(groups);
  return pointerCount == overlap_.size() && std::equal(groups, groups + pointerCount, overlap_.data());
}

bool Repeat::pack(const TegulaArg *args, size_t count, char *block) const {
  const size_t n = steps_.size();
  if (count > n) return false;
  std::memcpy(block, block_.data(), block_.size());
  const Kept *const kept = kept_.data();
  const Step *const steps = steps_.data();
  bool otherPointers = false;
  for (size_t k = 0; k < pointers_; ++k) {
    const TegulaArg &a = given(k, args, count);
    if (kept[k].is(a) && a.u2.extent == kept[k].extent) continue;
    if (!matches(steps[k], a, block)) return false;
    otherPointers = true;
  }
  for (size_t k = pointers_; k < n; ++k)
    if (const TegulaArg &a = given(k, args, count); !kept[k].is(a) && !matches(steps[k], a, block)) return false;
  return !otherPointers || sharesAsKept(args, count);
}

std::unique_ptr<const WordPack> Repeat::words() const {
  if (!isKept_ || !overlap_.empty()) return nullptr;
  std::vector<size_t> order; // of the block's steps, by parameter
  for (size_t k = 0; k < steps_.size(); ++k)
    if (steps_[k].is >= Is::Pointer) order.push_back(k);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return kept_[a].parameter < kept_[b].parameter; });
  auto pack = std::make_unique<WordPack>();
  for (size_t k : order) {
    const Step &s = steps_[k];
    TegulaArg type{};
    std::memcpy(&type, &kept_[k].head, sizeof kept_[k].head);
    const bool asItLies = type.dtype == TEGULA_INT32 || type.dtype == TEGULA_UINT32 || type.dtype == TEGULA_INT64 ||
                          (type.dtype == TEGULA_FP32 && s.bytes == 4) || (type.dtype == TEGULA_FP64 && s.bytes == 8);
    if (s.is == Is::Int || s.is == Is::Float ? !asItLies || s.notOne : s.sameAs >= 0) return nullptr;
    if (!pack->add({s.offset, s.alignment, s.divisible})) return nullptr;
    if (s.is == Is::Pointer)
      pack->addPointer({kept_[k].bits, kept_[k].extent, s.extents, (type.flags & TEGULA_ARG_READ_ONLY) != 0});
  }
  return pack;
}

bool Repeat::packKept(char *block) const {
  std::memcpy(block, block_.data(), block_.size());
  return isKept_;
}

} // namespace tegula::api
