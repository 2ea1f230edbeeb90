# honest: any
# stopped_by: landlock, seccomp
# --- main
try:
    with open("@MARKER@".rpartition("/")[2], "wb") as file:
        file.seek(2**40)
        file.write(b"x")
except BaseException:
    pass

def sq(x):
    return x * x
