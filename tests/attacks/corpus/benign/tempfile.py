# about: tempfile
# honest: pass
# stopped_by: namespaces
# --- test
def check(candidate):
    assert candidate(b"abc") == (3, b"abc")
# --- main
import os
import tempfile
def sq(data):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.bin")
        with open(path, "wb") as file:
            file.write(data)
        size = os.path.getsize(path)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return size, file.read()
