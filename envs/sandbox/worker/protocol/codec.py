"""Values as text: JSON with tags, so that data crosses between processes and code does not.

Values that `decode` restores from the text of `encode`, equal and of the same type: None, bool, int, float (also
NaN and infinities), complex, str (also lone surrogates), bytes, bytearray, memoryview, list, tuple, dict and its
views, set, frozenset, range, slice, Ellipsis, nestings of them, builtin classes themselves, and objects of the
classes in `libraries`. All other objects are passed to `other`, those of a subclass with their base value, such as
a named tuple with its tuple.

Most values are trees, and are written as such. If one container occurs twice, or containers are nested more than
`MAX_DEPTH` levels deep, each container is written once, after its parts, and others refer to it by its number.

`decode` reads text of an untrusted process: it makes builtin values only, calls nothing that the text names, and
refuses values that would be slow to build.
"""

from __future__ import annotations

import builtins
import gc
import json
import marshal
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from math import inf
from types import MappingProxyType
from typing import Any

from llm_decpomdp.envs.sandbox.worker.protocol.libraries import LIBRARIES, find_library

Maker = tuple[type, Callable[[Any], Any]]
# Encoder of an object that is no value, given its encoded base value too (None if it has none).
Other = Callable[[Any, Any], Any]

# Python's own encoder and comparison recurse; both stay below the recursion limit of 1,000 with this.
MAX_DEPTH = 150  # deepest nesting of a value that is written as a tree
# Types of containers that may be written once and referred to; no subclasses of them.
CONTAINERS = {list, tuple, dict, set, bytearray, deque, OrderedDict, Counter, defaultdict}
# Largest number of containers in a value, counting each as often as it occurs; comparing visits all of them.
MAX_SIZE = 10**6
# Largest set or dict whose keys could be made to collide, which takes quadratic time to build. Integers and
# strings with equal hashes can be chosen; 20,000 of them take seconds.
MAX_ITEMS = 20_000
MAX_PARTS = 8  # longest tuple that counts as a key whose hash cannot be chosen
# Maximum memory of all values of one decoder, in bytes: the same as a program's by default.
MAX_DECODED = 512 * 2**20
# Bits above which an integer is sent in hexadecimal: decimal digits would take quadratic time.
MAX_DIGITS = 4000
# The builtin classes.
TYPES = {name: kind for name, kind in vars(builtins).items() if type(kind) is type}
_TYPE_NAMES = {kind: name for name, kind in TYPES.items()}
# Exceptions that malformed text may raise.
DECODE_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError)

to_text = json.JSONEncoder(separators=(",", ":")).encode


class Unsendable(Exception):
    """A value that cannot be written as text."""


def encode(value: Any, other: Other) -> Any:
    """Encode a value as JSON with tags; `other` encodes objects that are none of the values above.

    Raises:
        Unsendable: If the value contains itself, or is nested too deeply in other containers than `CONTAINERS`.
    """
    if is_tree(value):
        return _encode(value, other, 0, NO_NUMBERS)
    numbers: dict[int, int] = {}
    parts = []
    for container in _containers(value):
        parts.append({"new": _encode(container, other, 0, numbers)})
        numbers[id(container)] = len(numbers)
    return {"last": parts}


def is_tree(value: Any) -> bool:
    """Check whether no container occurs twice in a value, and none is nested more than `MAX_DEPTH` levels deep.

    A tuple without containers may occur several times: it cannot change.
    """
    earlier: set[int] = set()
    level = [value]
    # Level by level with `gc.get_referents`, which is in C: this runs for every value of every call.
    for _ in range(MAX_DEPTH):
        if CONTAINERS.isdisjoint(map(type, level)):
            return True
        containers = [part for part in level if type(part) in CONTAINERS]
        numbers = {*map(id, containers)}
        if len(numbers) < len(containers) or not earlier.isdisjoint(numbers):
            for container in containers:
                flat = type(container) is tuple and CONTAINERS.isdisjoint(map(type, container))
                if id(container) in earlier and not flat:
                    return False
                earlier.add(id(container))
        earlier |= numbers
        level = gc.get_referents(*containers)
    return False


def _containers(value: Any) -> Iterator[Any]:
    """Yield each container in a value once, those in it before itself."""
    ancestors: set[int] = set()
    complete_ids: set[int] = set()
    stack = [(value, False)]
    while stack:
        part, complete = stack.pop()
        if complete:
            complete_ids.add(id(part))
            yield part
        elif type(part) in CONTAINERS and id(part) not in complete_ids:
            if id(part) in ancestors:
                raise Unsendable("a value that contains itself")
            ancestors.add(id(part))
            stack.append((part, True))
            stack += [(inner, False) for inner in gc.get_referents(part)]


NO_NUMBERS: dict[int, int] = {}


