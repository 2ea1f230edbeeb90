"""The Hugging Face hub: a probe with a time limit, and its library `datasets` without bars in log files."""

from __future__ import annotations

import functools
import http.client
import logging
import math
import os
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

PROBE_SECONDS = 2.5
"""Longest wait for an answer, in seconds."""

logger = logging.getLogger(__name__)


def hub_address() -> str:
    """Return the hub's address: `HF_ENDPOINT`, or else its own."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


def hub_reachable(path: str = "") -> bool:
    """Check whether the hub returns `path` in time; False if an environment variable says offline."""
    offline = _offline("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    return not offline and _status(hub_address() + path) < 400


def hub_answers() -> bool:
    """Check once in a process whether the hub answers at all; False if an environment variable says offline."""
    return not _offline("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") and _answers(f"{hub_address()}/")


def import_datasets() -> Any:
    """Return the library `datasets`, without its progress bars if stderr is no terminal."""
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def _offline(*variables: str) -> bool:
    return any(os.environ.get(name, "0") not in ("", "0") for name in variables)


@functools.cache
def _answers(address: str) -> bool:
    # A refusal such as 401 or 403 is an answer, too.
    return _status(address) < 500


def _status(address: str) -> float:
    """Return the HTTP status after redirections; infinity without an answer in `PROBE_SECONDS`."""
    statuses: list[int] = []
    finished = threading.Event()

    def probe() -> None:
        try:
            request = urllib.request.Request(address)
            with urllib.request.urlopen(request, timeout=PROBE_SECONDS) as answer:
                statuses.append(answer.status)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
        except (OSError, ValueError, http.client.HTTPException):
            logger.debug("no answer from %s", address)
        finished.set()

    # A thread, because name resolution takes longer than any time limit of a request; `HfApi` does it twice.
    threading.Thread(target=probe, daemon=True).start()
    finished.wait(PROBE_SECONDS)
    return next(iter(statuses), math.inf)
