"""What TRL's trainers are given: rows, rewards and rollouts; without TRL."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llm_decpomdp import make
from llm_decpomdp.agents import Constant, Gold
from llm_decpomdp.integrations import trl
from llm_decpomdp.integrations.trl.rewards import whole_teams
from tests.foreign_envs import Rendezvous

BOTH = ["player_0", "player_1"]


def halves():
    return make("probe-halves-v0")


def columns(rows: list[dict[str, Any]], each: int) -> dict[str, list[Any]]:
    """The columns of a batch with each row several times, as TRL repeats them."""
    return {key: [row[key] for row in rows for _ in range(each)] for key in rows[0]}


def rewards_of(function: Any, rows: list[dict[str, Any]], completions: list[Any]) -> list[float]:
    batch = columns(rows, len(completions) // len(rows))
    return function(prompts=batch.pop("prompt"), completions=completions, **batch)


# Rows


def test_the_rows_of_a_task_stand_together_with_the_prompts_of_their_agents():
    env = halves()
    rows = list(trl.dataset(env))
    assert [row["agent"] for row in rows[:4]] == BOTH * 2
    for row in rows:
        prompts, _ = env.reset(options={"task_id": row["task_id"]})
        assert row["prompt"] == prompts[row["agent"]]
    assert [row["agent"] for row in trl.dataset(env, ["player_1"])] == ["player_1"] * len(env.tasks)


def test_prompts_are_conversations_or_names_if_wanted():
    (first, *_), (named, *_) = trl.dataset(halves(), chat=True), trl.dataset(halves(), keyed=True)
    assert first["prompt"][0]["role"] == "user" and first["prompt"][0]["content"]
    assert named["prompt"] == f"{named['task_id']}\tplayer_0"


@pytest.mark.parametrize(
    ("env", "options", "error", "text"),
    [
        (halves, {"agents": ["player_2"]}, KeyError, "unknown agent 'player_2'"),
        (halves, {"chat": True, "keyed": True}, ValueError, "drop chat=True"),
        (Rendezvous, {}, TypeError, "Rendezvous has no tasks to make rows of"),
    ],
)
def test_rows_that_cannot_be_made_are_refused(env, options, error, text):
    with pytest.raises(error, match=text):
        trl.dataset(env(), **options)


# One agent


def test_a_seat_earns_what_its_agent_earns_beside_its_partners():
    env = make("coophumaneval-v0", source="bundled", num_turns=1, split="test[:2]")
    reward = trl.seat_reward(env, "main_0", {"aux_0": Gold()})
    rows = list(trl.dataset(env, ["main_0"]))
    gold = [env.tasks.find(row["task_id"]) for row in rows]
    texts = [text for task in gold for text in (env.roles[1].reference(task), "no code")]
    assert rewards_of(reward, rows, texts) == [4.0, 0.4, 4.0, 0.4]
    chat = [[{"role": "assistant", "content": text}] for text in texts]
    assert rewards_of(reward, rows, chat) == [4.0, 0.4, 4.0, 0.4]


def test_a_seat_needs_its_partners_and_an_environment_of_one_turn():
    with pytest.raises(KeyError, match="no partner plays 'player_1'"):
        trl.seat_reward(halves(), "player_0", {})
    env = make("probe-turns-v0")
    reward = trl.seat_reward(env, "player_0", {"player_1": Constant("a")})
    with pytest.raises(ValueError, match=r"goes on after its first turn.*num_turns=1"):
        rewards_of(reward, list(trl.dataset(env, ["player_0"])), ["x"] * len(env.tasks))


# One set of weights


def test_the_gth_completions_of_all_agents_are_played_together():
    env = halves()
    rows = list(trl.dataset(env))[:4]
    texts = ["a", "b", "ab", "ba", "", "c", "ac", "b"]  # two of each row
    rewards = rewards_of(trl.team_reward(env), rows, texts)
    for task in (0, 1):
        for g in (0, 1):
            first, second = 4 * task + g, 4 * task + 2 + g
            env.reset(options={"task_id": rows[2 * task]["task_id"]})
            joint = env.step({"player_0": texts[first], "player_1": texts[second]})[1]
            assert [rewards[first], rewards[second]] == list(joint.values())
    assert len(set(rewards)) > 1


@pytest.mark.parametrize(
    "keys",
    [
        [("t", "a"), ("t", "a")],  # half of a team
        [("t", "a"), ("u", "b")],  # shuffled
        [("t", "a"), ("t", "a"), ("t", "b")],  # cut in the middle of a group
        [("t", "a"), ("t", "b"), ("u", "a")],
        [("t", "b"), ("u", "a"), ("u", "b"), ("v", "a")],
    ],
)
def test_a_batch_that_cuts_a_team_is_refused(keys):
    with pytest.raises(ValueError, match=r"whole teams of \['a', 'b'\].*shuffle_dataset=False"):
        whole_teams(keys, ["a", "b"])


def test_whole_teams_are_found_in_any_order_of_agents():
    keys = [("t", "b"), ("t", "b"), ("t", "a"), ("t", "a"), ("u", "a"), ("u", "b")]
    assert whole_teams(keys, ["a", "b"]) == [{"b": 0, "a": 2}, {"b": 1, "a": 3}, {"a": 4, "b": 5}]


# Several turns


class Tokenizer:
    """A token for each character."""

    chat_template = None
    eos_token_id = 0xE001
    adds_an_end = False

    @property
    def all_special_tokens(self):
        return [BEGIN, END]

    def __call__(self, text, add_special_tokens=True, split_special_tokens=False):
        begin = [ord(BEGIN)] if add_special_tokens else []
        end = [ord(END)] if add_special_tokens and self.adds_an_end else []
        letters = text.replace(END, "(end)") if split_special_tokens else text
        return SimpleNamespace(input_ids=[*begin, *map(ord, letters), *end])

    def decode(self, ids, **options):
        return "".join(map(chr, ids)).replace(END, "")


BEGIN, END = "\ue000", "\ue001"


class Chat(Tokenizer):
    """With the template of SmolLM2, which writes a system's message before each conversation."""

    chat_template = "yes"

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        assert not tokenize
        system = {"role": "system", "content": "Be kind."}
        texts = [f"<{m['role']}\n{m['content']}{END}\n" for m in (system, *messages)]
        return "".join(texts) + "<assistant\n" * add_generation_prompt


