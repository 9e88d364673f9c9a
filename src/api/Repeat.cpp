// Making a Repeat; following it.
#include "api/Repeat.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include "runtime/Dtype.h"
#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tegula::api {

using lang::Scalar;

/// Fills in what `a`, which the long way took, says about arguments that go the same way.
bool Repeat::stepOf(const Param &p, const TegulaArg &a, Step &s) {
  s.kind = a.kind;
  s.dtype = a.dtype;
  s.words[0] = a.u.u;
  bool runtime = !p.isConstexpr, wideType = p.annotation.isInt() && !p.annotation.isBool();
  switch (a.kind) {
  case TEGULA_ARG_POINTER:
    s.is = Is::Pointer;
    s.aligns = p.specializeAlignment;
    s.divisible = reinterpret_cast<uintptr_t>(a.u.ptr) % 16 == 0;
    s.forbidden = TEGULA_ARG_WIDE;
    if (runtime) s.words[0] = static_cast<uint64_t>(bigTensorElements * runtime::dtypeInfo(p.annotated ? static_cast<TegulaDtype>(p.annotation.scalar) : a.dtype).bytes);
    return runtime && a.u2.extent < static_cast<int64_t>(s.words[0]) && !(a.flags & s.forbidden);
  case TEGULA_ARG_INT:
    // A 1 that became a constant stays one, and so does the value of a constexpr parameter.
    if (!runtime || (!p.annotated && a.dtype == TEGULA_VOID && a.u.i == 1 && p.specialize)) return s.is = Is::Constant, true;
    s.is = Is::Int;
    s.aligns = p.specializeAlignment && (!p.annotated || wideType);
    s.divisible = a.u.i % 16 == 0;
    s.sizes = !p.annotated && a.dtype == TEGULA_VOID;
    s.wide = a.u.i != static_cast<int32_t>(a.u.i);
    return true;
  case TEGULA_ARG_FLOAT: return s.is = runtime ? Is::Float : Is::Constant, true;
  case TEGULA_ARG_BOOL: return s.is = runtime ? Is::Bool : Is::Constant, true;
  case TEGULA_ARG_NONE: return s.is = Is::None, true;
  case TEGULA_ARG_VALUE:
    if (!a.u.value) return false;
    s.is = Is::Value;
    s.words[0] = a.u.value->keyWords()[0], s.words[1] = a.u.value->keyWords()[1];
    return true;
  default: return false;
  }
}

/// The bytes of a runtime argument that are copied as they are; 0: this type takes the long way.
static uint8_t plainBytes(Scalar s) {
  switch (s) {
  case Scalar::Int1: case Scalar::Int8: case Scalar::UInt8: return 1;
  case Scalar::Int16: case Scalar::UInt16: return 2;
  case Scalar::Int32: case Scalar::UInt32: case Scalar::Fp32: return 4;
  case Scalar::Int64: case Scalar::UInt64: case Scalar::Fp64: return 8;
  default: return 0;
  }
}

/// The kind, the type and the flags.
static uint32_t headOf(uint8_t kind, TegulaDtype dtype, uint16_t flags) {
  TegulaArg a{};
  a.kind = kind, a.dtype = dtype, a.flags = flags;
  uint32_t head;
  std::memcpy(&head, &a, sizeof head);
  return head;
}
static_assert(offsetof(TegulaArg, kind) < 4 && offsetof(TegulaArg, dtype) < 4 && offsetof(TegulaArg, flags) == 2 && sizeof(TegulaArg::flags) == 2);

