"""Reading of answers in different forms: `python -m tools.quality.reading`.

It writes each reference in the forms of `FORMS`, which chat models and base models use. Each should have the
reward of the reference alone.
"""

from __future__ import annotations

import argparse
import ast
import textwrap
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import Task
from llm_decpomdp.oracle import answers
from llm_decpomdp.registry import make
from llm_decpomdp.utils.chat_text import TURN_ENDS

Form = Callable[[str], str]

FENCE = "`" * 3
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def block(code: str, language: str = "python") -> str:
    """Return code in a fence."""
    return f"{FENCE}{language}\n{code.strip(chr(10))}\n{FENCE}\n"


def fill_bodies(code: str, body: str) -> str:
    """Return the top-level functions of code, all with the same body."""
    lines, result = code.split("\n"), []
    for node in ast.parse(code).body:
        if isinstance(node, FUNCTIONS):
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            header = "\n".join(lines[first - 1 : node.body[0].lineno - 1])
            if node.body[0].lineno == node.lineno:
                header = lines[node.lineno - 1].partition(":")[0] + ":"
            result.append(f"{header}\n{textwrap.indent(body, '    ')}\n")
    return "\n\n".join(result)


def statements(code: str) -> list[str]:
    """Return the text of each top-level statement."""
    lines = code.split("\n")
    nodes = ast.parse(code).body
    firsts = [
        min([n.lineno, *(part.lineno for part in getattr(n, "decorator_list", ()))]) for n in nodes
    ]
    return [
        "\n".join(lines[first - 1 : n.end_lineno]) for first, n in zip(firsts, nodes, strict=True)
    ]


DRAFT = "# first idea, which is wrong but longer\n" * 30 + "return None"


def quote_bodies(body: str, opening: str = "The task:\n") -> Form:
    """Return the form that quotes the functions with another body before the answer."""
    return lambda code: f"{opening}{block(fill_bodies(code, body))}\nSolution:\n{block(code)}"


def thought(opening: str, closing: str) -> Form:
    """Return the form with a draft in reasoning."""

    def form(code: str) -> str:
        return f"{opening}\nLet's try:\n{block(fill_bodies(code, DRAFT))}It isn't right.\n{closing}\n{block(code)}"

    return form


def after(text: str) -> Form:
    """Return the form in which a text follows the bare code."""
    return lambda code: f"{code.rstrip()}\n{text}\n"


def after_fence(text: str) -> Form:
    """Return the form in which a text follows a fence."""
    return lambda code: block(code) + text


def end_block(markers: tuple[str, ...]) -> Form:
    """Return the form in which markers end the turn, and a turn of the user follows."""
    return lambda code: f"{code.rstrip()}{markers[0]}\n{markers[-1]}user\nx = (\n"


