"""Questions of reasoning-gym under our learners; `make reasoning-gym` runs this where it is installed."""

from __future__ import annotations

import pickle

import pytest

from llm_decpomdp import answers, check_env
from tests.support.processes import python

reasoning_gym = pytest.importorskip("reasoning_gym")

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("dataset", "config"),
    [
        ("basic_arithmetic", {"size": 4}),
        ("chain_sum", {}),
        ("leg_counting", {"seed": 7}),
        ("word_sorting", {}),
        ("mini_sudoku", {}),
        ("knights_knaves", {}),
        ("string_manipulation", {}),  # its data set cannot be pickled
    ],
)
def test_data_sets_keep_the_contract_and_their_answers_earn_all(dataset, config):
    from llm_decpomdp.integrations.reasoning_gym import questions

    check_env(questions, dataset=dataset, **config)
    env = questions(dataset, **config)
    for seed in range(3):
        _, infos = env.reset(seed=seed)
        reference = answers(env).reference("agent_0")
        reasoned = f"<think>\nNo answer?\n</think>\n\n{reference}"
        for text in (reference, reasoned, f"It is easy. <answer> {reference}\n</answer>"):
            twin = pickle.loads(pickle.dumps(env.fork()))
            assert twin.step({"agent_0": text})[1] == {"agent_0": 1.0}
        assert env.step({"agent_0": "no answer"})[1]["agent_0"] < 0.5
        assert (
            0
            <= infos["agent_0"]["task_index"]
            < len(reasoning_gym.create_dataset(dataset, **config))
        )


def test_tasks_are_positions_and_questions_follow_instructions():
    from llm_decpomdp.integrations.reasoning_gym import questions

    data = reasoning_gym.create_dataset("basic_arithmetic", size=4, seed=0)
    env = questions("basic_arithmetic", size=4, instructions="Be brief.")
    prompts, infos = env.reset(options={"task_id": "3"})
    assert prompts == {"agent_0": f"Be brief.\n\n{data[3]['question']}"}
    assert infos == {"agent_0": {"task_index": 3}}
    for wrong in ("4", "-1", "x"):
        with pytest.raises(KeyError, match="give one from 0 to 3"):
            env.reset(options={"task_id": wrong})


def test_a_tiny_model_learns_to_add():
    last = python("examples/reasoning_gym_sums.py", timeout=300).stdout.splitlines()[-1]
    assert float(last.rpartition(" ")[2]) >= 0.4, last
