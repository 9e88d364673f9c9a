#include "Safetensors.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <nlohmann/json.hpp>

namespace llm {

namespace {
struct DtypeName {
  const char *name;
  TegulaDtype dtype;
};
constexpr DtypeName dtypes[] = {{"F64", TEGULA_FP64}, {"F32", TEGULA_FP32},   {"BF16", TEGULA_BF16},        {"F16", TEGULA_FP16},    {"I64", TEGULA_INT64}, {"I32", TEGULA_INT32},
                                {"I16", TEGULA_INT16}, {"I8", TEGULA_INT8},   {"U8", TEGULA_UINT8},         {"BOOL", TEGULA_INT1},   {"F8_E4M3", TEGULA_FP8E4NV},
                                {"F8_E5M2", TEGULA_FP8E5}};
constexpr uint64_t largestHeader = 100 << 20; // the format's own limit
} // namespace

Result<Safetensors> Safetensors::open(const std::string &path) {
  std::vector<std::string> files{path};
  Safetensors all;
  if (isFolder(path)) {
    files = {path + "/model.safetensors"};
    std::string index = files[0] + ".index.json";
    if (!exists(files[0])) {
      if (exists(index)) {
        Status s = all.addIndexed(path, index);
        return s ? Result<Safetensors>(std::move(all)) : s;
      }
      files.clear();
      DIR *folder = opendir(path.c_str());
      for (dirent *e = folder ? readdir(folder) : nullptr; e; e = readdir(folder))
        if (std::string_view(e->d_name).ends_with(".safetensors")) files.push_back(path + "/" + e->d_name);
      if (folder) closedir(folder);
      std::ranges::sort(files);
      if (files.empty()) return fail(TEGULA_NOT_FOUND, path + ": no *.safetensors file in this folder");
    }
  }
  for (const std::string &f : files)
    if (Status s = all.add(f); !s) return s;
  return all;
}

/// The files of a model that is in several: {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors", ...}}.
Status Safetensors::addIndexed(const std::string &folder, const std::string &index) {
  Result<std::string> text = readFile(index);
  if (!text) return text.status();
  nlohmann::json j = nlohmann::json::parse(*text, nullptr, false);
  if (!j.is_object() || !j.contains("weight_map") || !j["weight_map"].is_object() || j["weight_map"].empty()) return invalid(index + ": there is no `weight_map`");
  std::map<std::string, std::vector<std::string>> tensorsOf;
  for (auto &[name, file] : j["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos) return invalid(index + ": tensor `" + name + "` is in " + file.dump() + ", which is no file's name");
    tensorsOf[file.get<std::string>()].push_back(name);
  }
  for (auto &[file, names] : tensorsOf) {
    std::string path = folder + "/" + file;
    if (!exists(path)) return fail(TEGULA_NOT_FOUND, path + ": no such file, but " + index + " has " + std::to_string(names.size()) + " tensors in it; a download may not be complete");
    if (Status s = add(path); !s) return s;
  }
  for (auto &[file, names] : tensorsOf)
    for (const std::string &name : names)
      if (!find(name)) return fail(TEGULA_NOT_FOUND, folder + "/" + file + ": tensor `" + name + "` is missing, which is there by " + index);
  return {};
}

Status Safetensors::add(const std::string &path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.status();
  std::string_view bytes = mapped->bytes();
  if (bytes.starts_with("version https://git-lfs")) return invalid(path + ": a pointer of Git LFS in place of the weights; `git lfs pull` brings them");
  uint64_t length = 0;
  if (bytes.size() >= 8) std::memcpy(&length, bytes.data(), 8);
  if (bytes.size() < 8 || length > largestHeader || length > bytes.size() - 8) return invalid(path + ": not a safetensors file, or cut off: its header would end behind its end");
  nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length), nullptr, false);
  if (!header.is_object()) return invalid(path + ": not a safetensors file: its header is not a JSON object");
  std::string_view data = bytes.substr(8 + length);
  auto owner = std::make_shared<MappedFile>(*mapped);
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      for (auto &[key, value] : entry.items())
        if (value.is_string()) metadata_[key] = value.get<std::string>();
      continue;
    }
    auto wrong = [&](const char *why) { return invalid(path + ": tensor `" + name + "`: " + why); };
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) return wrong("dtype, shape or data_offsets is missing");
    const auto &shape = entry["shape"], &offsets = entry["data_offsets"], &type = entry["dtype"];
    auto sizes = [](const nlohmann::json &list) { return list.is_array() && std::ranges::all_of(list, [](const auto &n) { return n.is_number_unsigned(); }); };
    if (!type.is_string() || !sizes(shape) || !sizes(offsets) || offsets.size() != 2) return wrong("dtype, shape or data_offsets is malformed");
    Tensor t;
    std::string typeName = type.get<std::string>();
    for (const DtypeName &d : dtypes)
      if (typeName == d.name) t.dtype = d.dtype;
    if (t.dtype == TEGULA_VOID) return wrong(("dtype `" + typeName + "` is not known").c_str());
    uint64_t elements = 1;
    for (const auto &n : shape) {
      uint64_t extent = n.get<uint64_t>();
      if (extent && elements > (uint64_t(1) << 48) / extent) return wrong("its shape is too large");
      elements *= extent;
      t.shape.push_back(static_cast<int64_t>(extent));
    }
    uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > data.size()) return wrong("its data lie outside of the file, which may be cut off");
    if (end - begin != elements * tegula_dtype_bytes(t.dtype)) return wrong(("has " + std::to_string(end - begin) + " bytes, which is not what " + describe(t) + " takes").c_str());
    t.data = data.data() + begin;
    t.owner = owner;
    if (!tensors_.emplace(name, std::move(t)).second) return wrong("the name stands in two files");
  }
  return {};
}

const Tensor *Safetensors::find(const std::string &name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

Status writeSafetensors(const std::string &path, const std::map<std::string, Tensor> &tensors, const std::map<std::string, std::string> &metadata) {
  constexpr uint64_t alignment = 64;
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (auto &[name, t] : tensors) {
    const char *type = nullptr;
    for (const DtypeName &d : dtypes)
      if (t.dtype == d.dtype) type = d.name;
    if (!type) return invalid("tensor `" + name + "`: safetensors has no type for " + describe(t));
    header[name] = {{"dtype", type}, {"shape", t.shape}, {"data_offsets", {offset, offset + uint64_t(t.bytes())}}};
    offset += uint64_t(t.bytes());
  }
  std::string text = header.dump();
  text.append((alignment - (8 + text.size()) % alignment) % alignment, ' ');
  std::string part = path + ".part";
  std::FILE *f = std::fopen(part.c_str(), "wb");
  uint64_t length = text.size();
  bool written = f && std::fwrite(&length, 8, 1, f) == 1 && std::fwrite(text.data(), 1, text.size(), f) == text.size();
  for (auto &[name, t] : tensors) written = written && std::fwrite(t.data, 1, size_t(t.bytes()), f) == size_t(t.bytes());
  if (f) written = std::fclose(f) == 0 && written;
  if (!written || std::rename(part.c_str(), path.c_str()) != 0) {
    Status s = fail(TEGULA_IO_ERROR, path + ": " + std::strerror(errno));
    std::remove(part.c_str());
    return s;
  }
  return {};
}

} // namespace llm
