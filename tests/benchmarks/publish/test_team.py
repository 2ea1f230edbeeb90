"""The folder of a team for a hub, as its reader loads it, and its card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_decpomdp.agents import PolicySpec, load_saved_team, load_team, save_team
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.publish import hub
from llm_decpomdp.benchmarks.publish.cards import HUB_LICENSES, NOT_RECORDED, find_license
from llm_decpomdp.benchmarks.publish.team import publish_team
from llm_decpomdp.envs.bugfix.humanevalfix import HUMANEVALFIX
from llm_decpomdp.envs.datasets.classeval import CLASSEVAL
from llm_decpomdp.envs.datasets.humaneval import HUMANEVAL
from llm_decpomdp.envs.datasets.mbpp import MBPP
from llm_decpomdp.utils.storage import RunFolder
from tests.benchmarks.report_runs import DATA, MANIFEST, finished
from tests.support.commands import call

AGENTS = {"aux_0": "aux_0", "main_0": "main_0"}


@pytest.fixture(scope="module")
def teams(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Saved teams: `own` of two models, `lora` of two adapters whose weights differ."""
    folder = tmp_path_factory.mktemp("teams")
    for name, lora in (("own", None), ("lora", {"r": 2})):
        spec = PolicySpec(name=tiny_model, lora=lora, trainable=True, compute_dtype="float32")
        team = load_team(AGENTS, dict.fromkeys(AGENTS, spec), seed=0)
        with torch.no_grad():
            for number, policy in enumerate(team.values()):
                for weights in policy.parameters():  # type: ignore[attr-defined]
                    if weights.requires_grad:
                        weights += 0.01 * (number + 1)
        save_team(team, folder / name, AGENTS)
    return {name: folder / name for name in ("own", "lora")}


@pytest.fixture
def run(tmp_path: Path, teams: dict[str, Path]) -> Path:
    """A run that has saved the team `own`."""
    folder = finished(RunFolder(tmp_path / "run"))
    (folder.path / "final_model").symlink_to(teams["own"])
    return folder.path


def front(folder: Path) -> dict[str, Any]:
    """The YAML header of a card."""
    found: dict[str, Any] = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
    return found


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        output: torch.Tensor = model(torch.arange(8)[None]).logits
    return output


@pytest.mark.parametrize("kind", ["own", "lora"])
def test_the_folder_loads_as_a_team_and_each_agent_with_plain_libraries(
    teams: dict[str, Path], tiny_model: str, tmp_path: Path, kind: str
) -> None:
    folder = publish_team(teams[kind], tmp_path / "out")
    team: Any = load_saved_team(folder, device="cpu")
    seen = []
    for agent in AGENTS:
        if kind == "lora":
            base = AutoModelForCausalLM.from_pretrained(tiny_model)
            model = PeftModel.from_pretrained(base, str(folder), subfolder=agent)
            team[agent].model.set_adapter(team[agent].adapter)
        else:
            model = AutoModelForCausalLM.from_pretrained(folder, subfolder=agent)
        tokenizer = AutoTokenizer.from_pretrained(folder, subfolder=agent)
        assert tokenizer("ab")["input_ids"] == team[agent].tokenizer("ab")["input_ids"]
        seen.append(logits(model))
        torch.testing.assert_close(seen[-1], logits(team[agent].model))
    assert not torch.allclose(*seen)
    assert front(folder)["library_name"] == {"own": "transformers", "lora": "peft"}[kind]


def test_the_card_of_a_run_has_results_data_and_commands(run: Path) -> None:
    folder = publish_team(run, license_name="apache-2.0")
    card = (folder / "README.md").read_text()
    assert folder == run / "published" and front(folder)["license"] == "apache-2.0"
    assert "| before training | 0.75 (0.56 to 0.94) |" in card
    assert "| gain | +1.2" in card and "Seeds: 7. 8 held-out tasks." in card
    assert "| train | coophumaneval | `test[:8]` | 8 | bundled | `4d1377645d4d5900` | mit |" in card
    assert "commit: 7977d54 with uncommitted changes" in card and "numpy 2.0" in card
    assert "say nothing about other seeds" in card and "team: `final_model` of the run" in card
    assert (folder / "training_config.yaml").read_text() == (run / "config.yaml").read_text()
    assert "pip install llm" not in card
    with pytest.raises(ConfigError, match="published already exists"):
        publish_team(run)


def test_results_cover_runs_with_other_seeds_alone(run: Path, tmp_path: Path) -> None:
    other = finished(RunFolder(tmp_path / "other"), seed=8)
    card = (publish_team(run, seeds=[other.path]) / "README.md").read_text()
    assert "Seeds: 7, 8." in card and "over tasks and seeds" in card
    assert "means over 2 seeds. The team is that of seed 7." in card
    assert "say nothing about other seeds" not in card
    text = other.config.read_text().replace("magrpo", "marloo")
    other.config.write_text(text)
    with pytest.raises(ConfigError, match="no repetitions with other seeds"):
        publish_team(run, tmp_path / "out", seeds=[other.path])
    assert not (tmp_path / "out").exists()


