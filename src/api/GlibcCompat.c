/* What a static libstdc++ takes from a newer glibc than the archive of scripts/dist.py asks for. Hidden: other libraries of the process keep
 * theirs. */
#include <stdint.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t v = 0;
  while (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v) {
  }
  return v;
}
