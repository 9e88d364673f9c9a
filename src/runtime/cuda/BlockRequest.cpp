// See BlockRequest.h.
#include "runtime/cuda/BlockRequest.h"
#include "abi/Multiprocessor.h"
#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace tegula::runtime::cuda {

namespace sm = abi::multiprocessor;

static constexpr std::string_view blocksDirective = ".minnctapersm", threadsDirective = ".reqntid ",
                                  boundDirective = ".maxnreg";

static constexpr size_t longText = 64 << 10; // bytes: an attempt takes a considerable part of a second

/// The number after a directive; 0 if the text has none.
static uint32_t numberBehind(const std::string &ptx, std::string_view directive) {
  size_t at = ptx.find(directive);
  return at == ptx.npos ? 0 : static_cast<uint32_t>(std::strtoul(ptx.c_str() + at + directive.size(), nullptr, 10));
}

/// Warps of a block.
static uint32_t warpsOfBlock(uint32_t threads) { return (threads + sm::lanes - 1) / sm::lanes; }

static uint32_t registersOf(uint32_t blocks, uint32_t threads) {
  return sm::registersOf(blocks * warpsOfBlock(threads));
}

BlockRequest BlockRequest::of(const std::string &ptx) {
  return {numberBehind(ptx, blocksDirective), numberBehind(ptx, threadsDirective),
          ptx.find(boundDirective) != ptx.npos};
}

uint32_t BlockRequest::registers() const {
  if (blocks < 2 || threads == 0)
    return 0;
  uint32_t limit = registersOf(blocks, threads);
  return limit < sm::mostRegisters ? limit : 0;
}

uint32_t BlockRequest::spillsWorth() const {
  // Few where a quarter of the blocks depends on them, more where a third does. For two blocks no spills pay (rows that
  // both of two passes read, RMS norm of 16384 floats by 16 warps with 28 bytes: 282 us, one block 266), but a bound on
  // registers may need fewer.
  constexpr uint32_t few = 16; // bytes
  return blocks == 2 ? 4 * few : blocks == 3 ? 2 * few : few;
}

/// `ptx` with the request's line replaced by `line`.
static std::string withLine(std::string ptx, const std::string &line) {
  size_t at = ptx.find(blocksDirective);
  return ptx.replace(at, ptx.find('\n', at) - at, line);
}

std::string withRequest(std::string ptx, uint32_t blocks) {
  const std::string line = blocks < 2 ? "" : std::string(blocksDirective) + " " + std::to_string(blocks);
  if (ptx.find(blocksDirective) != ptx.npos)
    return withLine(std::move(ptx), line);
  size_t threads = ptx.find(threadsDirective);
  return line.empty() || threads == ptx.npos ? ptx : ptx.insert(threads, line + "\n");
}

bool isOfCluster(std::string_view ptx) { return ptx.find("barrier.cluster.arrive") != ptx.npos; }

bool hasAsyncProducts(std::string_view ptx) { return ptx.find("wgmma.mma_async") != ptx.npos; }

/// Blocks to ask for after `r`, which cost `spilledBytes`.
static uint32_t fewerBlocks(const BlockRequest &r, uint32_t spilledBytes) {
  constexpr uint32_t wordBytes = 4;
  const uint32_t wanted = r.registers() + std::max(sm::registerStep, spilledBytes / wordBytes);
  return std::max(r.blocks * 3 / 4, std::min(r.blocks - 1, sm::warpsOf(wanted) / warpsOfBlock(r.threads)));
}

std::string withFewerBlocks(const std::string &ptx, uint32_t spilledBytes) {
  const BlockRequest r = BlockRequest::of(ptx);
  if (ptx.size() > longText)
    return withRequest(ptx, 0);
  if (isOfCluster(ptx))
    return withRequest(ptx, std::min(r.blocks - 1, (3 * r.blocks + 3) / 4));
  // Where fewer blocks ended all spills, each further register had saved at most 12 bytes (109 pairs of attempts in 60
  // kernels without products; layer norm of 131072 columns in bf16 by 32 warps: 392 at 32 registers, none at 64).
  // SwiGLU's gradients, 14336 columns in bf16 by four warps: 904 bytes at 32 registers, 696 at 40, 392 at 56, 104 at
  // 80, none at 119.
  constexpr uint32_t savedByRegister = 16;
  BlockRequest next{.blocks = fewerBlocks(r, spilledBytes), .threads = r.threads};
  while (next.registers()) {
    const uint32_t saved = savedByRegister * (next.registers() - r.registers());
    if (saved >= spilledBytes)
      break;
    const uint32_t after = fewerBlocks(next, spilledBytes - saved);
    if (after > next.blocks * 3 / 4) // a larger spill is possible, which a lower request then removes
      break;
    next.blocks = after;
  }
  return withRequest(ptx, next.blocks);
}

std::string withRegisterBound(std::string ptx) {
  uint32_t limit = BlockRequest::of(ptx).registers();
  return limit ? withLine(std::move(ptx), std::string(boundDirective) + " " + std::to_string(limit + 1))
               : std::string();
}

std::string withMoreRegisters(const std::string &ptx) {
  const BlockRequest r = BlockRequest::of(ptx);
  uint32_t blocks = sm::warpsOf(r.registers() + sm::registerStep) / warpsOfBlock(r.threads);
  return blocks > 1 && 4 * blocks < 3 * r.blocks ? std::string() : withRequest(ptx, blocks);
}

std::string withOneBlockMore(const std::string &ptx, uint32_t registers, uint64_t sharedBytes) {
  const BlockRequest r = BlockRequest::of(ptx);
  if (!r.threads || !registers || r.hasRegisterBound)
    return {};
  constexpr uint32_t mostBlocks = 5, enoughThreads = 16 * 32; // a quarter more than four
  uint32_t given = (registers + sm::registerStep - 1) / sm::registerStep * sm::registerStep,
           blocks = sm::warpsOf(registers) / warpsOfBlock(r.threads) + 1;
  if (blocks < 2 || blocks <= r.blocks || blocks > mostBlocks || blocks * r.threads > sm::threads ||
      blocks * (sharedBytes + sm::sharedReserved) > sm::sharedBytes)
    return {};
  // More fit than the request: the compiler overestimated straight code. In loops it may want few blocks, to keep data
  // in caches.
  const bool isStraight = ptx.find("\tbra") == ptx.npos;
  if (r.blocks && !hasAsyncProducts(ptx) && !(isStraight && blocks - 1 > r.blocks))
    return {};
  uint32_t left = registersOf(blocks, r.threads), taken = given - left;
  const uint32_t share =
      blocks == 2 && r.threads >= enoughThreads && isStraight && ptx.size() <= longText && ptx.find("mma.") == ptx.npos
          ? 2
          : 3;
  if (taken > sm::registerStep && (taken * share > given || (blocks > 2 && (blocks - 1) * r.threads >= enoughThreads)))
    return {};
  return withRequest(ptx, blocks);
}

} // namespace tegula::runtime::cuda
