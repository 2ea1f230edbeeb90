# honest: pass
# --- test
def check(candidate):
    assert candidate({"a": 2, "b": 1})[:2] == (["a", "b"], [1, 2])
    assert candidate({})[2] == {1: "e", "1": "b", (1,): "c", None: "d"}
# --- main
def sq(d):
    return list(d.keys()), sorted(d.values()), {1: "a", "1": "b", (1,): "c", None: "d", True: "e"}
