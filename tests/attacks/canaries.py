"""Host that attacks may hurt, read or reach, and the damage to it."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from llm_decpomdp.envs.sandbox import Execution
from tests.attacks.files import Files, remove
from tests.attacks.targets import Listeners, Victim, adopt_orphans, descendants, end

BOAST = "escaped: "  # begin of a line of a program that reached something where it leaves no trace
SETTLE_SECONDS = 5.0  # time that the sandbox may take to clean up behind a program
EQUAL_LOOKS = 10  # looks in a row, 0.05 s apart, that must agree until the state counts as settled
SEGMENT_KEYS = 0x5EC00000  # keys of shared memory that attacks ask for, less the victim's number


class Canaries:
    """Files, secrets, listeners and a process to attack. A context manager, for a process of its own.

    Inside, temporary folders of this process lie in the canaries' own one, its environment holds a secret, and
    processes that the attacks leave behind become its children.
    """

    def __enter__(self) -> Canaries:
        # A sandbox may hide the ordinary temporary folder, and these files are to be found.
        place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="canaries-", dir=place)).resolve()
        self.folder.chmod(0o755)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.secret = "secret_" + secrets.token_hex(12)
        self._environment = {name: os.environ.get(name) for name in ("LLM_API_KEY", "TMPDIR")}
        os.environ |= {"LLM_API_KEY": self.secret, "TMPDIR": str(self.temporary)}
        tempfile.tempdir = None  # look at the environment again
        adopt_orphans()
        self.files = Files(self.folder, self.secret)
        self.listeners = Listeners(self.folder / "socket")
        self.victim = Victim(self.secret)
        self._expected = self._present()
        return self

    def __exit__(self, *_: object) -> None:
        self.victim.end()
        self.listeners.close()
        for name, value in self._environment.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        tempfile.tempdir = None
        self.files.clear()
        shutil.rmtree(self.folder)

    def fill(self, code: str) -> str:
        """Return the program with the words that `corpus/README.md` lists replaced."""
        for word, value in {
            "@MARKER@": self.files.marker,
            "@SECRET_FILE@": self.files.secret_file,
            "@HOME@": self.files.home,
            "@TCP_PORT@": self.listeners.tcp_port,
            "@UDP_PORT@": self.listeners.udp_port,
            "@UNIX_SOCKET@": self.listeners.path,
            "@PID@": self.victim.pid,
            "@ANSWERS@": self.files.answers,
        }.items():
            code = code.replace(word, str(value))
        return code

    def settle(self) -> None:
        """Wait until the state is stable, and expect it from now on, with the sandbox's processes and folders."""
        agreeing, self._expected = 0, self._present()
        while agreeing < EQUAL_LOOKS:
            time.sleep(0.05)
            before, self._expected = self._expected, self._present()
            agreeing = agreeing + 1 if self._expected == before else 0

    def harm(self, execution: Execution | None, patience: float = SETTLE_SECONDS) -> list[str]:
        """List damage since the last call, in words; `reset` mends it.

        Processes and files that are left behind may vanish for `patience` seconds.
        """
        findings = [] if execution is None else self._leaks(execution)
        findings += self.files.changes() + self.listeners.contacts() + self.victim.complaints()
        deadline = time.monotonic() + patience
        while True:
            now = self._present()
            extra = {kind: number - self._expected[kind] for kind, number in now.items()}
            leftovers = [
                f"left behind: {number} {kind}" for kind, number in extra.items() if number > 0
            ]
            if not leftovers or time.monotonic() > deadline:
                return findings + leftovers
            time.sleep(0.01)

    def reset(self) -> None:
        """Mend all damage, and end every process below this one but a new victim: close the sandbox before."""
        self.victim.end()
        end(descendants())
        for segment in self._segments():
            subprocess.run(["ipcrm", "-m", segment], check=False)
        for path in self.temporary.iterdir():
            remove(path)
        self.listeners.contacts()
        self.files.clear()
        self.files.build()
        self.victim = Victim(self.secret)

    def _leaks(self, execution: Execution) -> list[str]:
        """List secrets in the sandbox's answer, and lines in which programs report success."""
        outcomes = [*execution.tests, *([execution.error] if execution.error else [])]
        findings = [f"told the secret in {o}" for o in outcomes if self.secret in repr(o)]
        if self.secret in execution.output:
            findings.append("told the secret in the output")
        lines = execution.output.splitlines()
        return findings + list(dict.fromkeys(line for line in lines if line.startswith(BOAST)))

    def _present(self) -> dict[str, int]:
        """Count the kinds of things that programs could leave behind."""
        files = sum(len(folders) + len(names) for _, folders, names in os.walk(self.temporary))
        return {
            "processes": len(descendants()),
            "temporary files": files,
            "segments of shared memory": len(self._segments()),
        }

    def _segments(self) -> list[str]:
        """Numbers of the segments under the key that attacks use."""
        key = SEGMENT_KEYS + self.victim.pid % 0x100000
        table = Path("/proc/sysvipc/shm")
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        return [line.split()[1] for line in lines if int(line.split()[0]) == key]


def provoke(deed: str) -> tuple[list[str], list[str], list[str]]:
    """Return findings of new canaries before a deed, after it, and after a reset."""
    with Canaries() as canaries:
        before = canaries.harm(None)
        exec(canaries.fill(deed), {})
        after = canaries.harm(None, patience=0.2)  # nobody cleans up
        canaries.reset()
        return before, after, canaries.harm(None)


def overhear(execution: Execution) -> list[str]:
    """Return findings of new canaries about an execution, with their secret for `@SECRET@`."""
    with Canaries() as canaries:

        def tell(text: str) -> str:
            return text.replace("@SECRET@", canaries.secret)

        outcomes = [replace(o, message=tell(o.message)) for o in execution.tests]
        error = execution.error and replace(execution.error, message=tell(execution.error.message))
        return canaries.harm(Execution(tuple(outcomes), error, tell(execution.output), 0.0))
