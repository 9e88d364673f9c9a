// Checks and stores the words of typed arguments.
#include "api/WordPack.h"
#include "runtime/AddressRange.h"
#include <cstring>

namespace tegula::api {

bool WordPack::add(Place p) {
  if (!places_.empty() && p.offset <= places_.back().offset) return false;
  places_.push_back(p);
  return true;
}

/// Is every pair of pointers, one of which may be written, disjoint?
bool WordPack::apart(const uint64_t *words, const int64_t *extents) const {
  bool meet = false;
  for (size_t j = 1; j < pointers_.size(); ++j) {
    const runtime::AddressRange at = runtime::addressesOf(words[pointers_[j].word], extents[j]);
    for (size_t i = 0; i < j; ++i)
      meet |= !(pointers_[i].readOnly && pointers_[j].readOnly) &&
              at.meets(runtime::addressesOf(words[pointers_[i].word], extents[i]));
  }
  return !meet;
}

bool WordPack::pack(const uint64_t *words, const int64_t *extents, char *block) const {
  bool differs = false, moved = false;
  const Place *const places = places_.data();
  for (size_t i = 0, n = places_.size(); i < n; ++i) {
    std::memcpy(block + places[i].offset, &words[i], 8); // the next word overwrites the excess bytes
    differs |= ((words[i] & places[i].alignment) == 0) != places[i].divisible;
  }
  const Held *const pointers = pointers_.data();
  for (size_t j = 0, n = pointers_.size(); j < n; ++j) {
    const uint64_t address = words[pointers[j].word];
    differs |= (address == 0) | (extents[j] >= pointers[j].extents);
    moved |= (address != pointers[j].address) | (extents[j] != pointers[j].extent);
  }
  return !differs && (!moved || apart(words, extents));
}

} // namespace tegula::api
