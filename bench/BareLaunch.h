// The driver's own launch of a kernel that takes one packed block of arguments: what no launch can be faster than.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>

struct BareLaunch {
  struct Config { // CUlaunchConfig
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, sharedBytes = 0;
    void *stream = nullptr, *attributes = nullptr;
    unsigned attributeCount = 0;
  } config;
  int (*launch)(const Config *, void *, void **, void **) = nullptr;
  void *function = nullptr; // CUfunction
  char block[256] = {};
  size_t bytes = 0; // of block

  /// The driver that the library uses; null: there is none.
  static void *driver() {
    const char *path = std::getenv("TEGULA_LIBCUDA");
    return dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
  }
  /// The CUfunction `name` of a cubin or of PTX, for the current context; null: the driver refuses.
  static void *find(void *driver, const char *code, const char *name) {
    auto load = reinterpret_cast<int (*)(void **, const void *, unsigned, int *, void **)>(dlsym(driver, "cuModuleLoadDataEx"));
    auto get = reinterpret_cast<int (*)(void **, void *, const char *)>(dlsym(driver, "cuModuleGetFunction"));
    void *module = nullptr, *function = nullptr;
    return load(&module, code, 0, nullptr, nullptr) || get(&function, module, name) ? nullptr : function;
  }
  /// `threads` of a block; `bytes` of arguments, all zero, at most 256.
  BareLaunch(void *driver, void *function, unsigned threads, size_t bytes)
      : launch(reinterpret_cast<decltype(launch)>(dlsym(driver, "cuLaunchKernelEx"))), function(function), bytes(bytes) {
    config.block[0] = threads;
  }
  /// CUresult.
  int operator()() {
    void *extra[] = {reinterpret_cast<void *>(1), block, reinterpret_cast<void *>(2), &bytes, nullptr};
    return launch(&config, function, nullptr, extra);
  }
};
