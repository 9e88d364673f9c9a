"""Ways of profiling that Triton knows; here there is one, the time of launches. Others can be described, and start() refuses them by name."""
import enum
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BaseMode:
    name: str = ""


@dataclass(frozen=True)
class PCSampling(BaseMode):
    name: str = "pcsampling"
    interval: int = 1000

    def __str__(self):
        return f"{self.name}:interval={self.interval}"


class Optimize(enum.Enum):
    TIMESHIFT = "time_shift"
    SCHED_STORES = "sched_stores"
    SCHED_BARRIERS = "sched_barriers"
    CLOCK32 = "clock32"

    def __str__(self):
        return self.value


# What the fields of an InstrumentationMode may be.
metric_types = {"cycle": "cycle"}
sampling_strategies = {s: s for s in ("none", "selective")}
granularities = {g: g for g in ("cta", *(f"{w}{n}" for w in ("warp", "warp_group") for n in ("", "_2", "_4", "_8")))}
buffer_strategies = {s: s for s in ("circular", "flush")}
buffer_types = {t: t for t in ("shared", "global")}
optimizations = {o.value: o for o in Optimize}


@dataclass(frozen=True)
class InstrumentationMode(BaseMode):
    metric_type: str = "cycle"
    sampling_strategy: str = "none"
    sampling_options: str = ""
    granularity: str = "warp"
    buffer_strategy: str = "circular"
    buffer_type: str = "shared"
    buffer_size: int = 0
    optimizations: list = field(default_factory=list)


@dataclass(frozen=True)
class Default(InstrumentationMode):
    name: str = "default"


@dataclass(frozen=True)
class MMA(InstrumentationMode):
    name: str = "mma"
