"""Values as text: what goes through comes out the same, and bad text makes nothing but an error."""

from __future__ import annotations

import array
import collections
import collections.abc
import datetime
import decimal
import enum
import fractions
import json
import time
import tracemalloc
import types
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_decpomdp.envs.sandbox.worker.protocol.codec import (
    DECODE_ERRORS,
    MAX_DEPTH,
    MAX_ITEMS,
    Decoder,
    TooLarge,
    Unsendable,
    encode,
    pack_call,
    to_text,
    unpack_call,
)

DECODE = Decoder({}).decode
SETTINGS = settings(derandomize=True, deadline=None, max_examples=100, database=None)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)
HASHABLE_ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**3990, 2**4010)
    | st.floats()
    | st.complex_numbers()
    | TEXTS
    | st.binary(max_size=8)
    | st.builds(range, st.integers(), st.integers(), st.integers().filter(bool))
    | st.just(...)
    | st.fractions()
    | st.decimals(allow_nan=False)
)
HASHABLE = st.recursive(
    HASHABLE_ATOMS,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
ATOMS = HASHABLE_ATOMS | st.binary(max_size=8).map(bytearray) | st.decimals(allow_nan=True)
VALUES = st.recursive(
    ATOMS | HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.builds(collections.deque, st.lists(inner, max_size=3), st.none() | st.integers(0, 5))
    ),
    max_leaves=20,
)


def refuse(value: object, base: object) -> object:
    if base is not None:
        return base
    raise AssertionError(f"{value!r} was not written as a value")


def there_and_back(value: Any) -> Any:
    return DECODE(to_text(encode(value, refuse)))


def written(value: Any) -> str:
    """All that can be told about a value, in a fixed order."""
    kind = type(value).__name__
    if isinstance(value, collections.abc.KeysView | collections.abc.ItemsView | memoryview):
        return f"{kind}{[*map(written, value)]}"
    if isinstance(value, set | frozenset):
        return f"{kind}{sorted(map(written, value))}"
    if isinstance(value, dict | types.MappingProxyType):
        return f"{kind}{[(written(k), written(v)) for k, v in value.items()]}"
    if isinstance(value, list | tuple | collections.deque):
        return f"{kind}{[*map(written, value)]}{getattr(value, 'maxlen', '')}"
    return f"{kind} {hex(value) if type(value) is int else ascii(value)}"


@SETTINGS
@given(VALUES)
def test_a_value_comes_back_equal_and_of_the_same_type(value):
    assert written(there_and_back(value)) == written(value)
    assert to_text(encode(value, refuse)).isascii()


@SETTINGS
@given(
    st.lists(VALUES, max_size=3),
    st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), VALUES, max_size=3),
    st.booleans(),
)
def test_arguments_come_back(args, kwargs, plain):
    found_args, found_kwargs = unpack_call(pack_call(args, kwargs, refuse, plain), DECODE)
    if not (plain and "bytearray" in written([args, kwargs])):
        assert written([*found_args]) == written(args)
        assert written(found_kwargs) == written(kwargs)


@pytest.mark.parametrize("plain", [True, False])
def test_equal_arguments_give_equal_bytes(plain):
    pair, word = (1, 2.5), "".join(["wo", "rd"])
    first = pack_call([pair, pair, "word", {"word": "word"}], {"a": 10**30}, refuse, plain)
    again = pack_call([(1, 2.5), pair, word, {word: "word"}], {"a": 10**30}, refuse, plain)
    assert first == again


@pytest.mark.parametrize("plain", [True, False])
def test_one_list_that_is_passed_twice_arrives_as_one(plain):
    shared = [1, [2]]
    for args in ([shared, shared], [shared, {"a": shared[1]}], [[shared, (shared,)], 0]):
        found, _ = unpack_call(pack_call(args, {}, refuse, plain), DECODE)
        assert found == args
        assert len(identities(found)) == len(identities(args))
    found, kwargs = unpack_call(pack_call([shared], {"a": shared}, refuse, plain), DECODE)
    assert kwargs["a"] is found[0]
    found, _ = unpack_call(pack_call([[1, [2]], [1, [2]]], {}, refuse, plain), DECODE)
    assert found[0] is not found[1]


def identities(value: Any) -> set[int]:
    """The mutable containers in a value."""
    parts = value.values() if isinstance(value, dict) else value
    inner = [identities(part) for part in parts if isinstance(part, list | tuple | dict)]
    return set().union(*inner, set() if isinstance(value, tuple) else {id(value)})


@pytest.mark.parametrize(
    "value",
    [
        collections.deque([[1]] * 2),
        {1: {"a": 0}, 2: [{"a": 0}] * 2},
        ([{1}] * 2, [{1}]),
        collections.defaultdict(list, a=[[]] * 2),
        collections.OrderedDict(a=[[]] * 3),
    ],
)
def test_containers_that_occur_twice_come_back_as_one(value):
    found = there_and_back(value)
    assert found == value and type(found) is type(value)

    def written_once(value: Any) -> int:
        seen: dict[int, Any] = {}
        pending = [value]
        while pending:
            part = pending.pop()
            if isinstance(part, list | set | dict | collections.deque) and id(part) not in seen:
                seen[id(part)] = part
                pending += part.values() if isinstance(part, dict) else part
            elif isinstance(part, tuple):
                pending += part
        return len(seen)

    assert written_once(found) == written_once(value)


