// Opening the driver, and its errors as statuses.
#include "runtime/cuda/Driver.h"
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

namespace tegula::runtime::cuda {

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Looks up a function before the library is known to be a supported driver.
template <typename F> static F *lookUp(void *library, const char *name) {
  return reinterpret_cast<F *>(dlsym(library, name));
}

std::unique_ptr<const Driver> Driver::open(const std::string &path, Status &status) {
  auto refuse = [&](TegulaStatus code, std::string text) {
    status = Status::error(code, std::move(text));
    return nullptr;
  };
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return refuse(TEGULA_NOT_FOUND, "no NVIDIA driver found (" + std::string(why ? why : path) + ")");
  }
  auto *init = lookUp<CUresult(unsigned)>(library, "cuInit");
  auto *getVersion = lookUp<CUresult(int *)>(library, "cuDriverGetVersion");
  auto d = std::make_unique<Driver>();
  if (!init || !getVersion || getVersion(&d->version) != CUDA_SUCCESS)
    return refuse(TEGULA_NOT_FOUND, path + " is no NVIDIA driver");
  if (d->version < oldestDriver)
    return refuse(TEGULA_UNSUPPORTED, "the NVIDIA driver supports CUDA " + versionText(d->version) +
                                          "; tegula needs a driver for CUDA " + versionText(oldestDriver) +
                                          " or later");
  const char *missing = nullptr;
#define CUDA_FUNCTION(member, name, parameters)                                                                                          \
  if (!(d->member = lookUp<CUresult parameters>(library, #name))) missing = #name;
#define CUDA_OPTIONAL(member, name, parameters) d->member = lookUp<CUresult parameters>(library, #name);
#include "runtime/cuda/DriverFunctions.def"
  if (missing) return refuse(TEGULA_UNSUPPORTED, "the NVIDIA driver (" + path + ") has no function " + missing);
  if (CUresult r = init(0); r != CUDA_SUCCESS)
    return refuse(r == CUDA_ERROR_NO_DEVICE ? TEGULA_NOT_FOUND : TEGULA_UNSUPPORTED,
                  r == CUDA_ERROR_NO_DEVICE ? "the NVIDIA driver finds no GPU"
                                            : "the NVIDIA driver does not start: " + d->errorText(r));
  if (d->deviceGetCount(&d->count) != CUDA_SUCCESS || d->count <= 0)
    return refuse(TEGULA_NOT_FOUND, "the NVIDIA driver finds no GPU");
  return d;
}

std::string driverLibraryPath() {
  const char *path = std::getenv("TEGULA_LIBCUDA");
  return path && *path ? path : "libcuda.so.1";
}

int installedDriverVersion() {
  void *library = dlopen(driverLibraryPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  auto *getVersion = library ? lookUp<CUresult(int *)>(library, "cuDriverGetVersion") : nullptr;
  int version = 0;
  return getVersion && getVersion(&version) == CUDA_SUCCESS ? version : 0;
}

const Driver *Driver::get(Status &status) {
  struct Opened {
    std::unique_ptr<const Driver> driver;
    Status status;
  };
  // Never destroyed: kernels of static objects are unloaded at exit.
  static const Opened &opened = *[] {
    auto *o = new Opened;
    o->driver = open(driverLibraryPath(), o->status);
    return o;
  }();
  if (!opened.driver) status = opened.status;
  return opened.driver.get();
}

std::string Driver::errorText(CUresult r) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(r, &name) != CUDA_SUCCESS || !name) return "CUDA error " + std::to_string(r);
  if (getErrorString(r, &text) != CUDA_SUCCESS || !text) return name;
  return std::string(name) + ": " + text;
}

bool isFault(CUresult r) {
  switch (r) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED: return true;
  default: return false;
  }
}

Status Driver::error(CUresult r, const std::string &what) const {
  TegulaStatus code = TEGULA_INTERNAL_ERROR;
  switch (r) {
  case CUDA_ERROR_OUT_OF_MEMORY:
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
  case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
  case CUDA_ERROR_INVALID_CLUSTER_SIZE: code = TEGULA_OUT_OF_RESOURCES; break;
  case CUDA_ERROR_INVALID_CONTEXT:
  case CUDA_ERROR_INVALID_HANDLE: code = TEGULA_INVALID_ARGUMENT; break;
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case CUDA_ERROR_NO_BINARY_FOR_GPU: code = TEGULA_UNSUPPORTED; break;
  case CUDA_ERROR_INVALID_PTX: code = TEGULA_ASSEMBLER_ERROR; break;
  default:
    if (isFault(r)) code = TEGULA_FAULT;
  }
  return Status::error(code, what + " failed: " + errorText(r));
}

} // namespace tegula::runtime::cuda
