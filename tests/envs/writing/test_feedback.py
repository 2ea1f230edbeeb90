"""What the agents of the writing environments are told from turn to turn."""

from __future__ import annotations

import pytest

from llm_decpomdp import answers, make


def bundled(env_id: str, **kwargs):
    return make(env_id, source="bundled", **kwargs)


def references(env):
    return {agent: answers(env).reference(agent) for agent in env.agents}


def second_prompts(mode, actions, **options):
    env = bundled("tldr-v1", num_turns=2, external_mode=mode, stop_when_solved=False, **options)
    env.reset(options={"task_id": "tldr/01"})
    if actions is None:
        actions = references(env)
    observations, _, _, _, infos = env.step(actions)
    return observations, infos


BAD = {
    "summarizer_0": "The weather was warm 77 times",
    "elaborator_0": "so it goes " * 12,
}


def test_level_feedback_tells_an_agent_of_its_own_text_and_of_joint_measures():
    prompts, infos = second_prompts("level_feedback", BAD)
    summary, elaboration = prompts["summarizer_0"], prompts["elaborator_0"]
    assert "Length of your text: 6 words, wanted 8 to 256" in summary
    assert "Numbers that the source does not have: 77" in summary
    assert "Repeated" not in summary
    assert "It breaks off: end it with a whole sentence" in summary
    assert "Length of your text: 36 words" in elaboration
    assert "Repeated: 91% of its runs of three words" in elaboration
    assert "77" not in elaboration
    for prompt in (summary, elaboration):
        assert "Length ratio (second / first text): 4.52, wanted 1.6 to 3.2" in prompt
        assert "Kinds of transitions in the second text: 1, wanted 4 or more" in prompt
    info = infos["summarizer_0"]
    assert info["length_ratio"] == pytest.approx(131 / 29)
    assert (info["vocabulary_ratio"], info["transition_kinds"]) == (0.5, 1.0)


def test_copying_is_pointed_out():
    env = bundled("tldr-v1", num_turns=2)
    env.reset(seed=0)
    observations, *_ = env.step(dict.fromkeys(env.agents, env.task.prompt))
    assert "Copied word by word: 100%" in observations["summarizer_0"]


def test_level_passed_tells_of_each_level():
    prompts, _ = second_prompts("level_passed", BAD)
    assert "- Length of your text: not passed\n" in prompts["summarizer_0"]
    assert "- Length of your text: passed\n" in prompts["elaborator_0"]
    assert "- Length ratio: not passed\n" in prompts["elaborator_0"]
    good, _ = second_prompts("level_passed", None)
    assert "- Grounding of your text: passed\n" in good["elaborator_0"]
    assert "- Ending of your text: passed\n" in good["elaborator_0"]
    assert "- Ending of your text: not passed\n" in prompts["summarizer_0"]


def test_passed_is_one_signal():
    prompts, _ = second_prompts("passed", BAD)
    for prompt in prompts.values():
        assert "Signal: Not all levels passed\nRevise your" in prompt


def test_plain_tells_nothing():
    one, _ = second_prompts("plain", BAD)
    other, _ = second_prompts("plain", {**BAD, "elaborator_0": "Something else."})
    assert one["summarizer_0"] == other["summarizer_0"]


def test_the_flags_decide_what_a_later_prompt_repeats():
    bare, _ = second_prompts("plain", BAD, original_prompt=False, previous_response=False)
    assert bare["summarizer_0"].startswith("Revise your summary accordingly.")
    full, _ = second_prompts("plain", BAD)
    assert "Petra" in full["summarizer_0"] and BAD["summarizer_0"] in full["summarizer_0"]
    assert BAD["elaborator_0"].strip() not in full["summarizer_0"]
    empty, _ = second_prompts("plain", dict.fromkeys(BAD, "  "))
    assert "Your previous summary:\n<empty>" in empty["summarizer_0"]


def test_a_repeated_summary_of_full_marks_ends_the_episode():
    env = bundled("arxiv-v1", num_turns=3, split="all")
    solved = [t for t in env.tasks.tasks if env.reward(t, t.references).solved]
    assert solved
    env.reset(options={"task_id": solved[0].task_id})
    _, rewards, terminations, _, infos = env.step(references(env))
    assert rewards["method_0"] == pytest.approx(4.0) and terminations["method_0"]
    assert infos["method_0"]["solved"]
