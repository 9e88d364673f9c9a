// Arguments of launches, and the compile-time objects among them. Included by tegula/tegula.hpp.
#pragma once
#include "tegula/host/status.hpp"
#include "tegula/tile/elements.hpp"
#include <bit>
#include <ranges>
#include <span>
#include <string_view>

namespace tegula {
inline namespace v0 {
namespace detail {
/// Shared owner of a C handle.
template <typename H, void (*Retain)(H *), void (*Release)(H *)> class Handle {
public:
  Handle() = default;
  /// Takes over one reference.
  explicit Handle(H *h) : h_(h) {}
  Handle(const Handle &o) : h_(o.h_) { if (h_) Retain(h_); }
  Handle(Handle &&o) noexcept : h_(std::exchange(o.h_, nullptr)) {}
  Handle &operator=(Handle o) noexcept { std::swap(h_, o.h_); return *this; }
  ~Handle() { Release(h_); }
  explicit operator bool() const { return h_; }
  /// The C handle, borrowed.
  H *get() const { return h_; }

private:
  H *h_ = nullptr;
};
/// The data type of elements in memory; TEGULA_VOID: kernels have no such.
template <typename T> consteval TegulaDtype dtypeOf() {
  constexpr int code = tile::detail::elementCode<T>();
  return static_cast<TegulaDtype>(code == tile::detail::noElement || code == tile::detail::integerElement ? +TEGULA_VOID : code);
}
/// A type of elements in memory that kernels know.
template <typename T>
concept Element = !std::is_volatile_v<T> && dtypeOf<std::remove_cv_t<T>>() != TEGULA_VOID;

template <typename P>
concept ElementPointer = std::is_pointer_v<P> && Element<std::remove_pointer_t<P>>;
/// Elements one after the other that live on when the call is over: an lvalue, or a view.
template <typename R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Element<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
/// What std::mdspan offers.
template <typename M>
concept ElementView = !std::ranges::range<M> && requires(const M &m) {
  requires ElementPointer<std::remove_cvref_t<decltype(m.data_handle())>>;
  m.mapping().required_span_size();
};
/// A tegula::Buffer or a part of one: elements in the memory of a device.
template <typename B>
concept DeviceElements = requires(B &&b) {
  typename std::remove_cvref_t<B>::device_element;
  b.arg();
};
/// dlpack.h's DLTensor, which need not be included.
template <typename T>
concept DlTensor = requires(const T &t) {
  t.data, t.ndim, t.shape[0], t.strides[0], t.byte_offset;
  t.dtype.code, t.dtype.bits, t.dtype.lanes;
};
} // namespace detail

/// A compile-time object (see "values" in tegula.h). Empty if the constructor failed.
class Value : public detail::Handle<TegulaValue, tegula_value_retain, tegula_value_release> {
public:
  using Handle::Handle;
  static Value none() { return Value(tegula_value_none()); }
  static Value of(bool b) { return Value(tegula_value_bool(b)); }
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  static Value of(I i) { return Value(tegula_value_int(static_cast<int64_t>(i))); }
  static Value of(double d) { return Value(tegula_value_float(d)); }
  static Value of(std::string_view s) { return Value(tegula_value_str(s.data(), s.size())); }
  static Value dtype(const char *spelling) { return Value(tegula_value_dtype(spelling)); }
  static Value parse(const char *literal) { return Value(tegula_value_parse(literal)); }
  std::string repr() const { return get() ? tegula_value_repr(get()) : ""; }
};

/// Stands for an argument of a bound launch (host/kernel.hpp) that is as it was bound.
struct Same {};
inline constexpr Same same;

/// One argument of a launch. Borrows what it is made of.
class Arg {
public:
  /// A vector, an array, a span ...: its elements.
  template <detail::ElementRange R>
    requires std::ranges::borrowed_range<R>
  Arg(R &&r) { pointer(std::ranges::data(r), static_cast<int64_t>(std::ranges::size(r) * sizeof(std::ranges::range_value_t<R>))); }
  template <detail::ElementRange R> Arg(R &&r) TEGULA_DELETED("an argument borrows its elements: this temporary would take them along; name it first");
  template <detail::ElementView M> Arg(const M &m) {
    pointer(m.data_handle(), static_cast<int64_t>(m.mapping().required_span_size() * sizeof(*m.data_handle())));
  }
  /// A Buffer (a const one is read only), or a part of one.
  template <detail::DeviceElements B>
    requires(std::is_lvalue_reference_v<B> || std::is_trivially_destructible_v<std::remove_cvref_t<B>>)
  Arg(B &&b) : a_(b.arg()) {}
  template <detail::DeviceElements B> Arg(B &&b) TEGULA_DELETED("an argument borrows its elements: this temporary would take them along; name it first");
  /// A bare address; nothing is known of its extent.
  template <typename P>
    requires detail::ElementPointer<P>
  Arg(const P &p) { pointer(p, -1); }
  /// A launch refuses it if kernels have no such elements.
  template <detail::DlTensor T> Arg(T *t) { dlpack(*t); }
  template <typename P>
    requires(std::is_pointer_v<P> && !detail::ElementPointer<P> && !detail::DlTensor<std::remove_pointer_t<P>>)
  Arg(const P &p) TEGULA_DELETED("a pointer to what is no element type of kernels; name the type: Arg(p, TEGULA_FP32, bytes)");
  /// Memory of a type that C++ has no name for: raw bytes of `dtype` elements.
  Arg(void *p, TegulaDtype dtype, int64_t bytes) : a_(tegula_ptr(p, dtype, bytes)) {}
  Arg(std::same_as<bool> auto b) : a_(tegula_bool(b)) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Arg(I i) : a_(tegula_int(static_cast<int64_t>(i))) {
    if constexpr (std::unsigned_integral<I> && sizeof(I) == 8) a_.kind = TEGULA_ARG_UINT;
  }
  Arg(std::floating_point auto f) : a_(tegula_float(static_cast<double>(f))) {}
  Arg(const Value &v) : a_(tegula_constant(v.get())) {}
  Arg(std::nullptr_t) { a_.kind = TEGULA_ARG_NONE; }
  Arg(TegulaArg a) : a_(a) {}
  Arg(Same) {} // of a bound launch: as it was bound
  const TegulaArg &raw() const { return a_; }

private:
  template <typename T> void pointer(T *p, int64_t bytes) {
    constexpr TegulaDtype d = detail::dtypeOf<std::remove_cv_t<T>>();
    if constexpr (std::is_const_v<T>) a_ = tegula_const_ptr(p, d, bytes);
    else a_ = tegula_ptr(p, d, bytes);
  }
  template <typename T> void dlpack(const T &t) {
    // Kinds of DLDataTypeCode, with what each is for 8, 16, 32 and 64 bits.
    enum : unsigned { Int, Uint, Float, Bfloat = 4, Bool = 6, F8E4M3 = 10, F8E4M3Fnuz = 11, F8E5M2 = 12, F8E5M2Fnuz = 13 };
    const unsigned bits = t.dtype.bits, code = t.dtype.code;
    const int log = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
    int d = TEGULA_VOID;
    if (bits == 8 || bits == 16 || bits == 32 || bits == 64) {
      if (code == Int) d = TEGULA_INT8 + log;
      else if (code == Uint) d = TEGULA_UINT8 + log;
      else if (code == Float && bits > 8) d = bits == 16 ? TEGULA_FP16 : bits == 32 ? TEGULA_FP32 : TEGULA_FP64;
      else if (code == Bfloat && bits == 16) d = TEGULA_BF16;
      else if (bits == 8) d = code == Bool ? TEGULA_INT1 : code == F8E4M3 ? TEGULA_FP8E4NV : code == F8E4M3Fnuz ? TEGULA_FP8E4B8 : code == F8E5M2 ? TEGULA_FP8E5 : code == F8E5M2Fnuz ? TEGULA_FP8E5B16 : TEGULA_VOID;
    }
    if (d == TEGULA_VOID || t.dtype.lanes != 1) {
      a_.kind = 0xff; // no kind: launches refuse it
      return;
    }
    int64_t last = 0, count = 1, dense = 1;
    bool backwards = false;
    for (int i = t.ndim; i-- > 0; dense *= t.shape[i]) {
      int64_t stride = t.strides ? t.strides[i] : dense;
      backwards |= stride < 0;
      last += (t.shape[i] - 1) * stride;
      count *= t.shape[i];
    }
    int64_t bytes = backwards ? -1 : count ? (last + 1) * (bits / 8) : 0;
    a_ = tegula_ptr(static_cast<char *>(t.data) + t.byte_offset, static_cast<TegulaDtype>(d), bytes);
  }
  TegulaArg a_{};
};
static_assert(sizeof(Arg) == sizeof(TegulaArg));

namespace detail {
/// Arguments of known types as a bound launch takes them in words: one for each, beside them the extents of pointers.
template <size_t Count, size_t Pointers> struct Words {
  uint64_t words[Count ? Count : 1];
  int64_t extents[Pointers ? Pointers : 1];
  size_t count = 0, pointers = 0; // so far
  void add(const TegulaArg &a) {
    words[count++] = a.kind == TEGULA_ARG_FLOAT && a.dtype == TEGULA_FP32 ? std::bit_cast<uint32_t>(static_cast<float>(a.u.f)) : a.u.u;
    if (a.kind == TEGULA_ARG_POINTER) extents[pointers++] = a.u2.extent;
  }
};
} // namespace detail

/// A tensor in memory, given to kernels that read and write it in blocks (`desc.load([i, j])`). Keeps no memory alive.
class TensorDescriptor {
public:
  /// Strides in elements, the last one 1; empty: the tensor is dense. What is wrong with the parts is said by the launch.
  TensorDescriptor(const Arg &base, std::vector<int64_t> shape, std::vector<int64_t> strides, std::vector<int64_t> blockShape,
                   int32_t padding = TEGULA_PADDING_ZERO)
      : base_(base.raw()), shape_(std::move(shape)), strides_(std::move(strides)), block_(std::move(blockShape)), padding_(padding) {
    if (strides_.empty()) {
      strides_.assign(shape_.size(), 1);
      for (size_t d = shape_.size(); d-- > 1;)
        strides_[d - 1] = strides_[d] * shape_[d];
    }
  }
  /// The argument, good while this object lives and is not asked again. If the parts are wrong, the last error says why, and a launch refuses it.
  Arg arg() {
    TegulaArg a{};
    bool fits = strides_.size() == shape_.size() && block_.size() == shape_.size();
    if (tegula_tensor_descriptor(&storage_, base_, fits ? shape_.size() : 0, shape_.data(), strides_.data(), block_.data(), padding_, &a) != TEGULA_OK)
      a.kind = 0xff;
    return a;
  }

private:
  TegulaArg base_;
  std::vector<int64_t> shape_, strides_, block_;
  int32_t padding_;
  TegulaTensorDescriptor storage_{};
};

} // inline namespace v0
} // namespace tegula
