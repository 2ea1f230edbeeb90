"""What the zygote does before it forks, so that its children need not."""

from __future__ import annotations

import os
import sys

from llm_decpomdp.envs.sandbox.inside.program.candidate import READY, Candidate
from llm_decpomdp.envs.sandbox.inside.program.handles import opaque
from llm_decpomdp.envs.sandbox.inside.protocol.channel import Closed, write
from llm_decpomdp.envs.sandbox.inside.protocol.codec import pack_call

REHEARSAL = "def f(x: int = 0):\n    return [y for y in range(x)]\n"
"""A program that is run before any other."""

REHEARSALS = 20
"""After some runs the interpreter has built and specialised what it will need, here and not in every child."""

PAGE = 4096
"""Bytes that a child has to copy at once."""

SMALL = range(512, 32, -16)
"""Sizes of objects that the interpreter keeps next to others of their size; the smallest are no bytes objects."""

MOST_HOLES = 2**18
"""Bytes of one size, should new objects never come to lie in a row."""


def rehearse(candidate: Candidate) -> None:
    """Run a program of our own, and send what it answers nowhere."""
    unread, candidate.descriptor = os.pipe()
    candidate.bell = candidate.descriptor
    candidate.reader.descriptor = os.open(os.devnull, os.O_RDONLY)
    request = {
        "segments": [["rehearsal", REHEARSAL]],
        "entry_point": "f",
        "helpers": [["rehearsal", "f"]],
        "change": [],
        "tests": False,
        "seed": 0,
        "output_bytes": 0,
        "calls": [pack_call([3], {}, opaque), pack_call([[]], {}, opaque)],
    }
    for _ in range(REHEARSALS):
        try:
            write(candidate.descriptor, READY)
            candidate.run(request)
        except Closed:
            pass  # nobody asks for more
    for descriptor in (unread, candidate.descriptor, candidate.reader.descriptor):
        os.close(descriptor)
    candidate.handles.numbers.clear()
    candidate.helper_calls, candidate.unread = [], 0
    del sys.modules["__program__"]


def fill_holes() -> list[bytes]:
    """Objects that take up the free places between older ones; the caller keeps them.

    Else what a child makes would be strewn over these places, and it would have to copy a page for every few
    objects: now they lie in a row.
    """
    kept: list[bytes] = []
    empty = sys.getsizeof(b"")
    for size in SMALL:
        row = last = 0
        for _ in range(MOST_HOLES // size):
            block = bytes(size - empty)
            row = row + 1 if id(block) == last + size else 1
            last = id(block)
            kept.append(block)
            if row * size >= PAGE:
                break
        del kept[-row:]
    return kept
