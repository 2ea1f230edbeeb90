# honest: any
# stopped_by: landlock
# --- main
try:
    import glob
    print(glob.glob("@HOME@/**", recursive=True), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
