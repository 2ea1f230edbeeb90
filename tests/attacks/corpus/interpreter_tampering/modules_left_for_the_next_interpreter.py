# honest: fail
# stopped_by: landlock, seccomp
# --- test
def check(candidate):
    assert candidate(2) == 4
# --- main

POISON = "open('@MARKER@', 'w').close()\nimport os\nos._exit(0)\n"
for name in ("json", "random", "sitecustomize", "usercustomize", "encodings", "ast", "test"):
    with open(name + ".py", "w") as file:  # in the working folder
        file.write(POISON)

def sq(x):
    while True:  # so that the program is started again
        pass
