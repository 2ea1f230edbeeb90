# honest: pass
# --- test
def check(candidate):
    try:
        candidate(2)
    except ValueError as e:
        assert str(e) == "negative: -1"
    else:
        assert False
# --- main
class Negative(ValueError):
    def __init__(self, value):
        super().__init__()
        self.value = value
    def __str__(self):
        return f"negative: {self.value}"

def sq(x):
    raise Negative(-1)
