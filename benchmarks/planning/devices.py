"""The devices of a plan: kinds of GPUs by their data sheets, and the processors of this machine as measured."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.planning.assumptions import number
from llm_decpomdp.validation import unknown

CPU = "cpu"

SPECIFIED = ("memory", "bandwidth", "flops", "single", "link")
"""Numbers of a device that stand in its source; the others are assumed."""


@dataclass(frozen=True)
class Device:
    """One GPU, or all processors of a machine."""

    kind: str
    source: str
    """Origin of the numbers."""
    memory: float = number(0.0, "GB", "of one device")
    bandwidth: float = number(0.0, "GB/s", "of its memory")
    flops: float = number(0.0, "TFLOP/s", "dense, in bfloat16 with float32 sums")
    single: float = number(0.0, "TFLOP/s", "in float32")
    link: float = number(0.0, "GB/s", "from a device to others of its node, one way")
    network: float = number(0.0, "GB/s", "from a device to other nodes")
    node: float = number(8, "devices", "of a node")
    cores: float = number(12, "cores", "beside each device, for programs")
    dtype: str = "bfloat16"
    """Format in which models compute on it where `compute_dtype` is `auto`."""


KINDS = {
    name: Device(name, source, *numbers)
    for name, source, *numbers in (
        ("a100", "NVIDIA A100 80GB SXM data sheet", 80, 2039, 312, 19.5, 300, 25),
        ("h100", "NVIDIA H100 SXM data sheet", 80, 3350, 989, 67, 450, 50),
        ("h200", "NVIDIA H200 SXM data sheet", 141, 4800, 989, 67, 450, 50),
        ("l40s", "NVIDIA L40S data sheet, PCIe 4", 48, 864, 362, 91.6, 32, 12.5),
        ("4090", "NVIDIA Ada white paper, RTX 4090, PCIe 4", 24, 1008, 165, 82.6, 32, 12.5),
    )
}
"""GPUs by kind, in the order of the fields of `Device`; without sparsity.

Networks are assumed: 400 Gb/s for each H100 and H200, 200 for each A100, 100 for the others.
"""

FLEET = re.compile(r"(?:(\d+)x)?(\d*[a-z]\w*|\d+)")


@dataclass(frozen=True)
class Fleet:
    """Several equal devices."""

    device: Device
    count: int = 1

    def __str__(self) -> str:
        return CPU if self.on_cpu else f"{self.count}x{self.device.kind}"

    @property
    def on_cpu(self) -> bool:
        """True if there is no GPU."""
        return self.device.kind == CPU

    @property
    def cores(self) -> float:
        """Cores for programs, of all nodes."""
        return self.device.cores * self.count

    def of(self, count: int) -> Fleet:
        """Return so many of the devices."""
        return replace(self, count=count)


def find_fleet(text: str) -> Fleet:
    """Read devices such as `8xh100`, `h100` (one) or `cpu`, which is measured for a second.

    Raises:
        ConfigError: If the kind is unknown, or the number none.
    """
    match = FLEET.fullmatch(text.lower())
    if match is None or match[1] == "0":
        raise ConfigError(f"--gpus: needs a number and a kind such as 8xh100, or cpu, got {text!r}")
    count, kind = int(match[1] or 1), match[2]
    if kind == CPU:
        if match[1]:
            raise ConfigError(
                f"--gpus: cpu is all of this machine's processors; give cpu, got {text!r}"
            )
        from llm_decpomdp.benchmarks.planning.this_machine import measured

        return Fleet(measured())
    if kind not in KINDS:
        raise ConfigError(
            f"--gpus: {unknown('kind of GPU', kind, [*KINDS, CPU])}; for another one take the nearest, and its "
            "numbers: --assume memory=.. --assume bandwidth=.. --assume flops=.."
        )
    return Fleet(KINDS[kind], count)
