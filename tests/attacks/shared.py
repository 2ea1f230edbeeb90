"""Pieces that several attacks are written with."""

from __future__ import annotations


def check(*lines: str) -> str:
    """A test function with these lines as its body."""
    return "def check(candidate):\n" + "".join(f"    {line}\n" for line in lines)


CHANNELS = '''
import os, stat

def channels():
    """Every open pipe and socket that is not a standard stream."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = range(256)
    found = []
    for number in numbers:
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        if number > 2 and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            found.append(number)
    return found

def put(number, data):
    try:
        os.write(number, data)
    except OSError:
        pass
'''
"""Code that finds the channels to the grader."""

VERDICT = """
import json

def verdict():
    events = [{"event": "loaded", "error": None}]
    events += [{"event": "test", "test": index, "error": None} for index in range(2)]
    events.append({"event": "done"})
    return "".join(json.dumps(event) + "\\n" for event in events).encode()
"""
"""Code that writes a whole run of two passed tests, as a grader that listens to its own child expects it."""

LIAR = """
def liar(base, *arguments):
    agree = {"__eq__": lambda self, other: True, "__ne__": lambda self, other: False,
             "__hash__": lambda self: 0}
    return type("Liar", (base,), agree)(*arguments)
"""
"""Code that makes a value of any kind that claims to equal everything."""

ANSWER = r"""
import re

def answer(text, x):
    # What the test compares candidate(x) with, or a wrong number if the text does not hold it.
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    match = re.search(r"candidate\(%d\)\s*==\s*(-?\d+)" % x, text)
    return int(match.group(1)) if match else -1
"""
"""Code that finds the expected value in a text of the test."""
