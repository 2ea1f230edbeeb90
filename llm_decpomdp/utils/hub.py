"""Whether the Hugging Face hub can be reached: nothing waits for a network that isn't there."""

from __future__ import annotations

import functools
import http.client
import logging
import os
import threading
import urllib.error
import urllib.request

PROBE_SECONDS = 2.5

logger = logging.getLogger(__name__)


def hub_address() -> str:
    """Where the hub is: `HF_ENDPOINT`, or else its own address."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


def hub_reachable(path: str = "") -> bool:
    """Whether the hub gives `path` within `PROBE_SECONDS`; no when an environment variable says offline."""
    if _offline("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        return False
    status = _status(hub_address() + path)
    return status is not None and status < 400


def hub_answers() -> bool:
    """Whether the hub answers at all, asked once in a process; no when an environment variable says offline."""
    return not _offline("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") and _answers(f"{hub_address()}/")


def _offline(*variables: str) -> bool:
    return any(os.environ.get(name, "0") not in ("", "0") for name in variables)


@functools.cache
def _answers(address: str) -> bool:
    status = _status(address)
    return status is not None and status < 500


def _status(address: str) -> int | None:
    """The HTTP status that comes within `PROBE_SECONDS`, after redirections; none if nothing comes."""
    found: list[int] = []
    finished = threading.Event()

    def probe() -> None:
        try:
            request = urllib.request.Request(address)
            with urllib.request.urlopen(request, timeout=PROBE_SECONDS) as answer:
                found.append(answer.status)
        except urllib.error.HTTPError as error:
            found.append(error.code)
        except (OSError, ValueError, http.client.HTTPException):
            logger.debug("no answer from %s", address)
        finished.set()

    # A thread, because looking up a name may outlast any time limit that a request is given.
    threading.Thread(target=probe, daemon=True).start()
    finished.wait(PROBE_SECONDS)
    return next(iter(found), None)
