// Tensors of other libraries without a Python call per tensor, where their type offers DLPack's C exchange interface (PyTorch 2.10 and
// later does), and the stream that such a library launches on at the moment.
#include "Core.h"

namespace tegula_python {
namespace {

// From the DLPack specification 1.3: what a type's `__dlpack_c_exchange_api__` capsule points to.
struct DLTensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byteOffset;
};
struct ExchangeApi {
  struct {
    uint32_t major, minor;
  } version;
  ExchangeApi *previous;
  void *allocate, *managedFromObject, *managedToObject;
  int (*tensorFromObject)(void *object, DLTensor *out);
  int (*currentStream)(int32_t deviceType, int32_t deviceId, void **out);
};
enum : int32_t { deviceCuda = 2, deviceCudaManaged = 13 };

struct TypeEntry {
  PyTypeObject *type; // kept for the process
  const ExchangeApi *api; // null: has none
};
TypeEntry known[16];
unsigned knownCount;

const ExchangeApi *readApi(PyTypeObject *type) {
  PyObject *capsule = PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__dlpack_c_exchange_api__");
  if (!capsule) {
    dropError();
    return nullptr;
  }
  auto *api = static_cast<const ExchangeApi *>(
      PyCapsule_IsValid(capsule, "dlpack_exchange_api") ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : nullptr);
  Py_DECREF(capsule); // the table lives as long as the process
  while (api && api->version.major != 1) api = api->previous;
  return api && api->tensorFromObject ? api : nullptr;
}

// Looks at the type once; types beyond the table's size take the slow way.
const ExchangeApi *apiOf(PyTypeObject *type) {
  for (unsigned i = 0; i < knownCount; ++i)
    if (known[i].type == type) return known[i].api;
  if (knownCount == sizeof known / sizeof known[0]) return nullptr;
  const ExchangeApi *api = readApi(type);
  Py_INCREF(type);
  known[knownCount++] = {type, api};
  return api;
}

// Code, bits -> element type; TEGULA_VOID: none of ours.
TegulaDtype dtypeOf(uint8_t code, uint8_t bits) {
  struct Row {
    uint8_t code, bits;
    TegulaDtype dtype;
  };
  static constexpr Row rows[] = {{2, 32, TEGULA_FP32}, {4, 16, TEGULA_BF16}, {2, 16, TEGULA_FP16}, {0, 32, TEGULA_INT32}, {0, 64, TEGULA_INT64},
                                 {2, 64, TEGULA_FP64}, {0, 8, TEGULA_INT8},  {1, 8, TEGULA_UINT8}, {0, 16, TEGULA_INT16}, {1, 16, TEGULA_UINT16},
                                 {1, 32, TEGULA_UINT32}, {1, 64, TEGULA_UINT64}, {6, 8, TEGULA_INT1}, {10, 8, TEGULA_FP8E4NV}, {12, 8, TEGULA_FP8E5},
                                 {11, 8, TEGULA_FP8E4B8}, {13, 8, TEGULA_FP8E5B16}};
  for (const Row &r : rows)
    if (r.code == code && r.bits == bits) return r.dtype;
  return TEGULA_VOID;
}

// Bytes from the first to the end of the last element; -1 if elements lie before the first: then `span` is what they take in all.
// `isDense`: the elements follow one another, the last dimension's first.
int64_t reach(const DLTensor &t, int64_t itemBytes, int64_t &span, bool &isDense) {
  int64_t last = 0, before = 0, dense = 1;
  isDense = true;
  for (int i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] == 0) return 0;
    int64_t stride = t.strides ? t.strides[i] : dense;
    isDense &= stride == dense || t.shape[i] == 1;
    (stride < 0 ? before : last) += (t.shape[i] - 1) * stride;
    dense *= t.shape[i];
  }
  span = (last - before + 1) * itemBytes;
  return before < 0 ? -1 : span;
}

const ExchangeApi *lastCudaApi; // of the library whose GPU tensors came last
PyObject *torchStream;          // torch._C._cuda_getCurrentRawStream, once torch was imported by somebody

} // namespace

bool ArgPack::knownTensor(PyTypeObject *type) {
  for (unsigned i = 0; i < knownCount; ++i)
    if (known[i].type == type) return known[i].api;
  return false;
}

bool ArgPack::convertTensor(PyObject *object, TegulaArg &out, const char *paramName) {
  const ExchangeApi *api = apiOf(Py_TYPE(object));
  if (!api) return false;
  DLTensor t;
  if (api->tensorFromObject(object, &t) != 0) {
    dropError();
    return false;
  }
  TegulaDtype dtype = t.dtype.lanes == 1 ? dtypeOf(t.dtype.code, t.dtype.bits) : TegulaDtype(TEGULA_VOID);
  if (dtype == TEGULA_VOID) return false;
  bool isDense = false;
  int64_t span = 0, bytes = reach(t, tegula_dtype_bytes(dtype), span, isDense);
  if (!t.data && bytes != 0) return false; // elements without memory: Python says what it is
  out = tegula_ptr(static_cast<char *>(t.data) + t.byteOffset, dtype, bytes);
  if (bytes < 0 && span / wideElements >= tegula_dtype_bytes(dtype)) out.flags = TEGULA_ARG_WIDE;
  if (isDense) out.flags |= TEGULA_ARG_DENSE;
  if (t.device.type == deviceCuda || t.device.type == deviceCudaManaged) {
    onGpu(t.device.id, paramName);
    if (api->currentStream) lastCudaApi = api;
  } else {
    host = true;
  }
  return true;
}

bool currentStream(int ordinal, void *&stream) {
  if (lastCudaApi) {
    if (lastCudaApi->currentStream(deviceCuda, ordinal, &stream) == 0) return true;
    dropError();
  }
  if (!torchStream) {
    // Only if somebody else imported it.
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *torch = modules ? PyDict_GetItemString(modules, "torch._C") : nullptr;
    if (torch) torchStream = PyObject_GetAttrString(torch, "_cuda_getCurrentRawStream");
    dropError();
  }
  if (!torchStream) return true; // the default stream
  PyObject *number = PyLong_FromLong(ordinal);
  PyObject *r = number ? PyObject_CallOneArg(torchStream, number) : nullptr;
  Py_XDECREF(number);
  if (!r) return false;
  stream = PyLong_AsVoidPtr(r);
  Py_DECREF(r);
  return !PyErr_Occurred();
}

} // namespace tegula_python
