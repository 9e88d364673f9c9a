// Any bytes as files of tuning results: refused with a reason, or results that survive a round trip and a merge in
// either order.
#include "tune/Results.h"
#include <algorithm>
#include <cstdlib>

using namespace tegula::tune;

static void check(bool holds) {
  if (!holds) std::abort();
}

/// `text` up to the first NUL and what is after it are two files.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  size_t middle = std::min(text.find('\0'), size);
  std::string_view parts[2] = {text.substr(0, middle), text.substr(std::min(middle + 1, size))};
  Results files[2], again;
  for (int i = 0; i < 2; ++i) {
    Results &r = files[i];
    Status s = parse(parts[i], r);
    check(s ? s.text.empty() : !s.text.empty() && r.kernels.empty());
    std::string written = format(r);
    check(static_cast<bool>(parse(written, again)) && again == r && format(again) == written);
    (void)show(r);
  }
  Results ab = files[0], ba = files[1];
  ab.join(files[1]), ba.join(files[0]);
  check(ab == ba);
  Results aba = ab;
  aba.join(files[0]);
  check(aba == ab);
  return 0;
}
