// The resources of an NVIDIA multiprocessor: the same on all GPUs from sm_80 on, except for shared memory, which is
// sm_90's.
#pragma once

namespace tegula::abi::multiprocessor {

inline constexpr unsigned registers = 65536; // of 32 bits
inline constexpr unsigned quarters = 4;      // each with a quarter of the registers, and whole warps
inline constexpr unsigned lanes = 32;
inline constexpr unsigned registerStep = 8;  // a thread's registers are given out in multiples of it
inline constexpr unsigned mostRegisters = 255; // of a thread
inline constexpr unsigned threads = 2048;
inline constexpr unsigned mostBlocks = 32;
inline constexpr unsigned sharedBytes = 233472;
inline constexpr unsigned sharedReserved = 1024; // of each block, beside its own
inline constexpr unsigned sharedStep = 128;      // a block's are given out in multiples of it
inline constexpr unsigned l1Bytes = 262144;      // shared memory and L1 cache together
inline constexpr unsigned l2Bytes = 50 << 20;    // of all multiprocessors: an H100's and an H200's

/// The sizes that shared memory can have, out of the memory that it shares with the L1 cache: CUDA C++ Programming
/// Guide, compute capability 9.0 (the ones that were measured).
inline constexpr unsigned sharedCuts[] = {8 << 10, 32 << 10, 64 << 10, 132 << 10, 164 << 10, 196 << 10, sharedBytes};

/// Registers that a thread may have with `warps` (one or more) resident, rounded down to the allocation step.
constexpr unsigned registersOf(unsigned warps) {
  return registers / quarters / ((warps + quarters - 1) / quarters * lanes) / registerStep * registerStep;
}

/// Warps that are resident at once if a thread takes `taken` registers.
constexpr unsigned warpsOf(unsigned taken) {
  return registers / quarters / ((taken + registerStep - 1) / registerStep * registerStep * lanes) * quarters;
}

} // namespace tegula::abi::multiprocessor
