// The bound of decoding: how fast this machine reads memory that is in no cache.
#pragma once

namespace llm {

struct Bandwidth {
  double bytesPerSecond = 0;      // by the clock, of the best of five rounds
  double bytesPerProcessorSecond = 0; // of one thread: what it would be if nobody else had the cores
};

/// `threads` threads (0: one on each core) read 256 MiB each.
Bandwidth readBandwidth(int threads);

/// Processor time of all threads of this process, in seconds.
double processorSeconds();

} // namespace llm
