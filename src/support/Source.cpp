// Line tables and display columns.
#include "support/Source.h"
#include <algorithm>

namespace tegula {
namespace {

// Width of a code point on a terminal: 0 for combining marks, 2 for East Asian wide ranges (Unicode UAX #11, coarse
// blocks).
unsigned displayWidth(uint32_t c) {
  if ((c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200f) || (c >= 0xfe00 && c <= 0xfe0f)) return 0;
  if ((c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
      (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
      (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd))
    return 2;
  return 1;
}

constexpr uint32_t malformed = 0xfffd;

// Decodes one code point at s[i]; an invalid byte counts as one character.
uint32_t decode(std::string_view s, size_t &i) {
  auto byte = [&](size_t k) { return static_cast<unsigned char>(s[k]); };
  unsigned char b = byte(i);
  unsigned n = b < 0x80 ? 1 : b < 0xc2 || b > 0xf4 ? 0 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
  bool ok = n != 0 && i + n <= s.size();
  uint32_t c = n > 1 ? b & (0x7f >> n) : b;
  for (unsigned k = 1; ok && k < n; ++k) {
    ok = (byte(i + k) & 0xc0) == 0x80;
    c = c << 6 | (byte(i + k) & 0x3f);
  }
  i += ok ? n : 1;
  return ok ? c : malformed;
}

bool isControl(uint32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

} // namespace

SourceFile::SourceFile(std::string name, std::string text, uint32_t firstLine)
    : name_(std::move(name)), text_(std::move(text)), firstLine_(firstLine) {
  auto line = [&](uint32_t start) {
    lineStarts_.push_back(start);
    isPlain_.push_back(true);
  };
  line(0);
  for (uint32_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n')))
      line(i + 1);
    else if (text_[i] == '\t' || static_cast<unsigned char>(text_[i]) >= 0x80)
      isPlain_.back() = false;
  }
}

SourceFile::SourceFile(std::string name, std::string text, std::vector<Origin> origins)
    : SourceFile(std::move(name), std::move(text)) {
  origins_ = std::move(origins);
}

Loc Loc::origin() const {
  if (!file || file->origins().empty()) return *this;
  const std::vector<Origin> &all = file->origins();
  auto next = std::upper_bound(all.begin(), all.end(), begin,
                               [](uint32_t offset, const Origin &o) { return offset < o.begin; });
  while (next != all.begin())
    if (--next; next->end >= end) return {next->file.get(), next->at, next->atEnd};
  return *this;
}

static uint32_t lineIndex(const std::vector<uint32_t> &starts, uint32_t offset) {
  return static_cast<uint32_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) - 1;
}

LineCol SourceFile::lineCol(uint32_t offset) const {
  offset = std::min<uint32_t>(offset, text_.size());
  uint32_t line = lineIndex(lineStarts_, offset);
  std::string_view before = std::string_view(text_).substr(lineStarts_[line], offset - lineStarts_[line]);
  // In a text written by a program, one line may contain a whole kernel, and each operation looks up its column.
  if (isPlain_[line])
    return {line + firstLine_, static_cast<uint32_t>(before.size()) + 1};
  uint32_t col = 0;
  for (size_t i = 0; i < before.size();) {
    if (before[i] == '\t') {
      col = (col / 8 + 1) * 8;
      ++i;
    } else {
      col += displayWidth(decode(before, i));
    }
  }
  return {line + firstLine_, col + 1};
}

uint32_t SourceFile::byteColumn(uint32_t offset) const {
  offset = std::min<uint32_t>(offset, text_.size());
  return offset - lineStarts_[lineIndex(lineStarts_, offset)];
}

std::optional<uint32_t> SourceFile::offsetAt(uint32_t line, uint32_t column) const {
  if (line < firstLine_ || line - firstLine_ >= lineStarts_.size() || column == 0) return std::nullopt;
  uint32_t start = lineStarts_[line - firstLine_];
  return start + std::min<uint32_t>(column - 1, static_cast<uint32_t>(lineText(start).size()));
}

std::string_view SourceFile::lineText(uint32_t offset) const {
  offset = std::min<uint32_t>(offset, text_.size());
  uint32_t line = lineIndex(lineStarts_, offset);
  uint32_t end = line + 1 < lineStarts_.size() ? lineStarts_[line + 1] : static_cast<uint32_t>(text_.size());
  std::string_view s = std::string_view(text_).substr(lineStarts_[line], end - lineStarts_[line]);
  while (!s.empty() && (s.back() == '\n' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

std::string SourceFile::displayLine(uint32_t offset) const {
  std::string out;
  std::string_view line = lineText(offset);
  uint32_t col = 0;
  for (size_t i = 0; i < line.size();) {
    if (line[i] == '\t') {
      uint32_t next = (col / 8 + 1) * 8;
      out.append(next - col, ' ');
      col = next;
      ++i;
      continue;
    }
    size_t begin = i;
    uint32_t c = decode(line, i);
    if (isControl(c) || c == malformed) out += '?';
    else out += line.substr(begin, i - begin);
    col += displayWidth(c);
  }
  return out;
}

} // namespace tegula
