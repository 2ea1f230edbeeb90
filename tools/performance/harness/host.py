"""Process that runs one trial and ends; a script of the standard library, so that any interpreter can run it.

Standard input holds the request: a file, the name of a generator function in it, and the function's arguments.
The generator yields twice: when it has prepared and done the work once, and when it has done it again, which is
measured. Each time it yields a mapping with

- `units`: tokens or programs that were worked on;
- `wrong`: names of programs with a wrong verdict, which end the trial;
- `parts`: seconds by part, where its own clock replaces this one;
- `cpu_seconds`: processor time, likewise;
- `figures`: further numbers for the table.

The answer is a line of JSON; whatever else is printed goes to standard error. The file is loaded by its path:
importing its package would make every small process a larger one, and variants that fork the process that calls
them pay for what it holds. With `gigabytes` it holds torch and a large heap, as a trainer does.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time

TYPE_CHECKING = (
    False  # importing typing is not for free, and a peer's interpreter has its own packages
)
if TYPE_CHECKING:
    from typing import Any

BLOCK_BYTES = 456
"""Memory of an object of 400 bytes: 448 in its arena and a pointer to it."""


def main() -> None:
    """Run the trial that the standard input describes."""
    folder = sys.path.pop(0)  # of this script
    # Libraries print to standard output, which must have only the answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.read())
    processes = load(os.path.join(folder, "processes.py"))
    # Forks of a large process are slower, as its page tables are copied.
    _ballast = heap(request["gigabytes"]) if request["gigabytes"] else []
    trial = vars(load(request["file"]))[request["function"]](**request["arguments"])
    check(next(trial))
    cpu, begin = processes.cpu_seconds(os.getpid()), time.perf_counter()
    answer = check(next(trial))
    seconds = time.perf_counter() - begin
    costs = {"cpu_seconds": processes.cpu_seconds(os.getpid()) - cpu, "parts": {}, "figures": {}}
    costs["seconds"] = sum(answer["parts"].values()) if "parts" in answer else seconds
    costs["megabytes"] = processes.peak_megabytes()
    trial.close()
    print(json.dumps({**costs, **answer}), file=answers, flush=True)


def load(file: str) -> Any:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location("trial", file)
    assert spec is not None and spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules["trial"] = module
    spec.loader.exec_module(module)
    return module


def heap(gigabytes: float) -> list[bytes]:
    """Import torch and touch a heap of small objects."""
    import torch

    assert torch.zeros(1).item() == 0
    return [bytes(400) for _ in range(int(gigabytes * 2**30 / BLOCK_BYTES))]


def check(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without `wrong`, or end the process if that names a program."""
    wrong = answer.pop("wrong", ())
    if wrong:
        sys.exit(f"a right program does not pass: {', '.join(wrong)}")
    return answer


if __name__ == "__main__":
    main()
