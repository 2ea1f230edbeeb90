from __future__ import annotations

from typing import Any

import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import Whole, parse_overrides


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false", False),
        ("False", False),
        ("True", True),
        ("None", None),
        ("null", None),
        ("NONE", None),
        ("~", None),
        ("", None),
        ("'None'", "None"),
        ('"null"', "null"),
        ("'true'", "true"),
        ('"1e-5"', "1e-5"),
        ("'it''s'", "it's"),
        ("it's", "it's"),
        ("yes", "yes"),
        ("off", "off"),
        ("0o7", "0o7"),
        ("2026-01-01", "2026-01-01"),
        ("nan", "nan"),
        ("1e-5", 1e-5),
        ("2E5", 2e5),
        (".5", 0.5),
        ("+3", 3),
        ("3", 3),
        ("-2", -2),
        ("[1.5,0.5]", [1.5, 0.5]),
        ("[None, 1]", [None, 1]),
        ("[]", []),
        ("(1.5, 0.5)", [1.5, 0.5]),
        ("['a b', \"None\", true]", ["a b", "None", True]),
        ("{'r': 8, target_modules: [q, v]}", {"r": 8, "target_modules": ["q", "v"]}),
        ("{r: 8, lora_alpha: 16}", {"r": 8, "lora_alpha": 16}),
        ("test[16:]", "test[16:]"),
        ("test[:16]", "test[:16]"),
        ("Qwen/Qwen2.5-Coder-7B", "Qwen/Qwen2.5-Coder-7B"),
        ("'level_feedback'", "level_feedback"),
        ("a=b", "a=b"),
    ],
)
def test_a_value_is_yaml_or_python(text: str, value: Any) -> None:
    parsed = parse_overrides([f"section.key={text}"])["section"]["key"]
    assert parsed == value
    assert type(parsed) is type(value) or isinstance(parsed, Whole)


def test_dotted_keys_nest_and_the_last_of_equal_keys_wins() -> None:
    assert parse_overrides(["a.b=1", "a.c=2", "d=3", "a.b=4"]) == {"a": {"b": 4, "c": 2}, "d": 3}
    assert parse_overrides(["a={r: 1}", "a=null"]) == {"a": None}
    assert parse_overrides(["a={r: 1}", "a.s=2"]) == {"a": {"r": 1, "s": 2}}


@pytest.mark.parametrize("item", ["foo", "=1", "a..b=1", ".a=1"])
def test_an_item_of_another_form_is_refused_by_name(item: str) -> None:
    with pytest.raises(ConfigError, match=r"section\.key=value, got"):
        parse_overrides([item])


@pytest.mark.parametrize(
    "items",
    [["a=2", "a.b=1"], ["a.b=1", "a=2"], ["a.b=1", "a.b.c=2"], ["a.b=1", "a={c: 2}"]],
)
def test_a_value_and_a_part_of_it_exclude_each_other(items: list[str]) -> None:
    with pytest.raises(ConfigError, match="exclude"):
        parse_overrides(items)


def test_text_is_not_read_where_a_key_holds_text() -> None:
    items = [f"{key}={value}" for key in "ab" for value in ("1e5", "true", "2.50")]
    for item in items:
        key, _, written = item.partition("=")
        found = parse_overrides([item], lambda name: name == "a")[key]
        assert (found == written) == (key == "a"), item
    for written in ("007", "12:30:45", "1_000"):
        assert parse_overrides([f"a={written}"], lambda name: True) == {"a": written}
        assert parse_overrides([f"a='{written}'"]) == {"a": written}
        with pytest.raises(ConfigError, match=f"^a={written}: {written} is the number"):
            parse_overrides([f"a={written}"])
    assert parse_overrides(["a='x y'"], lambda name: True) == {"a": "x y"}
    assert parse_overrides(["a=none"], lambda name: True) == {"a": None}


@pytest.mark.parametrize("text", ["!!python/name:os.system", "!!python/object/apply:os.getcwd []"])
def test_a_value_runs_nothing(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read the value"):
        parse_overrides([f"a={text}"])


def test_a_value_that_is_no_yaml_is_named() -> None:
    with pytest.raises(ConfigError, match=r"model\.name=\[a"):
        parse_overrides(["model.name=[a"])
