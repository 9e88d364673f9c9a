// Parses, fills and prints command-line arguments.
#include "cli/ArgValue.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tegula::cli {
namespace {

uint64_t bitsOf(const ArgValue &a, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, a.memory.get() + i * a.array.elementBytes, a.array.elementBytes);
  return bits;
}

/// The value of a float, or of an integer of fewer than 64 bits; larger integers are rounded.
double element(const ArgValue &a, size_t i) {
  uint64_t bits = bitsOf(a, i);
  if (isFloat(a.dtype)) return tegula_float_from_bits(a.dtype, bits);
  if (a.dtype == TEGULA_INT1) return bits != 0;
  bool isSigned = a.dtype >= TEGULA_INT8 && a.dtype <= TEGULA_INT64;
  unsigned shift = 64 - 8 * a.array.elementBytes;
  return isSigned ? static_cast<double>(static_cast<int64_t>(bits << shift) >> shift) : static_cast<double>(bits);
}

void setElement(ArgValue &a, size_t i, double v) {
  uint64_t bits = isFloat(a.dtype)         ? tegula_float_to_bits(a.dtype, v)
                  : a.dtype == TEGULA_INT1 ? v != 0
                                           : static_cast<uint64_t>(static_cast<int64_t>(v));
  std::memcpy(a.memory.get() + i * a.array.elementBytes, &bits, a.array.elementBytes);
}

bool allocate(ArgValue &a, std::string &error) {
  a.bytes = static_cast<size_t>(a.array.count()) * a.array.elementBytes;
  void *p = nullptr;
  if (posix_memalign(&p, 64, a.bytes + 64) != 0) {
    error = "`-a " + a.name + "`: " + std::to_string(a.bytes) + " bytes of memory are not to be had";
    return false;
  }
  a.memory = {static_cast<char *>(p), std::free};
  return true;
}

bool setDtype(ArgValue &a, const std::string &text, std::string &error) {
  if (tegula_dtype_parse(text.c_str(), &a.dtype, nullptr) != TEGULA_OK) {
    error = "`-a " + a.name + "`: `" + text + "` is not a dtype";
    return false;
  }
  a.array.dtype = tegula_dtype_name(a.dtype);
  a.array.elementBytes = tegula_dtype_bytes(a.dtype);
  return true;
}

bool fromFile(ArgValue &a, const std::string &spec, std::string &error) {
  size_t colon = spec.rfind(".npy:");
  std::string path = colon == std::string::npos ? spec : spec.substr(0, colon + 4);
  std::string asType = colon == std::string::npos ? "" : spec.substr(colon + 5);
  std::string bytes, why;
  if (!readFile(path, bytes, why) || !parseNpy(bytes, a.array, why)) {
    error = "`-a " + a.name + "=@" + spec + "`: " + why;
    return false;
  }
  unsigned width = a.array.elementBytes;
  if (!setDtype(a, asType.empty() ? a.array.dtype : asType, error)) return false;
  if (a.array.elementBytes != width) {
    error = "`-a " + a.name + "=@" + spec + "`: the file's elements have " + std::to_string(width) + " bytes, " +
            a.array.dtype + " has " + std::to_string(a.array.elementBytes);
    return false;
  }
  if (!allocate(a, error)) return false;
  std::memcpy(a.memory.get(), a.array.data.data(), a.bytes);
  a.array.data = {};
  return true;
}

