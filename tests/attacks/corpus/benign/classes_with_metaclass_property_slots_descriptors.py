# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == (1, 16, 36)
# --- main
from abc import ABC, abstractmethod
class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)
class Shape(ABC):
    @abstractmethod
    def area(self): ...
class Square(Shape):
    __slots__ = ("side",)
    def __init__(self, side):
        self.side = side
    @property
    def doubled(self):
        return Square(self.side * 2)
    @classmethod
    def unit(cls):
        return cls(1)
    @staticmethod
    def power(x):
        return x ** 2
    def area(self):
        return self.power(self.side)
    def __add__(self, other):
        return Square(self.side + other.side)
    def __lt__(self, other):
        return self.side < other.side
class Plain(metaclass=Meta):
    pass
def sq(x):
    squares = [Square(x), Square.unit()]
    Plain()
    return min(squares).area(), sum(squares, Square(0)).area(), Square(x).doubled.area()
