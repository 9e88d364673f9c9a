/* Names and addresses of abi/CpuSymbols.def, ended by a null name. */
#ifndef TEGULA_RUNTIME_EXTERNALS_H
#define TEGULA_RUNTIME_EXTERNALS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct TegulaExternal {
  const char *name;
  void *address;
} TegulaExternal;
extern const TegulaExternal tegulaCpuExternals[];
#ifdef __cplusplus
}
#endif
#endif
