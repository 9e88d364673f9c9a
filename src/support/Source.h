// Source text and positions in it.
//
// A SourceFile owns the text of one file (or of one function handed over by Python) and is immutable after
// construction, so any number of threads may read it. A Loc is a half-open byte range in a SourceFile; it does not
// own the file: the owner of trees, IR or diagnostics keeps the file alive (by shared_ptr) while they refer to it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

/// A 1-based line and a 1-based display column (tab stops of 8, wide characters count two).
struct LineCol {
  uint32_t line = 0;
  uint32_t col = 0;
};

class SourceFile;

/// A range of a text that a program wrote, such as a kernel in C++, and the place [at, atEnd) in the program's own file
/// that wrote it.
struct Origin {
  uint32_t begin = 0, end = 0;
  std::shared_ptr<const SourceFile> file;
  uint32_t at = 0, atEnd = 0;
};

class SourceFile {
public:
  /// `firstLine` is the line number of the first line of `text` in the user's file (>= 1): Python hands over single
  /// functions cut out of a file, and messages must show the file's own line numbers.
  SourceFile(std::string name, std::string text, uint32_t firstLine = 1);
  /// A text with origins: ranges that are nested or disjoint, in order of `begin`, outer ones first.
  SourceFile(std::string name, std::string text, std::vector<Origin> origins);

  const std::string &name() const { return name_; }
  std::string_view text() const { return text_; }
  uint32_t firstLine() const { return firstLine_; }
  /// `offset` may equal text().size() (end of file).
  LineCol lineCol(uint32_t offset) const;
  /// 0-based column in bytes from the start of the line.
  uint32_t byteColumn(uint32_t offset) const;
  /// The offset of a 1-based line and byte column; nullopt if the file has no such line. Columns end at the line's end.
  std::optional<uint32_t> offsetAt(uint32_t line, uint32_t column) const;
  const std::vector<Origin> &origins() const { return origins_; }
  /// The text of the line that holds `offset`, without its newline.
  std::string_view lineText(uint32_t offset) const;
  /// The same as a terminal can show it, with the columns of lineCol: tabs are spaces, and control characters and bytes
  /// that are not UTF-8 are `?`.
  std::string displayLine(uint32_t offset) const;

private:
  std::string name_;
  std::string text_;
  uint32_t firstLine_;
  std::vector<uint32_t> lineStarts_;
  // of each line: every byte is one column, as there are neither tabs nor characters of several bytes
  std::vector<bool> isPlain_;
  std::vector<Origin> origins_;
};

/// Half-open byte range [begin, end) in `file`. A null file means "no place in the source".
struct Loc {
  const SourceFile *file = nullptr;
  uint32_t begin = 0;
  uint32_t end = 0;

  explicit operator bool() const { return file != nullptr; }
  std::string_view text() const { return file ? file->text().substr(begin, end - begin) : std::string_view(); }
  /// The location that users see: in a text with origins, the origin of the smallest range around it; else the location
  /// itself.
  Loc origin() const;
  /// The smallest range that covers both; either may be unknown.
  static Loc cover(Loc a, Loc b) {
    if (!a) return b;
    if (!b) return a;
    return {a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
  }
};

} // namespace tegula
