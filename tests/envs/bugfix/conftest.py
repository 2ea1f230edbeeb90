from __future__ import annotations

import pytest

from tests.envs.bugfix_examples import program_file, three_fixers


@pytest.fixture
def env(tmp_path):
    return three_fixers(tmp_path)


@pytest.fixture
def programs(tmp_path):
    return program_file(tmp_path)
