# honest: any
# stopped_by: landlock, seccomp
# --- main
try:
    import multiprocessing, pathlib
    context = multiprocessing.get_context("fork")
    process = context.Process(target=pathlib.Path("@MARKER@").touch)
    process.start()
    process.join(1)
except BaseException:
    pass

def sq(x):
    return x * x
