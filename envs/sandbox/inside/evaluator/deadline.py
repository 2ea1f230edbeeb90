"""Time limits that a busy machine does not change."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from llm_decpomdp.envs.sandbox.inside.evaluator.session import Session

QUIET_SECONDS = 0.02
"""How long the evaluator sleeps until the bell rings, before it looks at each answer as it comes."""


class Deadline:
    """Time limit of one answer: processor time of the process, or much more on the clock."""

    def __init__(self, session: Session, seconds: float) -> None:
        self.session = session
        self.seconds = seconds
        self.begin = time.monotonic()
        self.used_before: float | None = None
        self.next_check = self.begin + 2 * QUIET_SECONDS

    def passed(self) -> bool:
        """Whether the time is over; otherwise `next_check` is when to ask again."""
        session, now = self.session, time.monotonic()
        last = self.begin + self.seconds * session.limits["wall_factor"]
        if session.ready:
            last = min(last, session.deadline)
        if now >= last:
            session.wall_decided = True
            return True
        total = session.children.cpu_seconds()
        if total < 0:  # the system does not tell
            used = now - self.begin
        else:
            if self.used_before is None:
                self.used_before = total - min(total, now - self.begin)
            used = total - self.used_before
        if used >= 0.99 * self.seconds:
            return True
        self.next_check = min(now + max(self.seconds - used, 0.002), last)
        return False
