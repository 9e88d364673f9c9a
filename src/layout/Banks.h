// Shared-memory banks: 32 banks of 4 bytes, one 128-byte wavefront per clock (measured on an H200).
//
// A warp's access of 8 bytes per lane runs in two phases (half warps), of 16 bytes in four (8 consecutive lanes);
// conflicts count inside a phase only. Within a phase, lanes on the same word share one wavefront; different words of
// one bank take one wavefront each. ldmatrix and stmatrix run one phase per 8x8 matrix, over its eight row addresses.
#pragma once
#include "layout/LinearLayout.h"

namespace tegula::layout {

/// Number of wavefronts of one warp access by brute force: byteAddresses[lane] is the aligned start of the lane's
/// `accessBytes` (1 ... 16). Lanes not in activeMask access nothing. At least one wavefront per phase is counted.
unsigned simulateWavefronts(std::span<const uint32_t> byteAddresses, unsigned accessBytes, uint32_t activeMask = ~0u);
/// Number of wavefronts of ldmatrix / stmatrix: rowAddresses[8 * i + j] is row j (16 bytes) of matrix i.
unsigned simulateMatrixWavefronts(std::span<const uint32_t> rowAddresses, unsigned matrices);

/// Wavefronts beyond the conflict-free number of the worst access of the warp, by brute force. `access` maps (register,
/// lane, warp) to offset (in elements); registers must be grouped so that `vec` consecutive ones (an aligned group) are
/// consecutive in memory, and each group is one access.
unsigned bankConflicts(const LinearLayout &access, unsigned elemBits, unsigned vec);

/// The number of wavefronts for a linear map, by rank: laneImages[i] is the byte address image of lane bit i.
unsigned linearWavefronts(std::span<const uint64_t> laneImages, unsigned accessBytes);
/// For matrix moves: rowImages are the images of the three row bits.
unsigned linearMatrixWavefronts(std::span<const uint64_t> rowImages, unsigned matrices);

} // namespace tegula::layout
