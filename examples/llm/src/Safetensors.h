// Reads and writes the safetensors format: eight bytes with the length of a JSON header, the header, then the tensors' bytes.
//
//   {"__metadata__": {"format": "pt"}, "model.norm.weight": {"dtype": "BF16", "shape": [2048], "data_offsets": [0, 4096]}, ...}
//
// Offsets count from the end of the header. The data stay in the mapped file; nothing is copied. Every number of the header is checked against the file, so that a
// truncated or hostile file is an error and not a fault. (Format: github.com/huggingface/safetensors, README.)
#pragma once
#include "Files.h"
#include "Tensor.h"
#include <map>
#include <vector>

namespace llm {

/// The tensors of one or more files.
class Safetensors {
public:
  /// A file, or a folder: model.safetensors, or the files that model.safetensors.index.json names, or, where there is neither, all *.safetensors files. A name that stands in two files is an
  /// error, and so is a file or a tensor that the index names and that is not there.
  static Result<Safetensors> open(const std::string &path);
  /// Null if there is none of that name.
  const Tensor *find(const std::string &name) const;
  const std::map<std::string, Tensor> &tensors() const { return tensors_; }
  const std::map<std::string, std::string> &metadata() const { return metadata_; }

private:
  Status add(const std::string &path);
  Status addIndexed(const std::string &folder, const std::string &index);
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes tensors in the order of their names; the data begin at a multiple of 64 bytes. The file appears when it is whole: it is written beside its place and renamed.
Status writeSafetensors(const std::string &path, const std::map<std::string, Tensor> &tensors, const std::map<std::string, std::string> &metadata);

} // namespace llm
