// See LineDiff.h. Longest common subsequence by dynamic programming (Wagner and Fischer 1974).
#include "support/LineDiff.h"
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tegula {

namespace {

using Lines = std::vector<std::string_view>;

Lines linesOf(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Edit {
  char mark; // ' ', '-' or '+'
  std::string_view line;
};

/// Edits of the middle part, between the first and the last difference.
std::vector<Edit> edits(const Lines &a, const Lines &b, size_t first, size_t aEnd, size_t bEnd) {
  const size_t rows = aEnd - first, columns = bEnd - first, most = size_t{32} << 20;
  std::vector<Edit> out;
  size_t i = 0, j = 0;
  if (rows * columns <= most) {
    // common[i][j]: length of the longest common subsequence of the lines from i and j on.
    std::vector<uint16_t> common((rows + 1) * (columns + 1));
    auto at = [&](size_t r, size_t c) -> uint16_t & { return common[r * (columns + 1) + c]; };
    for (size_t r = rows; r-- > 0;)
      for (size_t c = columns; c-- > 0;)
        at(r, c) = a[first + r] == b[first + c] ? static_cast<uint16_t>(at(r + 1, c + 1) + 1)
                                                : std::max(at(r + 1, c), at(r, c + 1));
    while (i < rows && j < columns) {
      if (a[first + i] == b[first + j])
        out.push_back({' ', a[first + i]}), ++i, ++j;
      else if (at(i + 1, j) >= at(i, j + 1))
        out.push_back({'-', a[first + i++]});
      else
        out.push_back({'+', b[first + j++]});
    }
  }
  for (; i < rows; ++i)
    out.push_back({'-', a[first + i]});
  for (; j < columns; ++j)
    out.push_back({'+', b[first + j]});
  return out;
}

} // namespace

std::string lineDiff(std::string_view before, std::string_view after) {
  if (before == after)
    return {};
  const Lines a = linesOf(before), b = linesOf(after);
  size_t first = 0, aEnd = a.size(), bEnd = b.size();
  while (first < aEnd && first < bEnd && a[first] == b[first])
    ++first;
  while (aEnd > first && bEnd > first && a[aEnd - 1] == b[bEnd - 1])
    --aEnd, --bEnd;
  constexpr size_t around = 2;
  std::vector<Edit> all;
  for (size_t i = first - std::min(first, around); i < first; ++i)
    all.push_back({' ', a[i]});
  std::vector<Edit> middle = edits(a, b, first, aEnd, bEnd);
  all.insert(all.end(), middle.begin(), middle.end());
  for (size_t i = aEnd; i < std::min(a.size(), aEnd + around); ++i)
    all.push_back({' ', a[i]});
  std::string text = first > around ? "...\n" : "";
  for (size_t i = 0; i < all.size(); ++i) {
    bool near = false;
    for (size_t k = i - std::min(i, around); k <= std::min(all.size() - 1, i + around); ++k)
      near |= all[k].mark != ' ';
    if (near)
      text += std::string(1, all[i].mark) + std::string(all[i].line) + "\n";
    else if (!text.ends_with("...\n"))
      text += "...\n";
  }
  if (aEnd + around < a.size() && !text.ends_with("...\n"))
    text += "...\n";
  return text;
}

} // namespace tegula
