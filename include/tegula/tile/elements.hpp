// Element types of memory and tiles, and the type in which two of them meet. Included by tegula/tegula.hpp.
//
// Most are C++'s own: bool, int8_t ... uint64_t, float, double, _Float16 and std::bfloat16_t where there are such. Those that C++ (20) has no name for are here: half, bf16, the
// fp8 types; in memory they are their bits. `integer` is a whole number whose width the launch decides: an argument that fits is 32 bits wide, and 1 is a constant of no
// width at all.
#pragma once
#include "tegula/tegula.h"
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#if __has_include(<stdfloat>) && __cplusplus > 202002L
#include <stdfloat>
#endif

namespace tegula {
inline namespace v0 {
namespace tile {

namespace detail {
/// Its bits, with conversions: from numbers to nearest even.
template <int Dtype, typename Word> struct Rounded {
  Word bits;
  Rounded() = default;
  explicit Rounded(double x) : bits(static_cast<Word>(tegula_float_to_bits(Dtype, x))) {}
  explicit operator float() const { return static_cast<float>(tegula_float_from_bits(Dtype, bits)); }
  friend bool operator==(Rounded, Rounded) = default; // of the bits
};
} // namespace detail

struct half : detail::Rounded<TEGULA_FP16, uint16_t> { using Rounded::Rounded; };
struct bf16 : detail::Rounded<TEGULA_BF16, uint16_t> { using Rounded::Rounded; };
struct fp8e5 : detail::Rounded<TEGULA_FP8E5, uint8_t> { using Rounded::Rounded; };
struct fp8e4nv : detail::Rounded<TEGULA_FP8E4NV, uint8_t> { using Rounded::Rounded; };
struct fp8e4b15 : detail::Rounded<TEGULA_FP8E4B15, uint8_t> { using Rounded::Rounded; };
struct fp8e4b8 : detail::Rounded<TEGULA_FP8E4B8, uint8_t> { using Rounded::Rounded; };
struct fp8e5b16 : detail::Rounded<TEGULA_FP8E5B16, uint8_t> { using Rounded::Rounded; };
struct integer {};

namespace detail {

inline constexpr int noElement = -1, integerElement = 100;

/// The data type of a C++ type; noElement: none. Characters are no numbers; std::byte is uint8.
template <typename T> consteval int elementCode() {
  constexpr bool character = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> || std::same_as<T, char16_t> || std::same_as<T, char32_t>;
  if constexpr (std::same_as<T, bool>) return TEGULA_INT1;
  else if constexpr (std::same_as<T, std::byte>) return TEGULA_UINT8;
  else if constexpr (std::integral<T> && !character) {
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return sizeof(T) > 8 ? noElement : (std::is_signed_v<T> ? +TEGULA_INT8 : +TEGULA_UINT8) + log;
  }
#ifdef __FLT16_MAX__
  else if constexpr (std::same_as<T, _Float16>) return TEGULA_FP16;
#endif
#ifdef __STDCPP_FLOAT16_T__
  else if constexpr (std::same_as<T, std::float16_t>) return TEGULA_FP16;
#endif
#ifdef __BFLT16_MAX__
  else if constexpr (std::same_as<T, __bf16>) return TEGULA_BF16;
#endif
#ifdef __STDCPP_BFLOAT16_T__
  else if constexpr (std::same_as<T, std::bfloat16_t>) return TEGULA_BF16;
#endif
  else if constexpr (std::same_as<T, float>) return TEGULA_FP32;
  else if constexpr (std::same_as<T, double>) return TEGULA_FP64;
  else return noElement;
}

/// A row for each: the type that results have, its TegulaDtype, its name in the language.
template <int Code> struct ElementOf { using type = void; };
template <int Code> inline constexpr const char *elementName = "";
#define TEGULA_TILE_ELEMENT(T, dtype, text)                                                                                                          \
  template <> struct ElementOf<dtype> { using type = T; };                                                                                           \
  template <> inline constexpr const char *elementName<dtype> = text;
#define TEGULA_TILE_OWN_ELEMENT(T, dtype, text)                                                                                                      \
  TEGULA_TILE_ELEMENT(T, dtype, text)                                                                                                                \
  template <> consteval int elementCode<T>() { return dtype; }
TEGULA_TILE_ELEMENT(bool, TEGULA_INT1, "tl.int1")
TEGULA_TILE_ELEMENT(int8_t, TEGULA_INT8, "tl.int8")
TEGULA_TILE_ELEMENT(int16_t, TEGULA_INT16, "tl.int16")
TEGULA_TILE_ELEMENT(int32_t, TEGULA_INT32, "tl.int32")
TEGULA_TILE_ELEMENT(int64_t, TEGULA_INT64, "tl.int64")
TEGULA_TILE_ELEMENT(uint8_t, TEGULA_UINT8, "tl.uint8")
TEGULA_TILE_ELEMENT(uint16_t, TEGULA_UINT16, "tl.uint16")
TEGULA_TILE_ELEMENT(uint32_t, TEGULA_UINT32, "tl.uint32")
TEGULA_TILE_ELEMENT(uint64_t, TEGULA_UINT64, "tl.uint64")
TEGULA_TILE_ELEMENT(float, TEGULA_FP32, "tl.float32")
TEGULA_TILE_ELEMENT(double, TEGULA_FP64, "tl.float64")
TEGULA_TILE_OWN_ELEMENT(fp8e5, TEGULA_FP8E5, "tl.float8e5")
TEGULA_TILE_OWN_ELEMENT(fp8e4nv, TEGULA_FP8E4NV, "tl.float8e4nv")
TEGULA_TILE_OWN_ELEMENT(fp8e4b15, TEGULA_FP8E4B15, "tl.float8e4b15")
TEGULA_TILE_OWN_ELEMENT(fp8e4b8, TEGULA_FP8E4B8, "tl.float8e4b8")
TEGULA_TILE_OWN_ELEMENT(fp8e5b16, TEGULA_FP8E5B16, "tl.float8e5b16")
TEGULA_TILE_OWN_ELEMENT(half, TEGULA_FP16, "tl.float16")
TEGULA_TILE_OWN_ELEMENT(bf16, TEGULA_BF16, "tl.bfloat16")
TEGULA_TILE_OWN_ELEMENT(integer, integerElement, "")
#undef TEGULA_TILE_ELEMENT
#undef TEGULA_TILE_OWN_ELEMENT
template <typename T> struct CodeOf {
  static constexpr int code = elementCode<T>();
  static constexpr const char *name = elementName<code>;
};

constexpr bool isFloatCode(int c) { return c >= TEGULA_FP8E5 && c <= TEGULA_FP64; }
constexpr bool isFp8Code(int c) { return c >= TEGULA_FP8E5 && c <= TEGULA_FP8E5B16; }
constexpr bool isIntCode(int c) { return c == integerElement || (c >= TEGULA_INT1 && c <= TEGULA_UINT64); }
constexpr bool isSignedCode(int c) { return c >= TEGULA_INT8 && c <= TEGULA_INT64; }
constexpr int widthOf(int c) {
  return c == TEGULA_INT1 ? 1 : isSignedCode(c) ? 8 << (c - TEGULA_INT8) : c >= TEGULA_UINT8 && c <= TEGULA_UINT64 ? 8 << (c - TEGULA_UINT8) : isFp8Code(c) ? 8 : c == TEGULA_FP32 ? 32 : c == TEGULA_FP64 ? 64 : 16;
}
constexpr int kindOf(int c) { return c == TEGULA_INT1 ? 0 : isIntCode(c) ? 1 : 2; }

/// The compiler's table (src/lang/Promotion.h), which a unit test compares with this one; noElement: the two have no common type.
constexpr int promoteInts(int a, int b) {
  if (a == integerElement || b == integerElement) return integerElement;
  if (isSignedCode(a) == isSignedCode(b)) return widthOf(a) >= widthOf(b) ? a : b;
  int u = isSignedCode(a) ? b : a, s = isSignedCode(a) ? a : b;
  return widthOf(u) >= widthOf(s) ? u : s;
}
constexpr int promote(int a, int b, bool isDivision) {
  auto either = [&](int c) { return a == c || b == c; };
  if (isDivision && (isFloatCode(a) || isFloatCode(b))) return either(TEGULA_FP64) ? TEGULA_FP64 : TEGULA_FP32;
  if (either(TEGULA_FP64)) return TEGULA_FP64;
  if (either(TEGULA_FP32)) return TEGULA_FP32;
  if (either(TEGULA_FP16)) return TEGULA_FP16;
  if (either(TEGULA_BF16)) return a == b ? TEGULA_BF16 : TEGULA_FP32;
  if (isFp8Code(a) && isFp8Code(b)) return a == b ? a : TEGULA_FP16;
  if (isFp8Code(a) || isFp8Code(b)) return noElement;
  bool unknown = a == integerElement || b == integerElement;
  if (isDivision && !unknown && isSignedCode(a) != isSignedCode(b)) return noElement;
  return promoteInts(a, b);
}
/// A tile with a number of C++, which takes the tile's type unless its kind (bool, whole number, real number) is above the tile's.
constexpr int promoteWithNumber(int tile, int number, bool isDivision) {
  return kindOf(number) > kindOf(tile) ? promote(tile, number, isDivision) : promote(tile, tile, isDivision);
}

} // namespace detail

/// What a tile can be of.
template <typename T>
concept TileElement = detail::CodeOf<T>::code != detail::noElement;

} // namespace tile
} // inline namespace v0
} // namespace tegula
