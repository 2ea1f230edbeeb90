from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.cli.suite_job import work
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.suites.job import Job, make_jobs, read_job, refuse_others
from llm_decpomdp.benchmarks.suites.suite import find_suite, load_suite, shipped_suites

GRID = """# Two lines.
config: demo
override: model.max_new_tokens=8
seeds: [0, 1]
arms:
  - {method: [untrained, magrpo]}
  - {name: long, method: train, override: [model.max_new_tokens=9], seeds: 3, cores: null}
  - {name: both, config: [magrpo_he_config, magrpo_che_config], method: [train, gold], samples: 2}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def jobs(tmp_path: Path, text: str) -> list[Job]:
    return make_jobs(load_suite(written(tmp_path, text)), tmp_path / "out")


def test_a_grid_stands_for_a_cell_of_each_combination(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, GRID))
    assert (suite.name, suite.description) == ("mine", "Two lines.")
    assert [arm.name for arm in suite.arms] == [
        *("untrained", "magrpo", "long"),
        *("both-magrpo_he-train", "both-magrpo_he-gold"),
        *("both-magrpo_che-train", "both-magrpo_che-gold"),
    ]
    assert [arm.trains for arm in suite.arms[:3]] == [False, True, True]


def test_a_cell_takes_what_it_does_not_say_from_the_suite(tmp_path: Path) -> None:
    first, *_, last = load_suite(written(tmp_path, GRID)).arms
    assert (first.config, first.seeds, first.samples, first.cores) == ("demo", (0, 1), 1, 1)
    assert (last.config, last.seeds, last.samples) == ("magrpo_che_config", (0, 1), 2)


def test_overrides_add_up_and_the_cells_own_come_last(tmp_path: Path) -> None:
    arm = load_suite(written(tmp_path, GRID)).arms[2]
    assert arm.override == ("model.max_new_tokens=8", "model.max_new_tokens=9")
    (job,) = (job for job in jobs(tmp_path, GRID) if job.arm == arm)
    assert (job.config.model.max_new_tokens, job.config.seed, job.seed) == (9, 3, 3)


def test_algorithm_as_method_and_split(tmp_path: Path) -> None:
    text = "config: demo\nsplit: test[:3]\ncells: [{method: [marloo, train]}]\n"
    marloo, train = jobs(tmp_path, text)
    assert (marloo.config.algorithm.name, train.config.algorithm.name) == ("marloo", "magrpo")
    assert marloo.config.dataset.eval_split == "test[:3]"


def test_a_configuration_may_stand_beside_the_suite(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("model: {name: mine}\n")
    (job,) = jobs(tmp_path, "config: own.yaml\ncells: [{}]\n")
    assert (job.arm.name, job.config.model.name) == ("untrained", "mine")


def test_first_seeds_of_all_arms_come_first(tmp_path: Path) -> None:
    text = "config: [demo, demo_tldr]\nseeds: [4, 3]\narms: [{name: a}, {name: b}]\n"
    found = [(job.arm.name, job.seed) for job in jobs(tmp_path, text)]
    order = ["a-demo", "a-demo_tldr", "b-demo", "b-demo_tldr"]
    assert found == [(name, seed) for seed in (4, 3) for name in order]


def test_an_arm_may_train_in_another_environment(tmp_path: Path) -> None:
    text = "config: magrpo_che_shared_config\narms: [{method: train}, {name: levels, method: train, %s}]"
    plain, levels = jobs(tmp_path, text % "train_env: coophumaneval-v0")
    assert plain.training_config == plain.config and levels.config == plain.config
    assert levels.training_config.env.id == "coophumaneval-v0"
    assert "train_env" not in plain.identity and levels.identity["train_env"] == "coophumaneval-v0"
    levels.write()
    assert read_job(levels.folder) == levels
    with pytest.raises(ConfigError, match="coophuman-v0"):
        jobs(tmp_path, text % "train_env: coophuman-v0")


def test_a_job_trains_in_its_environment_and_is_measured_in_the_other(tmp_path: Path) -> None:
    text = (
        "config: demo\narms: [{method: train, tasks: 1, at_a_time: 3, train_env: probe-rendezvous-v0, override: "
        "[env.id=probe-lazy-v0, model.name=tiny-random, algorithm.max_updates=1, output.report=false]}]"
    )
    (job,) = jobs(tmp_path, text)
    job.write()
    work(job)
    manifests = (job.folder / "training/manifest.json", job.folder / "manifest.json")
    training, evaluation = (json.loads(path.read_text(encoding="utf-8")) for path in manifests)
    assert training["environment"] == "probe-rendezvous-v0"
    assert evaluation["environment"] == "probe-lazy-v0" and evaluation["identity"]["at_a_time"] == 3
    assert job.identity["at_a_time"] == 3


def test_an_arm_without_training_has_no_environment_of_it(tmp_path: Path) -> None:
    text = "config: magrpo_che_shared_config\ntrain_env: coophumaneval-v0\narms: [{method: [untrained, train]}]"
    untrained, trained = jobs(tmp_path, text)
    assert untrained.arm.train_env is None
    assert untrained.identity.keys().isdisjoint(["train_env", "at_a_time"])
    assert trained.arm.train_env == "coophumaneval-v0"
    text = "config: demo\narms: [{method: gold, train_env: coophumaneval-v0}]"
    with pytest.raises(ConfigError, match="gold does not train: drop `train_env`"):
        jobs(tmp_path, text)


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    for job in jobs(tmp_path, GRID):
        job.write()
        assert read_job(job.folder) == job


def test_every_shipped_suite_resolves() -> None:
    assert set(shipped_suites()) >= {"smoke", "cooperation", "laptop", "paper"}
    for path in shipped_suites().values():
        suite = load_suite(path)
        assert suite.description.endswith(".")
        assert len(make_jobs(suite, Path("nowhere"))) == sum(len(c.seeds) for c in suite.arms)


def test_a_cell_names_the_one_that_it_is_compared_with(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("config: demo\ncells: [{name: a}, {name: b, against: a}]")
    assert [arm.against for arm in load_suite(path).arms] == [None, "a"]
    path.write_text(
        "config: [demo, demo_tldr]\ncells: [{}, {name: b, method: magrpo, against: untrained}]"
    )
    found = {arm.name: arm.against for arm in load_suite(path).arms}
    assert found["b-demo"] == "demo" and found["b-demo_tldr"] == "demo_tldr"
    path.write_text("config: [demo, demo_tldr]\ncells: [{name: a}, {name: b, against: a}]")
    found = {arm.name: arm.against for arm in load_suite(path).arms}
    assert found == {
        "a-demo": None,
        "a-demo_tldr": None,
        "b-demo": "a-demo",
        "b-demo_tldr": "a-demo_tldr",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must hold a mapping"),
        ("config: demo", "`arms` must be a list of at least one arm, got None"),
        ("config: demo\ncells: []", r"`arms` must be a list of at least one arm, got \[\]"),
        ("config: demo\narmss: [{}]\narms: [{}]", "unknown key 'armss'; did you mean 'arms'"),
        ("config: demo\nname: x\ncells: [{}]", "unknown key 'name'"),
        (
            "config: demo\ncells: [{}, {methd: x}]",
            "arm 1: unknown key 'methd'; did you mean 'method'",
        ),
        ("arms: [{method: gold}]", "`config` is missing: name a configuration"),
        ("config: demo\ncells: [gold]", "arm 0 must be a mapping such as .*got 'gold'"),
        (
            "config: demo\ncells: [{method: magrop}]",
            "unknown method 'magrop'; did you mean 'magrpo'",
        ),
        ("config: demo\ncells: [{seeds: [1, 1]}]", "different ones, got .* and \\[1, 1\\]"),
        ("config: demo\ncells: [{seeds: []}]", "need at least one value"),
        ("config: demo\ncells: [{seeds: [-1]}]", "seeds must be at least 0"),
        ("config: demo\ncells: [{samples: 0}]", "samples must be at least 1, got 0"),
        ("config: demo\ncells: [{samples: many}]", "arm 0: samples: .*many"),
        ("config: demo\ncells: [{cores: 0}]", "cores must be at least 1, got 0"),
        ("config: demo\ncells: [{at_a_time: 0}]", "at_a_time must be at least 1, got 0"),
        ("config: demo\ncells: [{greedy: true, samples: 2}]", "greedy samples are all equal"),
        (
            "config: demo\ncells: [{greedy: true, method: random}]",
            "leave out `greedy` or the method",
        ),
        ("config: demo\ncells: [{}, {}]", "two arms are called 'untrained'; give one .* `name`"),
        ("config: demo\ncells: [{}, {name: a, against: untraind}]", "a: against: .*'untrained'"),
        ("config: demo\ncells: [{}, {name: a, against: a}]", "a: against: .*'a'; Valid: untrained"),
        ("config: demo\ncells: [{name: a/b}]", "a name must be made of letters.*'a/b'"),
        ("config: demo\ncells: [", "cannot read"),
    ],
)
def test_wrong_suites_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        load_suite(written(tmp_path, text))


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ("config: dmo", "arm 'x' of .*unknown configuration 'dmo'; did you mean 'demo'"),
        ("override: modl.name=x", "arm 'x' of .*did you mean 'model.name'"),
        ("override: algorithm.num_generations=1", "must be at least 2, got 1"),
        ("split: tset", "unknown split 'tset'; did you mean 'test'"),
    ],
)
def test_a_wrong_configuration_names_its_cell(arm: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        jobs(tmp_path, f"config: demo\ncells: [{{name: x, {arm}}}]\n")


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown suite 'smok'; did you mean 'smoke'"):
        find_suite("smok")


def test_a_folder_keeps_to_the_cell_that_it_began_with(tmp_path: Path) -> None:
    def job(more: str) -> Job:
        (found,) = jobs(tmp_path, f"config: demo\ncells: [{{method: untrained, {more}}}]\n")
        return found

    first = job("samples: 1")
    first.write()
    refuse_others([job("override: model.temperature=0.1")])  # nothing was measured yet
    (first.folder / "manifest.json").write_text("{}")
    refuse_others([job("samples: 2, tasks: 3")])
    refuse_others([job("override: algorithm.learning_rate=1.0")])  # nothing is learned here
    # As an earlier version wrote it: without a switch that did not exist, and with a key without effect.
    stored = json.loads((first.folder / "job.json").read_text())
    del stored["identity"]["config"]["model"]["fused_kernels"]
    stored["identity"]["train_env"] = "compose-v0"
    (first.folder / "job.json").write_text(json.dumps(stored))
    refuse_others([job("samples: 1")])
    with pytest.raises(ConfigError, match=r"model\.fused_kernels was None and is True"):
        refuse_others([job("override: model.fused_kernels=true")])
    with pytest.raises(ConfigError, match=r"model\.temperature was 0\.8 and is 0\.1\): choose"):
        refuse_others([job("override: model.temperature=0.1")])


def test_which_team_of_a_training_is_final_decides_what_is_measured(tmp_path: Path) -> None:
    def job(method: str, more: str) -> Job:
        override = f"[output.name=other, {more}]"
        arms = f"arms: [{{method: {method}, override: {override}}}]"
        (found,) = jobs(tmp_path, f"config: demo\n{arms}\n")
        return found

    for method in ("train", "untrained"):
        first = job(method, "output.report=false")
        first.write()
        (first.folder / "manifest.json").write_text("{}")
        refuse_others([job(method, "output.report=true")])
    refuse_others([job("untrained", "output.keep_best=true")])
    with pytest.raises(ConfigError, match=r"output was None and is .*keep_best"):
        refuse_others([job("train", "output.keep_best=true")])


def test_cells_that_are_not_asked_for_are_not_loaded(tmp_path: Path) -> None:
    text = "config: demo\ncells: [{method: gold}, {name: broken, config: dmo}]\n"
    suite = load_suite(written(tmp_path, text))
    (job,) = make_jobs(suite, tmp_path / "out", ["gold"])
    assert job.arm.name == "gold"
    with pytest.raises(ConfigError, match="arm 'broken'"):
        make_jobs(suite, tmp_path / "out")
