// Tensor descriptors: a block's view of a tensor in memory, as a record of its parts.
//
// Fields: base (pointer), shape (tuple of int32), strides (tuple of int64, the last one the compile-time 1),
// block_shape (tuple of compile-time ints), padding ("zero" or "nan"), round_f32_to_tf32 (bool: float32 is rounded to
// tf32 when it is read). Like every record it is flattened where tensors are carried, so there is no descriptor type in
// the IR; only its accesses are operations (desc_load, desc_store, desc_reduce). The same record is built from a host
// descriptor (api/Specialize.h) and by make_tensor_descriptor.
#pragma once
#include "lang/Value.h"

namespace tegula::lang {

enum class DescField : uint8_t { Base, Shape, Strides, BlockShape, Padding, RoundTf32 };
inline constexpr unsigned maxDescriptorRank = 5;
/// In bytes: the least size of a block's last dimension, and the alignment of base and leading strides.
inline constexpr unsigned descriptorGrain = 16;

/// The class of all descriptors; one object per process.
const std::shared_ptr<const RecordClass> &descriptorClass();
inline bool isDescriptor(const Value &v) {
  return v.isRecord() && v.record().cls->kind == RecordClass::Kind::Descriptor;
}
inline const Value &field(const RecordValue &r, DescField f) { return r.fields[static_cast<size_t>(f)]; }

} // namespace tegula::lang
