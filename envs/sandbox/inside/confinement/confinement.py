"""Takes rights away from the worker's processes, layer by layer, and tells which layers are on.

Everything that can be done once is done once, in the evaluator or the zygote, and inherited; a fresh child adds
one filter of system calls. A layer that this system does not offer is reported with the reason and a remedy. A
layer that was reported as on and then fails in a child ends that child before any program has run in it.
"""

from __future__ import annotations

import _socket
import os
import resource
import struct
import sys
from importlib.machinery import PathFinder

from llm_decpomdp.envs.sandbox.inside.confinement import kernel, landlock, namespaces, seccomp
from llm_decpomdp.envs.sandbox.inside.protocol.channel import pack, receive_exactly, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.machinery import ModuleSpec

FOLDER_BYTES = 16 * 2**20
"""Size of a program's private folder."""

FOLDER_FILES = 250
"""Most files and folders in it."""

NOWHERE = "/proc" if kernel.LINUX else "/"
"""Where programs work that may not write: a folder in which nobody can."""

CHILDREN = 2
"""Processes that a zygote has at a time, each with a folder of its own."""

FOLDERS = b"f"
"""Comes with the descriptors of these."""

INSIDE = os.path.dirname(os.path.dirname(__file__))
"""The code that runs in workers."""

MAX_HANDED = 4
"""Most descriptors that come with it: two folders, two namespaces."""

INTEGER = struct.calcsize("=i")

MAX_DESCRIPTORS = 64
MAX_THREADS = 128
"""Processes and threads of a worker whose own are counted apart."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Settings without which a numerical library maps memory for each core of the machine."""

EVALUATOR_BYTES = 2**31
"""Memory that the evaluator may map, libraries included."""

EVALUATOR_DATA = 2**30
"""Memory that it may use for what it computes."""


class PackageFinder:
    """Finds top-level modules in some folders, but only those that programs may read.

    Any other would be found too, and then raise PermissionError where a package expects ImportError.

    Args:
        packages: Files and folders of installed packages.
    """

    def __init__(self, packages: list[str]) -> None:
        self.names = {os.path.basename(path).partition(".")[0] for path in packages}
        self.folders = sorted({os.path.dirname(path) for path in packages})
        PathFinder.find_spec("no module has this name", self.folders)  # lists them while it may

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Where a module lies; None if it is none of the packages'."""
        return PathFinder.find_spec(name, self.folders) if name in self.names else None


