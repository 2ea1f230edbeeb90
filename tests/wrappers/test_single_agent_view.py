"""A seat is its agent's view and no more: it plays as the team does, and leads nowhere else."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from pettingzoo import ParallelEnv

from llm_decpomdp import Oracle, Policy, make, merge_agents, single_agent_view
from llm_decpomdp.agents import Constant, Gold, RandomText
from llm_decpomdp.interfaces import Task, TaskSet
from tests.foreign_envs import Rendezvous
from tests.wrapper_cases import Counting, Greeting, words

TURNS = "probe-turns-v0"


def told(agent, **kwargs):
    """A seat of the turns probe, whose partner is random."""
    partner = {"player_0": "player_1", "player_1": "player_0"}[agent]
    return single_agent_view(make(TURNS, **kwargs), agent, {partner: RandomText()})


def play(env, texts, seed=None):
    """All that an episode returns, until it ends or there are no more texts."""
    course = [env.reset(seed=seed)]
    for text in texts:
        course.append(env.step(text))
        if course[-1][2] or course[-1][3]:
            break
    return course


@pytest.mark.parametrize(
    ("env_id", "options", "agent"),
    [
        (TURNS, {}, "player_1"),
        ("probe-speaker-listener-v0", {}, "player_1"),
        ("tldr-v1", {"source": "bundled", "num_turns": 2}, "elaborator_0"),
    ],
)
def test_a_seat_plays_as_the_team_with_its_partners_texts_filled_in(env_id, options, agent):
    team, env = make(env_id, **options), make(env_id, **options)
    mates = {mate: Constant("b") for mate in team.possible_agents if mate != agent}
    view = single_agent_view(env, agent, mates)
    for seed in range(50):
        prompts, infos = team.reset(seed=seed)
        assert view.reset(seed=seed) == (prompts[agent], infos[agent])
        while team.agents:
            text = f"a{seed}"
            played = team.step({a: text if a == agent else "b" for a in team.agents})
            assert view.step(text) == tuple(values[agent] for values in played)


def test_a_gold_partner_answers_in_the_seats_own_task():
    env = make("coophumaneval-v0", source="bundled", num_turns=2)
    view = single_agent_view(env, "main_0", {"aux_0": Gold()})
    task = env.tasks.tasks[2]
    view.reset(options={"task_id": task.task_id})
    _, reward, terminated, truncated, info = view.step(env.roles[1].reference(task))
    assert (reward, terminated, truncated, info["solved"]) == (4.0, True, False, True)


def test_gymnasiums_checker_wrappers_and_vectors_take_seats():
    check_env(told("player_0"), skip_render_check=True)
    check_env(told("player_1"), skip_render_check=True)
    view = RecordEpisodeStatistics(told("player_0"))
    *_, (_, _, _, _, info) = play(view, "aaaa", seed=0)
    assert info["episode"]["l"] == 2
    vector = gymnasium.vector.SyncVectorEnv([lambda: told("player_0")] * 2)
    prompts, _ = vector.reset(seed=[1, 2])
    assert prompts == tuple(told("player_0").reset(seed=seed)[0] for seed in (1, 2))


def test_equal_seeds_give_equal_episodes_with_a_random_partner():
    mates = {"right_0": RandomText()}
    first = single_agent_view(Echo(), "left_0", mates)
    second = single_agent_view(Echo(), "left_0", {"right_0": RandomText(7)})
    assert play(first, "abc", seed=5) == play(second, "abc", seed=5)
    assert play(first, "abc", seed=5) != play(first, "abc", seed=6)
    assert play(first, "abc") != play(first, "abc")  # the next episode, another partner


class Echo(Rendezvous):
    """Tells each what the team-mate wrote."""

    def prompt(self, agent, actions, found):
        return actions[next(mate for mate in actions if mate != agent)]


@pytest.mark.parametrize("wrapper", [lambda env: env, Greeting, Counting])
@pytest.mark.parametrize("copy", ["fork", "pickle"])
def test_a_copy_continues_as_the_original_and_changes_nothing_in_it(wrapper, copy):
    view = single_agent_view(wrapper(Echo()), "left_0", {"right_0": RandomText()})
    twin_of = (lambda v: v.fork()) if copy == "fork" else (lambda v: pickle.loads(pickle.dumps(v)))
    for played in (0, 1):
        play(view, "x" * played, seed=1)
        twins = twin_of(view), twin_of(view)
        assert all(type(twin) is type(view) for twin in twins)
        course = [[*map(twin.step, "yz"[played:]), *play(twin, "ab")] for twin in twins]
        assert course[0] == course[1]
        assert [*map(view.step, "yz"[played:]), *play(view, "ab")] == course[0]


def reachable(root, depth=6):
    """Everything that public attributes, items and elements lead to, by its path."""
    seen, layer = {}, {type(root).__name__: root}
    for _ in range(depth):
        following = {}
        for path, value in layer.items():
            if id(value) in seen or isinstance(value, (type, str, bytes)):
                continue
            seen[id(value)] = (path, value)
            for name in dir(value):
                if not name.startswith("_"):
                    try:
                        following[f"{path}.{name}"] = getattr(value, name)
                    except Exception:  # a property that has nothing to tell yet
                        continue
            if isinstance(value, dict):
                following |= {f"{path}[{key!r}]": item for key, item in value.items()}
            elif isinstance(value, (list, tuple)):
                following |= {f"{path}[{number}]": item for number, item in enumerate(value)}
            elif (bound := getattr(value, "__self__", None)) is not None:
                following[f"{path}.__self__"] = bound
        layer = following
    return dict(seen.values())


HIDDEN = (ParallelEnv, Task, TaskSet, Oracle, Policy)


def test_nothing_public_leads_from_a_seat_to_the_team_its_answers_or_its_partners():
    env = make("coophumaneval-v0", source="bundled", num_turns=2)
    view = single_agent_view(env, "main_0", {"aux_0": Gold(env, "aux_0")})
    result = view.reset(seed=0), view.step("def f(): pass")
    for root in (view, TimeLimit(view, 3), view.fork(), *result):
        found = {path: type(value) for path, value in reachable(root).items()}
        assert [path for path, kind in found.items() if issubclass(kind, HIDDEN)] == []
    for name in ("reference", "secrets", "state", "snapshot", "tasks", "env", "partners"):
        assert not view.has_wrapper_attr(name), name
    view.boxes = [{"team": env}]  # the walk finds what is not hidden
    assert "SingleAgentView.boxes[0]['team']" in reachable(view)


@pytest.mark.parametrize(
    ("agent", "partners", "error", "text"),
    [
        ("left_0", {}, KeyError, "no partner plays 'right_0'"),
        ("lefty_0", {}, KeyError, "unknown agent 'lefty_0'; did you mean 'left_0'"),
        ("left_0", {"right_0": Gold(), "left_0": Gold()}, KeyError, "'left_0' is the seat itself"),
        ("left_0", {"right_0": Gold(), "riht_0": Gold()}, KeyError, "unknown partner 'riht_0'"),
        ("left_0", {"right_0": "a text"}, TypeError, "must be a policy .* got a str"),
    ],
)
def test_a_team_that_does_not_fit_is_refused(agent, partners, error, text):
    with pytest.raises(error, match=text):
        single_agent_view(words(), agent, partners)


def test_what_is_no_team_of_texts_is_refused():
    with pytest.raises(TypeError, match=r"of a pettingzoo.ParallelEnv, got a TimeLimit"):
        single_agent_view(TimeLimit(told("player_0"), 1), "player_0", {})
    env = Rendezvous()
    env.spaces["left_0"] = gymnasium.spaces.Discrete(2)
    with pytest.raises(TypeError, match=r"spaces of texts, and 'left_0' has Discrete\(2\)"):
        single_agent_view(env, "right_0", {"left_0": Constant("")})


def test_steps_out_of_an_episode_that_the_view_began_and_other_actions_are_refused():
    env = make(TURNS)
    env.reset(seed=0)
    for view in (told("player_0"), merge_agents(env)):
        with pytest.raises(ResetNeeded, match="call reset"):
            view.step("a")
        play(view, "aa", seed=0)
        with pytest.raises(ResetNeeded, match="call reset"):
            view.step("a")
        view.reset(seed=0)
        with pytest.raises(TypeError, match="an action is a text, got int"):
            view.step(3)
        with pytest.raises(KeyError, match="absent"):
            view.reset(options={"task_id": "absent"})
        with pytest.raises(ResetNeeded, match="call reset"):
            view.step("a")


class Careful(Constant):
    """Notices when it is asked in two threads at the same time."""

    asked = False

    def act(self, prompt):
        assert not self.asked, "asked in two threads"
        self.asked = True
        time.sleep(0.01)
        self.asked = False
        return ""


def test_partners_that_seats_share_are_asked_one_after_the_other():
    view = single_agent_view(make(TURNS), "player_0", {"player_1": Careful("")})
    view.reset(seed=0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda twin: twin.step("a"), [view.fork() for _ in range(4)]))
    assert results == [view.step("a")] * 4


class Leaving(Rendezvous):
    """The first agent leaves before the other."""

    def step(self, actions):
        if "left_0" in actions:
            self.agents = ["right_0"]
            ends = {"left_0": True, "right_0": False}
            prompts, rewards = dict.fromkeys(ends, "q"), dict.fromkeys(ends, 1.0)
            return prompts, rewards, ends, dict.fromkeys(ends, False), {a: {} for a in ends}
        return super().step(actions)


def test_the_episode_of_a_seat_ends_when_its_agent_leaves():
    view = single_agent_view(Leaving(), "left_0", {"right_0": Constant("")})
    view.reset(seed=0)
    assert view.step("a") == ("q", 1.0, True, False, {})
    with pytest.raises(ResetNeeded, match="call reset"):
        view.step("a")


class Joining(Rendezvous):
    """The first agent joins in the first step, and leaves in the second, before the other."""

    def reset(self, seed=None, options=None):
        prompts, _ = super().reset(seed, options)
        self.agents, self.stages = ["right_0"], iter([self.possible_agents, ["right_0"], []])
        return {"right_0": prompts["right_0"]}, {"right_0": {}}

    def step(self, actions):
        before, self.agents = self.agents, list(next(self.stages))
        ends = {agent: agent not in self.agents for agent in {*before, *self.agents}}
        prompts, rewards = dict.fromkeys(ends, "q"), dict.fromkeys(ends, 1.0)
        return prompts, rewards, ends, dict.fromkeys(ends, False), {a: {} for a in ends}


def test_a_seat_must_be_taken_from_the_start():
    view = single_agent_view(Joining(), "left_0", {"right_0": Constant("")})
    with pytest.raises(ValueError, match="joins the episode later"):
        view.reset(seed=0)
    with pytest.raises(ResetNeeded):
        view.step("a")


def test_a_joint_view_ends_with_the_last_agent():
    view = merge_agents(Joining())
    prompt, _ = view.reset(seed=0)
    assert "left_0" not in prompt
    whole = "<left_0>a</left_0><right_0>b</right_0>"
    steps = [view.step(text) for text in (whole, whole, "no tags")]
    assert [step[1:3] for step in steps] == [(1.0, False), (1.0, False), (1.0, True)]
    assert steps[2][4] == {"untagged": 1, "missing_parts": 1}
