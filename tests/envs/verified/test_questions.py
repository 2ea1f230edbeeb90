"""Questions of reasoning-gym in `verified-v0`; `make reasoning-gym` runs this where it is installed."""

from __future__ import annotations

import pytest

from llm_decpomdp import answers, check_env, make

pytest.importorskip("reasoning_gym")

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        ("chain_sum", {"max_terms": 3}),
        ("basic_arithmetic", {}),
        ("knights_knaves", {}),
        ("letter_counting", {}),
        ("mini_sudoku", {}),  # several answers can be right
        ("prime_factorization", {}),  # its checker fails on texts
    ],
)
def test_data_sets_keep_the_contract_and_their_answers_are_right(dataset, options):
    settings = {"dataset": dataset, "dataset_options": options, "attempts": 2}
    check_env("verified-v0", completions=["accept"], **settings)
    env = make("verified-v0", split="test", **settings)
    for task in env.tasks.tasks[:10]:
        env.reset(options={"task_id": task.task_id})
        references = answers(env).references
        env.step({"solver_0": references["solver_0"]})
        assert env.step({"verifier_0": "accept"})[1]["solver_0"] == 1.0


FORMS = (
    "**{}**",
    "`{}`",
    "```text\n{}\n```",
    "\\boxed{{{}}}",
    "**Answer:** {}",
    "The answer is {}.",
)


@pytest.mark.parametrize(
    "dataset",
    ["basic_arithmetic", "countdown", "group_anagrams", "intermediate_integration", "mini_sudoku"],
)
def test_markup_around_an_answer_changes_nothing(dataset):
    env = make("verified-v0", dataset=dataset)
    for form in FORMS:
        env.reset(seed=0)
        env.step({"solver_0": f"<answer>{form.format(env.task.answer)}</answer>"})
        assert env.step({"verifier_0": "accept"})[1]["solver_0"] == 1.0, form


@pytest.mark.parametrize("dataset", ["chain_sum", "leg_counting"])
def test_points_for_a_part_of_the_answer_do_not_count(dataset):
    env = make("verified-v0", dataset=dataset)
    env.reset(seed=0)
    env.step({"solver_0": f"{env.task.answer} or 12345678"})
    assert env.step({"verifier_0": "accept"})[1]["solver_0"] == 0.0


def test_the_data_are_those_of_the_library_without_duplicates():
    tasks = make("verified-v0", split="all").tasks
    assert (tasks.source, tasks.stand_in) == ("reasoning-gym", False)
    assert len({task.prompt for task in tasks.tasks}) == len(tasks) == 500


def test_a_small_data_set_has_fewer_questions_and_no_duplicates():
    options = {"max_terms": 2, "max_digits": 1}
    tasks = make("verified-v0", dataset_options=options, split="all").tasks.tasks
    assert 150 <= len({task.prompt for task in tasks}) == len(tasks) <= 200


def test_unknown_names_are_refused():
    with pytest.raises(KeyError, match="did you mean 'chain_sum'"):
        make("verified-v0", dataset="chain_sums")
    with pytest.raises(ValueError, match="dataset_options of chain_sum"):
        make("verified-v0", dataset_options={"max_term": 3})
    with pytest.raises(
        ValueError, match="has no tasks in split='train': either none of its questions"
    ):
        make("verified-v0", dataset="graph_color").reset(seed=0)


CODE = "[open('evaluated', 'w')]"


@pytest.mark.parametrize("dataset", ["binary_matrix", "countdown", "n_queens", "spiral_matrix"])
def test_no_checker_evaluates_an_answer_that_is_code(dataset, tmp_path, monkeypatch):
    from llm_decpomdp.integrations.reasoning_gym import questions

    monkeypatch.chdir(tmp_path)
    from reasoning_gym.composite import DatasetSpec

    members = [DatasetSpec(name=dataset, weight=1, config={})]
    composite = questions("composite", datasets=members)
    for env in (make("verified-v0", dataset=dataset, num_agents=1), questions(dataset), composite):
        env.reset(seed=0)
        assert set(env.step(dict.fromkeys(env.agents, CODE))[1].values()) == {0.0}
    assert not [*tmp_path.iterdir()]


def test_a_data_set_whose_checker_accepts_any_text_is_refused():
    with pytest.raises(ValueError, match="game_of_life_halting' accepts any text"):
        make("verified-v0", dataset="game_of_life_halting")
