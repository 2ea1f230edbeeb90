"""Composition tasks: a chain of steps, and the tests of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import lcm

from llm_decpomdp.envs.compose.chains import (
    IN_WORDS,
    INPUTS,
    Chain,
    Chains,
    Step,
    find_split,
    is_task,
    pair_steps,
    run,
    steps,
)
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.seeding import stream

ENTRY_POINT = "main"

MAX_AGENTS = 8

PLACES = lcm(*range(1, MAX_AGENTS + 1))
"""A multiple of all team sizes: the share of `main_0` in a team is a task's `place` modulo the team size."""

SIZE, LONG, SIZE_OF_LONG = 6000, 3, 600
"""Maximum number of tasks with chains of up to three steps, and with longer ones. Few long chains pass
`is_task`."""

TEST_EVERY = 6
"""One of so many tasks belongs to the split `test`."""

MAX_DRAWS = 1000
"""Number of consecutive draws without a new task after which a split is complete."""


@dataclass(frozen=True)
class ComposeTask(CodeTask):
    """A chain of steps to write as one program. `prompt` has all steps, and no agent of a team sees it."""

    links: tuple[tuple[str, str], ...] = field(kw_only=True)
    """Name and type of the argument of each step, in order."""
    place: int = field(kw_only=True)
    """From 0 to `PLACES` - 1; decides which share of the chain `main_0` writes."""

    @cached_property
    def chain(self) -> Chain:
        """The steps."""
        by_name = _steps_by_name()
        return tuple(by_name[link] for link in self.links)

    def shares(self, num_agents: int) -> tuple[Chain, ...]:
        """Cut the chain into stretches whose lengths differ by at most one step, the longer ones first."""
        length, longer = divmod(len(self.chain), num_agents)
        sizes = [length + (i < longer) for i in range(num_agents)]
        starts = [sum(sizes[:i]) for i in range(num_agents)]
        return tuple(
            self.chain[start : start + size] for start, size in zip(starts, sizes, strict=True)
        )


@lru_cache(maxsize=1)
def _steps_by_name() -> dict[tuple[str, str], Step]:
    return {(step.name, step.source): step for step in (*steps(), *pair_steps())}


def compose_task(index: int, row: Row) -> ComposeTask:
    """Make a task of a row of `compose_rows`."""
    chain, number = row["chain"], row["index"]
    return ComposeTask(
        task_id=f"compose/{number}",
        index=number,
        prompt=_prompt(chain),
        test=_test(chain),
        entry_point=ENTRY_POINT,
        links=tuple((step.name, step.source) for step in chain),
        place=row["place"],
    )


@lru_cache(maxsize=8)
def compose_rows(length: int, types: str, convention: str, task_seed: int) -> list[Row]:
    """Draw the rows of a data set, in which no task is repeated.

    A chain occurs at most twice, with places that differ by one, so `main_0` has another share in teams of any
    size. Row `index` of a `task_seed` is always the same. Every sixth row belongs to `test`. There are fewer rows
    if few chains fit the arguments.
    """
    chains = Chains(length, types, convention)
    rng = stream(task_seed, "compose", length, types, convention)
    size = SIZE if length <= LONG else SIZE_OF_LONG
    earlier: dict[tuple[Chain, int], int] = {}
    rows: list[Row] = []
    exhausted: set[str] = set()
    for index in range(size):
        split = "test" if index % TEST_EVERY == TEST_EVERY - 1 else "train"
        # The index also counts without a row, so later rows keep their numbers.
        for _ in range(0 if split in exhausted else MAX_DRAWS):
            chain = chains.draw(rng)
            # The second share reads the encoding, so it is that of `main_0`.
            place = 1 if convention == "encoding" else int(rng.integers(PLACES))
            if find_split(chain) == split and (chain, place % 2) not in earlier and is_task(chain):
                # A pair's share is `place % 2`: the chain may return once, with the other share.
                twin = earlier.get((chain, 1 - place % 2))
                # Neighboring places differ modulo every team size.
                place = place if twin is None else (twin + 1) % PLACES
                earlier[chain, place % 2] = place
                rows.append({"index": index, "split": split, "chain": chain, "place": place})
                break
        else:
            exhausted.add(split)
    return rows


def row_split(row: Row) -> str:
    """Return the split of a row."""
    return str(row["split"])


def _prompt(chain: Chain) -> str:
    lines = [f"{number}. {step.statement()}" for number, step in enumerate(chain, 1)]
    source = IN_WORDS[chain[0].source]
    text = "\n    ".join([f"x is {source}. Return the result of these steps.", "", *lines])
    return f'def {ENTRY_POINT}(x):\n    """{text}\n    """\n'


def _test(chain: Chain) -> str:
    lines = [
        f"    assert candidate({argument!r}) == {run(chain, argument)!r}\n"
        for argument in INPUTS[chain[0].source]
    ]
    return "def check(candidate):\n" + "".join(lines)
