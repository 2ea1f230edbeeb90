"""Programs that answer in place of the code around them, in its own language."""

from __future__ import annotations

from tests.attacks.entry import Attack
from tests.attacks.shared import CHANNELS, check

SPEAKS = (
    CHANNELS
    + r"""
import json, time

SOCKET = [number for number in channels() if stat.S_ISSOCK(os.fstat(number).st_mode)][0]

def send(*message):
    data = json.dumps(message).encode()
    put(SOCKET, len(data).to_bytes(4, "big") + data)
    for number in channels():
        if number != SOCKET:
            put(number, b"!")

def raised(kind, arguments):
    return ["x", "x", "", 0, "", kind, arguments]

ITERATOR = {"handle": ["iterator", 0, "x"]}
ANYWHERE = ["utf-8", {"bytes": "00"}, -10**15, 1 - 10**15, "r"]

def sq(x):
    return 0

send("loaded", None, None, [], "")
"""
)
"""Speaks the language, and has a place that lies far outside of a text."""


def _speaking(name: str, code: str, test: str) -> Attack:
    return Attack(name, "result forging", SPEAKS + code, "fail", test)


TEXT = check(
    "for x in range(3):",
    "    try:",
    "        candidate(x)",
    "    except ValueError as e:",
    "        assert str(e) == 'two'",
)
SQUARES = check("assert candidate(2) == 4", "assert candidate(3) == 9")

SPEAKING: tuple[Attack, ...] = (
    _speaking(
        "an_exception_whose_text_is_memory_of_the_judge",
        "for kind in ('Decode', 'Encode', 'Translate'):\n"
        "    send('error', raised(f'Unicode{kind}Error', ANYWHERE[kind == 'Translate':]), None, [], '')\n",
        TEXT,
    ),
    _speaking(
        "arguments_of_a_callback_that_ask_for_more",
        "send('callback', [0, ITERATOR], None, [], '')\n"
        "os.read(SOCKET, 65536)\n"
        "send('error', raised('UnicodeDecodeError', ANYWHERE), None, [], '')\n"
        "time.sleep(0.2)\n",
        SQUARES,
    ),
    _speaking(
        "a_value_that_asks_for_more_while_it_is_read",
        "send('value', {'tuple': ITERATOR}, None, [], '')\n"
        "send('error', raised('RuntimeError', []), None, [], '')\n"
        "time.sleep(0.2)\n",
        SQUARES,
    ),
    _speaking(
        "a_few_bytes_that_are_gigabytes",
        "send('value', {'tuple': {'range': [0, 10**9, 1]}}, None, [], '')\ntime.sleep(0.2)\n",
        SQUARES,
    ),
    _speaking(
        "changes_that_ask_for_more_while_they_are_made",
        "send('value', 1, ITERATOR, [], '')\n"
        "send('error', raised('RuntimeError', []), None, [], '')\n"
        "time.sleep(0.2)\n",
        SQUARES,
    ),
)
