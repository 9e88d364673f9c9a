"""`triton.profiler.flags`: what the profiler is doing, to be looked at."""
from dataclasses import dataclass


@dataclass
class ProfilerFlags:
    """`profiling_on`: there is a session. `instrumentation_on`: never here. `command_line`: `python -m triton.profiler.proton` runs the program, whose start() does nothing."""
    profiling_on: bool = False
    instrumentation_on: bool = False
    command_line: bool = False


flags = ProfilerFlags()
