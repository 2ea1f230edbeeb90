"""The feedback of the external modes: the lines between an agent's own code and the closing request.

Lines about helpers are read from the code of the entry function's author. Points are not: they are decided by
running the program (`sandbox/worker/evaluator/helpers.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from llm_decpomdp.envs.coding.reward import CodeAnalysis
from llm_decpomdp.envs.coding.roles import MainRole, Role
from llm_decpomdp.envs.feedback.code_mode import foreign_line
from llm_decpomdp.envs.program_reward import IGNORED, NOT_CALLED, UNKNOWN, USED
from llm_decpomdp.envs.source_code.parsing import parse_or_none


def names(code: str, helper: str) -> bool:
    """Check whether code has the name of a helper in it at all."""
    tree = parse_or_none(code)
    nodes = ast.walk(tree) if tree is not None else ()
    return any(isinstance(node, ast.Name) and node.id == helper for node in nodes)


def lost_results(code: str, helper: str) -> tuple[str, ...]:
    """Return each line on which a call's result is plainly lost: "Line N: why". Others may be lost too."""
    tree = parse_or_none(code)
    nodes = [*ast.walk(tree)] if tree is not None else []
    read = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    lines = []
    for node in nodes:
        call = node.value if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id != helper:
            continue
        if isinstance(node, ast.Expr):
            lines.append((node.lineno, "the result is thrown away"))
            continue
        assert isinstance(node, ast.Assign | ast.AnnAssign)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets for part in ast.walk(target)]
        # Other names in a target are read, such as those of an index.
        target_names = [
            p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)
        ]
        if target_names and read.isdisjoint(target_names):
            lines.append(
                (node.lineno, f"the result is assigned to {target_names[0]} but never used")
            )
    return tuple(f"Line {line}: {reason}" for line, reason in sorted(lines))


def helper_use(analysis: CodeAnalysis, helper: str) -> str:
    """Return main's use of a helper; `UNKNOWN` where no test has shown it and its code has the name."""
    return analysis.uses.get(helper, UNKNOWN if names(analysis.main.code, helper) else NOT_CALLED)


Feedback = Callable[[CodeAnalysis, Role], list[str]]


def level_feedback(analysis: CodeAnalysis, role: Role) -> list[str]:
    """Write diagnostics of every level."""
    # The agent's own function comes first.
    team = sorted(analysis.roles, key=lambda mate: mate.agent != role.agent)
    lines = ["Static and execution diagnostics:"]
    lines += [_definition(analysis, mate) for mate in team]
    lines.append(_syntax(analysis, role))
    passed, total = sum(test.passed for test in analysis.tests), len(analysis.tests)
    lines.append(f"- Tests: {passed}/{total} passed" if total else "- Tests: no test cases found")
    for test in analysis.tests:
        if not test.passed:
            place = f" (line {test.line} of your code)" if test.origin == role.agent else ""
            lines.append(f"  Failed case: {test.case} -> {test.message}{place}")
    if isinstance(role, MainRole) and role.helpers and analysis.main.defined:
        for helper in role.helpers:
            lines.append(f"- {helper.capitalize()} usage: {_usage(analysis, helper)}")
        for helper in analysis.wrapped:
            lines.append(
                f"- Warning: main is a thin wrapper around {helper}: the tests that pass also pass with "
                f"{helper} in its place; do more than return its result"
            )
    return lines


def _definition(analysis: CodeAnalysis, role: Role) -> str:
    reading, function = analysis.readings[role.agent], role.function(analysis.task)
    title = f"- {role.label.capitalize()} definition"
    if reading.complete:
        return f"{title}: FOUND"
    reason = f"`{function}` never returns" if reading.defined else f"no function named `{function}`"
    return f"{title}: MISSING ({reason})"


def _syntax(analysis: CodeAnalysis, role: Role) -> str:
    reading = analysis.readings[role.agent]
    problem = reading.problem if reading.defined else None
    if problem is not None:
        place = f"SyntaxError at line {problem.line}, col {problem.column}"
        return f"- Syntax: ERROR ({place} of your code: {foreign_line(problem.message)})"
    # A larger team has several mates.
    article = "your" if len(analysis.roles) == 2 else "a"
    return "- Syntax: OK" if analysis.parses else f"- Syntax: ERROR (in {article} team-mate's code)"


def _usage(analysis: CodeAnalysis, helper: str) -> str:
    use = helper_use(analysis, helper)
    # The code may name the helper in a branch that no passing test runs.
    if use == NOT_CALLED:
        when = " in a test that passes" if names(analysis.main.code, helper) else ""
        return f"main does NOT call {helper}{when}"
    losses = lost_results(analysis.main.code, helper)
    if use == IGNORED:
        reason = (
            "; ".join(losses[:2])
            or "the tests that pass need no more than a constant or its argument"
        )
        return f"called but misused ({reason})"
    return f"main calls {helper} and uses its result" if use == USED else f"main mentions {helper}"


def level_passed(analysis: CodeAnalysis, role: Role) -> list[str]:
    """Write one line for each level: passed or not."""
    complete = analysis.readings[role.agent].complete
    passed, total = sum(test.passed for test in analysis.tests), len(analysis.tests)
    summary = f"Passed {passed}/{total} tests"
    if passed == total:
        summary = "Passed all tests" if total else "No tests found"
    elif passed == 0:
        summary = "No tests passed"
    lines = [
        "Signals:",
        f"- {'Implementation OK' if complete else 'No implementation found in required structure'}",
        f"- {'Syntax correct' if analysis.parses else 'Syntax not correct'}",
        f"- {summary}",
    ]
    if isinstance(role, MainRole):
        for helper in role.helpers:
            lines.append(f"- {helper.capitalize()} usage: {_usage_signal(analysis, helper)}")
    return lines


def _usage_signal(analysis: CodeAnalysis, helper: str) -> str:
    if not analysis.main.defined:
        return "main missing, cannot check"
    return {
        NOT_CALLED: f"main does not call {helper}",
        IGNORED: f"{helper} is called but its result is not used properly",
        USED: f"{helper} call present and used",
        UNKNOWN: f"{helper} is mentioned; whether it is used shows when a test passes",
    }[helper_use(analysis, helper)]


FEEDBACK: dict[str, Feedback] = {"level_feedback": level_feedback, "level_passed": level_passed}
