"""Landlock and namespaces: what a confined process still reaches, and that the rest is out of its sight.

Everything is tried in a process of its own; the test's own process is never confined.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from llm_decpomdp.envs.sandbox.worker.confinement import kernel, landlock, namespaces
from tests.envs.children import AS_NOBODY, INSIDE, PRELUDE, child

pytestmark = pytest.mark.skipif(not kernel.LINUX, reason="the layers are those of Linux")
needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="the kernel has no Landlock")

# --- Landlock


@needs_landlock
def test_only_the_listed_paths_can_be_read_and_written(tmp_path):
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    code = f"""
os.chdir({str(tmp_path)!r})
kernel.no_new_privileges()
landlock.restrict(["read", "none/there", "read/file/none"], ["write", "/dev/null"])
outcomes({{
    "read": lambda: (open("read/file").read(), os.listdir("read")),
    "write": lambda: (open("write/new", "w").write("x"), open("/dev/null", "w").write("x")),
    "change": lambda: (os.mkdir("write/a"), os.rename("write/new", "write/b"), os.unlink("write/b")),
    "write a readable": lambda: open("read/file", "a"),
    "remove a readable": lambda: os.unlink("read/file"),
    "read another": lambda: open("other/file"),
    "list another": lambda: os.listdir("other"),
    "list above": lambda: os.listdir("."),
    "write another": lambda: open("other/new", "w"),
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "system": lambda: open("/etc/passwd"),
    "processes": lambda: open("/proc/self/status"),
}})
"""
    answers = json.loads(child(code))
    works = ("read", "write", "change")
    assert answers == dict.fromkeys(answers, "EACCES") | dict.fromkeys(works, "ok")
    assert (tmp_path / "write" / "a").is_dir()


@needs_landlock
def test_what_may_be_written_may_not_be_executed():
    code = """
kernel.no_new_privileges()
landlock.restrict([], ["/"])
outcomes({"execute": lambda: os.execv("/bin/true", ["true"]), "read": lambda: os.listdir("/")})
"""
    assert json.loads(child(code)) == {"execute": "EACCES", "read": "ok"}


@needs_landlock
def test_the_network_and_strangers_are_out_of_reach():
    version = landlock.abi()
    if version < 6:
        pytest.skip(f"Landlock {version} knows no signals; 6 does")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
import signal
kernel.no_new_privileges()
landlock.restrict([], [])
pid = os.fork() or os.read(0, 9) or signal.pause()
outcomes({{
    "connect": lambda: socket.socket().connect({server.getsockname()!r}),
    "serve": lambda: socket.socket().bind(("127.0.0.1", 0)),
    "signal": lambda: os.kill(os.getppid(), 0),
    "own child": lambda: os.kill(pid, signal.SIGKILL),
}})
"""
        answers = json.loads(child(code))
    assert answers == {"connect": "EACCES", "serve": "EACCES", "signal": "EPERM", "own child": "ok"}


@needs_landlock
def test_the_whole_standard_library_works_and_nothing_else_is_readable(tmp_path):
    packages = Path(os.__file__).parent / "site-packages"
    home = Path.home()
    code = f"""
kernel.no_new_privileges()
sys.path_importer_cache.clear()
landlock.restrict(landlock.interpreter_paths(), [])
import asyncio, bz2, decimal, hashlib, lzma, sqlite3, statistics, time, unittest, xml.dom, zlib
time.localtime(), os.urandom(1), open("/dev/null").read()
outcomes({{
    "packages": lambda: os.listdir({str(packages if packages.is_dir() else "/")!r}),
    "home": lambda: os.listdir({str(home if home.is_dir() else "/")!r}),
    "folder": lambda: os.listdir({str(tmp_path)!r}),
    "sandbox": lambda: open(kernel.__file__),
    "programs": lambda: os.listdir("/usr/bin"),
    "users": lambda: open("/etc/passwd"),
}})
"""
    answers = json.loads(child(code))
    assert answers == dict.fromkeys(answers, "EACCES")


@needs_landlock
def test_modules_are_found_though_their_folder_changes(tmp_path):
    (tmp_path / "own.py").write_text("FOUND = 'found'")
    code = f"""
import importlib
sys.path.append({str(tmp_path)!r})
kernel.no_new_privileges()
landlock.restrict([*landlock.interpreter_paths(), {str(tmp_path / "own.py")!r}], [])
os.utime({str(tmp_path)!r}, (1, 1))  # as if a package had been installed
import own
importlib.invalidate_caches()
import zipapp
print(own.FOUND)
"""
    assert child(code) == "found\n"


def test_the_interpreters_paths_hold_no_packages_and_no_home():
    paths = [os.path.realpath(path) + "/" for path in landlock.interpreter_paths()]
    packages = str(Path(os.__file__).parent / "site-packages")
    system = ("/tmp", "/root", "/home", "/usr/bin", "/proc")
    for place in (*system, os.path.expanduser("~"), str(INSIDE), packages):
        assert not [path for path in paths if f"{os.path.realpath(place)}/".startswith(path)]
    assert os.path.realpath(json.__file__).startswith(tuple(paths))


