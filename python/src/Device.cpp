// Devices by name, the choice of a device for a launch, and memory on devices (for tests and tools; users bring their
// tensors).
#include "Core.h"
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace tegula_python {
namespace {

PyObject *deviceNames(PyObject *, PyObject *) {
  TegulaContext *ctx = context();
  if (!ctx) return nullptr;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < tegula_device_count(ctx); ++i) {
    TegulaDeviceInfo info = {};
    info.size = sizeof info;
    if (tegula_device_info(ctx, i, &info) != TEGULA_OK) continue;
    PyObject *s = Py_BuildValue("(ss)", info.name, info.target);
    if (s) PyList_Append(list, s);
    Py_XDECREF(s);
  }
  return list;
}

// device_properties(device) -> dict; sizes in bytes, 0 where something means nothing for the device.
PyObject *deviceProperties(PyObject *, PyObject *device) {
  int32_t index;
  if (!deviceIndex(device, index)) return nullptr;
  TegulaDeviceInfo i = {};
  i.size = sizeof i;
  TegulaStatus s = index < 0 ? TegulaStatus(TEGULA_NOT_FOUND) : tegula_device_info(context(), index, &i);
  if (s != TEGULA_OK) return raiseStatus(s);
  return Py_BuildValue(
      "{s:s,s:s,s:s,s:I,s:I,s:K,s:K,s:K,s:I,s:I}", "name", i.name, "description", i.description, "target", i.target,
      "cores", i.cores, "vector_bits", i.vector_bits, "memory_bytes", static_cast<unsigned long long>(i.memory_bytes),
      "l1_bytes", static_cast<unsigned long long>(i.l1_bytes), "l2_bytes", static_cast<unsigned long long>(i.l2_bytes),
      "capability", i.capability, "max_shared_bytes", i.max_shared_bytes);
}

// What is known of a name never changes. Guarded by the GIL.
std::map<std::string, int32_t, std::less<>> &indices() {
  static auto *map = new std::map<std::string, int32_t, std::less<>>;
  return *map;
}

bool find(const char *name, int32_t &out) {
  auto it = indices().find(name);
  if (it == indices().end()) {
    TegulaContext *ctx = context();
    if (!ctx) return false;
    if (TegulaStatus s = tegula_device_find(ctx, name, &out); s != TEGULA_OK) return raiseStatus(s) != nullptr;
    it = indices().emplace(name, out).first;
  }
  out = it->second;
  return true;
}

// allocate(device, bytes) -> address
PyObject *allocate(PyObject *, PyObject *args) {
  PyObject *device;
  unsigned long long bytes;
  int32_t index;
  void *out;
  if (!PyArg_ParseTuple(args, "OK", &device, &bytes) || !deviceIndex(device, index)) return nullptr;
  TegulaStatus s = tegula_memory_allocate(context(), index, bytes, &out);
  return s == TEGULA_OK ? PyLong_FromVoidPtr(out) : raiseStatus(s);
}

// free(device, address)
PyObject *release(PyObject *, PyObject *args) {
  PyObject *device;
  unsigned long long address;
  int32_t index;
  if (!PyArg_ParseTuple(args, "OK", &device, &address) || !deviceIndex(device, index)) return nullptr;
  tegula_memory_free(context(), index, reinterpret_cast<void *>(address));
  Py_RETURN_NONE;
}

// copy(device, to_device, device address, host address, bytes)
PyObject *copy(PyObject *, PyObject *args) {
  PyObject *device;
  int toDevice;
  unsigned long long onDevice, onHost, bytes;
  int32_t index;
  if (!PyArg_ParseTuple(args, "OpKKK", &device, &toDevice, &onDevice, &onHost, &bytes) || !deviceIndex(device, index))
    return nullptr;
  auto *d = reinterpret_cast<void *>(onDevice), *h = reinterpret_cast<void *>(onHost);
  TegulaStatus s;
  {
    WithoutGil others;
    s = tegula_memory_copy(context(), index, toDevice ? TEGULA_TO_DEVICE : TEGULA_FROM_DEVICE, toDevice ? d : h,
                           toDevice ? h : d, bytes, nullptr);
  }
  if (s != TEGULA_OK || PyErr_Occurred()) return raiseStatus(s);
  Py_RETURN_NONE;
}

// synchronize(device, stream)
PyObject *synchronize(PyObject *, PyObject *args) {
  PyObject *device;
  unsigned long long stream = 0;
  int32_t index;
  if (!PyArg_ParseTuple(args, "O|K", &device, &stream) || !deviceIndex(device, index)) return nullptr;
  TegulaStatus s;
  {
    WithoutGil others;
    s = tegula_synchronize(context(), index, reinterpret_cast<void *>(stream));
  }
  if (s != TEGULA_OK || PyErr_Occurred()) return raiseStatus(s);
  Py_RETURN_NONE;
}

PyObject *assemblerName(PyObject *, PyObject *) { return PyUnicode_FromString(tegula_assembler_name()); }

PyObject *addPackages(PyObject *, PyObject *folder) {
  const char *s = textOf(folder);
  if (!s) return nullptr;
  tegula_add_package_folder(s);
  Py_RETURN_NONE;
}

} // namespace

