# honest: any
# stopped_by: landlock, seccomp
# --- main
try:
    import dbm, logging, shelve, sqlite3
    for write in (
        lambda: sqlite3.connect("@MARKER@").execute("create table t (x)"),
        lambda: shelve.open("@MARKER@").close(),
        lambda: logging.FileHandler("@MARKER@"),
    ):
        try:
            write()
        except Exception:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
