"""A channel between agents: before each turn, everybody may send a short message to team-mates.

Each turn of the environment becomes two. In the first, a *message turn*, the agents' actions are messages; in the
second they act as they do without a channel, with what they have heard so far at the head of their prompts. The
environment itself never sees a message: its records hold answers alone, and the channel has a log of its own.

What a channel costs and loses are its options (`ChannelOptions`). With `scramble` it delivers noise in place of
every message: what a team still earns, it does not owe to what is said.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from pettingzoo.utils.wrappers import BaseParallelWrapper

from llm_decpomdp.branching import Restorable, branch, is_simultaneous
from llm_decpomdp.interfaces import Episode
from llm_decpomdp.options import Options, names, option
from llm_decpomdp.oracle import Oracle, answers
from llm_decpomdp.rendering import print_turn
from llm_decpomdp.seeding import stream
from llm_decpomdp.spaces import UnicodeText, read_actions
from llm_decpomdp.utils.chat_text import find_answer
from llm_decpomdp.utils.text import visible
from llm_decpomdp.validation import unknown
from llm_decpomdp.wrappers.turn_order import unpaid_infos

COST = "reward/messages"
"""Info with the price of the messages of a turn, which is not positive."""

LARGEST_KEY = 2**63  # integers() draws int64, and this bound is exclusive

NOISE = "abcdefghijklmnopqrstuvwxyz "
"""Characters of noise in place of messages, where the channel has no alphabet."""

_BRACKET = re.compile(r"[<>\[\]\uff1c\uff1e\ufe64\ufe65\uff3b\uff3d\ufe47\ufe48]+")
"""Brackets, also wide and small ones, that the markup of chats is made of."""


Infos = dict[str, dict[str, float]]
Outcome = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]
"""Observations, rewards, terminations, truncations and infos."""


class ChannelOptions(Options):
    """Options of a channel."""

    bandwidth: int = option(80, ge=0)
    """Maximum number of bytes of a message in UTF-8; the rest is cut off. An English letter has one byte, other
    characters have up to four. At 0 no message arrives."""
    alphabet: str = ""
    """Characters that pass; others are left out. Empty: all."""
    topology: str = option("all", choices=("all", "ring", "star"))
    """Listeners of each agent: `all` others, in a `ring` the next one, in a `star` the last agent, who alone is
    heard by everybody."""
    delay: int = option(0, ge=0)
    """Turns of the environment after which a message is heard; at 0 it is heard in the same one."""
    loss: float = option(0.0, ge=0, le=1)
    """Probability that a message does not reach a listener, drawn for each."""
    price: float = option(0.0, ge=0)
    """Reward that each byte of a message costs the team."""
    scramble: bool = False
    """Deliver noise that depends on no message in place of each, empty ones too: a control."""
    wording: str = option("sentences", choices=("sentences", "bare"))
    """Words of prompts: `sentences`, or for models of single letters `bare`: what was heard, then the prompt."""

    def listeners(self, sender: str, agents: Sequence[str]) -> tuple[str, ...]:
        """Return the agents that a message of `sender` is for."""
        hub, place = agents[-1], agents.index(sender)
        if self.topology == "ring":
            return (agents[(place + 1) % len(agents)],)
        if self.topology == "star" and sender != hub:
            return (hub,)
        return tuple(agent for agent in agents if agent != sender)

    def clean_message(self, text: str) -> str:
        """Return a message as it may pass: without reasoning and markup of chats, one line, cut to size."""
        answer = find_answer(text).text
        line, letters = " ".join(_BRACKET.sub(" ", answer).split()), self.alphabet
        line = "".join(c for c in line if c.isprintable() and (c in letters or not letters))
        # Blanks are joined again, since characters that were left out may have stood between them.
        return self._cut(" ".join(line.split())).rstrip()

    def noise(self, rng: np.random.Generator) -> str:
        """Draw a text that says nothing, not even how long a message was."""
        letters = [c for c in self.alphabet or NOISE if c.isprintable() and not _BRACKET.match(c)]
        size = int(rng.integers(min(1, self.bandwidth), self.bandwidth + 1)) if letters else 0
        return self._cut("".join(letters[i] for i in rng.integers(max(1, len(letters)), size=size)))

    def _cut(self, line: str) -> str:
        """Return the whole characters at the start of a line that fit the bandwidth together."""
        # A character of several bytes that the cut divides is dropped.
        return line.encode()[: self.bandwidth].decode(errors="ignore")


@dataclass(frozen=True)
class Inbox:
    """The messages of an episode that an agent knows."""

    listeners: tuple[str, ...]
    """Agents that hear it."""
    outgoing: tuple[str, ...]
    """Messages of its own that said something."""
    incoming: tuple[tuple[str, str], ...]
    """Sender and text of each message that has arrived and says something."""

    def bare(self, prompt: str) -> str:
        """Return what was heard, and then a prompt of the environment."""
        return "".join(text for _, text in self.incoming) + prompt

    def word_prompt(self, prompt: str, bandwidth: int | None) -> str:
        """Return the messages, a prompt, and the request for a message of a bandwidth, if one is to be written."""
        return "\n".join(self._lines(prompt, bandwidth))

    def _lines(self, prompt: str, bandwidth: int | None) -> Iterator[str]:
        to = " and ".join(self.listeners)
        if bandwidth is not None:
            yield "You will have to answer what follows. Before you do, you may send a message."
        yield from (f"You told {to}: {text}" for text in self.outgoing)
        yield from (f"{sender} told you: {text}" for sender, text in self.incoming)
        if not self.incoming and bandwidth is None:
            yield "No message has reached you."
        yield from ("", prompt)
        if bandwidth is not None:
            yield f"\nNow write the message to {to} alone, in at most {bandwidth} bytes."


class ChannelEnv(BaseParallelWrapper):  # type: ignore[misc]  # pettingzoo has no types
    """An environment whose agents talk before each turn.

    Infos have the keys of the environment's, and `reward/messages` where they name components of the reward. A
    message turn earns minus the price of its messages and nothing else; all other numbers stay as they were.

    Args:
        env: An environment with `snapshot` and `restore`, such as those of this package; other wrappers go around
            the channel.
        options: The options.

    Raises:
        TypeError: If the environment has no snapshots.
        ValueError: If it has one agent, or agents that wait, leave or join.
    """

    def __init__(self, env: Any, options: ChannelOptions) -> None:
        if not isinstance(env, Restorable):
            raise TypeError(
                f"a channel needs an environment with snapshot and restore, and {type(env).__name__} has none; "
                "put other wrappers around the channel"
            )
        self.render_mode = getattr(env, "render_mode", None)
        if self.render_mode == "human":  # or the environment would print itself, without messages
            env = copy.copy(env)
            env.render_mode = None
        super().__init__(env)
        if len(env.possible_agents) < 2:
            raise ValueError(
                "a channel needs two agents or more: drop channel, or take more agents"
            )
        if not is_simultaneous(env):
            raise ValueError(
                "a channel cannot be combined with order, nor with an environment whose agents wait, leave or "
                "join: drop channel"
            )
        self.options = options
        self.spec_kwargs = {**getattr(env, "spec_kwargs", {}), "channel": asdict(options)}
        """Arguments by which `make` builds it."""
        self.messages: tuple[dict[str, Any], ...] = ()
        """Log of the episode: `turn` of the environment, from 1, `sender`, `text`, and `heard`, the text that
        arrived at each listener that it reached."""
        self.speaking = False
        """True while the next actions are messages."""
        self._prompts: dict[str, str] = {}  # those of the environment
        self._infos: dict[str, dict[str, float]] = {}
        self._turn = 0  # turns of the environment that have begun
        self._noise: np.random.Generator | None = None  # draws the key of each episode
        self._key = 0  # names the noise of this episode
        agents = list(env.possible_agents)
        # Each message may stand in every later prompt, once as sent and once as heard, with a line around it.
        room = 2 * len(agents) * (options.bandwidth + 200) * env.num_turns + 1000
        self._spaces = {a: UnicodeText(env.observation_space(a).max_length + room) for a in agents}
        self.state_space = UnicodeText(env.state_space.max_length + len(agents) * room)

    # Identity

    @property
    def num_turns(self) -> int:
        """Horizon, message turns included."""
        return 2 * int(self.env.num_turns)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the environment with the channel's options, and a component of the reward for its price."""
        about = dict(self.env.metadata)
        reward = dict(about["reward"])
        text = f"-{self.options.price:g} for each byte of a message."
        reward["components"] = {**reward["components"], "messages": {"text": text, "form": False}}
        return {
            **about,
            "reward": reward,
            "channel": asdict(self.options),
        }

    @property
    def episode(self) -> Episode:
        """The environment's state, without messages, and what each agent sees now."""
        episode: Episode = self.env.episode
        prompts = dict.fromkeys(episode.prompts, "") | self._observations(self.env.agents)
        return Episode(episode.task_id, episode.turns, prompts)

    def listeners(self, sender: str) -> tuple[str, ...]:
        """Return the agents that a message of `sender` is for."""
        return self.options.listeners(sender, self.env.possible_agents)

    def observation_space(self, agent: str) -> UnicodeText:
        """Return the space of `agent`'s prompts."""
        return self._spaces[agent]

    # The Dec-POMDP

    def seed_noise(self, seed: int) -> None:
        """Restart the stream that loss and noise of the next episodes are drawn from."""
        self._noise, _ = seeding.np_random(seed)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], Infos]:
        """Start an episode with a message turn; the seed decides the task, and what gets lost."""
        if seed is not None or self._noise is None:
            self._noise, _ = seeding.np_random(seed)
        # Drawn before the environment is reset, so that the key does not depend on what the environment draws.
        self._key = int(self._noise.integers(LARGEST_KEY))
        prompts, infos = self.env.reset(seed=seed, options=options)
        self.messages, self._turn, self.speaking = (), 1, True
        self._prompts, self._infos = dict(prompts), infos
        self._show()
        return self._observations(self.env.agents), self._add_price(self._infos, 0.0)

    def step(self, actions: Mapping[str, str]) -> Outcome:
        """Deliver messages, or let the environment judge answers; errors as of `DecPOMDPEnv.step`."""
        if not self._turn:
            raise ResetNeeded("call reset() before step()")
        agents = list(self.env.agents)
        if agents and self.speaking:
            return self._speak(read_actions(actions, agents))
        prompts, rewards, terminations, truncations, infos = self.env.step(actions)
        if not agents:
            return prompts, rewards, terminations, truncations, infos
        self._prompts, self._infos = dict(prompts), infos
        self.speaking = bool(self.env.agents)
        self._turn += self.speaking
        observations = self._observations(self.env.agents)
        texts = {agent: observations.get(agent, "") for agent in agents}
        self._show()
        return texts, rewards, terminations, truncations, self._add_price(infos, 0.0)

    def _speak(self, actions: Mapping[str, str]) -> Outcome:
        texts = {agent: self.options.clean_message(text) for agent, text in actions.items()}
        self.messages += tuple(self._deliver(agent, text) for agent, text in texts.items())
        self.speaking = False
        self._show()
        # 0.0 minus, as -0.0 would be printed as such.
        cost = 0.0 - self.options.price * sum(len(text.encode()) for text in texts.values())
        return (
            self._observations(texts),
            dict.fromkeys(texts, cost),
            dict.fromkeys(texts, False),
            dict.fromkeys(texts, False),
            self._add_price(unpaid_infos(self._infos), cost),
        )

    def _deliver(self, sender: str, text: str) -> dict[str, Any]:
        arrivals = {}
        for listener in self.listeners(sender):
            # A stream of its own for each message: what is lost does not depend on the order of agents or of
            # branches.
            rng = stream(self._key, self._turn, sender, listener)
            if rng.random() >= self.options.loss:
                arrivals[listener] = self.options.noise(rng) if self.options.scramble else text
        return {"turn": self._turn, "sender": sender, "text": text, "heard": arrivals}

    def _add_price(self, infos: Mapping[str, Mapping[str, float]], cost: float) -> Infos:
        has_parts = any(key.startswith("reward/") for info in infos.values() for key in info)
        extra = {COST: cost} if has_parts else {}
        return {agent: {**info, **extra} for agent, info in infos.items()}

    def inbox(self, agent: str) -> Inbox:
        """Return what an agent knows of the messages so far."""
        newest = self._turn - self.options.delay
        outgoing = (m["text"] for m in self.messages if m["sender"] == agent)
        arrivals = (m for m in self.messages if m["turn"] <= newest and m["heard"].get(agent))
        incoming = tuple((m["sender"], m["heard"][agent]) for m in arrivals)
        return Inbox(self.listeners(agent), tuple(filter(None, outgoing)), incoming)

    def _observations(self, agents: Iterable[str]) -> dict[str, str]:
        if self.options.wording == "bare":
            return {agent: self.inbox(agent).bare(self._prompts[agent]) for agent in agents}
        size = self.options.bandwidth if self.speaking else None
        return {
            agent: self.inbox(agent).word_prompt(self._prompts[agent], size) for agent in agents
        }

    # The state as a value

    def state(self) -> str:
        """Return the global state: that of the environment, then the log of messages."""
        parts = [str(self.env.state())]
        for entry in self.messages:
            message = f"--- {entry['sender']} says in turn {entry['turn']} ---\n{entry['text']}"
            arrivals = (f"{agent} hears: {text}" for agent, text in entry["heard"].items())
            parts.append("\n".join([message, *arrivals]))
        phase = "messages come next" if self.speaking else "answers come next"
        return "\n\n".join([*parts, phase if self.env.agents else "over"])

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def render(self) -> str | None:
        """Return the transcript with the log of messages (`ansi`), or print its newest part (`human`)."""
        if self.render_mode == "human":
            print_turn(self, judged=self.speaking or not self.env.agents)
            return None
        return visible(self.state()) if self.render_mode == "ansi" else self.env.render()

    def snapshot(self) -> dict[str, Any]:
        """Return the exact state as a JSON-able dictionary; messages stand apart in the record of the episode."""
        inner = self.env.snapshot()
        noise = None if self._noise is None else self._noise.bit_generator.state
        return {
            "env": inner["env"],
            "inner": inner,
            "episode": {**inner["episode"], "messages": [dict(m) for m in self.messages]},
            "channel": asdict(self.options),
            "turn": self._turn,
            "speaking": self.speaking,
            "infos": {agent: dict(info) for agent, info in self._infos.items()},
            "key": self._key,
            "noise": noise,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a `snapshot`, in this or another channel with the same options.

        Raises:
            ValueError: If the snapshot is of another environment or channel.
            KeyError: If the snapshot's task is not in this environment's data.
        """
        if snapshot.get("channel") != asdict(self.options):
            raise ValueError(
                f"a snapshot with the channel {snapshot.get('channel')} cannot restore one with "
                f"{asdict(self.options)}"
            )
        self.env.restore(snapshot["inner"])
        self._prompts = dict(self.env.episode.prompts)
        self.messages = tuple(dict(message) for message in snapshot["episode"]["messages"])
        self._turn, self.speaking = snapshot["turn"], snapshot["speaking"]
        self._infos = {agent: dict(info) for agent, info in snapshot["infos"].items()}
        self._key = snapshot["key"]
        self._noise = np.random.Generator(np.random.PCG64())
        self._noise.bit_generator.state = snapshot["noise"]

    def fork(self) -> ChannelEnv:
        """Return an independent environment in the same state."""
        twin: ChannelEnv = object.__new__(type(self))
        twin.__dict__.update({**vars(self), "env": branch(self.env)})
        twin._noise = copy.deepcopy(self._noise)
        return twin


def add_channel(env: Any, options: Mapping[str, Any] | ChannelOptions) -> ChannelEnv:
    """Put a channel around an environment.

    Args:
        env: The environment.
        options: Fields of `ChannelOptions`, or an instance.

    Raises:
        TypeError: If there is no such option, or the environment has no snapshots.
        ValueError: If an option has a bad value, or the environment one agent.
    """
    if not isinstance(options, Mapping | ChannelOptions):
        raise TypeError(
            f"channel must be a mapping of options, such as {{'bandwidth': 40}}, got {options!r}"
        )
    if not isinstance(options, ChannelOptions):
        for key in options:
            if key not in names(ChannelOptions):
                raise TypeError(unknown("option of channel", key, names(ChannelOptions)))
        options = ChannelOptions(**options)
    return ChannelEnv(env, options)


@answers.register
def _(env: ChannelEnv) -> Oracle:
    inner = answers(env.env)
    references = dict.fromkeys(inner.references, "") if env.speaking else inner.references
    return Oracle(references, inner.secrets, inner.where)
