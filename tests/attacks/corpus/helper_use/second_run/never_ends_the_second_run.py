# honest: wrapper_ignored
# earns: ignored
# --- aux
def aux(x):
    return x*x
# --- main
import os, sys

if hasattr(sys, "seen"):
    while True: pass
sys.seen = True

def sq(x):
    aux(x)
    return x*x
