#include "NormalForm.h"
#include "NormalFormTables.h"
#include <algorithm>
#include <map>
#include <span>
#include <vector>

namespace llm {

CodePoint codePointAt(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  unsigned first = byte(0);
  if (first < 0x80) return {first, at < text.size()};
  size_t bytes = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first >= 0xf5) return {0, 0};
  char32_t value = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    value = value << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < least[bytes] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return {0, 0};
  return {value, bytes};
}

size_t withoutUnfinished(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    unsigned char c = static_cast<unsigned char>(text[text.size() - back]);
    if ((c & 0xc0) == 0x80) continue; // within a character
    size_t bytes = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
    return text.size() - (bytes > back ? back : 0);
  }
  return text.size();
}

namespace {

// Syllables of Hangul are computed: leading consonants, vowels, and trailing consonants, of which 0 is none.
constexpr char32_t syllables = 0xac00, leads = 0x1100, vowels = 0x1161, trails = 0x11a7, leadCount = 19, vowelCount = 21, trailCount = 28;

void append(std::string &to, char32_t c) {
  if (c < 0x80) to += char(c);
  else if (c < 0x800) to += {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  else if (c < 0x10000) to += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  else to += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
}

int classOf(char32_t c) {
  auto it = std::ranges::upper_bound(combiningClasses, c, {}, &CombiningClass::first);
  return it != std::begin(combiningClasses) && c <= (--it)->last ? it->value : 0;
}

struct Character {
  char32_t value;
  int combining;
  size_t place = 0; // in front of the order of classes
};

void decompose(char32_t c, std::vector<Character> &to) {
  if (char32_t i = c - syllables; c >= syllables && i < leadCount * vowelCount * trailCount) {
    to.push_back({leads + i / (vowelCount * trailCount), 0});
    to.push_back({vowels + i / trailCount % vowelCount, 0});
    if (i % trailCount) to.push_back({trails + i % trailCount, 0});
    return;
  }
  auto it = std::ranges::lower_bound(decompositions, c, {}, &Decomposition::whole);
  if (it == std::end(decompositions) || it->whole != c) return to.push_back({c, classOf(c)});
  decompose(it->first, to);
  if (it->second) decompose(it->second, to);
}

/// What two characters become together; 0: they stay two.
char32_t compose(char32_t a, char32_t b) {
  if (a >= leads && a < leads + leadCount && b >= vowels && b < vowels + vowelCount) return syllables + ((a - leads) * vowelCount + b - vowels) * trailCount;
  if (a >= syllables && a < syllables + leadCount * vowelCount * trailCount && (a - syllables) % trailCount == 0 && b > trails && b < trails + trailCount) return a + b - trails;
  static const std::map<std::pair<char32_t, char32_t>, char32_t> pairs = [] {
    std::map<std::pair<char32_t, char32_t>, char32_t> all;
    for (const Decomposition &d : decompositions)
      if (d.composes) all[{d.first, d.second}] = d.whole;
    return all;
  }();
  auto it = pairs.find({a, b});
  return it == pairs.end() ? 0 : it->second;
}

void flush(std::vector<Character> &part, std::string &to) {
  for (size_t i = 0; i < part.size();) { // marks behind a character in the order of their classes
    size_t end = i + 1;
    while (end < part.size() && part[end].combining) ++end;
    for (size_t j = i; j < end; ++j) part[j].place = j;
    std::ranges::sort(std::span(part).subspan(i, end - i), {}, [](const Character &c) { return std::pair(c.combining, c.place); });
    i = end;
  }
  // A mark meets the last character of class 0 unless one of its class or a higher one stands between.
  std::vector<Character> out;
  size_t starter = SIZE_MAX;
  for (const Character &c : part) {
    char32_t both = 0;
    bool blocked = starter == SIZE_MAX || (out.size() - 1 > starter && (out.back().combining >= c.combining));
    if (!blocked) both = compose(out[starter].value, c.value);
    if (both) {
      out[starter].value = both;
      continue;
    }
    if (c.combining == 0) starter = out.size();
    out.push_back(c);
  }
  for (const Character &c : out) append(to, c.value);
  part.clear();
}

} // namespace

std::string composed(std::string_view text) {
  if (std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xcc; })) return std::string(text); // all below U+0300, where nothing changes
  std::string to;
  std::vector<Character> part;
  for (size_t at = 0; at < text.size();) {
    CodePoint c = codePointAt(text, at);
    if (c.bytes) {
      decompose(c.value, part);
      at += c.bytes;
    } else {
      flush(part, to);
      to += text[at++];
    }
  }
  flush(part, to);
  return to;
}

} // namespace llm
