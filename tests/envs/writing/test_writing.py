"""The writing environments: roles, turns, what each agent is told, and that every rule of the suite holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import llm_decpomdp
from llm_decpomdp import make
from llm_decpomdp.envs.writing.roles import paragraphs

AGENTS = {
    "tldr": ["summarizer_0", "elaborator_0"],
    "arxiv": ["background_0", "method_0"],
}
MODES = ("level_feedback", "level_passed", "passed", "plain")
GENRES = tuple(AGENTS)


def bundled(env_id: str, **kwargs):
    return make(env_id, source="bundled", **kwargs)


def references(env):
    return {agent: llm_decpomdp.answers(env).reference(agent) for agent in env.agents}


def test_a_snapshot_continues_elsewhere_and_a_fork_does_not_disturb():
    env = bundled("tldr-v1", num_turns=3)
    env.reset(seed=3)
    env.step(dict.fromkeys(env.agents, "I asked my sister about the money. Then I slept."))
    stored = json.loads(json.dumps(env.snapshot()))
    twin, fork = bundled("tldr-v1", num_turns=3), env.fork()
    twin.restore(stored)
    before = env.state()
    answers = references(env)
    assert fork.step(answers) == twin.step(answers)
    assert env.state() == before
    assert twin.state() == fork.state() != before


def test_the_transcript_shows_sources_texts_and_components():
    env = bundled("arxiv-v1", render_mode="ansi")
    env.reset(options={"task_id": "arxiv/10"})
    env.step(references(env))
    text = env.render()
    assert "upper Orlen valley" in text and "method_0 answers" in text and "grounding +" in text
    assert "tests 0/0" not in text


# Roles


@pytest.mark.parametrize("genre", GENRES)
def test_a_team_has_two_roles_and_an_agent_alone_both(genre):
    for version in ("v0", "v1"):
        assert bundled(f"{genre}-{version}").possible_agents == AGENTS[genre]
        assert bundled(f"{genre}-{version}", num_agents=1).possible_agents == ["writer_0"]


@pytest.mark.parametrize("num_agents", [0, 3, -1, "2"])
def test_another_size_of_team_is_an_error(num_agents):
    with pytest.raises(ValueError, match="num_agents must be 1 or 2"):
        make("tldr-v1", num_agents=num_agents)


@pytest.mark.parametrize(
    ("env_id", "agent", "expected"),
    [
        ("tldr-v0", "summarizer_0", ("concise summary", "Query:\nSUBREDDIT")),
        ("tldr-v0", "elaborator_0", ("detailed summary", "Original Query:", "many different words")),
        ("arxiv-v0", "background_0", ("Abstract:", "background and motivation", "Another agent", "do not repeat")),
        ("arxiv-v0", "method_0", ("Abstract:", "method and implications", "Another agent", "do not repeat")),
    ],
)  # fmt: skip
def test_a_role_is_told_its_part_with_the_source(env_id, agent, expected):
    env = bundled(env_id)
    observations, _ = env.reset(seed=1)
    assert all(part in observations[agent] for part in expected)
    assert env.task.prompt in observations[agent]
    assert "IMPORTANT INSTRUCTIONS" in observations[agent]


def test_an_agent_alone_is_told_how_to_divide_its_paragraphs():
    env = bundled("arxiv-v1", num_agents=1)
    observations, _ = env.reset(seed=1)
    assert "\n[PARAGRAPH_SPLIT]\n" in observations["writer_0"]
    first, second = llm_decpomdp.answers(env).reference("writer_0").split("\n[PARAGRAPH_SPLIT]\n")
    assert {first, second} == set(env.task.references.values())


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("genre", GENRES)
def test_an_agent_alone_earns_what_a_team_does_for_the_same_texts(genre, version):
    team, alone = bundled(f"{genre}-{version}"), bundled(f"{genre}-{version}", num_agents=1)
    rewards = []
    for env in (team, alone):
        env.reset(seed=5)
        rewards.append(next(iter(env.step(references(env))[1].values())))
    assert rewards[0] == rewards[1] > 2


@pytest.mark.parametrize(
    ("completion", "first", "second"),
    [
        ("a b\n[PARAGRAPH_SPLIT]\nc d", "a b", "c d"),
        ("a[PARAGRAPH_SPLIT]b[PARAGRAPH_SPLIT]c", "a", "b c"),
        ("[PARAGRAPH_SPLIT]only", "", "only"),
        ("only[PARAGRAPH_SPLIT]", "only", ""),
        ("Paragraph 1: a\nParagraph 2: b", "a", "b"),
        ("Paragraph 1: a\n[PARAGRAPH_SPLIT]\nParagraph 2: b", "a", "b"),
        ("Paragraph 2: a [PARAGRAPH_SPLIT] b", "a", "b"),
        (
            "We use paragraph split here.\n\nThe second paragraph: is nice.",
            "We use paragraph split here.",
            "The second paragraph: is nice.",
        ),
        ("a\n**Second paragraph:** b", "a", "b"),
        ("a.\n\n**[PARAGRAPH_SPLIT]**\n\nb", "a.", "b"),
        ("a.\n\\[PARAGRAPH\\_SPLIT\\]\nb", "a.", "b"),
        ("a.\n`[Paragraph Split]`\nb", "a.", "b"),
        ("**Paragraph 1:** a\n\n**Paragraph 2:** b", "a", "b"),
        ("First paragraph:\na\n\nSecond paragraph:\nb", "a", "b"),
        ("<first paragraph>\na\n[PARAGRAPH_SPLIT]\n<second paragraph>\nb", "a", "b"),
        ("a b c d e f g.\n\nh", "a b c d e f g.", "h"),
        ("abcdefghi", "abc", "defghi"),
        ("ab\n\ncde\n\nfg", "ab", "cde\n\nfg"),
        ("", "", ""),
    ],
)
def test_a_completion_is_divided_by_one_rule(completion, first, second):
    assert paragraphs(completion).texts == (first, second)


FORMS = {
    "reasoning": "<think>\nThe user wants 1 text, 42 words.\n</think>\n\n{}",
    "end of turn": "{}<|im_end|>\n<|im_start|>user\nThank you! Write more about it.",
    "answer tags": "<answer>\n{}\n</answer>",
    "blanks": "\ufeff\n\n{}\r\n\r\n",
    "fence": "```\n{}\n```",
    "fence on a line": "```{}```",
    "fence with language": "```text\n{}\n```",
}


@pytest.mark.parametrize("num_agents", [1, 2])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("family", ["tldr-v0", "tldr-v1", "arxiv-v0", "arxiv-v1"])
def test_what_surrounds_a_text_changes_no_reward(family, form, num_agents):
    env = bundled(family, num_agents=num_agents)
    rewards = []
    for written in ("{}", form):
        env.reset(seed=5)
        texts = {agent: written.format(text) for agent, text in references(env).items()}
        rewards.append(next(iter(env.step(texts)[1].values())))
    assert rewards[0] == rewards[1] > 2


# Turns


@pytest.mark.parametrize("num_turns", [0, 2, 3, None, True, "1"])
def test_v0_has_a_single_turn_and_names_the_version_that_has_more(num_turns):
    with pytest.raises(ValueError, match=r"num_turns must be 1: arxiv-v0 .*arxiv-v1 has more"):
        make("arxiv-v0", num_turns=num_turns)


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_one_turn_is_the_default_and_terminates(version):
    env = bundled(f"tldr-{version}")
    env.reset(seed=0)
    observations, *_ = env.step(dict.fromkeys(env.agents, "no"))
    assert set(observations.values()) == {""} and not env.agents


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"external_mode": "expert_edits"}, "'expert_edits' is for code.*level_feedback"),
        ({"external_mode": "pasesd"}, "unknown external_mode 'pasesd'; did you mean 'passed'"),
        ({"original_prompt": 1}, "original_prompt must be True or False, got 1"),
    ],
)
def test_wrong_options_are_refused(option, text):
    with pytest.raises(ValueError, match=text):
        make("tldr-v1", **option)


# Any text

TEXTS = st.text(max_size=40) | st.sampled_from(
    ["", " ", "\ud800", "\x00", "so " * 2000, "[PARAGRAPH_SPLIT]" * 3, "1,450.50.3,", "٣٣ ½ ²", "A" * 5000]
)  # fmt: skip


@settings(derandomize=True, max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    TEXTS,
    TEXTS,
    st.sampled_from(["tldr-v0", "tldr-v1", "arxiv-v0", "arxiv-v1"]),
    st.sampled_from([1, 2]),
)
def test_any_text_is_a_legal_action(first, second, env_id, num_agents):
    env = bundled(env_id, num_agents=num_agents, **({"num_turns": 2} if "v1" in env_id else {}))
    env.reset(seed=0)
    actions = dict(zip(env.agents, (first, second), strict=False))
    _, rewards, *_ = env.step(actions)
    assert -1e-9 <= next(iter(rewards.values())) <= 4.0
    json.dumps(env.snapshot(), allow_nan=False).encode()
    env.state().encode()
