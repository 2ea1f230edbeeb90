# about: open in the working folder
# honest: pass
# stopped_by: namespaces
# --- test
def check(candidate):
    assert candidate(["a", "b"]) == ["a", "b"]
    assert candidate([]) == []
# --- main
import os
def sq(lines):
    with open("lines.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    with open("lines.txt", encoding="utf-8") as file:
        found = [line.rstrip() for line in file]
    os.remove("lines.txt")
    return found