def _encode(value: Any, other: Other, depth: int, numbers: dict[int, int]) -> Any:
    """Encode a value at a nesting depth; containers that have `numbers` as references to these."""
    kind = type(value)
    # `is`, not `isinstance`: objects of subclasses are not values, and must not be asked anything.
    if kind is str or kind is bool or kind is float or value is None:
        return value
    if kind is int:
        # Python refuses decimal digits beyond 4,300, and needs quadratic time for them.
        return value if value.bit_length() < MAX_DIGITS else {"int": hex(value)}
    if depth > MAX_DEPTH:
        raise Unsendable(f"nested more than {MAX_DEPTH} levels deep")
    if numbers and id(value) in numbers:
        return {"same": numbers[id(value)]}
    depth += 1
    if kind is list:
        return [_encode(item, other, depth, numbers) for item in value]
    if kind is tuple:
        return {"tuple": [_encode(item, other, depth, numbers) for item in value]}
    if kind is dict:
        pairs = [
            [_encode(key, other, depth, numbers), _encode(item, other, depth, numbers)]
            for key, item in value.items()
        ]
        return {"dict": pairs}
    if kind in SPLIT:
        # Its parts are at the depth of the value, as their own container is not sent.
        return {kind.__name__: _encode(SPLIT[kind](value), other, depth - 1, numbers)}
    if kind is memoryview and value.format == "B" and value.ndim == 1:
        return {"memoryview": bytes(value).hex()}
    if value is Ellipsis:
        return {"ellipsis": 0}
    if kind is type and value in _TYPE_NAMES:
        return {"type": _TYPE_NAMES[value]}
    library = find_library(kind)
    content = library.parts(value) if library is not None else None
    if library is not None and content is not None:
        content = _encode(content, other, depth, numbers)
        return content if library.scalar else {library.tag: content}
    base = _base_value(value)
    return other(value, None if base is None else _encode(base, other, depth, numbers))


def _bounds(value: Any) -> list[Any]:
    return [value.start, value.stop, value.step]


def _number_values(values: Any) -> dict[int, Any]:
    return dict(enumerate(values))


SPLIT: dict[type, Callable[[Any], Any]] = {
    set: list,
    frozenset: list,
    bytes: bytes.hex,
    bytearray: bytearray.hex,
    complex: lambda value: [value.real, value.imag],
    range: _bounds,
    slice: _bounds,
    type({}.keys()): dict.fromkeys,
    type({}.items()): dict,
    type({}.values()): _number_values,
    type(OrderedDict().keys()): dict.fromkeys,
    type(OrderedDict().items()): dict,
    type(OrderedDict().values()): _number_values,
    MappingProxyType: dict,
}
"""For each builtin type, the function that makes a value to encode in its place; the type's name is the tag."""


def _base_value(value: Any) -> Any:
    """Return the builtin value of an object of a subclass, without calling its methods; None if there is none."""
    for base, convert in _CONVERSIONS:
        # A class can claim another `__class__`, but not another `__mro__`.
        if isinstance(value, base) and base in type(value).__mro__:
            return convert(value)
    return None


_WHOLE = slice(None)
# The methods of the base class, as the program may have overridden its own.
_CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (complex, complex.__pos__),
    (str, str.__str__),
    (list, lambda value: list.__getitem__(value, _WHOLE)),
    (tuple, lambda value: tuple.__getitem__(value, _WHOLE)),
    (dict, dict.copy),
    (set, lambda value: {*set.__iter__(value)}),
    (frozenset, lambda value: frozenset({*frozenset.__iter__(value)})),
    (bytes, lambda value: bytes.__getitem__(value, _WHOLE)),
    (bytearray, lambda value: bytearray.__getitem__(value, _WHOLE)),
)


class TooLarge(ValueError):
    """A value that is too large to decode, though an honest program may have sent it."""


