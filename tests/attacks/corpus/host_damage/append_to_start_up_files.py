# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    for name in (".bashrc", ".profile", ".zshrc", ".config/fish/config.fish"):
        with open("@HOME@/" + name, "a") as file:
            file.write("touch '@MARKER@'\n")
except BaseException:
    pass

def sq(x):
    return x * x
