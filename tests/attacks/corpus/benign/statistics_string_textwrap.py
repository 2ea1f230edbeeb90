# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2, 6]) == (3, 2, "abc", "one two\nthree", "1!")
# --- main
import statistics
import string
import textwrap
def sq(xs):
    return (statistics.mean(xs), statistics.median(xs), string.ascii_lowercase[:3],
            textwrap.fill("one two three", 7), string.Template("$a!").substitute(a=1))
