"""A process that runs one trial and ends; started as a script, so that other interpreters can run it too.

Standard input holds the options: the file of the trial, the name of its function, and the function's
arguments. The answer is one line of JSON; whatever else is printed goes to standard error.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

TYPE_CHECKING = False  # the interpreter of a peer has its own packages, and this file needs none
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Run the trial that the standard input names."""
    sys.path.pop(0)  # the folder of this script
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    options = json.loads(sys.stdin.read())
    answer = load(options["file"], options["function"])(**options["arguments"])
    answer["peak_megabytes"] = peak_megabytes()
    print(json.dumps(answer), file=answers, flush=True)


def load(file: str, function: str) -> Any:
    """A function of the module in a file."""
    spec = importlib.util.spec_from_file_location("trial", file)
    assert spec is not None and spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules["trial"] = module
    spec.loader.exec_module(module)
    return vars(module)[function]


def peak_megabytes() -> float:
    """The most resident memory that this process has had since it was started.

    Not `getrusage`, which counts what the parent held when it forked.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    main()
