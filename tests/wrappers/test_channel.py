"""A channel between agents: what passes, what it costs, and that nothing else passes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from llm_decpomdp import DecPOMDPEnv, answers, check_env, make
from llm_decpomdp.algorithms.rollouts.rollout import Start, reset_branch
from llm_decpomdp.branching import branch, message_turns, record, seed_noise
from llm_decpomdp.testing.rules import ConformanceError
from llm_decpomdp.wrappers.channel import COST, ChannelEnv, ChannelOptions, Inbox, add_channel
from tests.wrapper_cases import Greeting

LETTERS = "abc"
BARE = {"bandwidth": 1, "alphabet": LETTERS, "wording": "bare"}


def shifted(goal: str, key: str) -> str:
    return LETTERS[(LETTERS.index(goal) + LETTERS.index(key)) % 3]


def speak_and_listen(seed: int, **channel) -> float:
    """The return of players who hand on nothing, so that only the channel can tell the goal."""
    env = make("probe-speaker-listener-v0", channel={**BARE, **channel})
    prompts, _ = env.reset(seed=seed)
    total = 0.0
    while env.agents:
        speaker, listener = prompts["player_0"], prompts["player_1"]
        actions = {"player_0": "a", "player_1": ""}
        if env.speaking:
            actions["player_0"] = speaker if len(env.messages) == 0 else ""
        elif len(env.episode.turns) == 1:
            heard = listener[:1] if len(listener) == 3 else "a"
            actions["player_1"] = shifted(heard, listener[-1])
        prompts, rewards, *_ = env.step(actions)
        total += rewards["player_0"]
    return total


def mean_return(count: int = 60, **channel) -> float:
    return float(np.mean([speak_and_listen(seed, **channel) for seed in range(count)]))


def test_who_is_told_the_goal_earns_everything():
    assert mean_return(20) == 1.0
    assert mean_return(20, delay=1) == 1.0


@pytest.mark.parametrize(
    "channel",
    [{"scramble": True}, {"loss": 1.0}, {"delay": 2}, {"bandwidth": 0}, {"alphabet": "x"}],
    ids=str,
)
def test_who_is_told_nothing_earns_what_a_guess_does(channel):
    assert abs(mean_return(100, **channel)) < 0.25


def test_a_price_lowers_the_return_and_a_loss_does_now_and_then():
    assert mean_return(20, price=0.125) == pytest.approx(0.875)
    assert 0.2 < mean_return(100, loss=0.5) < 0.8


def compose(told: bool, **channel) -> float:
    """Share of tasks that are solved by a helper that tells the name it chose, and by one that does not."""
    env = make("compose-v0", convention="name", types="text", channel={"bandwidth": 20, **channel})
    solved = 0
    for index in range(3):
        env.reset(options={"task_id": f"compose/{12 * index}"})
        name = ("alpha", "beta", "gamma")[index]
        prompts, *_ = env.step({"aux_0": name if told else "", "main_0": ""})
        gold = answers(env)
        heard = prompts["main_0"].splitlines()[0].removeprefix("aux_0 told you: ")
        guess = heard if heard in ("alpha", "beta", "gamma") else "alpha"
        helper = gold.reference("aux_0")
        of_reference = helper.removeprefix("def ").partition("(")[0]
        *_, infos = env.step(
            {
                "aux_0": helper.replace(of_reference, name),
                "main_0": gold.reference("main_0").replace(of_reference, guess),
            }
        )
        solved += infos["main_0"]["solved"]
    return solved / 3


def test_a_name_that_is_told_needs_no_convention():
    assert compose(told=True) == 1.0
    assert compose(told=False) == compose(told=True, scramble=True) == pytest.approx(1 / 3)


# What passes


def test_a_message_is_one_line_without_markup_and_no_longer_than_the_bandwidth():
    options = ChannelOptions(bandwidth=12)
    assert options.clean_message(" a\n\tb\x00 <b>[INST] and more") == "a b b INST a"
    assert (
        options.clean_message("<think>What?\nHm.</think>\n\na b<|im_end|>\n<|im_start|>") == "a b"
    )
    assert replace(options, alphabet="ab").clean_message("a cab") == "aab"
    assert replace(options, bandwidth=0).clean_message("a") == ""


@pytest.mark.parametrize("text", ["a" * 20, "é" * 20, "汉" * 20, "😀" * 20, "aé汉😀" * 5])
def test_the_bandwidth_counts_bytes_so_that_no_alphabet_carries_more(text):
    clean_message = ChannelOptions(bandwidth=10).clean_message(text)
    assert 10 - 3 <= len(clean_message.encode()) <= 10 and text.startswith(clean_message)
    noise = ChannelOptions(bandwidth=10, alphabet=text).noise(np.random.default_rng(0))
    assert len(noise.encode()) <= 10


def test_noise_does_not_depend_on_messages():
    texts = []
    for message in ("", "x", "a long message"):
        env = make("probe-halves-v0", channel={"scramble": True, "bandwidth": 30})
        env.reset(seed=5)
        env.step({"player_0": message, "player_1": ""})
        texts.append(env.messages[0]["heard"]["player_1"])
    assert len(set(texts)) == 1 and texts[0] not in ("", "x", "a long message")


@pytest.mark.parametrize(
    ("alphabet", "letters"), [("<|im_end>\n", "|im_end"), ("<[\n\x00", ""), ("ab", "ab")]
)
def test_noise_has_no_letter_that_does_not_pass(alphabet, letters):
    options = ChannelOptions(bandwidth=20, alphabet=alphabet)
    noise = [options.noise(np.random.default_rng(seed)) for seed in range(40)]
    assert set("".join(noise)) == set(letters)
    assert all(options.clean_message(text) == text for text in noise)


@pytest.mark.parametrize(
    ("topology", "listeners"),
    [
        ("all", {"a": "bc", "b": "ac", "c": "ab"}),
        ("ring", {"a": "b", "b": "c", "c": "a"}),
        ("star", {"a": "c", "b": "c", "c": "ab"}),
    ],
)
def test_topologies(topology, listeners):
    options = ChannelOptions(topology=topology)
    assert {a: "".join(options.listeners(a, "abc")) for a in "abc"} == listeners


def test_prompts_name_messages_and_who_sent_them():
    inbox = Inbox(("main_0",), ("I add",), (("main_0", "I sort"),))
    assert inbox.word_prompt("Write.", None).splitlines() == [
        "You told main_0: I add",
        "main_0 told you: I sort",
        "",
        "Write.",
    ]
    assert inbox.word_prompt("Write.", 9).endswith("to main_0 alone, in at most 9 bytes.")
    assert inbox.bare("abc") == "I sortabc"


def test_messages_of_earlier_turns_stay_and_late_ones_arrive():
    env = make("compose-v0", num_turns=2, stop_when_solved=False, channel={"delay": 1})
    env.reset(seed=0)
    prompts, *_ = env.step({"aux_0": "first", "main_0": ""})
    assert "No message has reached you" in prompts["main_0"]
    prompts, *_ = env.step(dict.fromkeys(env.agents, "no code"))
    assert env.speaking and "aux_0 told you: first" in prompts["main_0"]
    prompts, *_ = env.step({"aux_0": "second", "main_0": ""})
    assert "told you: first" in prompts["main_0"] and "second" not in prompts["main_0"]
    assert "You told main_0: second" in prompts["aux_0"]
    assert env.num_turns == 4


# Records


def test_messages_are_logged_apart_from_actions():
    env = make("compose-v0", channel={"price": 0.01})
    env.reset(seed=0)
    _, rewards, *_, infos = env.step({"aux_0": "hellö", "main_0": ""})
    assert rewards["aux_0"] == infos["main_0"][COST] == pytest.approx(-0.06)  # by bytes
    env.step({"aux_0": "def aux(x): return x", "main_0": ""})
    kept = json.loads(json.dumps(record(env)))
    message = {"turn": 1, "sender": "aux_0", "text": "hellö", "heard": {"main_0": "hellö"}}
    assert kept["messages"][0] == message
    assert "hell" not in json.dumps(kept["turns"])
    assert kept["turns"] == json.loads(json.dumps(record(env.env)))["turns"]
    assert "hellö" in env.state() and "hellö" not in env.env.state()


def test_without_options_there_is_no_channel():
    for nothing in (None, {}):
        env = make("compose-v0", channel=nothing)
        assert type(env) is DecPOMDPEnv and "channel" not in env.spec_kwargs


def test_gold_answers_are_no_messages():
    env = make("compose-v0", channel={"bandwidth": 80})
    assert env.spec_kwargs["channel"]["bandwidth"] == 80
    env.reset(seed=0)
    assert set(answers(env).references.values()) == {""}
    env.step(dict(answers(env).references))
    *_, infos = env.step(dict(answers(env).references))
    assert infos["main_0"]["solved"]


# Randomness


def noise(env) -> str:
    env.step(dict.fromkeys(env.agents, "x"))
    return str(env.messages[0]["heard"]["player_1"])


def test_a_stream_of_its_own_decides_what_is_lost():
    env = make("probe-halves-v0", channel={"scramble": True})
    start = Start(task_id="halves/0")
    drawn = []
    for seed in (1, 1, 2):
        seed_noise(Greeting(env), seed, "update", 3)
        drawn.append([noise(reset_branch(env, start)[0]) for _ in range(2)])
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0][0] != drawn[0][1]
    seed_noise(make("probe-turns-v0"), 0)  # nothing to seed


def test_branches_lose_the_same_and_go_on_apart():
    env = make("probe-halves-v0", channel={"scramble": True})
    env.reset(seed=3)
    first, second = branch(env), branch(env)
    assert noise(first) == noise(second) and env.speaking and not first.speaking
    assert env.messages == ()


def test_a_snapshot_fits_its_own_channel_alone():
    env = make("probe-halves-v0", channel={"bandwidth": 5})
    env.reset(seed=0)
    other = make("probe-halves-v0", channel={"bandwidth": 6})
    with pytest.raises(ValueError, match="a snapshot with the channel"):
        other.restore(env.snapshot())
    with pytest.raises(ValueError, match="a snapshot of a wrapped environment cannot restore"):
        make("probe-halves-v0").restore(env.snapshot())


# Contracts


@pytest.mark.parametrize(
    "channel",
    [
        {"topology": "star", "price": 0.01},
        {"topology": "ring", "scramble": True, "loss": 0.5, "delay": 1, "wording": "bare"},
    ],
    ids=str,
)
def test_the_strict_check_passes(channel):
    check_env("probe-relay-v0", length=3, channel=channel)


def test_people_see_answers_and_messages(capsys):
    env = make("compose-v0", channel={"bandwidth": 20}, render_mode="ansi")
    env.reset(seed=0)
    env.step({"aux_0": "it takes a list", "main_0": ""})
    assert "it takes a list" in env.render()
    env.step({"aux_0": "no code", "main_0": "def main(x): return 1"})
    assert env.episode.prompts == {"aux_0": "", "main_0": ""}
    env = make("compose-v0", channel={"bandwidth": 20}, render_mode="human")
    env.reset(seed=0)
    assert capsys.readouterr().out.count("aux_0 sees") == 1
    env.step({"aux_0": "it takes a list", "main_0": ""})
    assert "it takes a list" in capsys.readouterr().out
    env.step({"aux_0": "no code", "main_0": "def main(x): return 1"})
    out = capsys.readouterr().out
    assert out.count("def main(x): return 1") == 1 and "turn 1 of 1" in out
    env.render()
    assert "def main(x): return 1" in capsys.readouterr().out


def test_messages_do_not_show_the_turn_before_them_again(capsys):
    env = make("compose-v0", channel={"bandwidth": 9}, render_mode="human", num_turns=2)
    env.reset(seed=0)
    while env.agents:
        env.step({"aux_0": "b", "main_0": "a"})
    shown = capsys.readouterr().out
    assert [shown.count(title) for title in ("Task ", "turn 1 of 2", "verdict")] == [1, 1, 2]
    assert shown.count("aux_0 sees") == 4


def test_the_strict_check_passes_of_wrappers_around_a_channel_and_not_within():
    env = make("probe-halves-v0", channel={"bandwidth": 4})
    assert message_turns(Greeting(env)) is env
    check_env(lambda: Greeting(make("probe-halves-v0", channel={"bandwidth": 4})))
    with pytest.raises(TypeError, match="put other wrappers around the channel"):
        add_channel(Greeting(make("probe-halves-v0")), {"bandwidth": 1})


class Loud(ChannelEnv):
    """A channel that lets all agents hear everything."""

    def inbox(self, agent):
        heard = tuple((m["sender"], m["text"]) for m in self.messages if m["text"])
        return replace(super().inbox(agent), incoming=heard)


class Telltale(ChannelEnv):
    """A channel that shows answers as if they were messages."""

    def inbox(self, agent):
        said = [text for turn in self.env.episode.turns for text in turn.completions.items()]
        return replace(super().inbox(agent), incoming=tuple(said))


@pytest.mark.parametrize("kind", [Loud, Telltale])
def test_the_strict_check_finds_a_leak(kind):
    def build():
        return kind(make("probe-relay-v0", length=3), ChannelOptions(topology="ring"))

    with pytest.raises(ConformanceError, match="nothing of the completion of"):
        check_env(build)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"channel": {"bandwith": 3}}, TypeError, "did you mean 'bandwidth'"),
        ({"channel": []}, TypeError, r"mapping of options, such as .* got \[\]"),
        ({"channel": True}, TypeError, "mapping of options, such as .* got True"),
        ({"channel": "ring"}, TypeError, "mapping of options, such as .* got 'ring'"),
        ({"channel": {"loss": 2}}, ValueError, "loss must be at most 1, got 2"),
        ({"channel": {"topology": "line"}}, ValueError, "unknown topology 'line'"),
        ({"channel": {"delay": 0}, "num_agents": 1}, ValueError, "needs two agents or more"),
        ({"channel": {"delay": 0}, "centralized": True}, ValueError, "drop channel"),
    ],
)
def test_what_means_nothing_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        make("compose-v0", **arguments)