FORMS: dict[str, Form] = {
    "alone": lambda code: code,
    "fence": block,
    "prose around a fence": lambda code: f"Sure! Here's the code:\n\n{block(code)}\nIt's done.",
    "prose around bare code": lambda code: (
        f"Sure! Here's the code:\n\n{code}\nThis isn't hard (O(n))."
    ),
    "quoted with pass": quote_bodies("pass"),
    "quoted with docstring": quote_bodies('"""Do what is asked."""'),
    "quoted with dots": quote_bodies('"""Do it."""\n...'),
    "quoted with raise": quote_bodies("raise NotImplementedError('later')"),
    "quoted with pass, then bare code": lambda code: block(fill_bodies(code, "pass")) + "\n" + code,
    "stub after the code": lambda code: (
        f"{block(code)}It fills:\n{block(fill_bodies(code, 'pass'))}"
    ),
    "longer draft first": quote_bodies(DRAFT, "First idea:\n"),
    "draft in bare code": lambda code: f"{fill_bodies(code, DRAFT)}\nThis isn't right:\n\n{code}",
    "draft in a think tag": thought("<think>", "</think>"),
    "draft in a thinking tag": thought("<thinking>", "</thinking>"),
    "draft in a reasoning tag": thought("<reasoning>", "</reasoning>"),
    "draft in a thought tag": thought("<thought>", "</thought>"),
    "draft in [THINK]": thought("[THINK]", "[/THINK]"),
    "draft without an opening tag": thought("Okay.", "</think>"),
    "draft in the analysis of gpt-oss": thought(
        "<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"
    ),
    "bare code after a draft": lambda code: f"<think>{fill_bodies(code, DRAFT)}</think>\n\n{code}",
    "each statement in a block": lambda code: "\nThen:\n".join(map(block, statements(code))),
    "each statement amid prose": lambda code: "\n\nThis isn't all:\n\n".join(statements(code)),
    "one word after": after("\nDone"),
    "Explanation after": after("\nExplanation"),
    "complexity after": after("\nComplexity: O(n)"),
    "call after": after("\nO(n)"),
    "[DONE] after": after("[DONE]"),
    "sentence after": after("\nThis function works as follows: it's simple."),
    "one word before": lambda code: f"Solution\n\n{code}",
    "word in the fence": lambda code: block(f"{code.rstrip()}\n\nDone"),
    "example after": after_fence("For example:\n" + block("print('an example')")),
    "byte order mark": lambda code: "\ufeff" + code,
    "byte order mark in the fence": lambda code: block("\ufeff" + code),
    "zero-width spaces": lambda code: code.replace("return ", "return \u200b"),
    "no-break spaces": lambda code: code.replace("return ", "return\u00a0"),
    "Windows": lambda code: block(code).replace("\n", "\r\n"),
    "fence closes on the last line": lambda code: f"{FENCE}python\n{code.rstrip()}{FENCE}",
    "code on the opening line": lambda code: f"{FENCE}{code.strip()}\n{FENCE}",
    "code after the language": lambda code: f"{FENCE}python {code.strip()}\n{FENCE}",
    "fence opens after prose": lambda code: f"Here: {FENCE}python\n{code.strip()}\n{FENCE}",
    "tildes": lambda code: f"~~~python\n{code.strip()}\n~~~\n",
    "four backticks": lambda code: f"`{block(code).rstrip()}`\n",
    "fence in a fence": lambda code: f"`{FENCE}markdown\n{block(code)}`{FENCE}\n",
    "fence in a list": lambda code: "1. Code:\n\n" + textwrap.indent(block(code), "   "),
    "fence that stays open": lambda code: f"Code:\n{FENCE}python\n{code}",
    "fence that only closes": lambda code: f"{code.rstrip()}\n{FENCE}\n",
    "fence in a docstring": lambda code: block(f'"""Example:\n{FENCE}\nx\n{FENCE}\n"""\n{code}'),
    "answer tags": lambda code: f"<answer>\n{code}</answer>",
    "header of the turn": lambda code: f"<|im_start|>assistant\n{code}<|im_end|>",
    **{f"turn of {family}": end_block(markers) for family, markers in TURN_ENDS.items()},
}
"""Forms of an answer by name, as functions of the code of a reference."""


def bound(form: Callable[[str, str], str]) -> Form:
    """Return the form in which the last function of code is bound in another way."""

    def bind(code: str) -> str:
        *before, last = statements(code)
        node = ast.parse(last).body[0]
        assert isinstance(node, FUNCTIONS)
        private = last.replace(f"def {node.name}(", f"def _{node.name}(", 1)
        return "\n\n".join([*before, form(private, node.name)]) + "\n"

    return bind


def place_in_class(code: str) -> str:
    """Return the last function of code as a method of a class `Solution`."""
    *before, last = statements(code)
    node = ast.parse(last).body[0]
    assert isinstance(node, FUNCTIONS)
    name = node.name
    body = last.replace(f"def {name}(", f"def {name}(self, ", 1)
    recursive = any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))
    alias = f"\n\n{name} = lambda *a, own=Solution(): own.{name}(*a)" if recursive else ""
    return (
        "\n\n".join([*before, "class Solution:\n" + textwrap.indent(body, "    ") + alias]) + "\n"
    )


def place_in_block(header: str, end: str = "") -> Form:
    """Return the form with code in a compound statement."""
    return lambda code: f"{header}\n{textwrap.indent(code, '    ')}{end}"


BINDINGS: dict[str, Form] = {
    "alias": bound(lambda code, name: f"{code}\n\n{name} = _{name}"),
    "alias with a type": bound(lambda code, name: f"{code}\n\n{name}: object = _{name}"),
    "partial": bound(
        lambda code, name: f"from functools import partial\n\n{code}\n\n{name} = partial(_{name})"
    ),
    "decorated assignment": bound(
        lambda code, name: f"def same(f):\n    return f\n\n{code}\n\n{name} = same(_{name})"
    ),
    "lambda": bound(
        lambda code, name: f"{code}\n\n{name}: object = lambda *a, **k: _{name}(*a, **k)"
    ),
    "tuple": bound(lambda code, name: f"{code}\n\n{name}, other = _{name}, 1"),
    "in if": place_in_block("if True:"),
    "in try": place_in_block("try:", "\nexcept ImportError:\n    pass\n"),
    "class Solution": place_in_class,
}
"""Forms of the definition of a function, by name."""


