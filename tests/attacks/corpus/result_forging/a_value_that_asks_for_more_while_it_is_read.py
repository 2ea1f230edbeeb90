# honest: fail
# --- main

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
send('value', {'tuple': ITERATOR}, None, [], '')
send('error', raised('RuntimeError', []), None, [], '')
time.sleep(0.2)
