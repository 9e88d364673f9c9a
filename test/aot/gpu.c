/* Launches a kernel of a bundle on GPU 0 with libtegula-runtime alone: `gpu BUNDLE`. No compiler library is in the process. */
#include "app.hpp"
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tegula_bundle_error());
  return 1;
}

int main(int argc, char **argv) {
  enum { n = 100000 };
  const int32_t gpu = TEGULA_DEVICE_INDEX_CUDA;
  const uint64_t bytes = n * sizeof(float);
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  app_kernels app;
  void *x, *y, *out;
  float *host = malloc(bytes);
  options.device = gpu;
  (void)argc;
  if (app_open(&app, argv[1], NULL) != TEGULA_OK) return failed("open");
  if (tegula_bundle_allocate(app.bundle, gpu, bytes, &x) || tegula_bundle_allocate(app.bundle, gpu, bytes, &y) || tegula_bundle_allocate(app.bundle, gpu, bytes, &out)) return failed("memory");
  for (int i = 0; i < n; ++i) host[i] = (float)i;
  if (tegula_bundle_copy(app.bundle, gpu, TEGULA_TO_DEVICE, x, host, bytes, NULL) || tegula_bundle_copy(app.bundle, gpu, TEGULA_TO_DEVICE, y, host, bytes, NULL)) return failed("copy");
  if (app_add_fp32(&app, x, y, out, n, &options) || app_scale(&app, out, n, 3, &options) || tegula_bundle_wait(app.bundle, gpu, NULL)) return failed("launch");
  if (tegula_bundle_copy(app.bundle, gpu, TEGULA_FROM_DEVICE, host, out, bytes, NULL)) return failed("copy back");
  for (int i = 0; i < n; ++i)
    if (host[i] != 6 * (float)i) return fprintf(stderr, "element %d is %g\n", i, host[i]), 1;
  tegula_bundle_free(app.bundle, gpu, x), tegula_bundle_free(app.bundle, gpu, y), tegula_bundle_free(app.bundle, gpu, out);
  printf("right on the GPU\n");
  app_close(&app);
  free(host);
  return 0;
}
