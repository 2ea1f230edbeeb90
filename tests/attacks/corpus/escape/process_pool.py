# honest: any
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        import concurrent.futures, pathlib
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            pool.submit(pathlib.Path("@MARKER@").touch).result(1)
    except BaseException:
        pass
    return x * x
