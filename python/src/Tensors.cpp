// Tensors of other libraries without a Python call per tensor, where their type offers DLPack's C exchange interface
// (PyTorch 2.10 and later does), and the stream that such a library launches on at the moment.
//
// PyTorch's tensors are read through its C interface for code that is built without it
// (torch/csrc/inductor/aoti_torch/c/shim.h), where that gives the same: the exchange interface takes the GIL and two
// references for each (torch 2.15: 65 ns for 12). Its handle of a tensor is the address of an at::Tensor, which is a
// pointer. Where in an object of Python that pointer stands is not assumed: it is where the number lies that the
// tensor's `_cdata` gives, and what is read there must be what the exchange interface says. Everything is read anew at
// each launch.
#include "Core.h"
#include <dlfcn.h>
#include <cstring>

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
enum : int32_t { deviceCpu = 1, deviceCuda = 2, deviceCudaManaged = 13 };

struct TypeEntry {
  PyTypeObject *type; // kept for the process
  const ExchangeApi *api; // null: has none
  Py_ssize_t handle = 0;  // bytes from an object's beginning to its at::Tensor; 0: not known
  bool isSearched = false; // `handle` was looked for
};
TypeEntry known[16];
unsigned knownCount;

const ExchangeApi *readApi(PyTypeObject *type) {
  PyObject *capsule = PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__dlpack_c_exchange_api__");
  if (!capsule) {
    dropError();
    return nullptr;
  }
  auto *api = static_cast<const ExchangeApi *>(PyCapsule_IsValid(capsule, "dlpack_exchange_api")
                                                   ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
                                                   : nullptr);
  Py_DECREF(capsule); // the table lives as long as the process
  while (api && api->version.major != 1) api = api->previous;
  return api && api->tensorFromObject ? api : nullptr;
}

TypeEntry *findEntry(PyTypeObject *type) {
  for (unsigned i = 0; i < knownCount; ++i)
    if (known[i].type == type) return &known[i];
  return nullptr;
}

// Looks at the type once; types beyond the table's size take the slow way. Null: it has no exchange interface.
TypeEntry *entryOf(PyTypeObject *type) {
  TypeEntry *entry = findEntry(type);
  if (!entry) {
    if (knownCount == sizeof known / sizeof known[0]) return nullptr;
    const ExchangeApi *api = readApi(type);
    Py_INCREF(type);
    entry = &(known[knownCount++] = {type, api});
  }
  return entry->api ? entry : nullptr;
}

// Member, exported name, parameters. All return 0 for success.
#define TORCH_FUNCTIONS(F)                                                     \
  F(data, aoti_torch_get_data_ptr, (void *handle, void **out))                 \
  F(layout, aoti_torch_get_layout, (void *handle, int32_t *out))               \
  F(dtype, aoti_torch_get_dtype, (void *handle, int32_t *out))                 \
  F(deviceType, aoti_torch_get_device_type, (void *handle, int32_t *out))      \
  F(deviceIndex, aoti_torch_get_device_index, (void *handle, int32_t *out))    \
  F(dimensions, aoti_torch_get_dim, (void *handle, int64_t *out))              \
  F(sizes, aoti_torch_get_sizes, (void *handle, int64_t **out))                \
  F(strides, aoti_torch_get_strides, (void *handle, int64_t **out))

struct Torch {
#define MEMBER(member, name, parameters) int32_t(*member) parameters = nullptr;
  TORCH_FUNCTIONS(MEMBER)
#undef MEMBER
  int32_t cpu = 0, cuda = 0; // its types of devices
  int32_t strided = 0;       // of its layouts
  bool isComplete = false;

