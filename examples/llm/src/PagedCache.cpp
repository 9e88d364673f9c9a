#include "PagedCache.h"

namespace llm {

PagedCache::PagedCache(int64_t lines, int64_t pagesPerLine, int64_t pages)
    : pagesPerLine_(pagesPerLine), pages_(pages), table_(size_t(lines * pagesPerLine)), held_(size_t(lines)) {
  for (int64_t p = pages; p-- > 0;) free_.push_back(static_cast<int32_t>(p));
}

int64_t PagedCache::take(int64_t tokens) {
  size_t wanted = size_t((tokens + pageTokens - 1) / pageTokens);
  if (wanted == 0 || wanted > free_.size() || wanted > size_t(pagesPerLine_)) return -1;
  for (size_t line = 0; line < held_.size(); ++line) {
    if (!held_[line].empty()) continue;
    for (size_t i = 0; i < wanted; ++i) {
      held_[line].push_back(free_.back());
      table_[line * size_t(pagesPerLine_) + i] = free_.back();
      free_.pop_back();
    }
    changed_ = true;
    return static_cast<int64_t>(line);
  }
  return -1;
}

void PagedCache::release(int64_t line) {
  std::vector<int32_t> &pages = held_[size_t(line)];
  free_.insert(free_.end(), pages.rbegin(), pages.rend());
  pages.clear();
}

} // namespace llm
