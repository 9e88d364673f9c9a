// Files and directories that no other user can have written, and writing such that readers never see part of a file.
// The checks are on the opened file, so that it cannot be exchanged in between. Shared by the disk cache and the store
// of tuning results.
#pragma once
#include <cstdint>
#include <string>

struct stat;

namespace tegula::runtime {

/// The prefix of every temporary file. One that is older than a day belongs to a process that was killed.
inline constexpr const char *temporaryPrefix = ".tmp-";
/// A name that is unique among all processes and threads that share a directory, also over the network, if `number` is
/// unique in this process.
std::string temporaryName(uint64_t number);

/// mkdir -p, new directories 0700. False: errno says why.
bool makeDirectories(const std::string &path);

/// The reason why another user may have written the file of `s`; null: no other user could.
const char *untrusted(const struct stat &s, bool rootToo);

/// Opens `subdirectory` of `directory`. Both belong to this user (`rootToo`: or to root) and no other user may write to
/// them; `directory` may also be root's, or one like /tmp (root's or this user's, sticky). -1: `why` says which and
/// why; `refused`: it exists, but is not trusted.
int openOwnDirectory(const std::string &directory, const std::string &subdirectory, bool rootToo, std::string &why,
                     bool &refused);

/// All `size` bytes; false: errno says why (0: the file is shorter).
bool writeAll(int fd, const char *bytes, size_t size);
bool readAll(int fd, char *bytes, size_t size);

} // namespace tegula::runtime
