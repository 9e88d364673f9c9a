// Files of results: the owner is checked before reading, and a file is replaced as a whole. Internal to this layer.
#pragma once
#include "tune/Results.h"

struct stat;

namespace tegula::tune {

/// Who may have written a file, for it to be read.
enum class Trust : uint8_t {
  Anybody,   // the user named it
  NotPublic, // this user or root, perhaps with a group
  Own,       // this user only
};

/// Reads the file `name` in the open directory `directory` (or AT_FDCWD). NOT_FOUND: there is none. INVALID_ARGUMENT:
/// it is damaged, or rejected because of its owner or mode. UNSUPPORTED: it has a newer version. IO_ERROR. The text of
/// the status continues a sentence that begins with the file's name.
Status readFileAt(int directory, const std::string &name, Trust trust, Results &out);

/// Replaces the file `name` in the open directory: readers see the old file or the complete new one. An existing file
/// keeps its mode; a new one has `mode`, less the process's mask. `written`, unless null, receives the new file's stat.
Status replaceFileAt(int directory, const std::string &name, const Results &results, unsigned mode,
                     struct stat *written = nullptr);

/// A lock between processes, on an open file or directory. Waits at most 10 seconds, and continues without a lock where
/// locks do not work: files are still replaced as a whole, but one of two updates may be lost.
class FileLock {
public:
  explicit FileLock(int fd);
  ~FileLock();
  FileLock(const FileLock &) = delete;

private:
  int fd_;
};

} // namespace tegula::tune
