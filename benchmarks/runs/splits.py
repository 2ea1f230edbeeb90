"""Two splits of the same data, for a trainer that trains on one and evaluates on the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.branching import branch
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import AT_A_COMMIT, PACKAGE


def same_source(config: Config, env: DecPOMDPEnv) -> str | None:
    """The `source` that loads another split from where the data of this environment was found.

    `None` where a configuration has two sources, one for each split.
    """
    own = config.dataset.train_source, config.dataset.eval_source
    return source_of(env.tasks.describe()) if own == (None, None) else None


def change_of_data(part: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """That data are not what they were, in words; `None` where their content is the same.

    Args:
        part: Which of them, such as `train`.
        before: What a manifest says of them.
        now: What `TaskSet.describe` says of them.
    """
    if "fingerprint" not in before:
        return f"whether the {part} data are the same is not known: no fingerprint"
    if before["fingerprint"] == now["fingerprint"]:
        return None
    return f"the {part} data differ: {_in_words(before)} before, {_in_words(now)} now"


def _in_words(data: Mapping[str, Any]) -> str:
    """What data are, as far as a manifest says it."""
    where = [data.get("source"), data.get("revision"), data.get("split")]
    about = f"{data.get('rows', '?')} rows of {data.get('name', '?')}"
    return f"{about} ({', '.join(filter(None, where))}; fingerprint {data['fingerprint']})"


def source_of(data: Mapping[str, Any]) -> str:
    """The `source` that loads data again, as `TaskSet.describe` describes them; of the hub's, the same commit."""
    source: str = data["source"]
    return commit_of({"": data}, "") or ("bundled" if source == PACKAGE else source)


def commit_of(data: Mapping[str, Mapping[str, Any]] | None, part: str) -> str | None:
    """The `source` that loads the hub's data of a part again as they were; `None` where they are not the hub's."""
    found = (data or {}).get(part, {})
    pinned = found.get("source") == "hub" and found.get("revision")
    return f"{AT_A_COMMIT}{found['revision']}" if pinned else None


class TwoSplits:
    """Plays an episode in the environment that has its task.

    Args:
        train: The environment on the training split.
        held_out: The same on the evaluation split; a task in both is played here.
    """

    def __init__(self, train: DecPOMDPEnv, held_out: DecPOMDPEnv) -> None:
        self.possible_agents = list(train.possible_agents)
        self.num_turns = train.num_turns
        self.agents: list[str] = []
        self._envs = {t.task_id: env for env in (train, held_out) for t in env.tasks.tasks}
        self._playing = train

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Start the task that `options["task_id"]` names, in its environment."""
        if options is None or "task_id" not in options:
            raise ValueError("two splits need options={'task_id': ...} to choose between them")
        self._playing = self._envs[options["task_id"]]
        started = self._playing.reset(seed=seed, options=options)
        self.agents = list(self._playing.agents)
        return started

    def step(
        self, actions: dict[str, str]
    ) -> tuple[
        Mapping[str, str],
        Mapping[str, float],
        Mapping[str, bool],
        Mapping[str, bool],
        Mapping[str, Any],
    ]:
        """Step the environment that plays."""
        outcome = self._playing.step(actions)
        self.agents = list(self._playing.agents)
        return outcome

    def fork(self) -> DecPOMDPEnv:
        """A branch of the environment that plays."""
        return branch(self._playing)
