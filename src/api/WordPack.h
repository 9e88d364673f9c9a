// Arguments of a bound launch whose types are known to be those that were bound, as a C++ signature's are: 64-bit
// words, which are stored into the block one after the other.
//
// All that a kernel is specialized on beside the types is asked of the words: are they divisible by 16 or not, as when
// they were bound; is no pointer null, of 2^30 elements or more, or to memory that another one writes? Small and in few
// tables: after a driver's launch little of it is in the cache.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tegula::api {

class WordPack {
public:
  /// Where a word goes, and what must be right of it: are the bits under `alignment` zero?
  struct Place {
    uint16_t offset;   // in the block
    uint8_t alignment; // mask
    bool divisible;
  };
  /// A pointer as it was bound, and what extents (bytes, -1: unknown) are less than.
  struct Pointer {
    uint64_t address;
    int64_t extent, extents;
    bool readOnly;
  };
  /// In the order of the words. False: it lies before the one before, whose eight bytes would cover it.
  bool add(Place p);
  /// The place that was added last is a pointer.
  void addPointer(const Pointer &p) { pointers_.push_back({p, static_cast<uint16_t>(places_.size() - 1)}); }

  size_t count() const { return places_.size(); }
  size_t pointers() const { return pointers_.size(); }
  /// True if the words are of the class that was bound; then `block` holds them. Up to seven bytes behind the arguments
  /// are written to. `extents`: one for each pointer.
  bool pack(const uint64_t *words, const int64_t *extents, char *block) const;
  /// The word that is the first pointer; there must be one.
  size_t firstPointer() const { return pointers_.front().word; }

private:
  struct Held : Pointer {
    uint16_t word;
  };
  bool apart(const uint64_t *words, const int64_t *extents) const;
  std::vector<Place> places_;
  std::vector<Held> pointers_;
};

} // namespace tegula::api