@pytest.mark.parametrize(
    "value",
    [
        {1: [2]}.keys(),
        {1: [2]}.items(),
        collections.OrderedDict(a=1).keys(),
        collections.Counter("aab"),
        collections.OrderedDict([(2, 1), (1, 2)]),
        collections.defaultdict(list, {1: [2]}),
        slice(1, None, 2),
        memoryview(b"ab"),
        array.array("d", [1.5, 2]),
        uuid.UUID(int=5),
        datetime.timezone(datetime.timedelta(hours=1), "CET"),
        types.MappingProxyType({1: 2}),
    ],
)
def test_a_value_of_the_library_comes_back_equal(value):
    found = there_and_back(value)
    assert found == value and value == found


def test_values_of_a_dict_come_back_in_their_order():
    assert [*there_and_back({"b": 1, "a": [2]}.values())] == [1, [2]]
    assert there_and_back(collections.Counter("a"))["z"] == 0
    assert there_and_back(collections.defaultdict(list))["z"] == []
    ordered = collections.OrderedDict([(2, 1), (1, 2)])
    assert there_and_back(ordered) != collections.OrderedDict([(1, 2), (2, 1)])


def test_arguments_in_the_quick_way_take_a_bytearray_for_bytes():
    assert unpack_call(pack_call([bytearray(b"a")], {}, refuse), DECODE) == ([b"a"], {})
    (copy,), _ = unpack_call(pack_call([bytearray(b"a")], {}, refuse, plain=False), DECODE)
    assert type(copy) is bytearray


class Liar(int):
    def __int__(self) -> int:
        return 7

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Empty(list):
    def __iter__(self):
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index):
        return []


class Text(str):
    def __str__(self) -> str:
        return "other"


Point = collections.namedtuple("Point", "x y")
Color = enum.IntEnum("Color", "RED GREEN")


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Liar(4), 4),
        (Empty([1, 2]), [1, 2]),
        (Text("own"), "own"),
        (Point(1, [2]), (1, [2])),
        (Color.GREEN, 2),
        (type("N", (collections.Counter,), {})("aab"), {"a": 2, "b": 1}),
        (type("D", (collections.defaultdict,), {})(list, {1: [2]}), {1: [2]}),
        (type("F", (float,), {"__float__": lambda _: 0.0})(2.5), 2.5),
        (type("C", (complex,), {})(2j), 2j),
        (type("S", (set,), {"__iter__": lambda _: iter(())})({1}), {1}),
        (type("Z", (frozenset,), {})({1}), frozenset({1})),
        (type("B", (bytes,), {})(b"a"), b"a"),
        (type("A", (bytearray,), {})(b"a"), bytearray(b"a")),
        ([Point(Liar(1), Text("a"))], [(1, "a")]),
    ],
)
def test_an_object_of_a_subclass_is_sent_as_its_base_value(value, base):
    assert written(there_and_back(value)) == written(base)


@pytest.mark.parametrize(
    "value", [object(), len, Liar, iter([1]), ValueError("a"), type("C", (), {})()]
)
def test_what_is_no_value_is_handed_over(value):
    def other(found: Any, base: Any) -> Any:
        assert found is value and base is None
        return "handed"

    assert DECODE(to_text(encode([value], other))) == ["handed"]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 5000])
def test_values_may_be_nested_deep(depth):
    found, levels = there_and_back(nested(depth)), 0
    while found:
        (found,), levels = found, levels + 1
    assert levels == depth


@pytest.mark.parametrize("make", [lambda x: (x,), lambda x: {"a": x}, lambda x: [x, (0, x)]])
def test_other_containers_may_be_nested_deep(make):
    value: Any = []
    for _ in range(300 if make([]) != [[], (0, [])] else 15):
        value = make(value)
    assert there_and_back(value) == value


def test_a_value_that_contains_itself_cannot_be_sent():
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Unsendable, match="contains itself"):
        encode(endless, refuse)
    deep: Any = 0
    for _ in range(MAX_DEPTH + 1):
        deep = type("L", (list,), {})([deep])
    with pytest.raises(Unsendable, match="150 levels"):
        encode(deep, refuse)


def test_a_value_that_would_take_for_ever_to_compare_is_too_large():
    value: list[Any] = []
    for _ in range(40):
        value = [value, value]
    text = to_text(encode(value, refuse))
    assert len(text) < 5000
    with pytest.raises(TooLarge, match="parts"):
        DECODE(text)
    assert there_and_back([0]) == [0]
    # Numbered containers inside of another one count, too.
    chain = [{"new": []}, *({"new": [{"same": n}, {"same": n}]} for n in range(19))]
    hidden = {"last": [{"new": [{"last": chain}]}, {"new": [{"same": 0}] * 3}]}
    with pytest.raises(TooLarge, match="parts"):
        DECODE(json.dumps(hidden))