std::unique_ptr<const Repeat> Repeat::of(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions &options,
                                         const CallOptions &call, TegulaKernel &kernel, bool keepsArgs) {
  if (!kernel.code || kernel.code->needsExtents() || kernel.info.argBytes > maxBytes) return nullptr;
  std::unique_ptr<Repeat> r(new Repeat(kernel));
  takeSized(&options, r->options_);
  r->options_.size = options.size; // is compared, too
  r->options_.stream = nullptr;
  r->threads_ = call.threads;
  r->hangNs_ = call.hangNs;
  r->device_ = call.device;
  const std::vector<Param> &params = f.params();
  size_t next = 0; // of kernel.pack
  SeenPointers pointers;
  for (size_t i = 0; i < params.size(); ++i) {
    const Param &p = params[i];
    r->defaults_.push_back(p.defaultArg.kind == TEGULA_ARG_MISSING ? nullptr : &p.defaultArg);
    const TegulaArg *a = i < count && args[i].kind != TEGULA_ARG_MISSING ? &args[i] : r->defaults_.back();
    if (keepsArgs) r->defaults_.back() = a;
    Step s;
    if (!a || !stepOf(p, *a, s)) return nullptr;
    if (s.is >= Is::Pointer) {
      if (next == kernel.pack.size() || kernel.pack[next].leaf != i || kernel.pack[next].isPtr != (s.is == Is::Pointer)) return nullptr;
      const PackItem &item = kernel.pack[next++];
      bool floats = item.scalar == Scalar::Fp32 || item.scalar == Scalar::Fp64;
      s.bytes = item.isPtr ? 8 : plainBytes(item.scalar);
      s.offset = item.offset;
      if (item.isPtr) {
        s.pointee = static_cast<TegulaDtype>(item.scalar);
        s.sameAs = static_cast<int16_t>(pointers.add(static_cast<uint32_t>(i), s.pointee, *a));
      }
      if (item.written) s.forbidden |= TEGULA_ARG_READ_ONLY;
      // What must be converted, or checked against the range of its type, takes the long way.
      if (s.bytes == 0 || (!item.isPtr && floats != (s.is == Is::Float))) return nullptr;
      // A number whose type the caller says (a C++ signature's) is looked at by matches().
      bool isSaid = s.dtype != TEGULA_VOID;
      if (s.is == Is::Int && isSaid && (s.dtype != static_cast<TegulaDtype>(item.scalar) || s.bytes < 4)) return nullptr;
      if (s.is == Is::Int && (item.scalar == Scalar::Int1 || (!isSaid && item.checkRange && item.scalar != Scalar::Int64))) return nullptr;
    }
    s.head = headOf(s.kind, s.dtype, 0);
    s.headMask = headOf(0xFF, static_cast<TegulaDtype>(0xFF), s.forbidden);
    r->steps_.push_back(s);
  }
  if (pointers.overlap()) {
    r->overlap_.resize(SeenPointers::most);
    r->overlap_.resize(pointers.groups(r->overlap_.data()));
  }
  return next == kernel.pack.size() ? std::move(r) : nullptr;
}

bool Repeat::hasOptions(const TegulaLaunchOptions &options) const {
  // All before the stream is compared; what comes behind it is for kernels with checks, which have no Repeat.
  return std::memcmp(&options, &options_, offsetof(TegulaLaunchOptions, stream)) == 0;
}

const Repeat *Repeat::forOptions(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions &options, const CallOptions &call) const {
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

// In line: a call for each argument was a tenth of a launch with 19 of them.
[[gnu::always_inline]] inline bool Repeat::matches(const Step &s, const TegulaArg &a, char *block) {
  uint32_t head;
  std::memcpy(&head, &a, sizeof head);
  if ((head & s.headMask) != s.head) return false;
  char *to = block + s.offset;
  switch (s.is) {
  case Is::Pointer:
    if (a.u.u == 0) return false; // launched with checks, see Launch.cpp
    if (s.aligns && (a.u.u % 16 == 0) != s.divisible) return false;
    if (a.u2.extent >= static_cast<int64_t>(s.words[0])) return false;
    std::memcpy(to, &a.u.u, 8);
    return true;
  case Is::Int:
    if (s.aligns && (a.u.u % 16 == 0) != s.divisible) return false;
    if (s.dtype == TEGULA_INT32 && a.u.i != static_cast<int32_t>(a.u.i)) return false;
    if (s.dtype == TEGULA_UINT32 && a.u.i != static_cast<uint32_t>(a.u.i)) return false;
    if (s.dtype == TEGULA_UINT64 && a.u.i < 0) return false;
    if (s.sizes && (a.u.i == 1 || (a.u.i != static_cast<int32_t>(a.u.i)) != s.wide)) return false;
    if (s.bytes == 4) std::memcpy(to, &a.u.u, 4);
    else if (s.bytes == 8) std::memcpy(to, &a.u.u, 8);
    else std::memcpy(to, &a.u.u, s.bytes);
    return true;
  case Is::Bool:
    if (a.u.u > 1) return false;
    std::memcpy(to, &a.u.u, s.bytes);
    return true;
  case Is::Float:
    if (s.bytes == 8) {
      std::memcpy(to, &a.u.f, 8);
    } else {
      float v = static_cast<float>(a.u.f);
      std::memcpy(to, &v, 4);
    }
    return true;
  case Is::Constant: return a.u.u == s.words[0];
  case Is::None: return true;
  case Is::Value: return a.u.value && a.u.value->keyWords()[0] == s.words[0] && a.u.value->keyWords()[1] == s.words[1];
  }
  return false;
}

bool Repeat::pack(const TegulaArg *args, size_t count, char *block) const {
  size_t n = steps_.size();
  SeenPointers pointers;
  if (count > n) return false;
  for (size_t i = 0; i < n; ++i) {
    const TegulaArg *a = i < count && args[i].kind != TEGULA_ARG_MISSING ? &args[i] : defaults_[i];
    if (!a || !matches(steps_[i], *a, block)) return false;
    if (const Step &s = steps_[i]; s.is == Is::Pointer && pointers.add(static_cast<uint32_t>(i), s.pointee, *a) != s.sameAs) return false;
  }
  if (!pointers.overlap()) [[likely]]
    return overlap_.empty();
  uint8_t groups[SeenPointers::most];
  const unsigned pointerCount = pointers.groups(groups);
  return pointerCount == overlap_.size() && std::equal(groups, groups + pointerCount, overlap_.data());
}

} // namespace tegula::api
