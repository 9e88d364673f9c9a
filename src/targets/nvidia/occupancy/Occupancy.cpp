// See Occupancy.h.
#include "targets/nvidia/occupancy/Occupancy.h"
#include "targets/nvidia/occupancy/BlockForms.h"
#include "targets/nvidia/occupancy/ProductBlocks.h"
#include "targets/nvidia/occupancy/RowBlocks.h"
#include <algorithm>

namespace tegula::nvidia {

namespace sm = abi::multiprocessor;

BlockWish wishedBlocks(const ir::Function &kernel, const ir::Module &gpu, const Options &options, uint64_t sharedBytes,
                       const LaunchForms &ahead, bool canHold, unsigned mostCtas) {
  const Pressure pressure = pressureOf(kernel, gpu);
  const unsigned threads = 32 * options.numWarps;
  auto most = static_cast<unsigned>(std::min<uint64_t>(
      {sm::threads / threads, sm::mostBlocks, sm::sharedBytes / (sharedBytes + sm::sharedReserved)}));
  if (options.maxRegisters)
    return {};
  if (options.stagesRows)
    return {.blocks = blocksOfStaged(threads, most)};
  if (options.numCtas > 1)
    return {.blocks = blocksOfRows(kernel, threads, most)};
  if (pressure.hasDot)
    return {.blocks = blocksOfProducts(kernel, options, most)};
  LaunchForms asked =
      askForms(kernel, pressure, {canHold, mostCtas}, options, ahead, [&](const Holders &holders, const Known &known) {
        const Holding holding =
            options.numWarps < FormCode::warpsOfLimits ? Holding{} : mostInL2(pressure, holders, options, known);
        return FormCode{.blocks = blocksOfLoops(pressure, holders, most, options, known),
                        .limit = holding.blocks,
                        .ctas = holding.ctas,
                        .loadsAhead = known.loadsAhead}
            .pack();
      });
  const FormCode form = FormCode::of(asked.form);
  BlockWish wish{.blocks = form.blocks, .most = form.limit, .ctas = form.ctas};
  // what is alive at once alone has no room beside a second block
  if (!wish.blocks && pressure.data >= sm::registersOf(2 * options.numWarps))
    wish.blocks = 1;
  if (wish.most) {
    wish.held = canHold ? wish.most : 0;
    wish.rows = pressure.rows.front().loop;
  }
  wish.forms = std::move(asked);
  return wish;
}

} // namespace tegula::nvidia
