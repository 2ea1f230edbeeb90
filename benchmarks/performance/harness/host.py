"""A process that runs one variant and holds nothing else; started as a script, standard library only.

Some variants fork the process that calls them, and a fork costs what that process holds. So each variant gets a
process of its own: a small one, or one that holds torch and a large heap, as a trainer does. The module of the
variant is loaded from its file, because importing its package would make every small process a larger one.

The first line of standard input holds the options, the second the programs, and each further line the indices of
programs to run. Every answer is a line of JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time

TYPE_CHECKING = False  # importing typing is not for free either
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Protocol

    class Variant(Protocol):
        """A way to run programs against their tests."""

        def __init__(
            self, programs: Sequence[Mapping[str, str]], workers: int, **options: Any
        ) -> None: ...

        def run(self, indices: Sequence[int]) -> list[bool]:
            """Run some of the programs; whether each passes its tests."""
            ...

        def close(self) -> None:
            """End all processes."""
            ...


BLOCK_BYTES = 456
"""What an object of 400 bytes takes: 448 in its arena and a pointer to it."""


def main() -> None:
    """Serve until the standard input ends."""
    sys.path.pop(0)  # the folder of this script
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what programs print is nobody's answer
    options = json.loads(sys.stdin.readline())
    ballast = load(options["gigabytes"]) if options["gigabytes"] else []
    programs = json.loads(sys.stdin.readline())
    variant = build(options, programs)
    print(json.dumps({"ready": len(ballast)}), file=answers, flush=True)
    for line in sys.stdin:
        indices = json.loads(line)
        begin = time.perf_counter()
        passed = variant.run(indices)
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "passed": passed}), file=answers, flush=True)
    variant.close()


def load(gigabytes: float) -> list[bytes]:
    """Import torch and touch a heap of small objects."""
    import torch

    assert torch.zeros(1).item() == 0
    return [bytes(400) for _ in range(int(gigabytes * 2**30 / BLOCK_BYTES))]


def build(options: dict[str, Any], programs: list[dict[str, str]]) -> Variant:
    """The variant that a file defines."""
    spec = importlib.util.spec_from_file_location("variant", options["file"])
    assert spec is not None and spec.loader is not None, options
    module = importlib.util.module_from_spec(spec)
    sys.modules["variant"] = module
    spec.loader.exec_module(module)
    variant: Variant = vars(module)[options["name"]](programs, **options["options"])
    return variant


if __name__ == "__main__":
    main()
