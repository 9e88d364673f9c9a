/* Names and addresses of abi/CpuSymbols.def and abi/SimSymbols.def, each ended by a null name. */
#ifndef TEGULA_RUNTIME_EXTERNALS_H
#define TEGULA_RUNTIME_EXTERNALS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct TegulaExternal {
  const char *name;
  void *address;
} TegulaExternal;
extern const TegulaExternal tegulaCpuExternals[], tegulaSimExternals[];
#ifdef __cplusplus
}
#endif
#endif
