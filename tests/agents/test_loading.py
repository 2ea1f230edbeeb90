"""Names of models that cannot be loaded: what is wrong and what to do, without waiting for a hub."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from llm_decpomdp.agents import loading
from llm_decpomdp.agents.loading import load_policy
from llm_decpomdp.agents.models import pretrained
from llm_decpomdp.agents.models.local_models import tiny_model
from llm_decpomdp.utils import hub
from tests.support.processes import python


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks the hub fails."""

    def asked() -> bool:
        raise AssertionError("the hub was asked")

    for module in (loading, pretrained):
        monkeypatch.setattr(module, "hub_answers", asked)


@pytest.mark.parametrize("name", ["./missing", "/x/y", "~/model", "a/b/c", "../missing"])
def test_a_path_that_is_no_folder_is_told_without_asking_the_hub(no_hub: None, name: str) -> None:
    with pytest.raises(OSError, match=r"^cannot load the model '.*': there is no folder ") as told:
        load_policy(name)
    assert "\n" not in str(told.value) and len(str(told.value)) < 150


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        (["tokenizer.json", "tokenizer_config.json"], "holds no tokenizer .*: copy its model's"),
        (["config.json"], r"holds no model: it has no config\.json or adapter_config\.json"),
    ],
)
def test_a_folder_that_lacks_something_is_named(
    no_hub: None, tmp_path: Path, removed: list[str], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model(), folder)
    for name in removed:
        (folder / name).unlink()
    for lora in (None, {"r": 2}):
        with pytest.raises(OSError, match=f"the folder {folder} {message}") as told:
            load_policy(folder, lora=lora)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("targets", "missing"),
    [(["nope"], "'nope'"), (["q_proj", "nope"], "'nope'"), ("nope", "'nope'")],
)
def test_target_modules_that_are_not_there_are_named_with_those_that_are(
    targets: list[str] | str, missing: str
) -> None:
    message = rf"lora\.target_modules: the model has no module {missing}; it has .*k_proj, .*q_proj"
    with pytest.raises(ValueError, match=message):
        load_policy("tiny-random", lora={"r": 2, "target_modules": targets})


@pytest.mark.parametrize("targets", [["q_proj"], "all-linear", r".*\.(q|v)_proj", None])
def test_target_modules_that_are_there_are_taken(targets: list[str] | str | None) -> None:
    load_policy("tiny-random", lora={"r": 2, "target_modules": targets})


class SilentHub:
    """Accepts connections, never answers, and keeps what it was asked."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self.asked: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self.socket.accept()[0])
                self.asked.append(self.connections[-1].recv(4096).decode().split(" ")[1])
            except OSError:
                return


@pytest.fixture
def silent_hub() -> Iterator[SilentHub]:
    found = SilentHub()
    yield found
    for one in (*found.connections, found.socket):
        one.close()


@pytest.mark.slow
def test_a_hub_that_does_not_answer_is_asked_once_and_told_in_one_line(
    silent_hub: SilentHub, tmp_path: Path
) -> None:
    code = (
        "from llm_decpomdp.benchmarks.cli.console import prepare_process\n"
        "from llm_decpomdp.agents.loading import load_policy\n"
        "prepare_process()\n"
        "for name in ('gpt-4o', 'owner/model'):\n"
        "    try: load_policy(name)\n"
        "    except OSError as error: print(error)\n"
    )
    env = {k: v for k, v in os.environ.items() if "OFFLINE" not in k}
    env |= {"HF_ENDPOINT": silent_hub.address, "HF_HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}
    ran = python("-c", code, env=env)
    first, second = ran.stdout.splitlines()
    assert ran.stderr == ""
    # huggingface_hub asks once for something of its own.
    assert [path for path in silent_hub.asked if path != "/api/agent-harnesses"] == ["/"]
    assert first.startswith(
        f"cannot load the model 'gpt-4o': it is no folder, {hub_said(silent_hub)}"
    )
    assert "a model behind an API is a policy of kind endpoint" in first
    assert "play --policy NAME --base-url URL" in first
    assert "'owner/model'" in second


def hub_said(silent: SilentHub) -> str:
    return f"the hub's cache does not have it, and {silent.address} does not answer"


def test_offline_means_that_the_hub_is_not_asked(
    silent_hub: SilentHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", silent_hub.address)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.hub_answers() and not silent_hub.connections
