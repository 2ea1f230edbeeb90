"""What the zygote does before it forks, so that its children need not."""

from __future__ import annotations

import os
import sys

from llm_decpomdp.envs.sandbox.inside.candidate import READY, Candidate
from llm_decpomdp.envs.sandbox.inside.channel import Closed, write
from llm_decpomdp.envs.sandbox.inside.codec import pack_call

REHEARSAL = "def f(x: int = 0):\n    return [y for y in range(x)]\n"
"""A program that is run before any other."""

REHEARSALS = 20
"""After some runs the interpreter has built and specialised what it will need, here and not in every child."""


def rehearse(candidate: Candidate) -> None:
    """Run a program of our own, and send what it answers nowhere."""
    unread, candidate.descriptor = os.pipe()
    candidate.bell = candidate.descriptor
    candidate.reader.descriptor = os.open(os.devnull, os.O_RDONLY)
    request = {
        "segments": [["rehearsal", REHEARSAL]],
        "entry_point": "f",
        "helpers": [["rehearsal", "f"]],
        "tests": False,
        "seed": 0,
        "output_bytes": 0,
        "calls": [pack_call([3], {}, id), pack_call([[]], {}, id)],
    }
    for _ in range(REHEARSALS):
        try:
            write(candidate.descriptor, READY)
            candidate.run(request)
        except Closed:
            pass  # nobody asks for more
    for descriptor in (unread, candidate.descriptor, candidate.reader.descriptor):
        os.close(descriptor)
    candidate.helper_calls, candidate.unread = [], 0
    del sys.modules["__program__"]