PyMethodDef deviceMethods[] = {{"devices", deviceNames, METH_NOARGS, nullptr},
                               {"device_properties", deviceProperties, METH_O, nullptr},
                               {"allocate", allocate, METH_VARARGS, nullptr},
                               {"free", release, METH_VARARGS, nullptr},
                               {"copy", copy, METH_VARARGS, nullptr},
                               {"synchronize", synchronize, METH_VARARGS, nullptr},
                               {"assembler", assemblerName, METH_NOARGS, nullptr},
                               {"add_packages", addPackages, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

bool deviceIndex(PyObject *object, int32_t &out) {
  if (object == Py_None) return out = -1, true;
  if (PyUnicode_Check(object)) {
    static PyObject *last; // mostly one and the same string of the caller
    static int32_t lastIndex;
    if (object == last) return out = lastIndex, true;
    const char *name = textOf(object);
    if (!name || !find(name, out)) return false;
    Py_XSETREF(last, Py_NewRef(object));
    lastIndex = out;
    return true;
  }
  if (PyLong_Check(object)) {
    long ordinal = PyLong_AsLong(object);
    return !PyErr_Occurred() && find(("cuda:" + std::to_string(ordinal)).c_str(), out);
  }
  PyObject *text = PyObject_Str(object);
  bool ok = text && deviceIndex(text, out);
  Py_XDECREF(text);
  return ok;
}

int32_t lastGpu = -1;

static thread_local struct {
  int32_t device;
  void *stream; // null: launches go where they go
} redirected;

OnStream::OnStream(int32_t device, void *stream) : device_(redirected.device), stream_(redirected.stream) {
  redirected = {device, stream};
}
OnStream::~OnStream() { redirected = {device_, stream_}; }
static bool redirectedTo(int32_t device, void *&stream) {
  return redirected.stream && redirected.device == device && (stream = redirected.stream);
}

bool streamNow(int32_t device, void *&stream) {
  return redirectedTo(device, stream) || currentStream(device - TEGULA_DEVICE_INDEX_CUDA, stream);
}

bool chooseDevice(const ArgPack &pack, TegulaLaunchOptions &options) {
  static const bool forced = [] {
    const char *v = std::getenv("TEGULA_DEVICE");
    return v && *v;
  }();
  if (options.device < 0) {
    if (pack.gpu >= 0) options.device = TEGULA_DEVICE_INDEX_CUDA + pack.gpu;
    else if (!forced && pack.host) options.device = TEGULA_DEVICE_INDEX_CPU;
    else return true; // no tensor at all: the library decides
  }
  if (pack.gpu >= 0 && !isGpu(options.device)) {
    PyErr_Format(PyExc_ValueError, "argument `%s`: the tensor is on device cuda:%d; this kernel runs on %s",
                 pack.gpuName, pack.gpu, options.device == TEGULA_DEVICE_INDEX_CPU ? "the CPU" : "the simulator");
    return false;
  }
  if (!isGpu(options.device)) return true;
  lastGpu = options.device;
  if (options.stream) return true;
  if (!pack.stream) return streamNow(options.device, options.stream);
  if (!redirectedTo(options.device, options.stream)) options.stream = pack.stream;
  return true;
}

} // namespace tegula_python
