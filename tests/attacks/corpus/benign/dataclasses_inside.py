# honest: pass
# --- test
def check(candidate):
    assert candidate([2, 1]) == [{"size": 1, "tags": []}, {"size": 4, "tags": []}]
# --- main
from dataclasses import dataclass, field, asdict
@dataclass(order=True, frozen=True)
class Item:
    size: int
    tags: list = field(default_factory=list, compare=False)
def sq(sizes):
    items = sorted(Item(size * size) for size in sizes)
    return [asdict(item) for item in items]
