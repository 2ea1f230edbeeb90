"""A class and its objects as tests have them that run apart from the program: its two sides, as code."""

from __future__ import annotations

HOST = "__serve__"
"""The function of a program that answers for the class in split tests."""

HOST_CODE = """
def __make_host__(names):
    objects = [names]
    plain = (int, float, complex, str, bytes, bytearray, type(None), range)
    exact = (("decimal", "Decimal"), ("fractions", "Fraction"))
    builtin = {kind: name for name, kind in vars(__import__("builtins")).items() if type(kind) is type}

    def encode(value, depth=0):
        kind = type(value)
        if isinstance(value, plain) or (kind.__module__, kind.__name__) in exact:
            return value
        if depth < 100 and isinstance(value, (list, tuple, set, frozenset)):
            base = next(kind for kind in (list, tuple, set, frozenset) if isinstance(value, kind))
            return base([encode(item, depth + 1) for item in value])
        if depth < 100 and isinstance(value, dict):
            return {encode(k, depth + 1): encode(v, depth + 1) for k, v in value.items()}
        if depth < 100 and (kind.__module__, kind.__name__) == ("collections", "deque"):
            return kind([encode(item, depth + 1) for item in value], value.maxlen)
        if kind is type and value in builtin:
            return ("__remote__", builtin[value])
        for number, known in enumerate(objects):
            if known is value:
                return ("__remote__", number)
        objects.append(value)
        return ("__remote__", len(objects) - 1)

    def decode(value):
        if type(value) is tuple and len(value) == 2 and value[0] == "__remote__":
            return objects[value[1]] if type(value[1]) is int else vars(__import__("builtins"))[value[1]]
        if type(value) in (list, tuple, set, frozenset):
            return type(value)([decode(item) for item in value])
        if type(value) is dict:
            return {decode(key): decode(item) for key, item in value.items()}
        return value

    def serve(operation, number, name="", args=(), kwargs={}):
        target = objects[number]
        args, kwargs = decode(args), decode(kwargs)
        if operation == "call":
            result = target(*args, **kwargs)
        elif operation == "method":
            result = getattr(target, name)(*args, **kwargs)
        elif operation == "name":
            result = target[name]
        elif operation == "get":
            result = getattr(target, name)
        elif operation == "set":
            result = setattr(target, name, args[0])
        elif operation == "iterate":
            result = list(target)
        else:
            result = getattr(__import__("operator"), operation)(target, *args)
        return encode(result)

    return serve


__serve__ = __make_host__(globals())
"""
"""The other side of `REMOTE_CODE`, in the program's process."""

REMOTE_CODE = """
class __Remote__:
    def __init__(self, number):
        self.__dict__["_number_"] = number

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = __ask__("get", self._number_, name)
        if name in __of_values__ and callable(value):
            raise AttributeError(f"only values have {name!r}")
        return value

    def __setattr__(self, name, value):
        __ask__("set", self._number_, name, (value,))

    def __call__(self, *args, **kwargs):
        return __ask__("call", self._number_, "", args, kwargs)

    def __eq__(self, other):
        return type(other) is __Remote__ and other._number_ == self._number_

    def __hash__(self):
        return self._number_

    def __bool__(self):
        return True

    def __iter__(self):
        return iter(__ask__("iterate", self._number_))

    def __len__(self):
        return __ask__("method", self._number_, "__len__")

    def __repr__(self):
        return "<an object>"

    def __str__(self):
        return __ask__("method", self._number_, "__str__")


def __operator__(name, arithmetic):
    def operate(self, *args):
        value = __ask__(name, self._number_, "", args)
        if arithmetic and __Remote__ not in (type(value), type(args[0])):
            raise TypeError(f"{name} of an object and a value that gives a value")
        return value

    return operate


__own__ = {own}
__of_values__ = {name for kind in (str, bytearray, complex, float, list, dict, set) for name in dir(kind)}
__of_values__ -= __own__
for __name in ("getitem", "setitem", "delitem"):
    setattr(__Remote__, f"__{__name}__", __operator__(__name, False))
for __name in ("add", "sub", "mul", "truediv"):
    if f"__{__name}__" in __own__:
        setattr(__Remote__, f"__{__name}__", __operator__(__name, True))
__channel__ = [None]


def __begin__(candidate, class_name):
    __channel__[0] = candidate  # its process may be another one than before
    globals()[class_name] = __ask__("name", 0, class_name)


def __ask__(operation, number, name="", args=(), kwargs={}):
    answer = __channel__[0](operation, number, name, __encode__(args), __encode__(kwargs))
    return __decode__(answer)


def __encode__(value):
    if type(value) is __Remote__:
        return ("__remote__", value._number_)
    if type(value) is type:
        return ("__remote__", value.__name__)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)([__encode__(item) for item in value])
    if type(value) is dict:
        return {__encode__(key): __encode__(item) for key, item in value.items()}
    return value


def __decode__(value):
    if type(value) is tuple and len(value) == 2 and value[0] == "__remote__":
        kind = vars(__import__("builtins")).get(value[1]) if type(value[1]) is str else None
        return kind if type(kind) is type else __Remote__(value[1])
    if type(value) in (list, tuple, set, frozenset):
        return type(value)([__decode__(item) for item in value])
    if type(value) is dict:
        return {__decode__(key): __decode__(item) for key, item in value.items()}
    return value
"""
"""Stands for the class and its objects where the tests run. An object equals only itself.

A program that returns objects where values are expected must neither be told the expected value nor decide a
comparison with it. So objects have the arithmetic that the skeleton defines and no other, with a value it gives
objects only, and of the methods that values have (`startswith`, `issubset`) only those of the skeleton.
"""
