// Reasons why a loop cannot be pipelined, or why a load of it cannot be copied ahead of its iteration. The pipeliner
// asks whether there is a reason; remarks print it.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <optional>
#include <string>
#include <vector>

namespace tegula::gpu {

/// Does an iteration of the loop compute a dot? Dots in branches count, those in inner loops do not.
bool hasDot(const ir::Op &loop);

/// How many iterations of a For may be in flight at a time, including those whose copies have started: num_stages of
/// the loop, or else of the launch. 1: one after the other. A launch that asks for one stage gets two in loops with
/// asynchronous dots, which otherwise idle until their operands arrive: published launches with num_stages=1 spare the
/// shared memory of smaller GPUs, or were written for dedicated producer warps.
int64_t stagesOf(const ir::Op &loop, const Options &options);

/// Why loads of later iterations may not start early in this loop; empty if they may. `loop` is a For or a While.
std::optional<std::string> obstacleOfLoop(const ir::Op &loop);

/// Why no asynchronous copy can replace this load; empty if one can. async_copy moves 4, 8 or 16 bytes, and writes
/// zeros where the mask is off.
std::optional<std::string> obstacleOfCopy(const ir::Op &load);

/// The same without the check of the value that masked-off elements get (`other`): the caller provides that value.
std::optional<std::string> obstacleOfCopyBeside(const ir::Op &load);

/// Do threads have to fence (fence.proxy.async) between the copies of this load and the asynchronous dots that read
/// them? An async_copy of 16 bytes is visible to asynchronous dots once it has been waited for: without a fence 0 of
/// 4.6 * 10^10 results were wrong on an H200, after plain stores a quarter (docs/hopper.md 1.7). Shorter copies take
/// another path and need the fence.
bool needsProxyFence(const ir::Op &load);

/// Does the loop go through the tiles that a program computes? A For does if its start or its step depends on the
/// program's number (as in `range(pid, tiles, num_programs)`); every While counts, as a loop that takes tiles from a
/// counter. (Loops over heads of a group, or over splits of a row, start at 0.)
bool goesThroughTiles(const ir::Op &loop);

/// Reports remarks about loops for which a user expects pipelining: those with a dot, or with num_stages of their own.
/// Reports nothing without a DiagEngine, or where one stage was asked for.
class LoopRemarks {
public:
  LoopRemarks(const ir::Op &loop, const Options &options, DiagEngine *diag);

  void notPipelined(const std::string &reason) const;
  void notCopied(const ir::Op &load, const std::string &reason) const;
  /// The address or the mask of a load takes more than arithmetic on the loop's variables.
  void notComputedAhead(const ir::Op &load) const;
  /// Loads of tensors that no dot uses; reported only for loops with num_stages of their own.
  void otherLoads(const std::vector<ir::Op *> &loadsOfDots) const;
  /// Copies run `iterations` ahead, fewer than the `wanted` ones (0: the loop is not pipelined). Those would take
  /// `needed` bytes of shared memory, of which a block has `limit`.
  void shortOfMemory(int64_t iterations, int64_t wanted, uint64_t needed, uint64_t limit) const;

private:
  const ir::Op &loop_;
  DiagEngine *diag_;
};

} // namespace tegula::gpu
