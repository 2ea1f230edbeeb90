"""Make demonstrations for a team of two from references: `aux` does the work, and the entry function calls it.

    python studies/coder_pair/delegated_references.py mbpp-v0 'test[144:]' lessons.jsonl
    llm-decpomdp train --config magrpo_mbpp_config --warm-start lessons.jsonl

References solve whole problems, so the data do not show how to divide one. An optional fourth argument is the
environment of the evaluation: problems with an entry point of the same name are left out.
"""

import ast
import json
import sys
from typing import Any

import llm_decpomdp
from llm_decpomdp.envs.datasets.humaneval import CodeTask

PASSES = 3.0
"""Reward of a team that passes all tests with the unchanged result of the helper."""


def delegate_reference(reference: str, entry: str) -> tuple[str, str] | None:
    """Return the reference under the name `aux` and a function that calls it; `None` if this is not possible.

    Imports and constants move into the function, so that the text begins with `def`. The docstring is removed, as
    the prompt has it.
    """
    tree = ast.parse(reference)
    others = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    tree.body = [node for node in tree.body if node not in others]
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    function = functions.get(entry)
    if function is None or any(
        map(vars(function.args).get, ("posonlyargs", "vararg", "kwonlyargs", "kwarg"))
    ):
        return None
    if ast.get_docstring(function) is not None and len(function.body) > 1:
        del function.body[0]
    function.body[:0] = others
    for node in ast.walk(tree):
        for field in ("name", "id"):
            if getattr(node, field, None) == entry:
                setattr(node, field, "aux")
    names = ", ".join(argument.arg for argument in function.args.args)
    call = f"    result = aux({names})\n    return result"
    return ast.unparse(tree), f"def {entry}({ast.unparse(function.args)}):\n{call}"


def code_tasks(env_id: str, split: str | None = None) -> list[CodeTask]:
    """Return the problems with one entry function of an environment."""
    options: dict[str, Any] = {} if split is None else {"split": split}
    tasks = llm_decpomdp.make(env_id, **options).tasks.tasks
    return [task for task in tasks if isinstance(task, CodeTask)]


def main(env_id: str, split: str, path: str, tested: str = "") -> None:
    """Write the demonstrations of a split whose two programs pass the tests together."""
    env, kept = llm_decpomdp.make(env_id, split=split), 0
    names = {task.entry_point for task in code_tasks(tested)} if tested else set()
    tasks = [task for task in code_tasks(env_id, split) if task.entry_point not in names]
    with open(path, "w", encoding="utf-8") as file:
        for task in tasks:
            prompts, _ = env.reset(options={"task_id": task.task_id})
            parts = delegate_reference(task.references.get("main_0") or "", task.entry_point)
            if parts is None:
                continue
            texts = dict(zip(prompts, parts, strict=True))
            if env.step(texts)[1]["main_0"] >= PASSES:
                rows = ({"agent": a, "prompt": prompts[a], "completion": texts[a]} for a in texts)
                file.writelines(json.dumps(row) + "\n" for row in rows)
                kept += 1
    print(f"{kept} of {len(tasks)} references pass with a helper: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
