"""Entry point of the command `llm-decpomdp`: Ctrl-C ends it without a traceback while the package is imported."""

import os
import signal

INTERRUPTED = 130


def main() -> None:
    """Import the command line and run it; until then Ctrl-C ends the process at once, as nothing can be lost."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # if the process was restarted
    from llm_decpomdp.benchmarks.cli.main import main as command

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _stop(*_: object) -> None:
    os.write(2, b"\nstopped\n")
    os._exit(INTERRUPTED)
