// Files of results: read after a look at whose they are, and replaced as a whole. Of this layer only.
#pragma once
#include "tune/Results.h"

struct stat;

namespace tegula::tune {

/// Who may have written a file that is read.
enum class Trust : uint8_t {
  Anybody,   // the user named it
  NotPublic, // this user or root, perhaps with a group
  Own,       // nobody else
};

/// Reads the file `name` in the open directory `directory` (or AT_FDCWD). NOT_FOUND: there is none. INVALID_ARGUMENT:
/// it is damaged, or refused because of whose it is. UNSUPPORTED: of a newer version. IO_ERROR. The text is to be read
/// after the file's name.
Status readFileAt(int directory, const std::string &name, Trust trust, Results &out);

/// Replaces the file `name` in the open directory: readers see the old one or all of the new one. An existing file
/// keeps its mode; a new one has `mode`, less the process's mask. `written`, unless null: what the new file is.
Status replaceFileAt(int directory, const std::string &name, const Results &results, unsigned mode,
                     struct stat *written = nullptr);

/// A lock between processes, on a file or directory that is open; waits 10 seconds at most, and goes on without where
/// there are no locks:
/// what it guards is then replaced as a whole still, but one of two updates may be lost.
class FileLock {
public:
  explicit FileLock(int fd);
  ~FileLock();
  FileLock(const FileLock &) = delete;

private:
  int fd_;
};

} // namespace tegula::tune
