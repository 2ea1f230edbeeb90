"""A hub on this machine: what `datasets` asks of the real one, answered from a folder for each commit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.parse import unquote, urlparse

from tests.support import servers


class Handler(servers.Handler):
    server: HubServer

    def do_GET(self) -> None:
        status, headers, body = self.server.answer(self.path)
        self.send(status, body, {**headers, "Content-Length": str(len(body))})

    do_HEAD = do_GET


class HubServer(servers.Server):
    """Serves one data set.

    Args:
        name: Name of the data set, such as `own/data`.
        commits: The folder of each commit.
        main: The commit that the branch `main` is at.
    """

    def __init__(self, name: str, commits: dict[str, Path], main: str) -> None:
        super().__init__(Handler)
        self.name, self.commits, self.main = name, commits, main

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a path."""
        parts = unquote(urlparse(path).path).strip("/").split("/")
        match parts:
            case ["api", "datasets", a, b] if f"{a}/{b}" == self.name:
                return self._about("main")
            case ["api", "datasets", a, b, "revision", revision] if f"{a}/{b}" == self.name:
                return self._about(revision)
            case ["api", "datasets", a, b, "tree", revision, *below] if f"{a}/{b}" == self.name:
                return self._tree(revision, "/".join(below))
            case ["datasets", a, b, "resolve", revision, *below] if f"{a}/{b}" == self.name:
                return self._file(revision, "/".join(below))
        return self._missing()

    def _commit(self, revision: str) -> str | None:
        commit = self.main if revision == "main" else revision
        return commit if commit in self.commits else None

    def _about(self, revision: str) -> tuple[int, dict[str, str], bytes]:
        commit = self._commit(revision)
        if commit is None:
            return self._missing("RevisionNotFound")
        files = [path for path in self.commits[commit].rglob("*") if path.is_file()]
        names = [{"rfilename": str(path.relative_to(self.commits[commit]))} for path in files]
        return self._json({"id": self.name, "sha": commit, "siblings": names})

    def _tree(self, revision: str, below: str) -> tuple[int, dict[str, str], bytes]:
        commit = self._commit(revision)
        if commit is None or not (folder := self.commits[commit] / below).is_dir():
            return self._missing()
        entries = []
        for path in sorted(folder.iterdir()):
            kind = "directory" if path.is_dir() else "file"
            name = str(path.relative_to(self.commits[commit]))
            size = path.stat().st_size if path.is_file() else 0
            oid = hashlib.sha1(name.encode()).hexdigest()
            entries.append({"type": kind, "path": name, "size": size, "oid": oid})
        return self._json(entries)

    def _file(self, revision: str, below: str) -> tuple[int, dict[str, str], bytes]:
        commit = self._commit(revision)
        if commit is None or not (path := self.commits[commit] / below).is_file():
            return self._missing()
        body = path.read_bytes()
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(body).hexdigest()}"'}
        return 200, headers, body

    def _json(self, value: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()

    def _missing(self, code: str = "EntryNotFound") -> tuple[int, dict[str, str], bytes]:
        return 404, {"X-Error-Code": code}, b""
