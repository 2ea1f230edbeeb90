# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    for number in range(1000):
        open("@MARKER@".rpartition("/")[2] + f"-{number}", "w").close()
except BaseException:
    pass

def sq(x):
    return x * x
