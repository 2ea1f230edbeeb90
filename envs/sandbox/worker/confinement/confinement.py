"""Takes rights away from the worker's processes, layer by layer, and reports which layers are on.

All inherited layers are set up once, in the evaluator or the zygote; a new child only adds its filter of system
calls. A layer that this system does not offer is reported with the reason and a remedy. If a layer was reported as
on and then fails in a child, the child ends before a program runs in it.
"""

from __future__ import annotations

import _socket
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from llm_decpomdp.envs.sandbox.worker.confinement import kernel, landlock, namespaces, seccomp
from llm_decpomdp.envs.sandbox.worker.protocol.channel import pack, receive_exactly, write

FOLDER_BYTES = 16 * 2**20  # size of a program's private folder
FOLDER_FILES = 250  # maximum number of files and folders in it
# Working directory of programs that may not write: a folder in which nobody can.
NOWHERE = "/proc" if kernel.LINUX else "/"
# The current one, and a spare that is ready while the current one is killed: 16 % more programs a second.
CHILDREN = 2  # processes of a zygote at a time, each with its own folder
FOLDERS = b"f"  # message that carries the descriptors of folders
INSIDE = os.path.dirname(os.path.dirname(__file__))  # folder of the code that runs in workers
MAX_SENT = 4  # maximum number of descriptors in that message: two folders, two namespaces
INTEGER = struct.calcsize("=i")
# Enough for asyncio and a few files; a leak of descriptors ends soon.
MAX_DESCRIPTORS = 64
# Maximum number of processes and threads of a worker, where they are counted apart.
MAX_THREADS = 128
# Settings with which numerical libraries map no memory for further cores.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# More than the limit on data, for mapped libraries.
EVALUATOR_BYTES = 2**31  # memory that the evaluator may map, libraries included, in bytes
EVALUATOR_DATA = 2**30  # memory that it may use for its data, in bytes


