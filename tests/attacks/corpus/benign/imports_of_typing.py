# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2]) == ({1: 1, 2: 4}, (1, None))
# --- main
from typing import Any, Dict, Generic, List, NamedTuple, Optional, Tuple, TypeVar, Union
T = TypeVar("T")
class Pair(NamedTuple):
    left: int
    right: Optional[int] = None
class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value
def sq(xs: List[int], extra: Union[int, str] = 0) -> Tuple[Dict[int, Any], Pair]:
    return {x: Box(x * x).value for x in xs}, Pair(1)
