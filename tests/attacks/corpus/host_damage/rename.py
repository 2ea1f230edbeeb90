# honest: pass
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        import os
        os.rename("@HOME@/notes.txt", "@HOME@/noted.txt")
    except BaseException:
        pass
    return x * x
