// Block pointers, which tensor descriptors have taken the place of. Included by tegula/tile.hpp.
#pragma once
#include "tegula/tile/descriptors.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {

/// A pointer to a block of a tensor in memory. A kernel does not write through a BlockPtr<const T>.
template <typename T> class BlockPtr : public detail::Variable {
public:
  using element = T;
  BlockPtr() = default;
  explicit BlockPtr(int variable, detail::Trace &) : Variable(variable) {}
};

/// Accesses of a block: dimensions in which it may reach beyond the tensor, what is read there ("zero", "nan"), how memory is accessed.
struct BlockOptions {
  std::vector<int> boundary_check = {};
  const char *padding = "", *cache = "", *eviction = "";
};

namespace detail {
inline void blockKeywords(std::string &format, const BlockOptions &o) {
  if (!o.boundary_check.empty()) {
    format += ", boundary_check=(";
    for (int d : o.boundary_check) format += literal(d) + ",";
    format += ")";
  }
  keyword(format, "padding_option", o.padding);
  keyword(format, "cache_modifier", o.cache);
  keyword(format, "eviction_policy", o.eviction);
}
} // namespace detail

template <typename T>
BlockPtr<T> make_block_ptr(const Ptr<T> &base, std::initializer_list<detail::Offset> shape, std::initializer_list<detail::Offset> strides, std::initializer_list<detail::Offset> offsets,
                           Shape block, Shape order, Place at = Place::current()) {
  std::vector<detail::Part> parts{base.part()};
  std::string extents = detail::offsets(shape, parts), steps = detail::offsets(strides, parts), first = detail::offsets(offsets, parts);
  detail::Trace &t = detail::trace();
  return BlockPtr<T>(t.make(at, "tl.make_block_ptr($, " + extents + ", " + steps + ", " + first + ", " + detail::list(block) + ", " + detail::list(order) + ")", std::move(parts)), t);
}
/// Moved by offsets.
template <typename T> BlockPtr<T> advance(const BlockPtr<T> &p, std::initializer_list<detail::Offset> offsets, Place at = Place::current()) {
  std::vector<detail::Part> parts{p.part()};
  std::string by = detail::offsets(offsets, parts);
  detail::Trace &t = detail::trace();
  return BlockPtr<T>(t.make(at, "tl.advance($, " + by + ")", std::move(parts)), t);
}
template <typename T> Tile<std::remove_const_t<T>> load(const BlockPtr<T> &p, BlockOptions options = {}, Place at = Place::current()) {
  std::string format = "tl.load($";
  detail::blockKeywords(format, options);
  return detail::tileOf<std::remove_const_t<T>>(at, format + ")", {p.part()});
}
template <typename T, detail::Operand V> void store(const BlockPtr<T> &p, V &&value, BlockOptions options = {}, Place at = Place::current()) {
  static_assert(!std::is_const_v<T>, "a kernel does not write through a BlockPtr<const T>: make the parameter a Ptr<T>");
  std::string format = "tl.store($, $";
  detail::blockKeywords(format, options);
  detail::trace().effect(at, format + ")", std::vector<detail::Part>{p.part(), detail::partOf(std::forward<V>(value))});
}

} // namespace tile
} // inline namespace v0
} // namespace tegula
