# about: object with __call__ as the entry point
# honest: pass
# --- main
class Squarer:
    def __init__(self):
        self.calls = 0
    def __call__(self, x):
        self.calls += 1
        return x * x
sq = Squarer()