  Torch() {
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
#define RESOLVE(member, name, parameters) member = reinterpret_cast<int32_t(*) parameters>(dlsym(library, #name));
    TORCH_FUNCTIONS(RESOLVE)
#undef RESOLVE
    const auto constant = [&](const char *name) { return reinterpret_cast<int32_t (*)()>(dlsym(library, name)); };
    auto *cpuType = constant("aoti_torch_device_type_cpu"), *cudaType = constant("aoti_torch_device_type_cuda"),
         *stridedLayout = constant("aoti_torch_layout_strided");
#define CHECK(member, name, parameters) &&member
    isComplete = cpuType && cudaType && stridedLayout TORCH_FUNCTIONS(CHECK);
#undef CHECK
    if (isComplete) cpu = cpuType(), cuda = cudaType(), strided = stridedLayout();
  }
};
const Torch &torchFunctions() {
  static const Torch it; // first asked for when there is a tensor of it
  return it;
}
constexpr int32_t mostTorchDtypes = 64;
TegulaDtype torchDtypes[mostTorchDtypes]; // by PyTorch's numbers; TEGULA_VOID: not seen yet, or none of ours

// `t` but for its dtype, and PyTorch's number of that. False: the exchange interface says what it is.
bool readTorch(const TypeEntry &entry, PyObject *object, DLTensor &t, int32_t &dtype) {
  const Torch &f = torchFunctions();
  void *handle = reinterpret_cast<char *>(object) + entry.handle;
  int32_t layout, deviceType;
  int64_t dimensions;
  // A function that fails writes to the log, so sparse tensors, which have no memory of their own, are not asked for
  // it.
  if (!*static_cast<void **>(handle) || f.layout(handle, &layout) || layout != f.strided) return false;
  if (f.dtype(handle, &dtype) || f.deviceType(handle, &deviceType) || f.deviceIndex(handle, &t.device.id) ||
      f.dimensions(handle, &dimensions) || f.sizes(handle, &t.shape) || f.strides(handle, &t.strides) ||
      f.data(handle, &t.data))
    return false;
  if ((deviceType != f.cpu && deviceType != f.cuda) || dtype < 0 || dtype >= mostTorchDtypes) return false;
  t.device.type = deviceType == f.cuda ? deviceCuda : deviceCpu;
  t.ndim = static_cast<int32_t>(dimensions);
  t.byteOffset = 0;
  return true;
}

// Do they say the same? Strides of dimensions of one element mean nothing.
bool isSame(const DLTensor &a, const DLTensor &b) {
  if (static_cast<char *>(a.data) + a.byteOffset != static_cast<char *>(b.data) + b.byteOffset ||
      a.device.type != b.device.type || a.ndim != b.ndim)
    return false;
  if (a.device.type == deviceCuda && a.device.id != b.device.id) return false;
  for (int i = 0; i < a.ndim; ++i)
    if (a.shape[i] != b.shape[i] || (a.shape[i] > 1 && (!a.strides || !b.strides || a.strides[i] != b.strides[i])))
      return false;
  return true;
}

// Where objects of that type have their at::Tensor: of one of them, `t` is what the exchange interface says.
void searchHandle(TypeEntry &entry, PyObject *object, const DLTensor &t) {
  entry.isSearched = true;
  PyObject *number = PyObject_GetAttrString(object, "_cdata");
  const unsigned long long address = number && PyLong_Check(number) ? PyLong_AsUnsignedLongLong(number) : 0;
  Py_XDECREF(number);
  dropError();
  // asked only now: of another library's tensor, PyTorch may not be loaded yet
  if (!address || !torchFunctions().isComplete) return;
  unsigned found = 0;
  TypeEntry candidate = entry;
  for (Py_ssize_t at = sizeof(PyObject); at + static_cast<Py_ssize_t>(sizeof(void *)) <= entry.type->tp_basicsize;
       at += sizeof(void *)) {
    void *word;
    std::memcpy(&word, reinterpret_cast<char *>(object) + at, sizeof word);
    if (word && reinterpret_cast<uintptr_t>(word) == address) ++found, candidate.handle = at;
  }
  DLTensor again;
  int32_t dtype;
  if (found == 1 && readTorch(candidate, object, again, dtype) && isSame(t, again)) entry.handle = candidate.handle;
}