class PackageFinder:
    """Finder of the top-level modules in the files and folders of installed packages that programs may read.

    Others would be found too, and then raise PermissionError where a package expects ImportError.
    """

    def __init__(self, packages: list[str]) -> None:
        self.names = {os.path.basename(path).partition(".")[0] for path in packages}
        self.folders = sorted({os.path.dirname(path) for path in packages})
        # Lists the folders while it may.
        PathFinder.find_spec("no module has this name", self.folders)

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of the packages; None for all others."""
        return PathFinder.find_spec(name, self.folders) if name in self.names else None


class Confinement:
    """The layers of one worker, `without` some; programs may import packages from these files and folders."""

    def __init__(self, without: list[str], packages: list[str]) -> None:
        self.without = without
        self.packages = packages
        self.layers: dict[str, str] = {}
        """Reason why each layer is off, in the order of their effect; empty if it is on."""
        self.private_folder = ""  # folder that `folders` are made in
        self.folders: list[int] = []
        """Descriptors of the folders that programs may write to, one each; empty if they may not write."""
        self.entered: list[str] = []
        """Namespaces of the launcher, and so of all processes that it starts."""
        self.threads = MAX_THREADS
        """Limit on the user's processes and threads, as it applies to a program."""
        self.filter: seccomp.Filter | None = None
        self.readable = landlock.interpreter_paths() if kernel.LINUX else []

    def confine_launcher(self) -> None:
        """Enter namespaces and make the private folder, in the parent process of the zygote."""
        apart = kernel.LINUX and kernel.be_counted_apart()
        self.entered = self._try("namespaces", namespaces.enter) or []
        # Only Landlock keeps a program that may write inside its folder.
        if "mount" in self.entered and "landlock" not in self.without and landlock.abi():
            visible = [*self.readable, *self.packages, INSIDE]
            make = namespaces.private_folder
            self.private_folder = (
                self._try("private folder", make, FOLDER_BYTES, FOLDER_FILES, visible) or ""
            )
        else:
            self.layers["private folder"] = "needs namespaces and landlock"
        if not apart and "user" not in self.entered and kernel.LINUX:
            self.threads = kernel.tasks() + kernel.MORE_TASKS

    def send_folders(self, zygote: _socket.socket, evaluator: _socket.socket) -> None:
        """Make `folders` for the zygote, which was forked before this: it must not know their names.

        A program can read all memory that it inherits from the zygote, and would find the folder of the next
        program. The evaluator receives them too, with descriptors of the namespaces in which they have names.
        """
        if self.private_folder:
            folders = self._try(
                "private folder",
                namespaces.secret_folders,
                self.private_folder,
                CHILDREN,
                FOLDER_BYTES,
                FOLDER_FILES,
            )
            self.folders = folders or []
        _send(zygote, self.folders)
        names = namespaces.descriptors(self.entered) if self.folders else []
        _send(evaluator, [*self.folders, *names])
        write(zygote.fileno(), pack(self.layers))

    def receive_folders(self, control: _socket.socket) -> None:
        """Receive `folders` in the zygote."""
        self.folders = _receive(control)
        self.layers = receive_exactly(control.fileno())

    def enter_folders(self, control: _socket.socket) -> None:
        """Receive `folders` in the evaluator, and enter the namespaces in which programs see them."""
        descriptors = _receive(control)
        self.folders = descriptors[:CHILDREN]
        namespaces.join(descriptors[CHILDREN:])

    def confine_zygote(self) -> None:
        """Confine the zygote, and by inheritance every program."""
        self._harden()
        self.filter = self._try("seccomp", seccomp.Filter, "candidate", bool(self.folders))
        # A crash must write no file, and locked memory could not be swapped out.
        kernel.lower_limit(resource.RLIMIT_CORE, 0)
        kernel.lower_limit(resource.RLIMIT_MEMLOCK, 0)
        self.layers["limits"] = "" if kernel.LINUX else "this system does not limit memory"
        if kernel.LINUX:
            kernel.die_with_parent()

    def confine_candidate(self, unneeded: Iterable[int], folder: int | None) -> None:
        """Confine a child further, before it receives its program, in the `folder` of this descriptor.

        `unneeded` are the descriptors that programs must not have: all but the child's own.
        """
        if folder is not None:
            # By its descriptor, as the child must not know any folder's name.
            os.fchdir(folder)
        os.dup2(1, 2)  # the zygote's stderr goes to the caller
        if self.packages:
            os.environ.update(ONE_THREAD, HOME=os.getcwd())
        # Through the zygote's socket a program could have the next program's process killed.
        for descriptor in (*unneeded, *self.folders):
            os.close(descriptor)
        kernel.lower_limit(resource.RLIMIT_NOFILE, MAX_DESCRIPTORS)
        if kernel.LINUX:
            # Not in the zygote, which must be able to fork.
            kernel.lower_limit(resource.RLIMIT_NPROC, self.threads)
            kernel.die_with_parent()
        # Last, as it forbids the calls above.
        if self.filter is not None:
            self.filter.install()

    def confine_evaluator(self) -> None:
        """Confine the evaluator to the rights of a program, and to talking to its peers."""
        if self.packages:
            os.environ.update(ONE_THREAD)
        self._harden()
        if kernel.LINUX:
            kernel.lower_limit(resource.RLIMIT_AS, EVALUATOR_BYTES)
            kernel.lower_limit(resource.RLIMIT_DATA, EVALUATOR_DATA)
        if "seccomp" not in self.without and not seccomp.missing_support():
            seccomp.Filter("evaluator", writable=bool(self.folders)).install()

    def _harden(self) -> None:
        """Give up all rights that neither evaluator nor zygote need."""
        os.chdir(NOWHERE)  # until they enter the folder of a program, if there are any
        if self.packages:
            sys.meta_path.append(PackageFinder(self.packages))
            self.readable += self.packages

        # First, because Landlock and seccomp need it of processes without capabilities.
        self._try("no new privileges", kernel.no_new_privileges)
        self._try("landlock", landlock.restrict, self.readable, self.folders)
        self._try("no capabilities", kernel.drop_capabilities)
        self._try("not dumpable", kernel.not_dumpable)

    def _try(self, layer: str, apply: Callable[..., Any], *arguments: Any) -> Any:
        """Apply a layer, and return its result; None if it is off."""
        if layer in self.without:
            self.layers[layer] = "left off on request"
            return None
        try:
            result = apply(*arguments)
            self.layers[layer] = ""
            return result
        # The layer stays off; `isolation="require"` refuses to run if it is a required one.
        except OSError as error:
            self.layers[layer] = error.strerror or str(error)
            return None


def _send(receiver: _socket.socket, descriptors: list[int]) -> None:
    data = struct.pack(f"={len(descriptors)}i", *descriptors)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)] if descriptors else []
    receiver.sendmsg([FOLDERS], rights)


def _receive(control: _socket.socket) -> list[int]:
    kind, rights, _, _ = control.recvmsg(len(FOLDERS), _socket.CMSG_LEN(MAX_SENT * INTEGER))
    if kind != FOLDERS:
        raise RuntimeError("the process that makes the programs' folders has failed")
    return [n for *_, data in rights for (n,) in struct.iter_unpack("=i", data)]
