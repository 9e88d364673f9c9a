// Files and directories that nobody else can have written, and writing that readers never see half of. What is checked
// is what was opened, so nobody can exchange it in between. Shared by the disk cache and the store of tuning results.
#pragma once
#include <cstdint>
#include <string>

struct stat;

namespace tegula::runtime {

/// What every temporary file begins with. One that is older than a day belongs to a process that was killed.
inline constexpr const char *temporaryPrefix = ".tmp-";
/// A name distinct in every process and thread that shares a directory, over the network too, if `number` is distinct
/// in this process.
std::string temporaryName(uint64_t number);

/// mkdir -p, new directories 0700. False: errno says why.
bool makeDirectories(const std::string &path);

/// Why what `s` describes may have been written by somebody else; null: nobody else could.
const char *untrusted(const struct stat &s, bool rootToo);

/// `subdirectory` of `directory`, opened. Both belong to this user (`rootToo`: or to root) and nobody else may write to
/// them; `directory` may also be root's, or one like /tmp (root's or ours, sticky). -1: `why` says which and why;
/// `refused`: it is there, but not trusted.
int openOwnDirectory(const std::string &directory, const std::string &subdirectory, bool rootToo, std::string &why,
                     bool &refused);

/// All `size` bytes; false: errno says why (0: the file is shorter).
bool writeAll(int fd, const char *bytes, size_t size);
bool readAll(int fd, char *bytes, size_t size);

} // namespace tegula::runtime
