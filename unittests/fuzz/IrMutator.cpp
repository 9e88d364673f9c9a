// See IrMutator.h. Nothing here knows more of IR than its spelling and the names of its operations.
#include "IrMutator.h"
#include <algorithm>
#include <cctype>
#include <cstring>
#include <iterator>
#include <sstream>

namespace tegula::fuzz {

namespace {

constexpr const char *numbers[] = {"0", "1", "2", "3", "4", "5", "8", "16", "31", "32", "64", "128", "256", "1024", "65536", "-1", "-2", "2147483647", "-2147483648",
                                   "4294967296", "9223372036854775807", "-9223372036854775808"};
constexpr const char *types[] = {"i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2"};

struct Word {
  size_t begin, end;
  char kind; // '%' a value, '0' a number, 'a' a name
};

bool isNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::vector<Word> wordsOf(const std::string &line) {
  std::vector<Word> words;
  for (size_t i = 0; i < line.size();) {
    size_t begin = i;
    bool isValue = line[i] == '%', isNegative = line[i] == '-';
    i += isValue || isNegative;
    while (i < line.size() && isNameChar(line[i]))
      ++i;
    if (i == begin || (i == begin + 1 && (isValue || isNegative))) {
      i = begin + 1;
      continue;
    }
    char first = line[begin + isNegative];
    words.push_back({begin, i, isValue ? '%' : std::isdigit(static_cast<unsigned char>(first)) ? '0' : 'a'});
  }
  return words;
}

constexpr const char *operations[] = {
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) name,
#include "ir/Ops.def"
#undef IR_OP
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) name,
#include "gpu/Ops.def"
#undef IR_OP
};

} // namespace

void IrMutator::changeWord(Lines &lines) {
  std::string &line = lines[below(lines.size())];
  std::vector<Word> words = wordsOf(line);
  if (words.empty())
    return;
  Word w = words[below(words.size())];
  const std::string &from = lines[below(lines.size())];
  std::vector<std::string> candidates;
  for (const Word &other : wordsOf(from))
    if (other.kind == w.kind)
      candidates.push_back(from.substr(other.begin, other.end - other.begin));
  std::string now = candidates.empty() ? "" : candidates[below(candidates.size())];
  if (w.kind == '0' && (now.empty() || below(2)))
    now = numbers[below(std::size(numbers))];
  if (w.kind == 'a' && (now.empty() || below(2)))
    now = below(2) ? operations[below(std::size(operations))] : types[below(std::size(types))];
  if (!now.empty())
    line.replace(w.begin, w.end - w.begin, now);
}

void IrMutator::changeAttributes(std::string &line) {
  size_t open = line.find('{'), close = line.find('}', open);
  if (open == std::string::npos || close == std::string::npos)
    return;
  size_t comma = line.find(',', open);
  if (comma < close && below(2))
    line.erase(open + 1, comma - open);
  else
    line.erase(open, close + 1 - open);
}

void IrMutator::moveLine(Lines &lines) {
  size_t from = below(lines.size()), to = below(4) ? std::min(from + 1, lines.size() - 1) : below(lines.size());
  std::string line = lines[from];
  switch (below(3)) {
  case 0:
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(from));
    return;
  case 1:
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(to), line);
    return;
  default:
    std::swap(lines[from], lines[to]);
  }
}

std::string IrMutator::mutate(const std::string &text, unsigned changes) {
  Lines lines;
  std::istringstream in(text);
  for (std::string l; std::getline(in, l);)
    lines.push_back(std::move(l));
  for (; changes && !lines.empty(); --changes)
    switch (below(6)) {
    case 0:
      moveLine(lines);
      break;
    case 1:
      changeAttributes(lines[below(lines.size())]);
      break;
    default:
      changeWord(lines);
    }
  std::string out;
  for (const std::string &l : lines)
    out += l + '\n';
  return out;
}

} // namespace tegula::fuzz

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// Of every fuzzer that this file is linked into.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  if (seed % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  tegula::fuzz::IrMutator mutator(seed);
  std::string text = mutator.mutate(std::string(reinterpret_cast<const char *>(data), size), 1 + seed / 16 % 3);
  size = std::min(text.size(), maxSize);
  std::memcpy(data, text.data(), size);
  return size;
}
