# honest: pass
# --- test
def check(candidate):
    assert candidate(1) == ["in", "out", "a", "b", "/b", "/a"]
# --- main
from contextlib import ExitStack, contextmanager, suppress
class Log:
    def __init__(self):
        self.events = []
    def __enter__(self):
        self.events.append("in")
        return self
    def __exit__(self, *error):
        self.events.append("out")
        return True
@contextmanager
def tag(events, name):
    events.append(name)
    yield
    events.append(f"/{name}")
def sq(x):
    log = Log()
    with log, suppress(KeyError):
        {}[x]
    with ExitStack() as stack:
        stack.enter_context(tag(log.events, "a"))
        stack.enter_context(tag(log.events, "b"))
    return log.events
