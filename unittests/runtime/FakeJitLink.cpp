// A stand-in for libnvJitLink that refuses everything: its log has the options, and points at the first store of the
// PTX. With FAKE_JITLINK_OLD in the environment it does not know `-no-cache`. For tests of what users get then.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvJitLinkVersion(unsigned *major, unsigned *minor) { return *major = 12, *minor = 9, 0; }
EXPORT int nvJitLinkCreate(std::string **handle, uint32_t count, const char **options) {
  std::string all = "options:";
  for (uint32_t i = 0; i < count; ++i) all += std::string(" ") + options[i];
  if (std::getenv("FAKE_JITLINK_OLD") && all.find(" -no-cache") != all.npos) return 1;
  return *handle = new std::string(all), 0;
}
EXPORT int nvJitLinkDestroy(std::string **handle) {
  delete *handle;
  return 0;
}
EXPORT int nvJitLinkAddData(std::string *log, int, const void *data, size_t, const char *) {
  std::string text = static_cast<const char *>(data);
  size_t store = text.find("st.global"), line = 1;
  for (size_t i = 0; i < store && i < text.size(); ++i) line += text[i] == '\n';
  *log += "\nptxas application ptx input, line " + std::to_string(line) + "; error   : planted\n";
  return 0;
}
EXPORT int nvJitLinkComplete(std::string *) { return 4; }
EXPORT int nvJitLinkGetLinkedCubinSize(std::string *, size_t *size) { return *size = 0, 4; }
EXPORT int nvJitLinkGetLinkedCubin(std::string *, void *) { return 4; }
EXPORT int nvJitLinkGetErrorLogSize(std::string *log, size_t *size) { return *size = log->size() + 1, 0; }
EXPORT int nvJitLinkGetErrorLog(std::string *log, char *out) { return std::strcpy(out, log->c_str()), 0; }
EXPORT int nvJitLinkGetInfoLogSize(std::string *, size_t *size) { return *size = 0, 0; }
EXPORT int nvJitLinkGetInfoLog(std::string *, char *) { return 0; }
