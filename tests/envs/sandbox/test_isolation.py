"""Surroundings that a program sees, and traces that it leaves behind."""

from __future__ import annotations

import array
import builtins
import gc
import io
import os
import random
import socket
import sys
import threading
import time
from typing import Any

import pytest

from llm_decpomdp.envs.sandbox import Outcome, Sandbox
from llm_decpomdp.envs.sandbox.worker.evaluator.session import ZygoteClient
from llm_decpomdp.envs.sandbox.worker.protocol.channel import ANSWER
from tests.envs.sandboxed import PASSED, run, statuses, statuses_in, value_of
from tests.support.programs import SQUARE

linux = pytest.mark.skipif(sys.platform != "linux", reason="a layer of Linux")
LEAVE_A_FILE = "import os\nos.makedirs('deep/er')\nopen('deep/er/left.txt', 'w').write('x')\n"


def has_folder() -> bool:
    return not Sandbox().layers()["private folder"]


def refusal(code: str, **settings: Any) -> Outcome:
    """Return why a program cannot be loaded."""
    error = run(f"{code}\n{SQUARE}", **settings).error
    assert error is not None
    return error


def test_the_environment_holds_no_secrets(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    names = value_of("sorted(os.environ)", "import os")
    assert "SECRET_KEY" not in names and "PATH" not in names and "HOME" not in names


def test_the_working_folder_is_empty_again_for_every_program():
    if not has_folder():
        pytest.skip("no private folder here")
    assert statuses(LEAVE_A_FILE + SQUARE, workers=1) == ["passed", "passed"]
    listed = "import os\ndef sq(x):\n    return len(os.listdir('.')) + x * x"
    assert statuses(listed, workers=1) == ["passed", "passed"]


def test_what_a_program_writes_is_nowhere_to_be_seen_outside():
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    folder = eval(value_of("os.getcwd()", f"import os\nopen({mark!r}, 'w').write('x')"))
    assert not os.path.exists(os.path.join(folder, mark))


@pytest.mark.parametrize("place", ["/", "/var", os.getcwd()])
def test_nothing_can_be_written_outside_the_working_folder(place):
    if not has_folder():
        pytest.skip("no private folder here")
    mark = os.path.join(place, f"mark-{os.getpid()}")
    assert refusal(f"open({mark!r}, 'w')").status == "forbidden" and not os.path.exists(mark)


@linux
def test_without_a_private_folder_nothing_can_be_written():
    for place in ("left.txt", "/left.txt", "/tmp/left.txt"):
        error = refusal(f"open({place!r}, 'w')", without=("namespaces",))
        assert error.status == "forbidden", (place, error)


def test_the_working_folder_is_limited():
    if not has_folder():
        pytest.skip("no private folder here")
    write = "for i in range(9):\n    open(f'{i}', 'wb').write(bytes(4 << 20))"
    assert refusal(write).message.endswith("No space left on device")
    many = "for i in range(9999):\n    open(f'{i}', 'wb').close()"
    assert refusal(many).message.startswith("OSError: [Errno 28]")


def test_only_the_standard_library_can_be_imported():
    for name in ("llm_decpomdp", "numpy", "worker", "sandbox"):
        message = f"ModuleNotFoundError: No module named '{name}'"
        assert refusal(f"import {name}").message == message


def test_standard_input_is_empty():
    assert run("def sq(x):\n    return input()").tests[0].message.startswith("EOFError")


def test_s7_what_a_program_patches_stays_in_its_process():
    state = random.getstate()
    code = (
        "import builtins, random, os\nbuiltins.sorted = lambda *a, **k: []\nrandom.seed(0)\n"
        "os.environ['LEAK'] = '1'\nos.chdir('/')\ndef sq(x):\n    return x * x"
    )
    folder = os.getcwd()
    assert statuses(code, workers=1) == ["passed", "passed"]
    assert builtins.sorted([3, 1]) == [1, 3]
    assert random.getstate() == state
    assert "LEAK" not in os.environ and os.getcwd() == folder
    follower = (
        "import os\ndef sq(x):\n    return sorted([x * x, 99])[0] + len(os.environ.get('LEAK', ''))"
    )
    assert statuses(follower, workers=1) == ["passed", "passed"]


@pytest.mark.parametrize("patch", ["json.dumps = None", "json.JSONEncoder.encode = None"])
def test_a_program_that_patches_json_does_no_harm(patch):
    assert statuses(f"import json\n{patch}\n{SQUARE}") == ["passed", "passed"]


def test_a_program_that_breaks_how_it_answers_breaks_its_own_run_only():
    broken = "import os\nos.write = None\n" + SQUARE
    assert "passed" not in statuses(broken, workers=1)
    assert statuses(SQUARE, workers=1) == ["passed", "passed"]


def test_a_program_has_no_descriptors_but_its_own():
    opened = "import os\ndef opened(number):\n    try: return bool(os.fstat(number))\n"
    opened += "    except OSError: return False\n"
    code = f"{opened}def sq(x):\n    raise ValueError([n for n in range(1000) if opened(n)])"
    for _ in range(4):  # neither the worker's first processes nor those that are made after them
        message = run(code, workers=1).tests[0].message
        numbers = eval(message.removeprefix("ValueError: "))
        assert numbers[:3] == [0, 1, 2] and len(numbers) == 4, "nothing but the socket"


def test_a_program_may_use_threads_and_they_end_with_it():
    code = (
        "import threading, time\ndef work():\n    while True:\n        time.sleep(0.01)\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "for thread in threads:\n    thread.start()\n"
    )
    assert statuses(code + SQUARE) == ["passed", "passed"]


@linux
def test_a_program_gets_no_thousands_of_threads():
    if has_folder() or os.getuid() == 0:  # else all processes of the user count
        code = (
            "import threading\nthreading.stack_size(32768)\nnever = threading.Event()\nstarted = 0\n"
            "try:\n    for started in range(300):\n"
            "        threading.Thread(target=never.wait, daemon=True).start()\n"
            "except RuntimeError:\n    pass\n"
        )
        assert 64 < int(value_of("started", code)) <= 128
        assert statuses(code + SQUARE, workers=1) == ["passed", "passed"]


@linux
def test_a_program_starts_once_the_one_before_is_reaped():
    """Threads of a program that is still being killed would count against those of the next one."""
    ours, zygote = socket.socketpair()
    client = ZygoteClient(ours, [])
    for _ in range(2):
        descriptor = array.array("i", [os.open(os.devnull, os.O_RDONLY)])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor)]
        zygote.sendmsg([ANSWER.pack(b"s", 0, 0.0)], rights)
        os.close(descriptor[0])
    client.take()
    client._receive()
    client.discard()
    reaped = threading.Timer(0.2, zygote.sendall, [ANSWER.pack(b"k", 0, 0.0)])
    reaped.start()
    client.take()
    assert not client.dying
    reaped.join()
    for part in (ours, zygote, *map(io.FileIO, client.ready)):
        part.close()


