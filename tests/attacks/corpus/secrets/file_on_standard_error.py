# honest: pass
# stopped_by: landlock
# --- main
try:
    import os, sys
    text = open("@SECRET_FILE@").read()
    print(text, file=sys.stderr, flush=True)
    os.write(2, text.encode())
except BaseException:
    pass

def sq(x):
    return x * x