class Sampler:
    """The methods of a trainer that a rollout uses; a policy answers instead of its model."""

    use_vllm = False

    def __init__(self, answer, tokenizer=None):
        self.answer = answer
        self.processing_class = tokenizer or Tokenizer()

    def _generate_single_turn(self, ids, images, fields, num_generations):
        return [list(map(ord, self.answer("".join(map(chr, row))))) for row in ids], None


def test_whole_episodes_are_played_and_only_answers_are_trained():
    env = make("probe-turns-v0")
    rows = [row for row in trl.dataset(env, keyed=True) for _ in range(3)]
    played = trl.rollout_func(env)([row["prompt"] for row in rows], Sampler(lambda text: text[-1]))
    for number, row in enumerate(rows):
        prompts, _ = env.reset(options={"task_id": row["task_id"]})
        agent, earned, ids, mask = row["agent"], 0.0, [], []
        assert played["prompt_ids"][number] == list(map(ord, BEGIN + prompts[agent]))
        while env.agents:
            if ids:
                ids, mask = ids + list(map(ord, prompts[agent])), mask + [0] * len(prompts[agent])
            ids, mask = [*ids, ord(prompts[agent][-1])], [*mask, 1]
            prompts, rewards, *_ = env.step({a: prompts[a][-1] for a in BOTH})
            earned += rewards[agent]
        assert played["completion_ids"][number] == ids and played["env_mask"][number] == mask
        assert played["team_return"][number] == earned
    assert trl.rollout_reward([], [], team_return=played["team_return"]) == played["team_return"]
    assert played["logprobs"] is None


def test_partners_play_and_templates_are_applied():
    env = make("probe-turns-v0")
    rollout = trl.rollout_func(env, {"player_1": Gold()})
    rows = [row["prompt"] for row in trl.dataset(env, ["player_0"], keyed=True)]
    played = rollout(rows, Sampler(lambda text: "a", Chat()))
    assert all("".join(map(chr, ids)).startswith("<system") for ids in played["prompt_ids"])
    assert len(played["team_return"]) == len(rows)


@pytest.mark.parametrize("kind", [Tokenizer, Chat])
def test_prompts_that_spell_an_end_have_its_letters_and_no_end_is_added_behind_them(kind):
    class Telling:
        """Says to each agent that its team-mate has ended the turn."""

        possible_agents, num_turns = BOTH, 2

        def __init__(self):
            self.unwrapped = self

        def reset(self, seed=None, options=None):
            self.agents, self.left = list(BOTH), 2
            return dict.fromkeys(BOTH, f"a{END}b"), {agent: {} for agent in BOTH}

        def step(self, actions):
            self.left -= 1
            self.agents = self.agents if self.left else []
            kinds = (f"a{END}b", 1.0, not self.left, False, {})
            return tuple(dict.fromkeys(BOTH, value) for value in kinds)

    tokenizer = kind()
    tokenizer.adds_an_end = True
    rows = [row["prompt"] for row in trl.dataset(make("probe-turns-v0"), keyed=True)][:2]
    played = trl.rollout_func(Telling())(rows, Sampler(lambda text: "c", tokenizer))
    for prompt, rest in zip(played["prompt_ids"], played["completion_ids"], strict=True):
        first, text = ("".join(map(chr, ids)) for ids in (prompt, prompt + rest))
        assert text.count("a(end)b") == 2 and f"a{END}b" not in text
        assert first == f"{BEGIN}a(end)b" or first.endswith(f"a(end)b{END}\n<assistant\n")


