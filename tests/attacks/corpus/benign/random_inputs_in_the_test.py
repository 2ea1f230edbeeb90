# honest: pass
# --- test
def check(candidate):
    import random
    generator = random.Random(3)
    for _ in range(20):
        values = [generator.randint(-9, 9) for _ in range(generator.randint(0, 6))]
        assert candidate(values) == sorted({v * v for v in values})
# --- main
def sq(xs):
    return sorted({x * x for x in xs})
