# honest: pass
# --- test
def check(candidate):
    assert candidate(4) == (10, [4, (1, 2)])
# --- main
import copy
import pickle
class Tree:
    def __init__(self, value, *children):
        self.value, self.children = value, list(children)
    def total(self):
        return self.value + sum(child.total() for child in self.children)
def sq(n):
    tree = Tree(n, Tree(1), Tree(2, Tree(3)))
    same = copy.deepcopy(tree)
    values = pickle.loads(pickle.dumps({"n": [n, (1, 2)]}))
    return same.total(), values["n"]
