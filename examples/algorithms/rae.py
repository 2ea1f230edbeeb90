"""RAE (SPIRAL, arXiv 2506.24119): completions are compared with a running mean of their agent, turn and task.

llm-decpomdp train --config demo --override algorithm.name=examples.algorithms.rae:RAE
"""

from dataclasses import dataclass, field

from llm_decpomdp.algorithms import Algorithm
from llm_decpomdp.options import Options, option


class RAEOptions(Options):
    decay: float = option(0.95, ge=0, lt=1)
    """Weight of earlier updates in the running means."""


@dataclass(eq=False)
class RunningMeans(Algorithm):
    means: dict = field(default_factory=dict)

    Options = RAEOptions

    def advantages(self, groups, options):
        return [
            {agent: values - self.mean(agent, group) for agent, values in group.values.items()}
            for group in groups
        ]

    def mean(self, agent, group):
        turn, start = group.group.turn, group.start
        # A new task takes the mean over all tasks; in the first update there is none, and nothing is learned.
        over_all_tasks = self.means.get((agent, turn, None, None), group.values[agent])
        return self.means.get((agent, turn, start.seed, start.task_id), over_all_tasks)

    def summarize(self, groups):
        return [
            ((agent, group.group.turn, group.start.seed, group.start.task_id), values.tolist())
            for group in groups
            for agent, values in group.values.items()
        ]

    def update_state(self, summaries):
        values_by_role = {}
        for role, values in summaries:
            for key in (role, (*role[:2], None, None)):
                values_by_role.setdefault(key, []).extend(values)
        for role, values in values_by_role.items():
            new = sum(values) / len(values)
            old = self.means.get(role, new)
            self.means[role] = old + (1 - self.options.decay) * (new - old)

    def state_dict(self):
        return {"means": [[*role, mean] for role, mean in self.means.items()]}

    def load_state_dict(self, state):
        self.means = {tuple(role): mean for *role, mean in state["means"]}


RAE = RunningMeans("own-rae", min_group_size=1)
