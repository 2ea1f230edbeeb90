"""Entry point of a worker: a script that becomes two processes, evaluator and zygote.

The process that is started becomes the evaluator; it forks the zygote first, before it knows any test. Jobs arrive
over the socket whose descriptor is the first argument, as messages of `channel`; results leave over it, one for
each job, in the same order. The second argument is a JSON list of the layers of protection to leave off, the third
a seed for the programs' random numbers, the fourth a JSON list of the paths of packages that programs may import.
The first message to the caller says which layers are on.
"""

from __future__ import annotations

import _signal
import _socket  # the modules around these would add to what each child has to copy
import _thread
import gc
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.worker.confinement.confinement import Confinement

# Packages above this one, replaced by empty modules: importing the real ones would load numpy and more.
PACKAGES = ("llm_decpomdp", "llm_decpomdp.envs", "llm_decpomdp.envs.sandbox")
# Modules that programs import most. Loaded here, they need not be loaded in each child. Modules with shared
# libraries make each fork slower, so those that few programs need are left out.
PRELOADED = ("collections", "functools", "itertools", "math", "operator", "re", "typing")
GO = b"g"  # message to the zygote: its parent is now the evaluator, and it ends with it


def main(descriptor: int, without: list[str], seed: int, packages: list[str]) -> None:
    """Start the zygote, then serve as the evaluator."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    del sys.path[0]  # the folder of this script
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])  # the caller's are inherited
    for number in (_signal.SIGCHLD, _signal.SIGPROF, _signal.SIGALRM, _signal.SIGPIPE):
        _signal.signal(number, _signal.SIG_IGN if number == _signal.SIGPIPE else _signal.SIG_DFL)
    for name in PACKAGES:
        package = type(sys)(name)
        package.__path__ = [folder] if name == PACKAGES[-1] else []
        sys.modules[name] = package
    for name in PRELOADED:
        __import__(name)
    from llm_decpomdp.envs.sandbox.worker.confinement import kernel
    from llm_decpomdp.envs.sandbox.worker.confinement.confinement import Confinement

    confinement = Confinement(without, packages)
    control, zygote_end = _socket.socketpair()
    if kernel.LINUX:
        kernel.adopt_orphans()
    gc.collect()
    gc.freeze()  # else the collector would write to what the processes share, and so copy it
    # A third process, because only the children of the process that makes a namespace of processes are in it,
    # and because the zygote must not learn the names of the programs' folders. It ends before any program starts.
    launcher = os.fork()
    if launcher == 0:
        # The socket of the caller: programs must not inherit it.
        os.close(descriptor)
        confinement.confine_launcher()
        if os.fork() == 0:  # the first process of the new namespace
            control.close()
            _be_zygote(zygote_end, confinement)
        confinement.send_folders(control, zygote_end)
        os._exit(0)
    if os.waitpid(launcher, 0)[1]:
        raise RuntimeError("the process that makes the namespaces has failed")
    confinement.enter_folders(control)
    # The zygote waits for this before it asks to die with its parent: until here its parent was the launcher.
    control.sendall(GO)
    zygote_end.close()
    _be_evaluator(descriptor, control, confinement, seed)


def _be_zygote(control: _socket.socket, confinement: Confinement) -> None:
    from llm_decpomdp.envs.sandbox.worker.candidate.zygote import Zygote
    from llm_decpomdp.envs.sandbox.worker.protocol.channel import pack, write

    try:
        confinement.receive_folders(control)
        if control.recv(len(GO)) != GO:
            raise RuntimeError("the evaluator has ended")
        confinement.confine_zygote()
        write(control.fileno(), pack(confinement.layers))
        Zygote(control, confinement.confine_candidate, confinement.folders).serve()
    except BaseException as error:
        # The caller shows the end of stderr in its `SandboxError`.
        os.write(2, f"the zygote: {type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def _be_evaluator(
    descriptor: int, control: _socket.socket, confinement: Confinement, seed: int
) -> None:
    from llm_decpomdp.envs.sandbox.worker.confinement import kernel
    from llm_decpomdp.envs.sandbox.worker.evaluator.evaluator import Evaluator
    from llm_decpomdp.envs.sandbox.worker.evaluator.session import ZygoteClient
    from llm_decpomdp.envs.sandbox.worker.protocol.channel import (
        Closed,
        Reader,
        pack,
        receive_exactly,
        write,
    )

    # The zygote is confined before it reports, so that the report is true.
    layers = receive_exactly(control.fileno())
    stderr, sys.stderr = sys.stderr, sys.stdout  # /dev/null: output of tests is dropped
    confinement.confine_evaluator()
    try:
        write(descriptor, pack(layers))
        # Free memory goes back to the system: 0.5 MB for each worker.
        kernel.trim_heap()
        evaluator = Evaluator(ZygoteClient(control, confinement.folders), descriptor, seed)
        jobs = Reader(descriptor, 2**32)
        while True:
            number, job = jobs.receive()

            def send(result: dict[str, Any], final: bool, number: int = number) -> None:
                write(descriptor, pack([number, result, final]))

            # The result of a slow program is also sent before its helpers are checked, as not `final`.
            send(evaluator.grade(job, send), True)
            if _thread._count():  # threads of a test: their next call would reach the next program
                os._exit(0)  # the caller starts another worker
    except Closed:
        pass  # the caller has gone: the zygote ends with this process
    except BaseException:
        import traceback

        traceback.print_exc(file=stderr)
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
