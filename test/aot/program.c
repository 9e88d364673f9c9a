/* A program that runs the kernels of a bundle through the header that `tegula aot --header` wrote, with libtegula-runtime alone: `program BUNDLE [PUBLIC KEY]`.
 * Prints how long it took from the start of main to the end of the first launch. */
#define _POSIX_C_SOURCE 200809L
#include "app.hpp"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tegula_bundle_error());
  return 1;
}

int main(int argc, char **argv) {
  const double begin = now();
  TegulaBundleOptions options = TEGULA_BUNDLE_OPTIONS_INIT;
  uint8_t key[32];
  app_kernels app;
  if (argc > 2) {
    for (int i = 0; i < 32; ++i) {
      unsigned byte = 0;
      sscanf(argv[2] + 2 * i, "%2x", &byte);
      key[i] = (uint8_t)byte;
    }
    options.public_key = key;
  }
  if (app_open(&app, argv[1], &options) != TEGULA_OK) return failed("open");
  /* Lengths that ask for other classes: divisible by 16, 1, neither; addresses that are aligned and not. */
  static const int32_t lengths[] = {4096, 1, 1000, 16, 17};
  double first = 0;
  for (int round = 0; round < 10; ++round) {
    const int32_t n = lengths[round % 5];
    float *block = aligned_alloc(64, 3 * 16896 + 64), *x = block + round / 5, *y = x + 4200, *out = y + 4200;
    for (int32_t i = 0; i < n; ++i) x[i] = (float)i, y[i] = 0.5f * (float)(i % 7);
    if (app_add_fp32(&app, x, y, out, n, NULL) != TEGULA_OK) return failed("add");
    if (!first) first = now() - begin;
    if (app_scale(&app, x, n, 3, NULL) != TEGULA_OK) return failed("scale");
    for (int32_t i = 0; i < n; ++i)
      if (out[i] != (float)i + 0.5f * (float)(i % 7) || x[i] != 3 * (float)i) return fprintf(stderr, "n = %d: element %d is wrong\n", n, i), 1;
    free(block);
  }
  /* What no entry takes is an error that says why. */
  double wrong[4] = {0};
  TegulaArg args[] = {tegula_ptr(wrong, TEGULA_FP64, sizeof wrong), tegula_int(4), tegula_float(2)};
  const int64_t grid[3] = {1, 1, 1};
  if (tegula_bundle_launch(app.scale, grid, args, 3, NULL) != TEGULA_NOT_FOUND || !strstr(tegula_bundle_error(), "`x` is *fp64, not *fp32")) return failed("fp64");
  printf("right; first launch after %.3f ms\n", first);
  app_close(&app);
  return 0;
}
