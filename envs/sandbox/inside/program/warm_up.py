"""Warm-up of the zygote before it forks, so that its children need not repeat it."""

from __future__ import annotations

import os
import sys

from llm_decpomdp.envs.sandbox.inside.program.candidate import READY, Candidate
from llm_decpomdp.envs.sandbox.inside.program.handles import opaque
from llm_decpomdp.envs.sandbox.inside.protocol.channel import Closed, write
from llm_decpomdp.envs.sandbox.inside.protocol.codec import pack_call

WARM_UP_PROGRAM = "def f(x: int = 0):\n    return [y for y in range(x)]\n"
"""Program that is run before any other."""

WARM_UP_RUNS = 20
"""Runs after which the interpreter has built and specialised its caches, here and not in every child."""


def warm_up(candidate: Candidate) -> None:
    """Run `WARM_UP_PROGRAM` some times, and drop its answers."""
    unread, candidate.descriptor = os.pipe()
    candidate.reader.descriptor = os.open(os.devnull, os.O_RDONLY)
    request = {
        "segments": [["warm-up", WARM_UP_PROGRAM]],
        "entry_point": "f",
        "helpers": [["warm-up", "f"]],
        "change": [],
        "tests": False,
        "seed": 0,
        "output_bytes": 0,
        "calls": [pack_call([3], {}, opaque), pack_call([[]], {}, opaque)],
    }
    for _ in range(WARM_UP_RUNS):
        try:
            write(candidate.descriptor, READY)
            candidate.run(request)
        except Closed:
            pass  # there are no more requests
    for descriptor in (unread, candidate.descriptor, candidate.reader.descriptor):
        os.close(descriptor)
    candidate.handles.numbers.clear()
    candidate.helper_calls = []
    del sys.modules["__program__"]
