# about: loops, set-up and helper functions in the test
# honest: pass
# --- test
def check(candidate):
    def squares(n):
        return [i * i for i in range(n)]
    data = {"a": [1, 2], "b": []}
    for n in range(5):
        assert candidate(range(n)) == squares(n)
    for name, values in data.items():
        expected = [v * v for v in values]
        assert candidate(values) == expected, name
    while data:
        _, values = data.popitem()
        assert len(candidate(values)) == len(values)
# --- main
def sq(xs):
    return sorted({x * x for x in xs})
