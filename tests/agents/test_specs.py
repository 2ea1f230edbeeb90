from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from llm_decpomdp.agents.loading import KINDS, OWN, PolicySpec, check_device

LEAST: dict[str, dict[str, Any]] = {
    "model": {"name": "a"},
    "endpoint": {"name": "a"},
    "gold": {},
    "random": {},
    "constant": {"text": ""},
    "replay": {"texts": []},
}


def test_every_kind_is_tried_here_and_every_field_is_read_by_a_kind() -> None:
    assert set(LEAST) == set(KINDS)
    read = {"kind", *(name for names in KINDS.values() for name in names), *OWN}
    assert read == {field.name for field in fields(PolicySpec)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_needs_what_it_cannot_do_without(kind: str) -> None:
    least = LEAST[kind]
    assert PolicySpec(kind, **least).options().keys() == set(KINDS[kind])
    for name in least:
        with pytest.raises(ValueError, match=f"a {kind} policy needs {name}"):
            PolicySpec(kind)


def test_a_field_that_the_kind_does_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match="a constant policy has no temperature; it has text"):
        PolicySpec("constant", text="a", temperature=0.5)
    with pytest.raises(ValueError, match="a gold policy has no text; it has no options"):
        PolicySpec("gold", text="a")


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown kind 'const'; did you mean 'constant'"):
        PolicySpec("const")


def test_only_a_model_can_be_trained_and_only_if_it_may() -> None:
    assert PolicySpec(name="a").can_be_trained
    assert not PolicySpec(name="a", trainable=False).can_be_trained
    assert not PolicySpec("gold").can_be_trained
    with pytest.raises(ValueError, match="does nothing"):
        PolicySpec(name="a", lora={"r": 2}, trainable=False)


def test_only_a_device_of_this_machine_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for name in ("auto", "cpu", "cpu:0", "meta", "cuda", "cuda:1"):
        check_device(name)
    for name in ("cuda:2", "bogus", "cuda:x", ""):
        with pytest.raises(ValueError, match=f"no device '{name}': use auto or cpu"):
            check_device(name)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ValueError, match="'cuda'"):
        check_device("cuda")
