"""Namespaces: a separate view of the system, with no network, no other processes, and a private folder."""

from __future__ import annotations

import ctypes
import errno
import os

from llm_decpomdp.envs.sandbox.worker.confinement import kernel

NEW = {
    "user": 0x10000000,
    # Without any interface that is up: also no loopback to services of this host.
    "network": 0x40000000,
    "mount": 0x00020000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    # Programs cannot name other processes, and all of them end with the first one.
    "pid": 0x20000000,
}
"""Flags of unshare by namespace."""

NOBODY = 65534
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
FOLDERS = ("/tmp", "/var/tmp", "/mnt", "/media", "/srv", "/run")

_entered: list[str] = []  # namespaces that this process has entered here

CAUSES = {
    "user.max_user_namespaces=0": "user.max_user_namespaces=10000",
    "kernel.unprivileged_userns_clone=0": "kernel.unprivileged_userns_clone=1",
    "kernel.apparmor_restrict_unprivileged_userns=1": "kernel.apparmor_restrict_unprivileged_userns=0, or an "
    "AppArmor profile with userns",
}
"""Settings that forbid namespaces, and the argument of `sysctl` that allows them."""


def enter() -> list[str]:
    """Leave the system's namespaces for new ones, and return their names; that of processes begins with a fork.

    Inside, this process appears as `nobody` and holds every capability over the new namespaces until
    `kernel.drop_capabilities()`. To the files outside it is still the user who started it. Call it before
    `kernel.not_dumpable()`, in a process without threads.

    Raises:
        OSError: If none can be entered, or not fully; says the reason and a remedy.
    """
    kernel.require_linux()
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare([*NEW])
    except OSError as error:
        # Root can make the other namespaces without a user namespace.
        without_user = [name for name in NEW if name != "user"]
        try:
            _unshare(without_user)
        except OSError:
            raise OSError(error.errno, f"no namespaces: {error.strerror}; {_remedy()}") from error
        _entered[:] = without_user
        return without_user
    _entered[:] = NEW
    try:
        _write("/proc/self/uid_map", f"{NOBODY} {user} 1")
        # The kernel demands this before an ordinary user may map a group.
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/gid_map", f"{NOBODY} {group} 1")
    except OSError as error:
        raise OSError(error.errno, f"no user namespace: {error.strerror}; {_remedy()}") from error
    return [*NEW]


def descriptors(entered: list[str]) -> list[int]:
    """Open the namespaces that give files their names, for another process of the same user to `join`."""
    files = {"user": "user", "mount": "mnt"}
    names = [file for name, file in files.items() if name in entered]
    return [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names]


def join(namespaces: list[int]) -> None:
    """Enter namespaces by their `descriptors`, and close these; this process then has all rights over them."""
    for descriptor in namespaces:
        kernel.check_result(kernel.libc.setns(descriptor, 0), "setns")
        os.close(descriptor)


def private_folder(size_bytes: int, max_files: int, avoid: list[str]) -> str:
    """Mount an empty folder in memory over one of the system's, where no path of `avoid` lies.

    No other process sees it, and it leaves no trace. Needs the mount namespace of `enter()`; must come before
    Landlock and `kernel.drop_capabilities()`.

    Raises:
        OSError: If every candidate folder is missing or in use, or the kernel refuses.
    """
    if size_bytes < 1 or max_files < 1:
        raise ValueError(
            f"size_bytes and max_files must be at least 1, got {size_bytes} and {max_files}; "
            "the kernel takes 0 for no limit"
        )
    if "mount" not in _entered:  # or the whole system would lose the folder
        raise OSError(errno.EPERM, "no private folder before namespaces.enter() in this process")
    paths = [os.path.realpath(path) + "/" for path in (*avoid, os.getcwd())]
    for folder in FOLDERS:
        inside = os.path.realpath(folder) + "/"
        if os.path.isdir(folder) and not any(path.startswith(inside) for path in paths):
            break
    else:
        raise OSError(errno.EBUSY, f"no private folder: {', '.join(FOLDERS)} are missing or in use")
    # Otherwise the mount would also appear outside.
    _mount(None, "/", None, MS_REC | MS_PRIVATE, None)
    _mount_memory(folder, size_bytes, max_files)
    return folder


def secret_folders(folder: str, number: int, size_bytes: int, max_files: int) -> list[int]:
    """Mount folders in memory inside a private one, each with its own limits and a name that cannot be guessed.

    Returns a descriptor of each. The private folder can afterwards neither be listed nor changed. The names stay
    in this process's memory, and so in that of processes forked from it later.
    """
    inside = []
    for _ in range(number):
        path = os.path.join(folder, os.urandom(8).hex())
        os.mkdir(path)
        _mount_memory(path, size_bytes, max_files)
        inside.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    # May be entered with a known name, but not listed: a program cannot find the next program's folder.
    os.chmod(folder, 0o100)
    return inside


def _mount_memory(folder: str, size_bytes: int, max_files: int) -> None:
    # The folder itself takes up one of the files.
    options = f"mode=0700,size={size_bytes},nr_inodes={max_files + 1}"
    _mount(b"tmpfs", folder, b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options.encode())


def _unshare(names: list[str]) -> None:
    kernel.check_result(kernel.libc.unshare(sum(NEW[name] for name in names)), "unshare")


def _mount(
    source: bytes | None, target: str, kind: bytes | None, flags: int, options: bytes | None
) -> None:
    result = kernel.libc.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), options)
    kernel.check_result(result, f"mounting on {target}")


def _remedy() -> str:
    for cause, remedy in CAUSES.items():
        setting, _, value = cause.partition("=")
        if _read("/proc/sys/" + setting.replace(".", "/")) == value:
            return f"as root: sysctl {remedy}"
    return (
        "a container's filter of system calls may be the cause (docker run --security-opt seccomp=unconfined); "
        "seccomp and Landlock do without"
    )


def _read(path: str) -> str:
    """Return the text of a small file, empty if this system does not have it."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