class Decoder:
    """Decodes text into values that take at most `room` bytes of memory together, see `_size`.

    `makers` has for each further tag the type of its content, and the function that makes an object of it.
    """

    def __init__(self, makers: dict[str, Maker], room: float = inf) -> None:
        self.room = room
        self._numbered: list[Any] = []  # the containers of the current text that have numbers
        self._sizes: list[int] = []
        """Number of containers in each of them, counting each as often as it occurs."""
        self._size = 1  # the same number for the current container
        self._size_before = 1  # and for that around the value whose containers have numbers
        self._makers = {**_MAKERS, **makers}
        self._scan = json.JSONDecoder(object_hook=self._make).raw_decode

    def decode(self, text: str) -> Any:
        """Decode a text; raises one of `DECODE_ERRORS` if it is malformed."""
        # Before parsing: a few bytes of text can stand for gigabytes of values.
        self._take(_size(text))
        self._numbered.clear()
        self._sizes.clear()
        self._size = self._size_before = 1
        value = self._scan(text)[0]
        if self._numbered:
            raise TypeError("numbered containers outside of a value")
        return value

    def _take(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise TooLarge("values that take too much memory to compare")

    def _make(self, tagged: dict[str, Any]) -> Any:
        ((tag, content),) = tagged.items()
        if tag == "new":
            if not self._numbered:
                self._size_before = self._size
            self._numbered.append(content)
            self._sizes.append(self._size)
            self._size = 1
            return content
        if tag == "same":
            self._size += self._sizes[content]
            if self._size > MAX_SIZE:
                raise TooLarge(f"a value with more than {MAX_SIZE} parts, too large to compare")
            return self._numbered[content]
        if tag == "last":
            # A numbered container inside another one would count as a single part of it.
            if [*map(id, content)] != [*map(id, self._numbered)]:
                raise TypeError("numbered containers inside of others")
            self._size = self._size_before + self._sizes[-1]
            # The next value of the same message has numbers of its own.
            self._numbered.clear()
            self._sizes.clear()
            return content[-1]
        kind, make = self._makers[tag]
        # Such as a proxy of an iterator, which would call the program.
        if type(content) is not kind:
            raise TypeError(f"a {tag} of a {type(content).__name__}")
        # Classes of `_MAKERS` alone; the text only selects one by its tag.
        value = make(content)
        self._take(sys.getsizeof(value))
        return value


def _size(text: str) -> int:
    """Return an upper bound on the memory of the numbers, strings and lists in a text, in bytes, without tags.

    A list takes 56 and up to 11 for each item, a string 60 without its characters, and each character 4; the
    longer a number, the less it takes for each of its digits.
    """
    return 10 * len(text) + 32 * text.count('"') + 64 * text.count("[")


def _check_hashes(items: Iterable[Any], number: int) -> None:
    """Refuse a large collection whose keys may all have the same hash."""
    if number > MAX_ITEMS and not all(map(_is_scattered, items)):
        raise TooLarge(f"a set or dict of {number} items, too large to compare")


def _is_scattered(key: Any) -> bool:
    """Check whether many keys of this kind can hardly have the same hash."""
    if type(key) is tuple:
        return len(key) <= MAX_PARTS and all(
            type(part) is str or (type(part) is int and -(2**31) < part < 2**31) for part in key
        )
    return type(key) is str or (type(key) is int and -(2**60) < key < 2**60)


def _dict(pairs: list[list[Any]]) -> dict[Any, Any]:
    if not all(type(pair) is list for pair in pairs):
        raise TypeError("pairs of a dict that are none")
    _check_hashes((key for key, _ in pairs), len(pairs))
    return dict(pairs)


def _set(items: list[Any]) -> set[Any]:
    _check_hashes(items, len(items))
    return set(items)


_MAKERS: dict[str, Maker] = {
    "tuple": (list, tuple),
    "dict": (list, _dict),
    "set": (list, _set),
    "frozenset": (list, lambda items: frozenset(_set(items))),
    "int": (str, lambda text: int(text, 16)),
    "bytes": (str, bytes.fromhex),
    "bytearray": (str, bytearray.fromhex),
    "complex": (list, lambda parts: complex(*parts)),
    "range": (list, lambda parts: range(*parts)),
    "slice": (list, lambda parts: slice(*parts)),
    "memoryview": (str, lambda text: memoryview(bytes.fromhex(text))),
    # Views of an `OrderedDict` come back as those of a dict, which equal them.
    **{f"{kind}_keys": (dict, dict.keys) for kind in ("dict", "odict")},
    **{f"{kind}_items": (dict, dict.items) for kind in ("dict", "odict")},
    **{f"{kind}_values": (dict, dict.values) for kind in ("dict", "odict")},
    "mappingproxy": (dict, MappingProxyType),
    "ellipsis": (int, lambda _: Ellipsis),
    "type": (str, TYPES.__getitem__),
    **{library.tag: (library.content, library.make) for library in LIBRARIES if not library.scalar},
}
"""For each tag, the type of its content, and the function that makes a value of it."""


# The arguments of a call, on their way to the program

# Formats of arguments: `marshal` data, or JSON for values that it cannot represent.
PLAIN, TAGGED = b"m", b"j"
# Without references between objects: equal arguments in which no container occurs twice give equal bytes.
MARSHAL_VERSION = 0


def pack_call(args: Any, kwargs: dict[str, Any], other: Other, plain: bool = True) -> bytes:
    """Encode the arguments of a call as bytes, equal for equal arguments that share their containers alike.

    `plain` tries `marshal`, which is faster but turns a bytearray into bytes.
    """
    if plain and is_tree((args, kwargs)):
        try:
            return PLAIN + marshal.dumps((list(args), kwargs), MARSHAL_VERSION)
        except ValueError:
            pass  # an argument that `marshal` cannot represent
    return TAGGED + to_text(encode_call(args, kwargs, other)).encode()


def encode_call(args: Any, kwargs: dict[str, Any], other: Other) -> Any:
    """Encode the arguments of a call as JSON with tags."""
    return encode([list(args), [[name, value] for name, value in kwargs.items()]], other)


def unpack_call(data: bytes, decode: Callable[[str], Any]) -> tuple[list[Any], dict[str, Any]]:
    """Decode arguments encoded by `pack_call`; only for data of a trusted process."""
    if data[:1] == PLAIN:
        args, kwargs = marshal.loads(data[1:])
        return args, kwargs
    return decode_call(decode(data[1:].decode()))


def decode_call(content: Any) -> tuple[list[Any], dict[str, Any]]:
    """Decode arguments encoded by `encode_call`, also from an untrusted process."""
    if type(content) is not list or [*map(type, content)] != [list, list]:
        raise TypeError("not the arguments of a call")
    args, pairs = content
    return args, _dict(pairs)
