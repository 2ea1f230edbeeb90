"""Floor of the sandbox's speed: a fork for each program, with the tests inside and no protection.

Started as a script. Reads requests from descriptor 0, a socket that keeps messages apart and that several of these
processes share, and answers on it. The modules that programs import are there, the collector leaves what is there
alone, and nothing else is loaded. With the argument `warmed` it has compiled something before the first fork:
otherwise every child sets up the classes of syntax trees for itself, which takes longer than most of the programs.
"""

from __future__ import annotations

import gc
import json
import os
import sys

PRELOADED = ("collections", "copy", "math", "re", "string", "typing")
"""Modules that the programs and their tests import; hashlib, for one program, would make every fork dearer."""

MAX_REQUEST_BYTES = 2**20


def main() -> None:
    """Serve until the other end is closed."""
    for name in PRELOADED:
        __import__(name)
    import_random()
    if sys.argv[1:] == ["warmed"]:
        compile("", "<nothing>", "exec")
    gc.collect()
    gc.freeze()
    while request := os.read(0, MAX_REQUEST_BYTES):
        index, source = json.loads(request)
        child = os.fork()
        if child == 0:
            run(index, source)
        if os.waitpid(child, 0)[1]:
            os.write(0, json.dumps([index, False]).encode())


def import_random() -> None:
    """Import `random` without its hook, which draws 2.5 kB of entropy in each child."""
    register, os.register_at_fork = os.register_at_fork, lambda **_: None
    __import__("random")
    os.register_at_fork = register


def run(index: int, source: str) -> None:
    """Run a program in a child, and end it."""
    try:
        exec(compile(source, "<program>", "exec"), {"__name__": "__program__"})
        os.write(0, json.dumps([index, True]).encode())
    except BaseException:
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
