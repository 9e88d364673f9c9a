// Structs of the C interface that grow at the end: `size` says how much of one the program knows that it was compiled
// with.
//
// One that is given may be of an older program (what it does not have is as in a new one that was set up and left
// alone) or of a newer one (what this library does not know is left out). One that is asked for is filled in as far as
// both know it, and its `size` says how far that is.
#pragma once
#include "tegula/tegula.h"
#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tegula::api {

/// How large the struct was when it first was there: a smaller `size` was not set.
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

/// Is it there with its `size` set?
template <typename T> bool isSized(const T *s) { return s && s->size >= First<T>::size; }

/// Puts what the caller gave over `out`, which holds the defaults; false if there is none, or its `size` is not set.
template <typename T> bool takeSized(const T *given, T &out) {
  if (!isSized(given)) return false;
  std::memcpy(&out, given, std::min(given->size, sizeof out));
  out.size = sizeof out;
  return true;
}

/// Gives the caller as much of `full` as it has room for. Only if isSized(out).
template <typename T> void giveSized(const T &full, T *out) {
  size_t n = std::min(out->size, sizeof full);
  std::memcpy(out, &full, n);
  out->size = n;
}

/// Does a struct that was given as it is have this field?
template <typename T, typename M> bool hasField(const T &s, M T::*field) {
  return reinterpret_cast<const char *>(&(s.*field) + 1) <= reinterpret_cast<const char *>(&s) + s.size;
}

} // namespace tegula::api
