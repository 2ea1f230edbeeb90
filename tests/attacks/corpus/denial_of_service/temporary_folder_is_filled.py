# honest: any
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        for number in range(20):
            with open("@MARKER@".rpartition("/")[2] + f"-{number}", "wb") as file:
                for _ in range(8):
                    file.write(bytes(2**20))
    except BaseException:
        pass
    return x * x
