// Who has which page of the KV cache. A page holds `pageTokens` tokens of one sequence in every layer; a sequence's pages stand in its line of the page table.
#pragma once
#include "Status.h"
#include <cstdint>
#include <vector>

namespace llm {

constexpr int64_t pageTokens = 64; // a block of attention's keys, which so lie in one page

/// Lines and pages; all are free at first. A line is taken with all pages that its sequence can need, so that a sequence that has begun never waits for memory.
class PagedCache {
public:
  /// `lines`: sequences at the same time; `pagesPerLine`: of the longest one.
  PagedCache(int64_t lines, int64_t pagesPerLine, int64_t pages);
  /// A line with room for `tokens`; -1 if there is no free line or there are too few pages now.
  int64_t take(int64_t tokens);
  void release(int64_t line);

  int64_t freePages() const { return static_cast<int64_t>(free_.size()); }
  int64_t pages() const { return pages_; }
  int64_t pagesPerLine() const { return pagesPerLine_; }
  /// [lines][pagesPerLine] for kernels. `changed()` tells once that it is another one than before.
  const std::vector<int32_t> &table() const { return table_; }
  bool changed() { return std::exchange(changed_, false); }

private:
  int64_t pagesPerLine_, pages_;
  std::vector<int32_t> table_, free_;
  std::vector<std::vector<int32_t>> held_; // by line; empty: the line is free
  bool changed_ = true;
};

} // namespace llm
