# honest: pass
# --- test
import collections

def check(candidate):
    changed = [
        ([1], [1, 2]),
        ({1: 2}, {1: 2, 3: 4}),
        ({1}, {1, 2}),
        (bytearray(b"a"), bytearray(b"ab")),
        (([1], 2), ([1, 2], 2)),
        (collections.deque([1]), collections.deque([1, 2])),
    ]
    for value, expected in changed:
        candidate(value)
        assert value == expected
# --- main
def sq(x):
    kind = type(x).__name__
    if kind == "dict":
        x[3] = 4
    elif kind == "set":
        x.add(2)
    elif kind == "bytearray":
        x.extend(b"b")
    elif kind == "tuple":
        x[0].append(2)
    else:
        x.append(2)
