# honest: any
# --- main
from __future__ import annotations, barry_as_FLUFL
def sq(x):
    return x * x
