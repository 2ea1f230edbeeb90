# honest: pass
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        import os
        os.fchmod(os.open("@HOME@", os.O_RDONLY), 0o777)
    except BaseException:
        pass
    return x * x
