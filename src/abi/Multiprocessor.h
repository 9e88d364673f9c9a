// What the blocks on an NVIDIA multiprocessor share: the same on all GPUs from sm_80 on, but for shared memory, which is that of sm_90.
#pragma once

namespace tegula::abi::multiprocessor {

inline constexpr unsigned registers = 65536; // of 32 bits
inline constexpr unsigned registerStep = 8;  // a thread's registers are given out in multiples of it
inline constexpr unsigned mostRegisters = 255; // of a thread
inline constexpr unsigned threads = 2048;
inline constexpr unsigned mostBlocks = 32;
inline constexpr unsigned sharedBytes = 233472;
inline constexpr unsigned sharedReserved = 1024; // of each block, beside its own

} // namespace tegula::abi::multiprocessor
