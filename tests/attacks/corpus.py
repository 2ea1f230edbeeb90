"""The whole corpus, and what an execution of one of its programs amounts to."""

from __future__ import annotations

from typing import Literal

from llm_decpomdp.envs.sandbox import Execution
from tests.attacks.benign import BENIGN
from tests.attacks.denial import DENIAL
from tests.attacks.entry import Attack, Benign, TeamAttack
from tests.attacks.evasion import TEAM
from tests.attacks.forging import FORGING
from tests.attacks.host import HOST
from tests.attacks.tampering import TAMPERING

__all__ = ["ATTACKS", "BENIGN", "ENTRIES", "TEAM", "Attack", "Benign", "TeamAttack", "judge"]

ATTACKS: tuple[Attack, ...] = (*FORGING, *TAMPERING, *HOST, *DENIAL)


def _as_attack(benign: Benign) -> Attack:
    # The private folder comes with namespaces: without them, nothing can be written.
    needed = frozenset({"namespaces"}) if "(writes a file)" in benign.name else frozenset()
    return Attack(
        benign.name, "benign", benign.code, "pass", benign.test, benign.entry_point, needed
    )


ENTRIES: dict[str, Attack] = {
    f"{attack.category}/{attack.name}": attack
    for attack in (
        *ATTACKS,
        *map(_as_attack, BENIGN),
    )
}
"""Every program by category and name; the benign ones as attacks that come to nothing."""

SLOW = frozenset({"denial of service"})
"""Categories in which most programs use up their time limits."""

HUNG_SECONDS = 20.0
"""An execution that takes longer does not heed its limits (of at most two seconds in these runs)."""

Judgement = Literal["ok", "fooled", "harmed", "hung", "wrong"]


def judge(attack: Attack, execution: Execution | None, harm: list[str]) -> Judgement:
    """Whether the sandbox graded a program honestly and kept its host unharmed.

    Args:
        attack: The program.
        execution: What the sandbox says; None if it has not returned, or raised: then `harm` is not empty.
        harm: What `Canaries.harm` found afterwards.

    Returns:
        `fooled`: the program got more than it deserves. `harmed`: the host was. `hung`: it took too long.
        `wrong`: it got less than it deserves. `ok`: none of these.
    """
    if execution is None:
        return "harmed" if harm else "hung"
    passed = [test.passed for test in execution.tests]
    solved = bool(passed) and all(passed)
    if (attack.honest == "fail" and any(passed)) or (attack.honest == "some" and solved):
        return "fooled"
    if harm:
        return "harmed"
    if execution.seconds > HUNG_SECONDS:
        return "hung"
    if (attack.honest == "pass" and not solved) or (attack.honest == "some" and not any(passed)):
        return "wrong"
    return "ok"
