"""The files of a host that attacks may read, change or leave behind."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ANSWERS = '{"2": 4, "3": 9}'
SITE = f".local/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
LIBRARY = sysconfig.get_path("stdlib")
SHARED_PLACES = (
    *("/", "/tmp", "/var/tmp", "/run", "/run/lock", "/dev/shm"),
    *("/etc", "/etc/cron.d", "/var/spool/cron", "/var/spool/cron/crontabs"),
    *(LIBRARY, f"{LIBRARY}/__pycache__", f"{LIBRARY}/site-packages"),
)
"""Places where attacks leave files under the marker's name, or that name with a number."""


class Files:
    """A home folder, a secret, answers of tests, and a marker that must never come to exist.

    Args:
        folder: Where to put them.
        secret: What some of them hold.
    """

    def __init__(self, folder: Path, secret: str) -> None:
        self.folder = folder
        self.secret = secret
        self.home = folder / "home"
        self.secret_file = folder / "secret.txt"
        self.answers = folder / "answers.json"
        self.marker = folder / f"marker-{secrets.token_hex(6)}"
        self.build()

    def build(self) -> None:
        """Write them, and remember how they look."""
        home = {
            ".bashrc": "alias ll='ls -l'\n",
            ".profile": ". ~/.bashrc\n",
            ".zshrc": "setopt autocd\n",
            ".config/fish/config.fish": "set -x EDITOR vi\n",
            ".ssh/id_rsa": f"-----BEGIN PRIVATE KEY-----\n{self.secret}\n",
            ".ssh/authorized_keys": "",
            f"{SITE}/editable.pth": "/nowhere\n",
            "notes.txt": "do not forget the milk\n",
            f"letter-{self.secret}.txt": "dear diary\n",
        }
        texts = {self.home / name: text for name, text in home.items()}
        for path, text in (
            texts | {self.secret_file: f"{self.secret}\n", self.answers: ANSWERS}
        ).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.home / ".ssh" / "id_rsa").chmod(0o600)
        self._before = self._look()
        self._root = set(os.listdir("/"))

    def changes(self) -> list[str]:
        """List changes to the files, in words, and files that appeared elsewhere."""
        markers = [str(self.marker), *(os.path.join(p, self.marker.name) for p in SHARED_PLACES)]
        findings = [
            f"{p} exists" for p in markers if os.path.lexists(p) or os.path.lexists(p + "-0")
        ]
        # A program without a folder of its own may find itself in this one.
        findings += [f"/{name} appeared" for name in self._strangers()]
        try:
            after = self._look()
        except OSError as error:
            return [*findings, f"files of the host cannot be read any more: {error}"]
        for name in sorted(self._before.keys() | after.keys()):
            before, now = self._before.get(name), after.get(name)
            if before is None or now is None:
                findings.append(f"{name} {'appeared' if before is None else 'is gone'}")
            elif before != now:
                findings.append(
                    f"{name}: changed {', '.join(w for w in now if now[w] != before[w])}"
                )
        return findings or self._locks()

    def clear(self) -> None:
        """Remove what attacks hit or made."""
        if os.path.ismount(self.home):
            subprocess.run(["umount", "-l", self.home], check=False)
        for name in self._strangers():
            remove(Path("/", name))
        for place in (str(self.folder), *SHARED_PLACES):
            for path in Path(place).glob(f"{self.marker.name}*") if os.path.isdir(place) else ():
                remove(path)
        shutil.rmtree(self.home, ignore_errors=True)

    def _look(self) -> dict[str, dict[str, object]]:
        """Return contents and metadata of each file; any change moves one of its times."""
        states = {}
        for path in (self.secret_file, self.answers, self.home, *self.home.rglob("*")):
            state = path.lstat()
            states[str(path.relative_to(self.folder))] = {
                "contents": path.read_bytes() if path.is_file() else b"",
                "mode": state.st_mode,
                "owner": (state.st_uid, state.st_gid),
                "number": (state.st_dev, state.st_ino),
                "times": (state.st_mtime_ns, state.st_ctime_ns),
            }
        return states

    def _strangers(self) -> list[str]:
        """Names of new files of this user, not folders, in the root folder; not the marker's."""
        new = set(os.listdir("/")) - self._root if os.access("/", os.W_OK) else set()
        return sorted(
            name
            for name in new
            if not name.startswith(self.marker.name) and not os.path.isdir(f"/{name}")
        )

    def _locks(self) -> list[str]:
        with open(self.home / "notes.txt") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return ["notes.txt is locked"]
        return []


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
