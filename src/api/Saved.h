// The properties of a kernel that launches need besides its code and KernelInfo, as named bytes: in kernels saved as
// bytes, and in entries of bundles.
#pragma once
#include "api/Handles.h"

namespace tegula::api {

using SavedProperties = std::vector<std::pair<std::string, std::string>>;

SavedProperties savedProperties(const TegulaKernel &k);
/// Reads name, signature, parameters with their specializations, options and target of `k`. False: they are damaged.
bool readSaved(const SavedProperties &properties, TegulaKernel &k);
/// Does every argument have its place in the block that launches make?
bool argumentsFit(const TegulaKernel &k);

} // namespace tegula::api
