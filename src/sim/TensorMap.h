// Tensor maps of the simulator: accepts and rejects the same arguments as cuTensorMapEncodeTiled, and encodes them in
// 128 bytes of its own format.
#pragma once
#include <cstdint>
#include <string>

namespace tegula::sim {

/// Arguments of cuTensorMapEncodeTiled, with the driver's numbers for the enumerations. Dimension 0 is the innermost.
struct TensorMapSpec {
  /// CUtensorMapDataType: UINT8 0, UINT16 1, UINT32 2, INT32 3, UINT64 4, INT64 5, FLOAT16 6, FLOAT32 7, FLOAT64 8,
  /// BFLOAT16 9, FLOAT32_FTZ 10, TFLOAT32 11, TFLOAT32_FTZ 12.
  int32_t dataType = 0;
  uint32_t rank = 0; // 1..5
  uint64_t address = 0;
  uint64_t dims[5] = {};    // elements
  uint64_t strides[4] = {}; // bytes, of dimensions 1 and up
  bool stridesGiven = true; // the driver refuses a null stride pointer even for rank 1
  uint32_t box[5] = {};     // elements
  uint32_t elementStrides[5] = {1, 1, 1, 1, 1};
  int32_t interleave = 0;  // only NONE
  int32_t swizzle = 0;     // NONE 0, 32B 1, 64B 2, 128B 3
  int32_t l2Promotion = 0; // ignored
  int32_t oobFill = 0;     // NONE 0 (zeros), NAN_REQUEST_ZERO_FMA 1
};

/// Encodes into 128 bytes aligned to 64. The result is empty, or says why the driver would refuse these arguments.
std::string encodeTensorMap(const TensorMapSpec &spec, void *map);
/// False if the bytes are no tensor map of the simulator.
bool decodeTensorMap(const void *map, TensorMapSpec &spec);
/// Bytes of an element; 0 for an unknown type.
uint32_t tensorElementBytes(int32_t dataType);

} // namespace tegula::sim
