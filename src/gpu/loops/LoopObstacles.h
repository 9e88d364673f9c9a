// What keeps a loop from being pipelined, or a load of it from being copied ahead of its iteration: one answer for the
// pipeliner, which needs to know whether, and for remarks, which say why.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <optional>
#include <string>
#include <vector>

namespace tegula::gpu {

/// Does an iteration of the loop compute a dot (in a branch at most, not in a loop inside)?
bool hasDot(const ir::Op &loop);

/// How many iterations of a For may be under way at a time, copies ahead of their use included: as the loop asks for,
/// else as the launch does; 1: one after the other. But a launch that asks for one stage gets two in loops with
/// asynchronous dots, which idle for as long as their operands take: published launches with num_stages=1 spare the
/// shared memory of smaller GPUs, or had warps of their own in mind.
int64_t stagesOf(const ir::Op &loop, const Options &options);

/// Why the body as a whole forbids to start loads of later iterations early; empty if it does not. `loop` is a For or a
/// While.
std::optional<std::string> obstacleOfLoop(const ir::Op &loop);

/// Why no asynchronous copy does what this load does; empty if one does: async_copy moves 4, 8 or 16 bytes, and zeros
/// where the mask is off.
std::optional<std::string> obstacleOfCopy(const ir::Op &load);

/// The same but for what the program wants where the mask is off, which the caller sees to.
std::optional<std::string> obstacleOfCopyBeside(const ir::Op &load);

/// Do threads have to fence (fence.proxy.async) after the copies of this load before asynchronous dots read them?
/// async_copy of 16 bytes writes shared memory as they see it by the time it is waited for: 0 of 4.6 * 10^10 results
/// were wrong without on an H200, of plain stores a quarter (docs/hopper.md 1.7). Shorter ones go another way.
bool needsProxyFence(const ir::Op &load);

/// Does the loop say which tiles a program does? From its own number on, by that of programs; until a counter is at its
/// end. (Heads of a group, or splits of a row, are gone through from 0 on.)
bool goesThroughTiles(const ir::Op &loop);

/// Collects what remarks say about loops for which a user expects pipelining: they have a dot, or num_stages of their
/// own. Without a DiagEngine, or where one stage was asked for, nothing is said.
class LoopRemarks {
public:
  LoopRemarks(const ir::Op &loop, const Options &options, DiagEngine *diag);

  void notPipelined(const std::string &reason) const;
  void notCopied(const ir::Op &load, const std::string &reason) const;
  /// The address or the mask of a load takes more than arithmetic on the loop's variables.
  void notComputedAhead(const ir::Op &load) const;
  /// Loads of tensors besides those of dots: only a loop with num_stages of its own asks for more.
  void otherLoads(const std::vector<ir::Op *> &loadsOfDots) const;
  /// Fewer iterations ahead than asked for: `iterations` of `wanted`. `needed` bytes were necessary.
  void shortOfMemory(int64_t iterations, int64_t wanted, uint64_t needed, uint64_t limit) const;

private:
  const ir::Op &loop_;
  DiagEngine *diag_;
};

} // namespace tegula::gpu
