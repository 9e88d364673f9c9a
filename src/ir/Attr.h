// Attributes of operations: named constants. Attrs.def lists the keys, each with its one type; Ops.def says which operation carries which.
//
// A key is written as a string literal and looked up while the file is compiled, so a misspelt one does not compile, and neither does
// one whose values are of another type than the place wants: `op.intAttr("cache")`, `op.set("whole", "yes")`, `Attr("perm", 1)`.
#pragma once
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tegula::ir {

enum class AttrType : uint8_t { Int, Bool, Pred, Number, String, Ints };

namespace detail {
struct AttrRow {
  std::string_view name;
  AttrType type;
};
inline constexpr AttrRow attrRows[] = {
#define IR_ATTR(name, type) {name, AttrType::type},
#include "ir/Attrs.def"
};
/// Called while a file is compiled, these end the compilation: they are no constants.
void thereIsNoSuchAttribute();
void theAttributeHasValuesOfAnotherType();
} // namespace detail

/// A row of Attrs.def.
class AttrKey {
public:
  consteval AttrKey(const char *name) {
    std::optional<AttrKey> k = find(name);
    if (!k)
      detail::thereIsNoSuchAttribute();
    row_ = k->row_;
  }
  /// The key of this name, as the readers of text need it.
  static constexpr std::optional<AttrKey> find(std::string_view name) {
    for (size_t i = 0; i < std::size(detail::attrRows); ++i)
      if (detail::attrRows[i].name == name)
        return AttrKey(static_cast<uint8_t>(i));
    return std::nullopt;
  }
  constexpr std::string_view name() const { return detail::attrRows[row_].name; }
  constexpr AttrType type() const { return detail::attrRows[row_].type; }
  constexpr bool operator==(const AttrKey &) const = default;

private:
  friend class AttrSet;
  explicit constexpr AttrKey(uint8_t row) : row_(row) {}
  uint8_t row_ = 0;
};

/// A key whose values are of type T in C++. Those of Int, Bool, Pred and Number are integers; those of Number may also be double.
template <typename T> class KeyOf : public AttrKey {
public:
  consteval KeyOf(const char *name) : AttrKey(name) {
    bool fits = std::same_as<T, std::string>            ? type() == AttrType::String
                : std::same_as<T, std::vector<int64_t>> ? type() == AttrType::Ints
                : std::same_as<T, double>               ? type() == AttrType::Number
                                                        : type() != AttrType::String && type() != AttrType::Ints;
    if (!fits)
      detail::theAttributeHasValuesOfAnotherType();
  }
};
using IntKey = KeyOf<int64_t>;
using FloatKey = KeyOf<double>;
using StringKey = KeyOf<std::string>;
using ListKey = KeyOf<std::vector<int64_t>>;

/// What the user asserts of a result; see Attrs.def.
inline constexpr AttrKey hintKeys[] = {"divisibility", "contiguity", "constancy"};
constexpr bool isHint(AttrKey k) { return k == hintKeys[0] || k == hintKeys[1] || k == hintKeys[2]; }

/// A set of keys.
class AttrSet {
public:
  constexpr void add(AttrKey k) { words_[k.row_ / 64] |= uint64_t(1) << k.row_ % 64; }
  constexpr bool has(AttrKey k) const { return words_[k.row_ / 64] >> k.row_ % 64 & 1; }
  /// The first key of the table that is in this set and not in `other`.
  std::optional<AttrKey> firstBeside(const AttrSet &other) const;

private:
  uint64_t words_[2] = {};
  static_assert(std::size(detail::attrRows) <= 128);
};

/// The alternative is that of the key's type: integers for Int, Bool and Pred.
class AttrValue : public std::variant<int64_t, double, std::string, std::vector<int64_t>> {
public:
  template <std::integral T> AttrValue(T v) : AttrValue(std::in_place, int64_t{v}) {}
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

struct Attr {
  AttrKey key;
  AttrValue value;

  template <std::integral T> Attr(IntKey k, T v) : key(k), value(v) {}
  Attr(FloatKey k, double v) : key(k), value(v) {}
  Attr(StringKey k, std::string v) : key(k), value(std::move(v)) {}
  Attr(ListKey k, std::vector<int64_t> v) : key(k), value(std::move(v)) {}
  /// Of a key or type that only a run knows. The verifier sees whether they fit.
  Attr(AttrKey k, AttrValue v) : key(k), value(std::move(v)) {}
  bool operator==(const Attr &) const = default;
};

} // namespace tegula::ir