// Code, bits -> element type; TEGULA_VOID: none of ours.
TegulaDtype dtypeOf(uint8_t code, uint8_t bits) {
  struct Row {
    uint8_t code, bits;
    TegulaDtype dtype;
  };
  static constexpr Row rows[] = {{2, 32, TEGULA_FP32},    {4, 16, TEGULA_BF16},    {2, 16, TEGULA_FP16},
                                 {0, 32, TEGULA_INT32},   {0, 64, TEGULA_INT64},   {2, 64, TEGULA_FP64},
                                 {0, 8, TEGULA_INT8},     {1, 8, TEGULA_UINT8},    {0, 16, TEGULA_INT16},
                                 {1, 16, TEGULA_UINT16},  {1, 32, TEGULA_UINT32},  {1, 64, TEGULA_UINT64},
                                 {6, 8, TEGULA_INT1},     {10, 8, TEGULA_FP8E4NV}, {12, 8, TEGULA_FP8E5},
                                 {11, 8, TEGULA_FP8E4B8}, {13, 8, TEGULA_FP8E5B16}};
  for (const Row &r : rows)
    if (r.code == code && r.bits == bits) return r.dtype;
  return TEGULA_VOID;
}

// Bytes from the first to the end of the last element; -1 if elements lie before the first: then `span` is what they
// take in all. `isDense`: the elements follow one another, the last dimension's first.
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
  const TypeEntry *entry = findEntry(type);
  return entry && entry->api;
}

bool ArgPack::convertTensor(PyObject *object, TegulaArg &out, const char *paramName) {
  TypeEntry *entry = entryOf(Py_TYPE(object));
  if (!entry) return false;
  DLTensor t;
  int32_t torchDtype = -1;
  TegulaDtype dtype = TEGULA_VOID;
  if (entry->handle) {
    if (readTorch(*entry, object, t, torchDtype)) dtype = torchDtypes[torchDtype];
    else torchDtype = -1;
  }
  if (dtype == TEGULA_VOID) {
    if (entry->api->tensorFromObject(object, &t) != 0) {
      dropError();
      return false;
    }
    dtype = t.dtype.lanes == 1 ? dtypeOf(t.dtype.code, t.dtype.bits) : TegulaDtype(TEGULA_VOID);
    if (dtype == TEGULA_VOID) return false;
    if (torchDtype >= 0) torchDtypes[torchDtype] = dtype;
    if (!entry->isSearched) searchHandle(*entry, object, t);
  }
  bool isDense = false;
  int64_t span = 0, bytes = reach(t, tegula_dtype_bytes(dtype), span, isDense);
  if (!t.data && bytes != 0) return false; // elements without memory: Python says what it is
  out = tegula_ptr(static_cast<char *>(t.data) + t.byteOffset, dtype, bytes);
  if (bytes < 0 && span / wideElements >= tegula_dtype_bytes(dtype)) out.flags = TEGULA_ARG_WIDE;
  if (isDense) out.flags |= TEGULA_ARG_DENSE;
  if (t.device.type == deviceCuda || t.device.type == deviceCudaManaged) {
    onGpu(t.device.id, paramName);
    if (entry->api->currentStream) lastCudaApi = entry->api;
  } else {
    host = true;
  }
  return true;
}

// tensor_types() -> {type: whether its tensors are read through PyTorch's handles}
PyObject *tensorTypes(PyObject *, PyObject *) {
  PyObject *result = PyDict_New();
  for (unsigned i = 0; result && i < knownCount; ++i)
    if (known[i].api &&
        PyDict_SetItem(result, reinterpret_cast<PyObject *>(known[i].type), known[i].handle ? Py_True : Py_False) < 0)
      Py_CLEAR(result);
  return result;
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