// splitmix64 (Steele, Lea, Flood 2014), then Box-Muller.
void fillRandn(ArgValue &a) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (char c : a.name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  auto next = [&] {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (static_cast<double>((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
  };
  for (size_t i = 0, n = static_cast<size_t>(a.array.count()); i < n; i += 2) {
    double r = std::sqrt(-2 * std::log(next())), t = 2 * M_PI * next();
    setElement(a, i, r * std::cos(t));
    if (i + 1 < n) setElement(a, i + 1, r * std::sin(t));
  }
}

bool madeBuffer(ArgValue &a, const std::string &kind, const std::string &rest, const NameLookup &names,
                std::string &error) {
  size_t open = rest.find('[');
  if (open == std::string::npos || rest.back() != ']') {
    error = "`-a " + a.name + "`: write " + kind + ":dtype[shape]";
    return false;
  }
  if (!setDtype(a, rest.substr(0, open), error)) return false;
  std::string shape = rest.substr(open + 1, rest.size() - open - 2);
  double total = 1;
  for (const std::string &item : splitList(shape)) {
    if (item.empty()) continue;
    std::string why;
    auto v = evaluate(item, names, why);
    if (!v || *v < 0) {
      error = "`-a " + a.name + "`: " + (v ? "extent " + std::to_string(*v) + " is negative" : why);
      return false;
    }
    a.array.shape.push_back(*v);
    // As in NumPy the extents beside a 0 count as well: their product must not overflow either.
    total *= static_cast<double>(std::max<int64_t>(*v, 1));
  }
  if (total * a.array.elementBytes > 1e15) {
    error = "`-a " + a.name + "`: the buffer would have more than 10^15 bytes";
    return false;
  }
  if (!allocate(a, error)) return false;
  std::memset(a.memory.get(), 0, a.bytes);
  size_t n = static_cast<size_t>(a.array.count());
  if (kind == "ones")
    for (size_t i = 0; i < n; ++i) setElement(a, i, 1);
  if (kind == "arange")
    for (size_t i = 0; i < n; ++i) setElement(a, i, static_cast<double>(i));
  if (kind == "randn") fillRandn(a);
  return true;
}

constexpr std::string_view descriptorPrefix = "tensordesc[";

/// Parses and removes `tensordesc[block]:` from the text.
bool descriptor(ArgValue &a, std::string &text, const NameLookup &names, std::string &error) {
  if (!std::string_view(text).starts_with(descriptorPrefix)) return true;
  size_t close = text.find("]:");
  std::vector<std::string> items;
  if (close != std::string::npos)
    items = splitList(std::string_view(text).substr(descriptorPrefix.size(), close - descriptorPrefix.size()));
  if (items.size() == 1 && items[0].empty()) items.clear();
  for (; !items.empty() && (items.back() == "nan" || items.back() == "tf32"); items.pop_back())
    (items.back() == "nan" ? a.nanPadding : a.roundTf32) = true;
  for (const std::string &item : items) {
    std::string why;
    std::optional<int64_t> v = evaluate(item, names, why);
    if (!v) return error = "`-a " + a.name + "`: " + why, false;
    a.block.push_back(*v);
  }
  if (a.block.empty())
    return error = "`-a " + a.name + "`: write tensordesc[block]:BUFFER, such as tensordesc[64, 32]:randn:f16[m, k]",
           false;
  text.erase(0, close + 2);
  return true;
}

bool scalar(ArgValue &a, const std::string &text, std::string &error) {
  std::string lower = text;
  for (char &c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "none") {
    a.scalar = {TEGULA_ARG_NONE, TEGULA_VOID, 0, 0, {nullptr}, {0}};
    return true;
  }
  if (lower == "true" || lower == "false") {
    a.scalar = tegula_bool(lower == "true");
    return true;
  }
  char *end;
  errno = 0;
  long long i = std::strtoll(text.c_str(), &end, 0);
  if (!text.empty() && !*end && !errno) {
    a.scalar = tegula_int(i);
    a.integer = i;
    return true;
  }
  errno = 0;
  unsigned long long u = std::strtoull(text.c_str(), &end, 0);
  if (!text.empty() && !*end && !errno && text[0] != '-') {
    a.scalar = {TEGULA_ARG_UINT, TEGULA_VOID, 0, 0, {nullptr}, {0}};
    a.scalar.u.u = u;
    return true;
  }
  double d = std::strtod(text.c_str(), &end);
  if (!text.empty() && !*end) {
    a.scalar = tegula_float(d);
    return true;
  }
  error = "`-a " + a.name + "=" + text +
          "`: not a number, @file.npy, none, true, false or empty|zeros|ones|randn|arange:dtype[shape]";
  return false;
}

} // namespace

bool parseArguments(const std::vector<std::string> &items, const Constants &constants, std::vector<ArgValue> &out,
                    std::string &error) {
  out.clear();
  std::vector<std::string> texts;
  for (const std::string &item : items) {
    size_t eq = item.find('=');
    if (eq == std::string::npos || eq == 0) {
      error = "`-a " + item + "`: write NAME=VALUE";
      return false;
    }
    ArgValue a;
    a.name = item.substr(0, eq);
    for (auto &other : out)
      if (other.name == a.name) {
        error = "argument `" + a.name + "` is given twice";
        return false;
      }
    texts.push_back(item.substr(eq + 1));
    a.isBuffer = texts.back()[0] == '@' || texts.back().find(':') != std::string::npos;
    // Scalars first: shapes may refer to any of them.
    if (!a.isBuffer && !scalar(a, texts.back(), error)) return false;
    out.push_back(std::move(a));
  }
  NameLookup names = [&](std::string_view name) -> std::optional<int64_t> {
    for (auto &a : out)
      if (a.name == name) return a.integer;
    return constants.integer(name);
  };
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].isBuffer) continue;
    if (!descriptor(out[i], texts[i], names, error)) return false;
    if (texts[i][0] == '@') {
      if (!fromFile(out[i], texts[i].substr(1), error)) return false;
      continue;
    }
    size_t colon = texts[i].find(':');
    std::string kind = texts[i].substr(0, colon);
    if (kind != "empty" && kind != "zeros" && kind != "ones" && kind != "randn" && kind != "arange") {
      error = "`-a " + out[i].name + "=" + texts[i] + "`: `" + kind + "` is none of empty, zeros, ones, randn, arange";
      return false;
    }
    if (!madeBuffer(out[i], kind, texts[i].substr(colon + 1), names, error)) return false;
  }
  return true;
}