def test_each_value_of_a_message_has_numbers_of_its_own():
    row, other = [1], [2]
    values = [[row, row], [other, other]]
    assert DECODE(to_text([encode(value, refuse) for value in values])) == values


# Text of a process that nobody trusts

# Integers that are multiples of it have the same hash.
PRIME = 2**61 - 1
COLLIDING = [{"int": hex(number * PRIME)} for number in range(1, MAX_ITEMS + 2)]
MALFORMED = """
nul | {"tuple": [], "set": []} | {} | {"__import__": "os"} | {"handle": ["function", 0, "f"]} | {"int": 5}
{"int": "zz"} | {"tuple": 5} | {"set": [[]]} | {"set": 5} | {"dict": [[1]]} | {"dict": [[[], 1]]} | {"dict": 1}
{"bytes": "zz"} | {"bytes": 10000000000} | {"bytearray": 10000000000} | {"range": []} | {"range": [1, 2, 0]}
{"range": [1.5, 2]} | {"complex": ["x"]} | {"complex": [1, 2, 3]} | {"Fraction": [1, 0]} | {"Fraction": [1]}
{"Fraction": ["1", "2"]} | {"Decimal": "abc"} | {"Decimal": 5} | {"deque": [[1]]} | {"deque": [[1], -1]}
{"deque": [5, 5]} | {"new": []} | {"last": []} | {"last": [{"new": [{"new": []}]}]} | {"same": 0}
{"last": [{"new": {"last": [{"new": []}]}}, 0]} | {"last": 0}
"""
HOSTILE = {
    **{text: text for line in MALFORMED.strip().splitlines() for text in line.split(" | ")},
    "nothing": "",
    "space": " 1",
    "deep": "[" * 100_000,
    "deep and closed": "[" * 100_000 + "]" * 100_000,
    "deep tags": '{"tuple":[' * 20_000,
    "deep keys": '{"a":' * 20_000,
    "long integer": "1" * 5000,
    "long decimal": json.dumps({"Decimal": "1" * 100_000}),
    "set with colliding keys": json.dumps({"set": COLLIDING}),
    "frozenset with colliding keys": json.dumps({"frozenset": COLLIDING}),
    "dict with colliding keys": json.dumps({"dict": [[key, 0] for key in COLLIDING]}),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_bad_text_is_refused(text):
    begin = time.process_time()
    with pytest.raises(DECODE_ERRORS):
        DECODE(text)
    assert time.process_time() - begin < 5


SWELLING = (
    *('{"deque":[[],null]}', '{"set":[0,1,2,3,4]}', '{"frozenset":[]}', '{"dict":[[0,0]]}'),
    *('{"bytearray":""}', '{"Fraction":[1,3]}', '{"tuple":[[0]]}', "[[]]", "0.1", "257", '"ab"'),
    '"\U0001f600a"',
)
"""Texts of values that take many times the room of their text."""


@pytest.mark.parametrize("text", SWELLING)
def test_no_value_takes_more_memory_than_is_counted(text):
    decoder = Decoder({}, room=1e9)
    data = f"[{','.join([text] * 5_000)}]"
    tracemalloc.start()
    value = decoder.decode(data)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(value) == 5_000
    assert size <= 1e9 - decoder.room


def test_values_that_take_too_much_memory_together_are_refused():
    decoder = Decoder({}, room=10**6)
    for _ in range(3):
        decoder.decode(f"[{','.join(SWELLING[:1] * 200)}]")
    with pytest.raises(TooLarge, match="too much memory"):
        decoder.decode(f"[{','.join(['[]'] * 20_000)}]")


def test_large_collections_of_harmless_keys_are_accepted():
    for items in ([*range(20_000)], [str(number) for number in range(20_000)]):
        assert there_and_back(set(items)) == set(items)
        assert there_and_back(dict.fromkeys(items)) == dict.fromkeys(items)


@SETTINGS
@given(TEXTS | st.text('[]{}":,0123456789eE.-+ tuplesdictnafr', max_size=40))
def test_random_text_makes_a_value_or_an_error(text):
    try:
        DECODE(text)
    except DECODE_ERRORS:
        pass


TAGS = st.sampled_from(
    "tuple dict set frozenset int bytes bytearray complex range ellipsis Fraction Decimal deque x "
    "new same last slice memoryview dict_keys dict_items mappingproxy Counter OrderedDict defaultdict".split()
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from(["0x1f", "1e99999", "NaN"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TAGS, inner, min_size=1, max_size=2),
    max_leaves=12,
)  # fmt: skip


@SETTINGS
@given(TREES)
def test_random_trees_of_tags_make_a_value_that_can_be_sent_or_an_error(tree):
    try:
        value = DECODE(json.dumps(tree))
    except DECODE_ERRORS:
        return
    assert written(there_and_back(value)) == written(value)


def test_the_arithmetic_of_decimals_and_fractions_goes_on():
    assert there_and_back(decimal.Decimal("0.10")) + 1 == decimal.Decimal("1.10")
    assert there_and_back(fractions.Fraction(1, 3)) * 3 == 1
