// Any bytes as a .npy file: refused with a reason, or an array that survives a round trip.
#include "support/Npy.h"
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace tegula;
  NpyArray a, b;
  std::string error;
  if (!parseNpy(std::string_view(reinterpret_cast<const char *>(data), size), a, error)) return 0;
  if (!parseNpy(formatNpy(a), b, error) || a.shape != b.shape || a.data != b.data) std::abort();
  if (static_cast<uint64_t>(a.count()) * a.elementBytes != a.data.size()) std::abort();
  return 0;
}