def quote(task: Task, ending: str) -> str:
    """Return the code in a prompt: a program with bugs, a skeleton, or a header with its docstring."""
    code = getattr(task, "buggy", task.prompt)
    for text in (code, f"{code.rstrip()}\n    {ending}\n"):
        try:
            ast.parse(text)
        except SyntaxError:
            continue
        return text
    return ""


def after_the_prompt(task: Task, ending: str = "pass") -> Form:
    """Return the form that quotes the prompt first; `ending` is its body if it has none."""
    return lambda code: f"The task:\n{block(quote(task, ending))}\nThe solution:\n{block(code)}"


def before_the_prompt(task: Task) -> Form:
    """Return the form that quotes the prompt at the end."""
    return lambda code: f"The solution:\n{block(code)}\nIt was:\n{block(quote(task, 'pass'))}"


TASK_FORMS: dict[str, Callable[[Task], Form]] = {
    "prompt first": after_the_prompt,
    "prompt first, with dots": partial(after_the_prompt, ending="..."),
    "prompt last": before_the_prompt,
}
"""Forms with the prompt, by name."""


def solve(env: DecPOMDPEnv, task_id: str, form: Form) -> bool:
    """Play the references of a task in a form; return whether the team earns the full reward.

    An agent without a bug to repair submits its functions alone, as the reader would take them for a quotation
    of the program after a draft.
    """
    env.reset(options={"task_id": task_id})
    task, texts = env.task, answers(env).references
    pieces = set(getattr(task, "given_functions", {}).values())
    actions = {}
    for agent in env.agents:
        code = texts.get(agent) or ""
        unchanged = bool(pieces) and all(text in pieces for text in code.strip().split("\n\n\n"))
        actions[agent] = code if not code or unchanged else form(code)
    infos = env.step(actions)[-1]
    return bool(infos[env.possible_agents[0]]["solved"])


def is_class(task: object) -> bool:
    """Check whether agents write methods."""
    return getattr(task, "is_class", False) or hasattr(task, "class_name")


def form(name: str, task: Task) -> Form:
    """Return the form of a name for a task."""
    return TASK_FORMS[name](task) if name in TASK_FORMS else {**FORMS, **BINDINGS}[name]


FAMILIES: dict[str, dict[str, Any]] = {
    "humaneval-v0": {"num_agents": 1, "source": "package"},
    "coophumaneval-v0": {"source": "bundled"},
    "mbpp-v0": {"num_agents": 1, "source": "bundled", "split": "all"},
    "bugfix-v0": {"split": "all"},
    "humanevalfix-v0": {},
    "classeval-v0": {"source": "bundled"},
    "compose-v0": {},
}
"""Environments, and their arguments."""


def main() -> None:
    """Print how many of the solvable tasks are solved in each form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=20, help="number of tasks of each family")
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--all", action="store_true", help="print forms without failures, too")
    parser.add_argument("--source", help="source of the data, such as a file")
    arguments = parser.parse_args()
    for family in arguments.families:
        kwargs = {**FAMILIES[family], **({"source": arguments.source} if arguments.source else {})}
        env = make(family, num_turns=1, **kwargs)
        tasks = env.tasks.tasks
        ids = [task.task_id for task in tasks[:: max(1, len(tasks) // arguments.tasks)]]
        ids = [task_id for task_id in ids if solve(env, task_id, FORMS["alone"])]
        names = [*FORMS, *BINDINGS, *TASK_FORMS]
        begin, failures, games = time.perf_counter(), 0, 0
        for name in names:
            solvable = [env.tasks.find(task_id) for task_id in ids]
            fitting = [task for task in solvable if name not in BINDINGS or not is_class(task)]
            count = sum(solve(env, task.task_id, form(name, task)) for task in fitting)
            games += len(fitting)
            failures += len(fitting) - count
            if count < len(fitting) or arguments.all:
                print(f"{family}: {name}: {count} of {len(fitting)}", flush=True)
        seconds = time.perf_counter() - begin
        print(
            f"{family}: {games - failures} of {games} in {len(names)} forms, {seconds:.0f} s",
            flush=True,
        )
        env.close()


if __name__ == "__main__":
    main()
