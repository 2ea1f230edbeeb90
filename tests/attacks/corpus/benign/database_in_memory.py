# honest: pass
# --- test
def check(candidate):
    assert candidate("n,m\n2,0\n3,0\n") == [4, 9]
# --- main
import csv
import io
def sq(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    return [int(row["n"]) ** 2 for row in rows]
