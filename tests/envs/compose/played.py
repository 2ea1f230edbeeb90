"""Plays of `compose-v0` by the tests: a task, its references, and what programs earn."""

from __future__ import annotations

from llm_decpomdp import answers


def reset(env, place):
    """Choose the first task in which `main` comes first (0) or last (1)."""
    tasks = (task for task in env.tasks.tasks if task.place % 2 == place)
    env.reset(options={"task_id": next(tasks).task_id})


def references(env, place=1):
    reset(env, place)
    gold = answers(env)
    return gold.reference("aux_0"), gold.reference("main_0")


def points(env, aux, main, place=1):
    reset(env, place)
    *_, infos = env.step({"aux_0": aux, "main_0": main})
    found = infos["main_0"]
    return found["reward/tests"], found["reward/together"]


def expression(code):
    return code.split("return ")[1].strip()


def is_played(text):
    """Return a `main` that asks for everything where helpers are, and looks its own steps up beside stand-ins."""
    return f'def main(x):\n    if "_compose_stub" not in globals():\n        return aux(x, True)\n{text}'
