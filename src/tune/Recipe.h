// Proposes a space of configurations for a kernel whose author gave none: finds the role of each free parameter, and
// the values that are worth trying.
//
// No parameter is recognized by name. Each one is doubled, and the changes in the kernel's work (support/Work.h) and
// grid determine its role:
//
//   what doubles with it                           role        values
//   rows, columns, depth of a dot                  m, n, k     powers of two, as far as the kernel has that many rows ... for one tile
//   an extent of loads and stores, and there are   tile        powers of two
//     fewer programs or iterations
//   an extent, nothing else: one tile is all       whole       the least power of two whose mask shows that nothing is left over
//   the grid or trips of a loop, no extent         split       1, 2, 4, 8
//   addresses alone: the order of tiles            order       1, 4, 8
//   num_stages of a loop                           stages      1, 2, 3, 4 (one on CPUs, where it changes nothing)
//   anything else                                              none: it changes what is computed, the caller must give it
//
// The kind of kernel bounds the values: two dots of one loop, one of which waits for the other (attention), a dot in a
// loop (matmul), a reduction (rows), or none of these (elementwise). Tiles that exceed the device's registers (or
// caches) are left out.
#pragma once
#include "tune/Demand.h"
#include "tune/Space.h"

namespace tegula::tune {

/// A kernel's properties, without code, for given values of its free parameters.
struct Look {
  runtime::Status status;        // not OK: there is no kernel with these values
  runtime::KernelInfo info;      // of which args and work count
  int64_t grid[3] = {1, 1, 1};
  std::vector<int64_t> arguments; // as of Launch
};
class Study {
public:
  virtual ~Study() = default;
  /// `values`: those of the free parameters, in order.
  virtual Look look(const std::vector<int64_t> &values) = 0;
};

/// The target of the values.
struct RecipeTarget {
  bool isGpu = false;
  bool warps = true, stages = true; // are num_warps and num_stages free, too? On CPUs they change nothing
};

struct RecipeAxis {
  std::string name, role, reason;
  std::vector<int64_t> values;
};
struct Recipe {
  std::string kind;
  std::vector<RecipeAxis> axes; // the free parameters, then num_warps and num_stages
  std::vector<Point> points;
  std::vector<std::string> reasons;
};

/// INVALID_ARGUMENT: a parameter must be given, or the kernel compiles with none of the values; the text says which.
runtime::Status propose(Study &study, const std::vector<std::string> &free, const RecipeTarget &target, Recipe &out);

} // namespace tegula::tune