def test_a_folder_with_other_things_gives_its_libraries_only(tmp_path):
    for name in ("libffi.so.8", "libssl.so", "secret.txt", "liberty.txt", "module.so"):
        (tmp_path / name).touch()
    names = {Path(path).name for path in landlock._libraries(str(tmp_path))}
    assert names == {"libffi.so.8", "libssl.so"}


# --- namespaces


ENTERING = """
outside = os.readlink("/proc/self/ns/mnt")
try:
    entered = namespaces.enter()
except OSError as error:
    print("SKIP", error)
    raise SystemExit
assert os.readlink("/proc/self/ns/mnt") != outside, "still among the system's mounts"
"""


def namespaced(code: str, user: str, stdin: str = "") -> str:
    """Runs code after `enter()`; skips the test where that is impossible."""
    output = child((AS_NOBODY if user == "nobody" else "") + ENTERING + code, stdin)
    if output.startswith("SKIP"):
        pytest.skip(output[5:].strip())
    return output


users = pytest.mark.parametrize("user", ["the one who tests", "nobody"])


@users
def test_a_namespace_shows_no_network_no_processes_and_no_rights_outside(user):
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
parent = os.getppid()
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
print(json.dumps([entered, os.getpid(), os.getuid(), os.getgid(), socket.if_nameindex()]))
outcomes({{
    "connect": lambda: socket.socket().connect({server.getsockname()!r}),
    "signal": lambda: os.kill(parent, 0),
    "hurry": lambda: os.nice(-1),
}})
"""
        inside, answers = map(json.loads, namespaced(code, user).splitlines())
    assert inside == [[*namespaces.NEW], 1, 65534, 65534, [[1, "lo"]]]
    assert answers == {"connect": "ENETUNREACH", "signal": "ESRCH", "hurry": "EPERM"}


@users
def test_a_private_folder_is_small_and_nobody_else_sees_it(user, tmp_path):
    code = f"""
folder = namespaces.private_folder(1 << 16, 3, [{str(tmp_path)!r}, "/var/tmp/a"])
os.chdir(folder)
kernel.no_new_privileges()
kernel.drop_capabilities()
mode = os.stat(folder).st_mode & 0o777
with open("full", "wb", 0) as file:
    written = file.write(bytes(1 << 20))
outcomes({{
    "second": lambda: os.mkdir("second"),
    "third": lambda: open("third", "w"),
    "fourth": lambda: open("fourth", "w"),
    "device": lambda: os.mknod("second/null", 0o20666, os.makedev(1, 3)),
    "unmount": libc("umount", folder.encode()),
}})
print(json.dumps([folder, written, mode, os.listdir(folder)]), flush=True)
os.read(0, 1)
"""
    whole = PRELUDE + (AS_NOBODY if user == "nobody" else "") + ENTERING + code
    command = [sys.executable, "-S", "-s", "-B", "-c", whole]
    namespaced("", user)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd="/") as process:
        assert process.stdin and process.stdout
        answers = json.loads(process.stdout.readline())
        folder, text, mode, names = json.loads(process.stdout.readline())
        entries = {*os.listdir(folder)}
        process.stdin.close()
    assert answers.pop("fourth") == "ENOSPC"
    assert answers == {"second": "ok", "third": "ok", "device": "EPERM", "unmount": "EPERM"}
    assert (text, mode, {*names}) == (1 << 16, 0o700, {"full", "second", "third"})
    assert not entries & {"full", "second", "third"}
    assert folder not in ("/tmp", "/var/tmp")


def test_without_user_namespaces_root_enters_the_others_and_nobody_learns_the_remedy():
    code = """
outside = os.readlink("/proc/self/ns/user")
libc("unshare", 0x10000000)()
assert os.readlink("/proc/self/ns/user") != outside, "the settings below would be the system's"
for name, line in (("uid_map", f"0 {uid} 1"), ("setgroups", "deny"), ("gid_map", f"0 {gid} 1")):
    namespaces._write("/proc/self/" + name, line)
namespaces._write("/proc/sys/user/max_user_namespaces", "0")
print(json.dumps(namespaces.enter()))
kernel.drop_capabilities()
try:
    namespaces.enter()
except OSError as error:
    print(error)
"""
    namespaced("", "the one who tests")
    root, nobody = child("uid, gid = os.getuid(), os.getgid()\n" + code).splitlines()
    assert json.loads(root) == [name for name in namespaces.NEW if name != "user"]
    assert "as root: sysctl user.max_user_namespaces=10000" in nobody


@pytest.mark.parametrize(("size", "files"), [(0, 1), (1, 0)])
def test_a_private_folder_always_has_limits(size, files):
    with pytest.raises(ValueError, match=f"at least 1, got {size} and {files}"):
        namespaces.private_folder(size, files, [])


def test_a_private_folder_never_hides_what_is_in_use():
    code = """
try:
    namespaces.private_folder(1, 1, [folder + "/a" for folder in namespaces.FOLDERS])
except OSError as error:
    print(error.strerror)
"""
    answer = namespaced(code, "the one who tests")
    assert answer.startswith("no private folder: /tmp, ") and "are missing or in use" in answer


def test_the_systems_own_folders_are_never_covered():
    with pytest.raises(PermissionError, match=r"before namespaces.enter\(\) in this process"):
        namespaces.private_folder(1, 1, [])
