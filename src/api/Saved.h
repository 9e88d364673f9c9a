// What launches must know of a kernel beside its code and KernelInfo, as named bytes: of kernels saved as bytes, and of
// entries of bundles.
#pragma once
#include "api/Handles.h"

namespace tegula::api {

using SavedProperties = std::vector<std::pair<std::string, std::string>>;

SavedProperties savedProperties(const TegulaKernel &k);
/// Name, signature, parameters with their specializations, options and target of `k`. False: they are damaged.
bool readSaved(const SavedProperties &properties, TegulaKernel &k);
/// Has every argument its place in the block that launches make?
bool argumentsFit(const TegulaKernel &k);

} // namespace tegula::api
