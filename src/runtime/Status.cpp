#include "runtime/Status.h"

namespace tegula::runtime {

Status Status::exhausted(const char *name, uint64_t required, uint64_t limit, const std::string &text) {
  return {TEGULA_OUT_OF_RESOURCES,
          std::string("out of resource: ") + name + ", Required: " + std::to_string(required) +
              ", Hardware limit: " + std::to_string(limit) + ". " + text,
          {name, required, limit}};
}

} // namespace tegula::runtime
