"""Commands of `llm-decpomdp`, run in this process."""

from __future__ import annotations

import pytest

from llm_decpomdp.benchmarks.cli.main import main


def call(*arguments: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    code = stop.value.code
    assert isinstance(code, int)
    return code
