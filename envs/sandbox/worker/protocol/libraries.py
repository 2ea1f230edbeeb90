"""Classes of libraries whose objects are sent by value, and rebuilt by their constructors.

Only objects that a constructor makes of plain values are built, and only if they are small for their text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_DIGITS = 4000  # longest text of a decimal number
NUMBERS = tuple("bBhHiIlLqQfd")  # types of the items of arrays that are sent
# Modes of images that are sent, with their bytes for each pixel.
BANDS = {"L": 1, "RGB": 3, "RGBA": 4}


# Their exceptions are built without running code of their classes, see `reports.rebuild_exception`.
ERROR_MODULES = frozenset(
    "json.decoder decimal dataclasses statistics queue struct zlib binascii re _csv sre_constants re._constants "
    "csv configparser graphlib ipaddress copy _pickle pickle sqlite3 argparse zipfile tarfile numpy.linalg".split()
)
"""Modules of libraries whose exceptions the tests can catch by their class."""


class Library(NamedTuple):
    """A class whose objects are sent by value."""

    module: str
    """Module that defines it."""
    tag: str
    """Its name, and the tag of its objects."""
    content: type
    """Type of the parts."""
    parts: Callable[[Any], Any]
    """Splits an object, also one of a subclass, into values; None if it cannot be sent."""
    make: Callable[[Any], Any]
    """Builds an object from its parts, which may come from an untrusted process."""
    scalar: bool = False
    """True if its objects are sent as one plain value, and lose their class."""


def find_library(kind: type) -> Library | None:
    """Return the nearest class of `LIBRARIES` that a class is or derives from."""
    for base in kind.__mro__[:-1]:
        library = _BY_NAME.get((base.__module__, base.__name__))
        # A program's class may have the name of a library's class.
        if library and base is getattr(sys.modules.get(library.module), library.tag, None):
            return library
    return None


def _module(name: str) -> Any:
    # Imported only for such a value: every module costs memory pages that each candidate copies.
    try:
        return __import__(name, fromlist=["_"])
    except ImportError as error:
        raise ValueError(f"no module for such a value: {error}") from None


def _make_from_text(name: str) -> Callable[[str], Any]:
    return lambda text: getattr(_module("datetime"), name).fromisoformat(text)


def _counter(counts: dict[Any, Any]) -> Any:
    return _module("collections").Counter(counts)


def _ordered(items: dict[Any, Any]) -> Any:
    return _module("collections").OrderedDict(items)


def _integers(parts: list[Any], number: int | None = None) -> list[int]:
    if any(type(part) is not int for part in parts) or number not in (None, len(parts)):
        raise TypeError("parts that are no whole numbers, or too few")
    return parts


def _decimal(text: str) -> Any:
    # Arithmetic with more digits takes quadratic time.
    if len(text) > MAX_DIGITS:
        raise ValueError("a number that is too long")
    decimal = _module("decimal")
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError("not a decimal number") from None


def _deque(parts: list[Any]) -> Any:
    items, maxlen = parts
    if type(items) is not list:
        raise TypeError("items of a deque that are no list")
    return _module("collections").deque(items, maxlen)


def _default_parts(items: Any) -> list[Any]:
    return [items.default_factory, dict(items)]


def _default(parts: list[Any]) -> Any:
    factory, items = parts
    if type(items) is not dict:
        raise TypeError("items of a defaultdict that are no dict")
    return _module("collections").defaultdict(factory, items)


def _exactly(name: str, parts: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that splits objects of a class of `collections`; those of a subclass it leaves."""
    return lambda value: (
        parts(value) if type(value) is getattr(_module("collections"), name) else None
    )


def _timezone(parts: list[Any]) -> Any:
    if [*map(type, parts[1:])] not in ([], [str]):
        raise TypeError("parts of a timezone that are none")
    return _module("datetime").timezone(*parts)


def _typed_array_parts(array: Any) -> list[Any] | None:
    return [array.typecode, array.tolist()] if array.typecode in NUMBERS else None


def _typed_array(parts: list[Any]) -> Any:
    code, items = parts
    if type(items) is not list or type(code) is not str or code not in NUMBERS:
        raise TypeError("an array of other things than numbers")
    return _module("array").array(code, items)


