// The rule for lists of parameters of which one may be the same buffer as an earlier one; used for the lists of sema,
// the IR and bundles.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tegula {

/// Returns the index of the first of `count` items that violates the rule, or `count`: sameAs(i) is -1, or the index of
/// an earlier item whose own sameAs is -1 and for which alike(i, that) holds.
template <typename SameAs, typename Alike> size_t firstWrongSameAs(size_t count, SameAs &&sameAs, Alike &&alike) {
  for (size_t i = 0; i < count; ++i)
    if (const int32_t of = sameAs(i);
        of != -1 && (of < 0 || static_cast<size_t>(of) >= i || sameAs(static_cast<size_t>(of)) != -1 ||
                     !alike(i, static_cast<size_t>(of))))
      return i;
  return count;
}

} // namespace tegula
