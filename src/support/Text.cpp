// Optimal string alignment distance by dynamic programming over three rows.
#include "support/Text.h"
#include <algorithm>
#include <vector>

namespace tegula {

unsigned editDistance(std::string_view a, std::string_view b) {
  std::vector<unsigned> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<unsigned>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<unsigned>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  unsigned limit = std::max<unsigned>(1, static_cast<unsigned>(name.size()) / 3), bestDistance = limit + 1;
  for (std::string_view c : candidates) {
    if (c.size() > name.size() + limit || name.size() > c.size() + limit) continue;
    unsigned d = editDistance(name, c);
    // Two names without a common letter are not similar, however short they are.
    if (d < bestDistance && d < std::max(c.size(), name.size())) bestDistance = d, best = c;
  }
  return best;
}

} // namespace tegula
