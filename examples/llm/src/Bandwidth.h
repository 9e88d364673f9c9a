// The bound of decoding: how fast this machine reads memory that is in no cache.
#pragma once

namespace llm {

/// Bytes a second, by `threads` threads (0: one on each core) that read 256 MiB each, the best of five rounds.
double readBandwidth(int threads);

} // namespace llm