def test_a_run_of_another_seed_that_is_none_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nope holds no run: --seed-run names the folder of one"):
        publish_team(run, tmp_path / "out", seeds=[tmp_path / "nope"])


def test_teams_without_runs_say_nothing_is_known(teams: dict[str, Path], tmp_path: Path) -> None:
    folder = publish_team(teams["own"], tmp_path / "out")
    card = (folder / "README.md").read_text()
    assert "No evaluation was recorded." in card and "Nothing is known of the training" in card
    assert "license" not in front(folder) and "is not stated" in card
    with pytest.raises(ConfigError, match="--seed-run needs a run"):
        publish_team(teams["own"], tmp_path / "other", seeds=[tmp_path])


def test_no_local_path_published(teams: dict[str, Path], tiny_model: str, tmp_path: Path) -> None:
    own = publish_team(teams["own"], tmp_path / "own")
    assert tiny_model not in (own / "team.json").read_text() + (own / "README.md").read_text()
    card = (publish_team(teams["lora"], tmp_path / "local") / "README.md").read_text()
    assert tiny_model not in card and "need a base model that was a local folder" in card
    with pytest.raises(ConfigError, match="--base-model OWNER/NAME"):
        publish_team(teams["lora"], tmp_path / "no", repository="me/team")
    lora = publish_team(
        teams["lora"], tmp_path / "lora", base_model="them/base", repository="me/team"
    )
    adapter = json.loads((lora / "aux_0" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == "them/base" == front(lora)["base_model"][0]
    texts = [path.read_text() for path in (lora / "team.json", lora / "README.md")]
    assert not any(tiny_model in text for text in texts) and 'subfolder="aux_0"' in texts[1]
    with pytest.raises(ConfigError, match="this team has 0"):
        publish_team(teams["own"], tmp_path / "no", base_model="them/base")
    assert not (tmp_path / "no").exists()


class Api:
    """A double of the hub's client."""

    calls: list[Any]
    error: Exception | None = None

    def create_repo(self, name: str, **options: Any) -> str:
        self.calls.append(("create", name, options))
        return f"https://hub/{name}"

    def upload_folder(self, **options: Any) -> None:
        self.calls.append(
            ("upload", options["repo_id"], sorted(Path(options["folder_path"]).iterdir()))
        )
        if self.error:
            raise self.error


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> type[Api]:
    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    Api.calls, Api.error = [], None
    return Api


def test_only_push_publishes(run: Path, api: type[Api], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("publish", str(run), "--output", str(run / "a")) == 0 and not api.calls
    command = ("publish", str(run), "--output", str(run / "b"), "--push", "me/team")
    assert call(*command) == 0
    options = {"repo_type": "model", "private": True, "exist_ok": True}
    assert api.calls[0] == ("create", "me/team", options)
    names = [path.name for path in api.calls[1][2]]
    assert names == ["README.md", "aux_0", "main_0", "team.json", "training_config.yaml"]
    assert "https://hub/me/team" in capsys.readouterr().out
    assert 'from_pretrained("me/team", subfolder="aux_0")' in (run / "b" / "README.md").read_text()
    data = ("export", str(run), "--to", "jsonl", "--push", "me/data", "--public")
    assert call(*data) == 0
    assert api.calls[2] == (
        "create",
        "me/data",
        {**options, "repo_type": "dataset", "private": False},
    )
    assert api.calls[3][2][0].name == "README.md"


def test_a_refusing_hub_leaves_the_folder_and_advice(tmp_path: Path, api: type[Api]) -> None:
    api.error = OSError("no network")
    with pytest.raises(RunError, match=r"hf upload me/team .* --repo-type model"):
        hub.push(tmp_path, "me/team", "model", public=False)
    for name in ("team", "me/te am"):
        with pytest.raises(ConfigError, match="--push takes OWNER/NAME"):
            hub.check_repository(name)


def test_licenses_are_those_of_the_source_and_unknown_ones_are_not_invented() -> None:
    named = {data.name for data in (HUMANEVAL, HUMANEVALFIX, MBPP, CLASSEVAL)}
    assert named == HUB_LICENSES.keys()
    assert find_license({**DATA, "name": "mbpp", "source": "hub"}) == "cc-by-4.0"
    assert find_license({**DATA, "name": "mbpp", "source": "bundled"}) == "mit"
    assert find_license({**DATA, "name": "mbpp", "source": "/home/me/mbpp.jsonl"}) == NOT_RECORDED
    assert find_license({**DATA, "source": "hub"}) == NOT_RECORDED
    assert find_license(DATA, is_builtin=False) == NOT_RECORDED
    assert MANIFEST["data"]["train"] is DATA
