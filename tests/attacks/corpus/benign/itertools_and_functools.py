# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2, 2]) == (4, [1, 3, 5], [(1, 1), (2, 2)], 4, 1, (2, 2, 1), [1, 2])
# --- main
from functools import reduce, singledispatch
from itertools import accumulate, chain, groupby, permutations, product
@singledispatch
def size(x):
    return 1
@size.register
def _(x: list):
    return len(x)
def sq(xs):
    groups = [(k, len(list(g))) for k, g in groupby(sorted(xs))]
    pairs = list(product("ab", repeat=2))
    return (reduce(lambda a, b: a * b, xs), list(accumulate(xs)), groups, size(pairs), size(0),
            list(permutations(xs))[-1], list(chain([1], (2,))))
