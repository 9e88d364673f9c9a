// See Attr.h.
#include "ir/Attr.h"
#include <bit>

namespace tegula::ir {

static_assert([] {
  for (size_t i = 0; i < std::size(detail::attrRows); ++i)
    for (size_t k = 0; k < i; ++k)
      if (detail::attrRows[i].name == detail::attrRows[k].name)
        return false;
  return true;
}(), "two rows of the tables have one key");

std::optional<AttrKey> AttrSet::firstBeside(const AttrSet &other) const {
  for (size_t w = 0; w < std::size(words_); ++w)
    if (uint64_t left = words_[w] & ~other.words_[w])
      return AttrKey(static_cast<uint8_t>(64 * w + static_cast<size_t>(std::countr_zero(left))));
  return std::nullopt;
}

AttrValue::AttrValue() = default;
AttrValue::AttrValue(std::in_place_t, int64_t v) : variant(v) {}
AttrValue::AttrValue(double v) : variant(v) {}
AttrValue::AttrValue(std::string v) : variant(std::move(v)) {}
AttrValue::AttrValue(std::vector<int64_t> v) : variant(std::move(v)) {}
AttrValue::AttrValue(const AttrValue &) = default;
AttrValue::AttrValue(AttrValue &&) noexcept = default;
AttrValue &AttrValue::operator=(const AttrValue &) = default;
AttrValue &AttrValue::operator=(AttrValue &&) noexcept = default;
AttrValue::~AttrValue() = default;

} // namespace tegula::ir