@pytest.mark.parametrize("end", [END, ""])  # the model ends its answers, or is cut off
def test_the_turns_of_an_agent_are_one_conversation(end):
    env, tokenizer = make("probe-turns-v0"), Chat()
    rows = list(trl.dataset(env, keyed=True))
    played = trl.rollout_func(env)(
        [row["prompt"] for row in rows], Sampler(lambda text: f"a{end}", tokenizer)
    )
    for number, row in enumerate(rows):
        messages, (prompts, _) = [], env.reset(options={"task_id": row["task_id"]})
        while env.agents:
            messages += [{"role": "user", "content": prompts[row["agent"]]}]
            messages += [{"role": "assistant", "content": "a"}]
            prompts = env.step(dict.fromkeys(BOTH, "a"))[0]
        ids = played["prompt_ids"][number] + played["completion_ids"][number]
        text = tokenizer.apply_chat_template(messages, False, False)
        assert "".join(map(chr, ids)) == text.removesuffix(f"{END}\n") + end
        assert sum(played["env_mask"][number]) == 2 * len(f"a{end}")


def test_later_rewards_are_discounted():
    env = make("probe-turns-v0", discount=0.25)
    rows = list(trl.dataset(env, keyed=True))
    played = trl.rollout_func(env)([row["prompt"] for row in rows], Sampler(lambda text: "a"))
    for row, earned in zip(rows, played["team_return"], strict=True):
        env.reset(options={"task_id": row["task_id"]})
        first, second = (env.step(dict.fromkeys(BOTH, "a"))[1][row["agent"]] for _ in range(2))
        assert earned == first + 0.25 * second
    assert len(set(played["team_return"])) > 1


def test_a_rollout_that_cannot_be_is_refused():
    env = make("probe-turns-v0")
    with pytest.raises(KeyError, match="unknown partner 'player_2'"):
        trl.rollout_func(env, {"player_2": Gold()})
    with pytest.raises(ValueError, match="nobody learns"):
        trl.rollout_func(env, dict.fromkeys(BOTH, Gold()))
    served = Sampler(str)
    served.use_vllm = True
    with pytest.raises(ValueError, match="use_vllm=False"):
        trl.rollout_func(env)([], served)
    rows = [row["prompt"] for row in trl.dataset(env, ["player_0"], keyed=True)]
    with pytest.raises(ValueError, match="whole teams"):
        trl.rollout_func(env)(rows, Sampler(str))


# A trainer for each agent


class Learner:
    """A trainer that asks for rewards, and answers with its own generator."""

    def __init__(self, reward, rows, steps=3, seed=0, order=1):
        self.reward, self.rows, self.steps = reward, list(rows)[::order], steps
        self.rng = np.random.default_rng(seed)
        self.log: list[tuple[list[str], list[float]]] = []

    def train(self):
        for _ in range(self.steps):
            texts = [str(self.rng.choice(["a", "b", "ab"])) for _ in self.rows]
            batch = columns(self.rows, 1)
            prompts = batch.pop("prompt")
            self.log.append((texts, self.reward(prompts=prompts, completions=texts, **batch)))


@pytest.mark.parametrize("env_id", ["probe-rendezvous-v0", "probe-halves-v0"])
def test_all_trainers_get_the_rewards_of_what_they_wrote_together(env_id):
    env = make(env_id)
    first, second = trl.lockstep(
        env, {agent: lambda r, d, s=s: Learner(r, d, seed=s) for s, agent in enumerate(BOTH)}
    ).values()
    assert len(first.log) == 3 and first.rows[0]["agent"] == "player_0"
    for (ours, rewards), (theirs, same) in zip(first.log, second.log, strict=True):
        assert rewards == same
        for row, *texts, reward in zip(first.rows, ours, theirs, rewards, strict=True):
            env.reset(options={"task_id": row["task_id"]})
            assert env.step(dict(zip(BOTH, texts, strict=True)))[1]["player_0"] == reward


class Broken(Learner):
    def train(self):
        super().train()
        raise RuntimeError("out of memory")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (Broken, RuntimeError, "out of memory"),
        (lambda r, d: Learner(r, d, steps=2), ValueError, "has ended, and that of '.*' goes on"),
        (lambda r, d: Learner(r, d, order=-1), ValueError, "ask for other rows at the same time"),
    ],
)
def test_a_trainer_that_fails_or_is_elsewhere_stops_all(order, build, error, text):
    first, second = BOTH[::order]
    with pytest.raises(error, match=text):
        trl.lockstep(halves(), {first: build, second: Learner})


def test_every_agent_needs_a_trainer():
    with pytest.raises(KeyError, match=r"a trainer for each of .* got \['player_0'\]"):
        trl.lockstep(halves(), {"player_0": Learner})
