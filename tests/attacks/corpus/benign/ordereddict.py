# honest: pass
# --- test
def check(candidate):
    assert candidate([2, 1]) == {1: 1, 2: 4}
    assert list(candidate([2, 1])) == [2, 1]
# --- main
from collections import OrderedDict
def sq(keys):
    return OrderedDict((key, key * key) for key in keys)
