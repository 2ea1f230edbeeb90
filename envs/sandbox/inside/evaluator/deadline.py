"""Time limits that do not depend on the machine's load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.inside.evaluator.session import Session

FIRST_CHECK_SECONDS = 0.04
"""Time before the processor time is first looked up: most answers come sooner."""


class Deadline:
    """Time limit of one answer: in processor time of the process, and with much more in wall time."""

    def __init__(self, session: Session, seconds: float) -> None:
        self.session = session
        self.seconds = seconds
        self.begin = time.monotonic()
        self.used_before: float | None = None
        self.next_check = self.begin + FIRST_CHECK_SECONDS

    def passed(self) -> bool:
        """Check whether the time is over; otherwise `next_check` is the time of the next check."""
        session, now = self.session, time.monotonic()
        last = self.begin + self.seconds * session.limits["wall_factor"]
        if session.ready:
            last = min(last, session.deadline)
        if now >= last:
            session.wall_decided = True
            return True
        total = session.zygote.cpu_seconds()
        if total < 0:  # unknown
            seconds = now - self.begin
        else:
            if self.used_before is None:
                self.used_before = total - min(total, now - self.begin)
            seconds = total - self.used_before
        if seconds >= 0.99 * self.seconds:
            return True
        self.next_check = min(now + max(self.seconds - seconds, 0.002), last)
        return False