@linux
@pytest.mark.parametrize("without", [("seccomp",), ("seccomp", "namespaces")])
def test_processes_that_a_program_left_do_not_count_against_the_next_ones(without):
    code = (
        "import os, time\ndef sq(x):\n    for _ in range(20):\n"
        "        if os.fork() == 0:\n            time.sleep(60)\n    return x * x"
    )
    sandbox = Sandbox(workers=1, cache_size=0, without=without)
    assert [statuses_in(sandbox, code) for _ in range(5)] == [PASSED] * 5


def test_no_file_descriptor_is_left_open():
    run(SQUARE, workers=1)
    gc.collect()  # what other tests left open
    before = len(os.listdir("/dev/fd"))
    for code in (SQUARE, "import os\nos._exit(1)", "while True: pass", "raise KeyError"):
        run(code, workers=1)
    assert len(os.listdir("/dev/fd")) <= before


@pytest.mark.parametrize(
    ("expression", "module"),
    [
        ("hash('abc')", "math"),
        ("list({*'abcd'})", "math"),
        ("random.random()", "random"),
        ("statistics.NormalDist().samples(2)", "statistics"),
        ("__import__('ran' + 'dom').random()", "math"),
    ],
)
def test_hashes_and_random_numbers_are_the_same_every_time(expression, module):
    assert value_of(expression, f"import {module}") == value_of(expression, f"import {module}")


def test_random_numbers_of_tests_inside_the_program_are_the_same_every_time():
    test = "import random\ndef check(candidate):\n    assert candidate(2) == random.random()\n"
    test = test.replace("assert", "print(random.random())\n    assert")
    messages = {run(SQUARE, test, split=False).output for _ in range(3)}
    assert len(messages) == 1 and float(messages.pop()) > 0
