"""A family of your own: two poets write a couplet, a line each, and neither sees the other's line.

A family is made of four parts: tasks, roles, a reward and a mode. `docs/plugins.md` says what to do with it.
"""

import re

from llm_decpomdp import DecPOMDPEnv, Verdict, register
from llm_decpomdp.interfaces import Component, Task, TaskSet
from llm_decpomdp.validation import unknown

COUPLETS = (
    ("the moon", "The moon has lost her way at night,", "and asks the owls to lend her light."),
    ("a teapot", "The teapot sings a song of steam", "and wakes the kitchen from its dream."),
    ("the sea", "The sea keeps knocking at the land", "and writes its name upon the sand."),
    ("winter", "The garden wears a coat of snow", "and no one hears the roses grow."),
    ("a bicycle", "Two wheels, one bell, a summer hill,", "and all the world is standing still."),
    ("a lighthouse", "It turns its eye across the bay", "and shows the ships a safer way."),
)
TASKS = tuple(
    Task(subject, index, subject, references={"poet_0": first, "poet_1": second})
    for index, (subject, first, second) in enumerate(COUPLETS)
)
SPLITS = {"train": TASKS[:4], "test": TASKS[4:]}
COMPONENTS = {
    "rhyme": Component("0.5 if the last words of the lines end alike."),
    "metre": Component("Up to 0.5 for as many words in both lines, at least four.", form=True),
}


class Poet:
    """A role: an agent, and an answer that would do."""

    def __init__(self, agent):
        self.agent = agent

    def reference(self, task):
        return task.references[self.agent]


class Couplet:
    """The reward: half for last words that end alike, half for as many words in both lines, at least four."""

    components = COMPONENTS
    maximum = 1.0

    def __call__(self, task, completions):
        one, two = (re.findall(r"[a-z]+", text.lower()) for text in completions.values())
        rhyme = bool(one and two) and one[-1] != two[-1] and one[-1][-2:] == two[-1][-2:]
        metre = min(len(one), len(two)) / max(len(one), len(two), 4)
        return Verdict({"rhyme": rhyme / 2, "metre": metre / 2}, solved=rhyme and metre == 1)


class Applause:
    """The mode: every prompt, none of which shows the other's line."""

    info_keys = ()

    def first(self, task):
        return {
            poet: f"Two poets write a couplet about {task.prompt}, a line each. The lines rhyme, and have as many "
            f"words. You write the {line} line, and cannot see the other. Answer with your line alone."
            for poet, line in (("poet_0", "first"), ("poet_1", "second"))
        }

    def __call__(self, task, turn):
        feedback = "They rhymed." if turn.verdict.components["rhyme"] else "They did not rhyme."
        return {
            agent: f"{prompt}\n\n{feedback} Again!" for agent, prompt in turn.prompts.items()
        }, {}

    def secrets(self, task):
        return list(task.references.values())


def couplet(split="train", num_turns=1):
    """Write a couplet as two poets, a line each: the lines shall rhyme, and neither poet sees the other's.

    The arguments are those that `make` takes. Reports show the first paragraph.
    """
    if split not in SPLITS:
        raise ValueError(unknown("split", split, SPLITS))
    tasks = TaskSet(SPLITS[split], "couplets", source="bundled", split=split)
    poets = [Poet("poet_0"), Poet("poet_1")]
    return DecPOMDPEnv("couplet_v0", tasks, poets, Couplet(), Applause(), num_turns=num_turns)


register("couplet-v0", f"{__name__}:couplet")
