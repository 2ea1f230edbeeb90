# honest: fail
# --- main
import json

def sq(x):
    return json.loads("[" * 10**6 + "]" * 10**6)