class Confinement:
    """The layers of one worker.

    Args:
        without: Names of layers to leave off: `namespaces`, `landlock`, `seccomp`.
        packages: Files and folders of installed packages that programs may import.
    """

    def __init__(self, without: list[str], packages: list[str]) -> None:
        self.without = without
        self.packages = packages
        self.layers: dict[str, str] = {}
        """For each layer, in the order of their effect, why it is not on; empty if it is."""
        self.place = ""
        """The folder that `folders` are made in."""
        self.folders: list[int] = []
        """Descriptors of folders where programs may write, one each; empty if they may not write anywhere."""
        self.entered: list[str] = []
        """The namespaces of the launcher, and so of all that it starts."""
        self.threads = MAX_THREADS
        """Most processes and threads of the user, as a program may see them."""
        self.filter: seccomp.Filter | None = None
        self.readable = landlock.interpreter_paths() if kernel.LINUX else []

    def of_launcher(self) -> None:
        """What has to be done one process above the zygote: namespaces, with them the private folder."""

        def enter() -> None:
            self.entered = namespaces.enter()

        apart = kernel.LINUX and kernel.be_counted_apart()
        self._try("namespaces", enter)
        # Only Landlock keeps a program that may write inside its folder.
        if "mount" in self.entered and "landlock" not in self.without and landlock.abi():
            self._try("private folder", self._make_place)
        else:
            self.layers["private folder"] = "needs namespaces and landlock"
        if not apart and "user" not in self.entered and kernel.LINUX:
            self.threads = kernel.tasks() + kernel.MORE_TASKS

    def _make_place(self) -> None:
        needed = [*self.readable, *self.packages, INSIDE]
        self.place = namespaces.private_folder(FOLDER_BYTES, FOLDER_FILES, needed)

    def hand_folders(self, zygote: _socket.socket, evaluator: _socket.socket) -> None:
        """Make `folders` for the zygote, which was forked before this: it must not know their names.

        A program can look up all that the zygote knew, and would find the folder of the program after it. The
        evaluator gets them too, with the way into the namespace in which they have names.
        """
        if self.place:
            self._try("private folder", self._make_folders)
        _hand(zygote, self.folders)
        _hand(evaluator, [*self.folders, *namespaces.doors(self.entered)] if self.folders else [])
        write(zygote.fileno(), pack(self.layers))

    def take_folders(self, control: _socket.socket) -> None:
        """Receive `folders` in the zygote."""
        self.folders = _take(control)
        self.layers = receive_exactly(control.fileno())

    def enter_folders(self, control: _socket.socket) -> None:
        """Receive `folders` in the evaluator, and see them under the same names as programs do."""
        descriptors = _take(control)
        self.folders = descriptors[:CHILDREN]
        namespaces.join(descriptors[CHILDREN:])

    def _make_folders(self) -> None:
        self.folders = namespaces.secret_folders(self.place, CHILDREN, FOLDER_BYTES, FOLDER_FILES)

    def of_zygote(self) -> None:
        """What the zygote hands on to every program."""
        os.chdir(NOWHERE)
        self._offer_packages()
        self._harden(self.folders)
        self._try("seccomp", self._build_filter)
        for limit, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
        ):
            kernel.lower_limit(limit, value)
        self.layers["limits"] = "" if kernel.LINUX else "this system does not limit memory"
        if kernel.LINUX:
            kernel.die_with_parent()

    def of_candidate(self, unneeded: Iterable[int], folder: int | None) -> None:
        """What each program's process adds before it hears of its program.

        Args:
            unneeded: Descriptors that are not for programs; the zygote has no others but the child's own.
            folder: Its own one of `folders`.
        """
        if folder is not None:
            os.fchdir(folder)
        os.dup2(1, 2)  # what the zygote says there is for the trainer
        if self.packages:
            os.environ.update(ONE_THREAD, HOME=os.getcwd())
        for descriptor in (*unneeded, *self.folders):
            os.close(descriptor)
        kernel.lower_limit(resource.RLIMIT_NOFILE, MAX_DESCRIPTORS)
        if kernel.LINUX:
            kernel.lower_limit(resource.RLIMIT_NPROC, self.threads)
            kernel.die_with_parent()
        if self.filter is not None:
            self.filter.install()

    def of_evaluator(self) -> None:
        """What the evaluator may do while it runs tests: what a program may, and talk to its peers."""
        os.chdir(NOWHERE)  # until it enters a program's folder, if there are any
        self._offer_packages()
        if self.packages:
            os.environ.update(ONE_THREAD)
        self._harden(self.folders)
        if kernel.LINUX:
            kernel.lower_limit(resource.RLIMIT_AS, EVALUATOR_BYTES)
            kernel.lower_limit(resource.RLIMIT_DATA, EVALUATOR_DATA)
        if "seccomp" not in self.without and not seccomp.unsupported():
            seccomp.Filter("evaluator", writable=bool(self.folders)).install()

    def _offer_packages(self) -> None:
        if self.packages:
            sys.meta_path.append(PackageFinder(self.packages))
            self.readable += self.packages

    def _harden(self, writable: list[int]) -> None:
        self._try("no new privileges", kernel.no_new_privileges)
        self._try("landlock", lambda: _restrict(self.readable, writable))
        self._try("no capabilities", kernel.drop_capabilities)
        self._try("not dumpable", kernel.not_dumpable)

    def _build_filter(self) -> None:
        self.filter = seccomp.Filter("candidate", writable=bool(self.folders))

    def _try(self, layer: str, apply: Callable[[], None]) -> None:
        if layer in self.without:
            self.layers[layer] = "left off on request"
            return
        try:
            apply()
            self.layers[layer] = ""
        except OSError as error:
            self.layers[layer] = error.strerror or str(error)


def _hand(receiver: _socket.socket, descriptors: list[int]) -> None:
    data = struct.pack(f"={len(descriptors)}i", *descriptors)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)] if descriptors else []
    receiver.sendmsg([FOLDERS], rights)


def _take(control: _socket.socket) -> list[int]:
    kind, rights, _, _ = control.recvmsg(len(FOLDERS), _socket.CMSG_LEN(MAX_HANDED * INTEGER))
    if kind != FOLDERS:
        raise RuntimeError("the process that makes the programs' folders has failed")
    return [n for *_, data in rights for (n,) in struct.iter_unpack("=i", data)]


def _restrict(readable: list[str], writable: list[int]) -> None:
    landlock.restrict(readable, writable)
