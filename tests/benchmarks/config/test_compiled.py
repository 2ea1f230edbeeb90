"""Where `model.compile` is refused."""

from __future__ import annotations

import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.runs.setup import load_config, team_spec
from llm_decpomdp.benchmarks.runs.setup_checks import check_compiled


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("learner.fsdp_size=2", "layers in shards are not compiled"),
        ("learner.deterministic=true", "cannot promise equal bytes"),
    ],
)
def test_compiled_layers_are_refused_if_they_break_a_promise(override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"has compile=true, .*{told}"):
        load_config(overrides=["model.compile=true", override])


def test_a_partner_that_does_not_learn_may_be_compiled() -> None:
    config = load_config(overrides=["learner.deterministic=true"])
    team = team_spec(config, ["aux_0", "main_0"])
    frozen = {"partner": type(team.policies["aux_0"])(name="m", trainable=False, compile=True)}
    check_compiled(config, frozen)
