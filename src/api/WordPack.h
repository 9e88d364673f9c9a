// Arguments of a bound launch whose types are known to equal the bound ones, as with a C++ signature: 64-bit words,
// which are stored into the block one after the other.
//
// The words decide every other fact of the specialization: is each divisible by 16 or not, as at binding; is every
// pointer not null, below 2^30 elements, and apart from memory that another pointer writes? The tables are few and
// small: after a driver's launch little of them is in the cache.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tegula::api {

class WordPack {
public:
  /// The place of a word, and its condition: are the bits under `alignment` zero?
  struct Place {
    uint16_t offset;   // in the block
    uint8_t alignment; // mask
    bool divisible;
  };
  /// A pointer as it was bound, and the limit that its extent stays below (bytes, -1: unknown).
  struct Pointer {
    uint64_t address;
    int64_t extent, extents;
    bool readOnly;
  };
  /// Adds places in the order of the words. False: the place lies before the previous one, whose eight bytes would
  /// overwrite it.
  bool add(Place p);
  /// Marks the place added last as a pointer.
  void addPointer(const Pointer &p) { pointers_.push_back({p, static_cast<uint16_t>(places_.size() - 1)}); }

  size_t count() const { return places_.size(); }
  size_t pointers() const { return pointers_.size(); }
  /// True if the words are of the bound class; then `block` holds them. Writes up to seven bytes after the arguments.
  /// `extents`: one for each pointer.
  bool pack(const uint64_t *words, const int64_t *extents, char *block) const;
  /// The index of the word of the first pointer; there must be one.
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
