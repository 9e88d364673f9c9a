// Tensor descriptors. Included by tegula/tile.hpp.
#pragma once
#include "tegula/tile/functions.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {

namespace detail {
inline std::string offsets(std::initializer_list<Offset> list, std::vector<Part> &parts) {
  std::string format = "[";
  for (const Offset &o : list) {
    format += format.size() > 1 ? ", $" : "$";
    parts.push_back(o.part);
  }
  return format + "]";
}
} // namespace detail

#define TEGULA_TILE_DESCRIPTOR_ATOMIC(name)                                                                                                          \
  template <detail::AnyTile V> void name(std::initializer_list<detail::Offset> offsets, V &&value, Place at = Place::current()) const {               \
    write("$." #name "(", offsets, detail::partOf(std::forward<V>(value)), at);                                                                      \
  }
/// A tensor in memory that is read and written in blocks; offsets are those of a block's first element. What lies outside of the tensor reads as
/// its padding and is not written. As a parameter it takes a tegula::TensorDescriptor.
template <typename T> class Desc : public detail::Variable {
public:
  using element = T;
  Desc() = default;
  explicit Desc(int variable, detail::Trace &) : Variable(variable) {}
  Tile<T> load(std::initializer_list<detail::Offset> offsets, Place at = Place::current()) const {
    std::vector<detail::Part> parts{part()};
    std::string list = detail::offsets(offsets, parts);
    return detail::tileOf<T>(at, "$.load(" + list + ")", std::move(parts));
  }
  TEGULA_TILE_DESCRIPTOR_ATOMIC(store)
  /// Each changes memory, element by element, as one step.
  TEGULA_TILE_DESCRIPTOR_ATOMIC(atomic_add)
  TEGULA_TILE_DESCRIPTOR_ATOMIC(atomic_min)
  TEGULA_TILE_DESCRIPTOR_ATOMIC(atomic_max)
  TEGULA_TILE_DESCRIPTOR_ATOMIC(atomic_and)
  TEGULA_TILE_DESCRIPTOR_ATOMIC(atomic_or)
  TEGULA_TILE_DESCRIPTOR_ATOMIC(atomic_xor)
  /// Rows by their indices, from one column on, of a tensor with blocks of one row.
  template <detail::AnyTile X, detail::Operand Y> Tile<T> gather(X &&rows, Y &&column, Place at = Place::current()) const {
    static_assert(detail::isIndex<X> && detail::isIndex<Y>, "an offset is a whole number");
    return detail::tileOf<T>(at, "$.gather($, $)", std::vector<detail::Part>{part(), detail::partOf(std::forward<X>(rows)), detail::partOf(std::forward<Y>(column))});
  }
  template <detail::AnyTile V, detail::AnyTile X, detail::Operand Y> void scatter(V &&value, X &&rows, Y &&column, Place at = Place::current()) const {
    static_assert(detail::isIndex<X> && detail::isIndex<Y>, "an offset is a whole number");
    detail::trace().effect(at, "$.scatter($, $, $)",
                           std::vector<detail::Part>{part(), detail::partOf(std::forward<V>(value)), detail::partOf(std::forward<X>(rows)), detail::partOf(std::forward<Y>(column))});
  }
  /// Of the tensor, in elements.
  Tile<integer> shape(int dimension, Place at = Place::current()) const { return detail::tileOf<integer>(at, "$.shape[" + detail::literal(dimension) + "]", {part()}); }
  Tile<integer> stride(int dimension, Place at = Place::current()) const { return detail::tileOf<integer>(at, "$.strides[" + detail::literal(dimension) + "]", {part()}); }

private:
  void write(std::string format, std::initializer_list<detail::Offset> offsets, detail::Part value, const Place &at) const {
    std::vector<detail::Part> parts{part()};
    format += detail::offsets(offsets, parts);
    parts.push_back(std::move(value));
    detail::trace().effect(at, format + ", $)", std::move(parts));
  }
};
#undef TEGULA_TILE_DESCRIPTOR_ATOMIC

struct DescriptorOptions {
  const char *padding = ""; // what lies outside: "zero", "nan"
};
/// Of a tensor whose first element is at `base`; the last stride is 1.
template <typename T>
auto make_tensor_descriptor(const Ptr<T> &base, std::initializer_list<detail::Offset> shape, std::initializer_list<detail::Offset> strides, Shape block, DescriptorOptions options = {},
                            Place at = Place::current()) {
  std::vector<detail::Part> parts{base.part()};
  std::string extents = detail::offsets(shape, parts), steps = detail::offsets(strides, parts);
  std::string format = "tl.make_tensor_descriptor($, " + extents + ", " + steps + ", " + detail::list(block);
  detail::keyword(format, "padding_option", options.padding);
  detail::Trace &t = detail::trace();
  return Desc<std::remove_const_t<T>>(t.make(at, format + ")", std::move(parts)), t);
}

/// As d.load and d.store.
template <typename T> Tile<T> load_tensor_descriptor(const Desc<T> &d, std::initializer_list<detail::Offset> offsets, Place at = Place::current()) { return d.load(offsets, at); }
template <typename T, detail::AnyTile V> void store_tensor_descriptor(const Desc<T> &d, std::initializer_list<detail::Offset> offsets, V &&value, Place at = Place::current()) {
  d.store(offsets, std::forward<V>(value), at);
}

} // namespace tile
} // inline namespace v0
} // namespace tegula
