// Attributes of operations: named constants. Each level has a table of them, with their types (ir/Attrs.def,
// gpu/Attrs.def); its Ops.def says which operation carries which.
//
// In C++ each row defines a constant: `attr::vec` is the key, and Op has an accessor of the same name. A misspelt name,
// or a value of a type other than the row's, does not compile: `op.axis() == 1`, `op.set(attr::vec, 4)`,
// `Attr(attr::perm, {1, 0})`.
#pragma once
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tegula::ir {

enum class AttrType : uint8_t { Int, Bool, Pred, Number, String, Ints };

enum class CmpPred : uint8_t { // values of attribute `pred`
  Eq, Ne, Slt, Sle, Sgt, Sge, Ult, Ule, Ugt, Uge,                             // cmpi
  Oeq, One, Olt, Ole, Ogt, Oge, Ord, Ueq, Une, FUlt, FUle, FUgt, FUge, Uno    // cmpf
};
const char *name(CmpPred p);

/// The alternative is that of the attribute's type: integers for Int, Bool and Pred; integers and doubles for Number.
class AttrValue : public std::variant<int64_t, double, std::string, std::vector<int64_t>> {
public:
  template <std::integral T> AttrValue(T v) : AttrValue(std::in_place, int64_t{v}) {}
  AttrValue(CmpPred p) : AttrValue(std::in_place, static_cast<int64_t>(p)) {}
  AttrValue(double v);
  AttrValue(std::string v);
  AttrValue(std::vector<int64_t> v);
  // Defined once, in Attr.cpp: every file that makes operations copies and destroys attributes.
  AttrValue();
  AttrValue(const AttrValue &);
  AttrValue(AttrValue &&) noexcept;
  AttrValue &operator=(const AttrValue &);
  AttrValue &operator=(AttrValue &&) noexcept;
  ~AttrValue();

private:
  AttrValue(std::in_place_t, int64_t v);
};

namespace detail {
struct AttrRow {
  std::string_view name;
  AttrType type;
};
inline constexpr AttrRow attrRows[] = {
#define IR_ATTR(id, key, type, otherwise) {key, AttrType::type},
#include "ir/Attrs.def"
#define IR_ATTR(id, key, type, otherwise) {key, AttrType::type},
#include "gpu/Attrs.def"
};
namespace row {
enum : uint8_t {
#define IR_ATTR(id, key, type, otherwise) id,
#include "ir/Attrs.def"
  firstOfGpu,
  beforeGpu = firstOfGpu - 1,
#define IR_ATTR(id, key, type, otherwise) id,
#include "gpu/Attrs.def"
};
} // namespace row

/// The C++ types for setting and reading an attribute of a type.
template <AttrType T> struct AttrCpp;
template <> struct AttrCpp<AttrType::Int> { using Given = int64_t; using Read = int64_t; };
template <> struct AttrCpp<AttrType::Bool> { using Given = bool; using Read = bool; };
template <> struct AttrCpp<AttrType::Pred> { using Given = CmpPred; using Read = CmpPred; };
template <> struct AttrCpp<AttrType::Number> { using Given = AttrValue; using Read = const AttrValue *; };
template <> struct AttrCpp<AttrType::String> { using Given = std::string; using Read = std::string_view; };
template <> struct AttrCpp<AttrType::Ints> {
  using Given = std::vector<int64_t>;
  using Read = std::span<const int64_t>;
};
} // namespace detail

/// A row of the tables.
class AttrKey {
public:
  /// The key with this name, for readers of text; nullopt if there is none.
  static constexpr std::optional<AttrKey> find(std::string_view name) {
    for (size_t i = 0; i < std::size(detail::attrRows); ++i)
      if (detail::attrRows[i].name == name)
        return AttrKey(static_cast<uint8_t>(i));
    return std::nullopt;
  }
  constexpr std::string_view name() const { return detail::attrRows[row_].name; }
  constexpr AttrType type() const { return detail::attrRows[row_].type; }
  /// Whether only the GPU level has this attribute.
  constexpr bool isOfGpu() const { return row_ >= detail::row::firstOfGpu; }
  constexpr bool operator==(const AttrKey &) const = default;

protected:
  friend class AttrSet;
  explicit constexpr AttrKey(uint8_t row) : row_(row) {}
  uint8_t row_ = 0;
};

/// A key with a static type.
template <AttrType T> class KeyOf : public AttrKey {
public:
  using Given = typename detail::AttrCpp<T>::Given;
  using Read = typename detail::AttrCpp<T>::Read;
  constexpr KeyOf(uint8_t row, Read otherwise) : AttrKey(row), otherwise_(otherwise) {}
  /// The value of an absent attribute.
  constexpr Read otherwise() const { return otherwise_; }

private:
  Read otherwise_;
};
using IntKey = KeyOf<AttrType::Int>;
using BoolKey = KeyOf<AttrType::Bool>;
using PredKey = KeyOf<AttrType::Pred>;
using NumberKey = KeyOf<AttrType::Number>;
using StringKey = KeyOf<AttrType::String>;
using ListKey = KeyOf<AttrType::Ints>;

/// A constant for each row.
namespace attr {
#define IR_ATTR(id, key, type, otherwise) inline constexpr KeyOf<AttrType::type> id{detail::row::id, otherwise};
#include "ir/Attrs.def"
#define IR_ATTR(id, key, type, otherwise) inline constexpr KeyOf<AttrType::type> id{detail::row::id, otherwise};
#include "gpu/Attrs.def"
} // namespace attr

/// Hints: facts that the user asserts about a result; see Attrs.def.
inline constexpr AttrKey hintKeys[] = {attr::divisibility, attr::contiguity, attr::constancy};
constexpr bool isHint(AttrKey k) { return k == hintKeys[0] || k == hintKeys[1] || k == hintKeys[2]; }

/// A set of keys.
class AttrSet {
public:
  constexpr void add(AttrKey k) { words_[k.row_ / 64] |= uint64_t(1) << k.row_ % 64; }
  constexpr void add(const AttrSet &o) { words_[0] |= o.words_[0], words_[1] |= o.words_[1]; }
  constexpr bool has(AttrKey k) const { return words_[k.row_ / 64] >> k.row_ % 64 & 1; }
  /// The first key of the table that is in this set and not in `other`.
  std::optional<AttrKey> firstBeside(const AttrSet &other) const;

private:
  uint64_t words_[2] = {};
  static_assert(std::size(detail::attrRows) <= 128);
};

/// The attributes of an operation as a row of Ops.def lists them: `!axis | reverse`, where `!` marks required ones.
struct AttrList {
  AttrSet all, needed;
  constexpr AttrList() = default;
  constexpr AttrList(AttrKey k) { all.add(k); }
};
constexpr AttrList operator!(AttrKey k) {
  AttrList l(k);
  l.needed.add(k);
  return l;
}
constexpr AttrList operator|(AttrList x, const AttrList &y) {
  x.all.add(y.all);
  x.needed.add(y.needed);
  return x;
}

struct Attr {
  AttrKey key;
  AttrValue value;

  template <std::integral T> Attr(IntKey k, T v) : key(k), value(v) {}
  Attr(BoolKey k, bool v) : key(k), value(v) {}
  Attr(PredKey k, CmpPred v) : key(k), value(v) {}
  Attr(StringKey k, std::string v) : key(k), value(std::move(v)) {}
  Attr(ListKey k, std::vector<int64_t> v) : key(k), value(std::move(v)) {}
  /// For types or keys known only at run time. The verifier checks whether they fit.
  Attr(NumberKey k, AttrValue v) : key(k), value(std::move(v)) {}
  Attr(AttrKey k, AttrValue v) : key(k), value(std::move(v)) {}
  bool operator==(const Attr &) const = default;
};

} // namespace tegula::ir