std::string formatBuffer(const ArgValue &a) {
  if (a.array.count() == 0) return "[]";
  const size_t edge = 3, limit = 32, most = 1 << 16; // bytes: with many dimensions even the edges are too many
  std::string out;
  auto number = [&](size_t i) {
    char text[40];
    if (isFloat(a.dtype)) {
      std::snprintf(text, sizeof text, a.dtype == TEGULA_FP64 ? "%.16g" : "%.8g", element(a, i));
    } else if (a.dtype == TEGULA_INT64 || a.dtype == TEGULA_UINT64) {
      uint64_t v = bitsOf(a, i);
      if (a.dtype == TEGULA_INT64) std::snprintf(text, sizeof text, "%lld", static_cast<long long>(v));
      else std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(v));
    } else {
      std::snprintf(text, sizeof text, "%.0f", element(a, i));
    }
    return std::string(text);
  };
  // Recursion over dimensions; the middle of long ones is skipped.
  auto walk = [&](auto &self, size_t dim, size_t offset, size_t indent) -> void {
    if (dim == a.array.shape.size()) {
      out += number(offset);
      return;
    }
    size_t n = static_cast<size_t>(a.array.shape[dim]), inner = 1;
    for (size_t d = dim + 1; d < a.array.shape.size(); ++d) inner *= static_cast<size_t>(a.array.shape[d]);
    bool last = dim + 1 == a.array.shape.size();
    bool shorten = static_cast<size_t>(a.array.count()) > limit && n > 2 * edge;
    out += '[';
    for (size_t i = 0; i < n; ++i) {
      if (out.size() > most) {
        out += out.ends_with("...") ? "" : "...";
        break;
      }
      if (i) out += last ? ", " : ",\n" + std::string(indent + 1, ' ');
      if (shorten && i == edge) {
        out += last ? "..., " : "...,\n" + std::string(indent + 1, ' ');
        i = n - edge;
      }
      self(self, dim + 1, offset + i * inner, indent + 1);
    }
    if (out.size() <= most) out += ']';
  };
  walk(walk, 0, 0, 0);
  return out;
}

} // namespace tegula::cli
