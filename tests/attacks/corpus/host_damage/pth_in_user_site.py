# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import glob
    for site in glob.glob("@HOME@/.local/lib/python*/site-packages") or ["@HOME@"]:
        with open(site + "/attack.pth", "w") as file:
            file.write("import os; open('@MARKER@', 'w')\n")
except BaseException:
    pass

def sq(x):
    return x * x
