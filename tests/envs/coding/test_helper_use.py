"""What the code of the entry function's author plainly says about its helper."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.coding.feedback import lost_results, names


def main(body: str, around: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{around}\ndef main(x, xs=()):\n{lines}"


def test_lines_on_which_a_result_is_lost_are_named():
    found = lost_results(main("aux(x)\ny = aux(x)\nz = aux(x)\nw: int = aux(x)\nreturn z"), "aux")
    assert found == (
        "Line 3: the result is thrown away",
        "Line 4: the result is assigned to y but never used",
        "Line 6: the result is assigned to w but never used",
    )


def test_names_are_looked_for_in_the_code_not_in_its_text():
    assert names("def main(x):\n    return [aux]", "aux")
    assert not names("def main(x):\n    return 'aux(x)'  # aux(x)", "aux")
    assert not names("def main(:", "aux")


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # garbage of other tests
def test_a_strange_escape_in_the_code_is_nobodys_business() -> None:
    assert names("def main(x):\n    return aux(x) + len('\\d')", "aux")
