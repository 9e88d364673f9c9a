// The `.minnctapersm` request of a kernel's PTX: how many blocks should share a multiprocessor. The compiler asks for
// them (Occupancy.h) before anybody knows how many registers the assembler takes; here stands which other request, or
// bound on registers, to try once it has said so.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tegula::runtime::cuda {

/// What the directives of a kernel say.
struct BlockRequest {
  uint32_t blocks = 0;           // .minnctapersm; 0: no request
  uint32_t threads = 0;          // .reqntid, of a block; 0: not said
  bool hasRegisterBound = false; // .maxnreg

  static BlockRequest of(const std::string &ptx);

  /// Registers that a thread may have so that the blocks fit; 0: any number, as there is no request, one block is asked
  /// for, or the blocks fit whatever a thread takes.
  uint32_t registers() const;
  /// Bytes of spills that keeping the request is worth.
  uint32_t spillsWorth() const;
};

/// `ptx` with a request for `blocks` in place of the one that it has, or before `.reqntid`; with none for fewer than
/// two blocks.
std::string withRequest(std::string ptx, uint32_t blocks);

// What to try next: `ptx` written anew, or an empty text for nothing.

/// Do the CTAs of a cluster share each program? They wait for each other, so that others on the multiprocessor are
/// worth more: softmax of 65536 columns in bf16, four CTAs of 32 warps, H200: 32 registers and one spilled 3027 GB/s,
/// 35 registers 1978; log softmax of 32768, four of 8: 78 registers and three blocks lose to one CTA.
bool isOfCluster(std::string_view ptx);
/// Has it asynchronous products? Two blocks hide each other's waits for them, where one of eight warps leaves the
/// tensor cores idle: attention of blocks and masks, D=64, 128x64 by eight warps, H200: 158 registers and one block 311
/// TFLOP/s, Triton's 118 and two 406 (ncu: 12.5 and 24.6 % of the warps, tensor cores busy 36 and 46 % of the time).
bool hasAsyncProducts(std::string_view ptx);
/// A request for fewer blocks, after one that cost `spilledBytes` of a thread: for so many that the registers it lacked
/// are there, one step of them at least, but for no fewer than three quarters (rounded up in clusters, and all of it
/// there): more are stored than are alive at once. Numbers of blocks at which some would be spilled for certain are
/// passed over. None in a long text, where each attempt takes a good part of a second. `ptx` has a request that bounds
/// registers.
std::string withFewerBlocks(const std::string &ptx, uint32_t spilledBytes);
/// A bound on registers in the request's place, one above BlockRequest::registers. Before sm_90 ptxas stops right below
/// a bound that it finds hard to keep, and spills a register or two where the bound is the number itself.
std::string withRegisterBound(std::string ptx);
/// A request for as many blocks as leave a thread one step of registers more; nothing where that takes one of three
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
