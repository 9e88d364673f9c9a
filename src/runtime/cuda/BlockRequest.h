// The `.minnctapersm` request of a kernel's PTX: the number of blocks that should share a multiprocessor. The compiler
// makes the request (Occupancy.h) before the assembler's register count is known; the functions here choose another
// request, or a bound on registers, once it is known.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tegula::runtime::cuda {

/// The directives of a kernel.
struct BlockRequest {
  uint32_t blocks = 0;           // .minnctapersm; 0: no request
  uint32_t threads = 0;          // .reqntid, of a block; 0: not said
  bool hasRegisterBound = false; // .maxnreg

  static BlockRequest of(const std::string &ptx);

  /// The registers that a thread may have so that the blocks fit; 0: no limit, as there is no request, it is for one
  /// block, or the blocks fit with any number of registers.
  uint32_t registers() const;
  /// The bytes of spills at which keeping the request still pays.
  uint32_t spillsWorth() const;
};

/// `ptx` with a request for `blocks` instead of its own, or before `.reqntid`; without a request for fewer than two
/// blocks.
std::string withRequest(std::string ptx, uint32_t blocks);

// The next attempt: new PTX, or an empty text if there is none.

/// Do the CTAs of a cluster share each program? They wait for each other, so further blocks on the multiprocessor gain
/// more: softmax of 65536 columns in bf16, four CTAs of 32 warps, H200: 32 registers and one spilled 3027 GB/s, 35
/// registers 1978; log softmax of 32768, four of 8: 78 registers and three blocks lose to one CTA.
bool isOfCluster(std::string_view ptx);
/// Has it asynchronous products? Two blocks hide each other's waits for them, while one block of eight warps leaves the
/// tensor cores idle: attention of blocks and masks, D=64, 128x64 by eight warps, H200: 158 registers and one block 311
/// TFLOP/s, Triton's 118 and two 406 (ncu: 12.5 and 24.6 % of the warps, tensor cores busy 36 and 46 % of the time).
bool hasAsyncProducts(std::string_view ptx);
/// A request for fewer blocks, after one that cost `spilledBytes` of a thread: low enough to provide the missing
/// registers, at least one step of them, but for no fewer than three quarters of the blocks (rounded up in clusters,
/// and all of it there), as more registers are stored than are live at once. Skips numbers of blocks at which spills
/// are certain. None for a long text, where each attempt takes a considerable part of a second. `ptx` has a request
/// that bounds registers.
std::string withFewerBlocks(const std::string &ptx, uint32_t spilledBytes);
/// A bound on registers instead of the request, one above BlockRequest::registers. Before sm_90 ptxas stops right below
/// a bound that is hard to keep, and spills a register or two if the bound is the number itself.
std::string withRegisterBound(std::string ptx);
/// A request for as many blocks as leave a thread one step of registers more; none if that would drop one of three
/// blocks. `ptx` has a request that bounds registers.
std::string withMoreRegisters(const std::string &ptx);
/// A request for one block more than `registers` of a thread allow, where that is at least a quarter more and shared
/// memory has room for `sharedBytes` of each. (Less gains less than the assembler's other order costs.) It takes at
/// most one step of registers away, or a third of them where sixteen warps do not run yet: below that latencies of
/// memory and of products are not hidden. Half of them where sixteen warps or more run straight code alone, without
/// products, as nothing is loaded while they all compute and store: SwiGLU of 11008 columns in bf16 by 32 warps, H200:
/// 58 registers 142 us, Triton's 32 and two blocks 132.
/// Nothing where there is a request: the compiler has chosen; but in straight code, where more blocks fit than it asks
/// for, it took the kernel for larger than it is. But that of a kernel with asynchronous products is for the blocks
/// that its rings leave room for at least: linear attention with 64x64 tiles and 8 warps asks for two, takes 84
/// registers, and with 80 for three blocks 210 us in place of 228 (H200).
std::string withOneBlockMore(const std::string &ptx, uint32_t registers, uint64_t sharedBytes);

} // namespace tegula::runtime::cuda