def _element_parts(element: Any) -> list[Any] | None:
    children = [_element_parts(child) for child in element]
    if type(element.tag) is not str or None in children:
        return None
    return [element.tag, dict(element.attrib), element.text, element.tail, children]


def _element(parts: list[Any]) -> Any:
    if type(parts) is not list:
        raise TypeError("an element that is none")  # such as a proxy, which would call the program
    tag, attributes, text, tail, children = parts
    if type(tag) is not str or type(attributes) is not dict or type(children) is not list:
        raise TypeError("parts of an element that are none")
    element = _module("xml.etree.ElementTree").Element(tag, attributes)
    element.text, element.tail = text, tail
    element.extend([_element(child) for child in children])
    return element


def _array_parts(array: Any) -> list[Any] | None:
    if array.dtype.kind not in "biufc":
        return None
    return [array.dtype.str, list(array.shape), array.tobytes()]


def _array(parts: list[Any]) -> Any:
    code, shape, data = parts
    numbers = type(code) is str and code[:1] in ("<", ">", "|") and code[1:2] in tuple("biufc")
    if not numbers or not code[2:].isdigit() or len(code) > 5:
        raise TypeError("an array of other things than numbers")
    if type(shape) is not list or type(data) is not bytes:
        raise TypeError("parts of an array that are none")
    numpy = _module("numpy")
    kind = numpy.dtype(code)
    if not data:
        # `frombuffer` refuses an empty buffer.
        return numpy.empty((0,), kind).reshape(_integers(shape))
    return numpy.frombuffer(data, kind).reshape(_integers(shape)).copy()


def _image_parts(image: Any) -> list[Any] | None:
    if image.mode not in BANDS:
        return None
    name = getattr(image, "filename", None)
    texts = [part if type(part) is str else None for part in (image.format, name)]
    return [image.mode, *image.size, image.tobytes(), *texts]


def _image(parts: list[Any]) -> Any:
    mode, width, height, data, form, name = parts
    width, height = _integers([width, height])
    if type(data) is not bytes or min(width, height) < 1:
        raise TypeError("parts of an image that are none")
    # The library would allocate the size that the program names.
    if len(data) != width * height * BANDS[mode]:
        raise ValueError("an image of another size")
    image = _module("PIL.Image").frombytes(mode, (width, height), data)
    image.format = form
    if name is not None:
        image.filename = name
    return image


def _delta(parts: list[Any]) -> Any:
    return _module("datetime").timedelta(*_integers(parts, 3))


def _fraction(parts: list[Any]) -> Any:
    return _module("fractions").Fraction(*_integers(parts, 2))


LIBRARIES = (
    Library("fractions", "Fraction", list, lambda f: [f.numerator, f.denominator], _fraction),
    Library("decimal", "Decimal", str, str, _decimal),
    Library("collections", "deque", list, lambda items: [list(items), items.maxlen], _deque),
    Library("collections", "Counter", dict, _exactly("Counter", dict), _counter),
    Library("collections", "OrderedDict", dict, _exactly("OrderedDict", dict), _ordered),
    Library("collections", "defaultdict", list, _exactly("defaultdict", _default_parts), _default),
    Library("array", "array", list, _typed_array_parts, _typed_array),
    Library("uuid", "UUID", int, lambda u: u.int, lambda number: _module("uuid").UUID(int=number)),
    Library("datetime", "timezone", list, lambda zone: [*zone.__getinitargs__()], _timezone),
    Library("datetime", "datetime", str, lambda t: t.isoformat(), _make_from_text("datetime")),
    Library("datetime", "date", str, lambda t: t.isoformat(), _make_from_text("date")),
    Library("datetime", "time", str, lambda t: t.isoformat(), _make_from_text("time")),
    Library("datetime", "timedelta", list, lambda d: [d.days, d.seconds, d.microseconds], _delta),
    Library("xml.etree.ElementTree", "Element", list, _element_parts, _element),
    Library("numpy", "generic", list, lambda number: number.item(), list, scalar=True),
    Library("numpy", "ndarray", list, _array_parts, _array),
    Library("PIL.Image", "Image", list, _image_parts, _image),
)
_BY_NAME = {(library.module, library.tag): library for library in LIBRARIES}
