// Structs of the C interface that grow at the end: `size` is the size of the struct that the program was compiled with.
//
// An input struct may come from an older program (the fields that it lacks have the values of a fresh one) or from a
// newer one (fields that this library lacks are ignored). An output struct is filled in up to the smaller of both
// sizes, and its `size` is set to that.
#pragma once
#include "tegula/tegula.h"
#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tegula::api {

/// The size of the struct in its first version: with a smaller `size`, the caller did not set it.
template <typename T> struct First;
#define TEGULA_FIRST(Struct, last) \
  template <> struct First<Struct> { static constexpr size_t size = offsetof(Struct, last) + sizeof(Struct::last); }
TEGULA_FIRST(TegulaContextOptions, checked);
TEGULA_FIRST(TegulaDeviceInfo, l2_bytes);
TEGULA_FIRST(TegulaFunctionSource, do_not_specialize_on_alignment_count);
TEGULA_FIRST(TegulaLaunchOptions, stream);
TEGULA_FIRST(TegulaKernelInfo, code_bytes);
TEGULA_FIRST(TegulaTimings, total);
TEGULA_FIRST(TegulaCacheStat, corrupted);
TEGULA_FIRST(TegulaConfig, maxnreg);
TEGULA_FIRST(TegulaTunerOptions, copy_bytes);
TEGULA_FIRST(TegulaSpace, user);
TEGULA_FIRST(TegulaTuneRequest, measure);
TEGULA_FIRST(TegulaTensorInfo, bits);
TEGULA_FIRST(TegulaLayout, bases);
#undef TEGULA_FIRST

/// Is the pointer not null, and its `size` set?
template <typename T> bool isSized(const T *s) { return s && s->size >= First<T>::size; }

/// Copies the caller's struct over `out`, which holds the defaults; false if there is none, or its `size` is not set.
template <typename T> bool takeSized(const T *given, T &out) {
  if (!isSized(given)) return false;
  std::memcpy(&out, given, std::min(given->size, sizeof out));
  out.size = sizeof out;
  return true;
}

/// Copies to the caller as much of `full` as it has room for. Only if isSized(out).
template <typename T> void giveSized(const T &full, T *out) {
  size_t n = std::min(out->size, sizeof full);
  std::memcpy(out, &full, n);
  out->size = n;
}

/// Does a struct, used as the caller gave it, have this field?
template <typename T, typename M> bool hasField(const T &s, M T::*field) {
  return reinterpret_cast<const char *>(&(s.*field) + 1) <= reinterpret_cast<const char *>(&s) + s.size;
}

} // namespace tegula::api
