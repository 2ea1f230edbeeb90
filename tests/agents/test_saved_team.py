from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.saved_team import load_saved_team, save_team
from llm_decpomdp.agents.scripted import Constant, Gold, RandomText, Replay, Scripted
from llm_decpomdp.agents.single_model import load_policy
from llm_decpomdp.policy import Policy
from tests.agents.conftest import Make

LORA: dict[str, Any] = {"r": 2, "target_modules": ["q_proj"], "init_lora_weights": False}


def scores(policy: Policy) -> torch.Tensor:
    """Log-probabilities of completions that a policy's own random numbers do not decide."""
    assert isinstance(policy, CausalLM)
    completions = Fixed.sample(policy)
    return policy.log_probs("abc", completions)[0].detach().cpu()


class Fixed:
    """Completions that are sampled once, from the first policy that asks."""

    kept: Any = None

    @classmethod
    def sample(cls, policy: CausalLM) -> Any:
        if cls.kept is None:
            cls.kept = policy.generate(["abc"], 3)[0]
        return cls.kept


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "team.json").read_text())
    return found


def test_a_team_comes_back_and_transformers_loads_parts(tmp_path: Path, make_policy: Make) -> None:
    shared, own = make_policy(0, temperature=0.5), make_policy(1)
    for parameter in own.parameters():
        parameter.requires_grad_(False)
    folder = tmp_path / "team"
    save_team({"a": shared, "b": own, "c": shared}, folder, {"a": "pair", "b": "own", "c": "pair"})
    assert {path.name for path in folder.iterdir()} == {"team.json", "pair", "own"}
    back = load_saved_team(folder, device="cpu")
    assert list(back) == ["a", "b", "c"] and back["a"] is back["c"]
    for before, after in ((shared, back["a"]), (own, back["b"])):
        assert torch.equal(scores(before), scores(after))
        assert isinstance(after, CausalLM)
        assert after.sampling == before.sampling and after.compute_dtype == before.compute_dtype
        wanted = [parameter.requires_grad for parameter in before.parameters()]
        assert [parameter.requires_grad for parameter in after.parameters()] == wanted
    alone = AutoModelForCausalLM.from_pretrained(folder / "pair")
    ids = AutoTokenizer.from_pretrained(folder / "pair")("abc", return_tensors="pt").input_ids
    with torch.no_grad():
        assert torch.equal(alone(ids).logits, shared.model(ids).logits)


def test_adapters_on_one_base_come_back_on_one_base_and_peft_alone_loads_each(
    tmp_path: Path, make_policy: Make
) -> None:
    from peft import AutoPeftModelForCausalLM

    make_policy(0).save(tmp_path / "base")
    spec = PolicySpec(
        name=str(tmp_path / "base"), lora=LORA, compute_dtype="float32", max_new_tokens=6
    )
    agents = {"a": "left", "b": "right"}
    team = load_team(agents, {"left": spec, "right": spec})
    save_team(team, tmp_path / "team", agents)
    entries = manifest(tmp_path / "team")["policies"]
    assert {entry["base_model"] for entry in entries.values()} == {str(tmp_path / "base")}
    assert all(entry["adapter"] for entry in entries.values())
    back = load_saved_team(tmp_path / "team")
    assert not torch.equal(scores(team["a"]), scores(team["b"]))
    ids = torch.tensor([[5, 6, 7]])
    for agent, name in agents.items():
        assert torch.equal(scores(team[agent]), scores(back[agent]))
        alone = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "team" / name)
        expected, _ = fresh(tmp_path / "team" / name, ids)
        with torch.no_grad():
            assert torch.equal(alone(ids).logits, expected)
    left, right = back["a"], back["b"]
    assert isinstance(left, CausalLM) and isinstance(right, CausalLM)
    shared = [{p.data_ptr() for p in policy.model.parameters()} for policy in (left, right)]
    assert shared[0] & shared[1]
    trained = [list(policy.parameters()) for policy in (left, right)]
    assert trained[0] and trained[1] and all(p.requires_grad for ps in trained for p in ps)


def fresh(folder: Path, ids: torch.Tensor) -> tuple[torch.Tensor, CausalLM]:
    policy = load_policy(folder, compute_dtype="float32", device="cpu")
    with torch.no_grad():
        return policy.model(ids).logits, policy


def test_policies_without_weights_stand_in_the_manifest(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    from llm_decpomdp.agents.remote.endpoint import Endpoint

    team: dict[str, Policy] = {
        "a": Constant("hi"),
        "b": Replay(["x", "y"]),
        "c": RandomText(0, length=7),
        "d": Gold(),
        "e": Endpoint("big", "http://localhost:1/v1", temperature=0.5, max_parallel=3),
    }
    save_team(team, tmp_path / "team")
    assert [path.name for path in (tmp_path / "team").iterdir()] == ["team.json"]
    found = manifest(tmp_path / "team")
    assert found["format"] == 1 and found["agents"] == {agent: agent for agent in team}
    assert found["policies"]["a"] == {"kind": "constant", "text": "hi"}
    assert "llm-decpomdp" in found["versions"] and "torch" in found["versions"]
    server = "OPENAI_API_KEY@http://localhost:1/v1"
    back = load_saved_team(tmp_path / "team", allow_endpoints=[server])
    assert [type(policy) for policy in back.values()] == [type(policy) for policy in team.values()]
    assert (back["a"].act(""), back["b"].act(""), len(back["c"].act(""))) == ("hi", "x", 7)
    endpoint = back["e"]
    assert isinstance(endpoint, Endpoint)
    assert vars(endpoint).keys() == vars(team["e"]).keys()
    assert (endpoint.base_url, endpoint.temperature) == ("http://localhost:1/v1", 0.5)


def write_manifest(folder: Path, **policy: object) -> None:
    content = {"format": 1, "agents": {"a": "p"}, "policies": {"p": policy}, "versions": {}}
    (folder / "team.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("options", "endpoint"),
    [
        ({"base_url": "http://elsewhere/v1"}, "OPENAI_API_KEY@http://elsewhere/v1"),
        ({"key_variable": "AWS_SECRET"}, "AWS_SECRET@https://api.openai.com/v1"),
        (
            {"base_url": "http://elsewhere/v1", "key_variable": "HF_TOKEN"},
            "HF_TOKEN@http://elsewhere/v1",
        ),
    ],
)
def test_a_saved_team_sends_no_key_to_a_server_that_its_reader_does_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], endpoint: str
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv(options.get("key_variable", "OPENAI_API_KEY"), "secret")
    write_manifest(tmp_path, kind="endpoint", name="m", **options)
    with pytest.raises(ValueError, match=f"--allow-endpoint '{re.escape(endpoint)}'"):
        load_saved_team(tmp_path)
    with pytest.raises(ValueError, match="would send all prompts"):
        load_saved_team(tmp_path, allow_endpoints=["OTHER@http://elsewhere/v1"])
    assert load_saved_team(tmp_path, allow_endpoints=[endpoint]).keys() == {"a"}


def test_teams_ask_the_server_of_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    write_manifest(tmp_path, kind="endpoint", name="m")
    assert load_saved_team(tmp_path).keys() == {"a"}


@pytest.mark.parametrize("outside", ["../other", "absolute", "link"])
def test_folders_of_a_team_lie_inside(tmp_path: Path, make_policy: Make, outside: str) -> None:
    team, other = tmp_path / "team", tmp_path / "other"
    save_team({"a": make_policy(0)}, team)
    (team / "a").rename(other)
    (team / "link").symlink_to(other)
    text = (team / "team.json").read_text()
    name = str(other) if outside == "absolute" else outside
    (team / "team.json").write_text(text.replace('"folder": "a"', f'"folder": "{name}"'))
    with pytest.raises(ValueError, match="is outside the team's folder"):
        load_saved_team(team)


def test_teams_decide_nothing_about_their_machine(tmp_path: Path, make_policy: Make) -> None:
    save_team({"a": make_policy(0)}, tmp_path / "team")
    path = tmp_path / "team" / "team.json"
    content = json.loads(path.read_text())
    content["policies"]["a"] |= {"attn_implementation": "someone/kernel", "device": "cuda:7"}
    path.write_text(json.dumps(content))
    assert load_saved_team(tmp_path / "team", device="cpu").keys() == {"a"}


def test_agents_that_share_give_the_policy_their_names(tmp_path: Path) -> None:
    one = Constant("hi")
    save_team({"a/0": one, "b 0": one, "c": Constant("ho")}, tmp_path / "team")
    assert manifest(tmp_path / "team")["agents"] == {"a/0": "a_0+b_0", "b 0": "a_0+b_0", "c": "c"}
    back = load_saved_team(tmp_path / "team")
    assert back["a/0"] is back["b 0"] and back["c"].act("") == "ho"


def test_names_must_tell_the_policies_apart(tmp_path: Path) -> None:
    one, two = Constant("a"), Constant("b")
    with pytest.raises(ValueError, match="two policies have the name 'x'"):
        save_team({"a": one, "b": two}, tmp_path / "team", {"a": "x", "b": "x"})
    with pytest.raises(ValueError, match="share a policy need one name"):
        save_team({"a": one, "b": one}, tmp_path / "team", {"a": "x", "b": "y"})
    with pytest.raises(ValueError, match="letters, digits"):
        save_team({"a": one}, tmp_path / "team", {"a": "../x"})
    assert not (tmp_path / "team").exists()


class Own(Scripted):
    def act(self, prompt: str) -> str:
        return prompt


def test_a_policy_of_another_kind_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a Own cannot be saved with its team"):
        save_team({"a": Own()}, tmp_path / "team")
    assert not list(tmp_path.iterdir())


def test_a_team_replaces_a_team_and_nothing_else(tmp_path: Path, make_policy: Make) -> None:
    folder = tmp_path / "team"
    save_team({"a": make_policy(0)}, folder)
    save_team({"b": Constant("hi")}, folder)
    assert [path.name for path in folder.iterdir()] == ["team.json"]
    assert list(tmp_path.iterdir()) == [folder]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="other holds something else than a team"):
        save_team({"a": Constant("hi")}, other)
    assert (other / "thesis.txt").read_text() == "years of work"


def test_a_failure_while_writing_leaves_what_was_there(tmp_path: Path, make_policy: Make) -> None:
    folder = tmp_path / "team"
    save_team({"a": Constant("old")}, folder)
    broken = make_policy(0)
    broken.tokenizer = None  # fails after the weights were written
    with pytest.raises(AttributeError):
        save_team({"a": broken}, folder)
    assert load_saved_team(folder)["a"].act("") == "old"
    assert list(tmp_path.iterdir()) == [folder]


def test_what_cannot_be_loaded_says_why(tmp_path: Path, make_policy: Make) -> None:
    folder = tmp_path / "team"
    with pytest.raises(FileNotFoundError, match=r"holds no team: there is no team\.json"):
        load_saved_team(folder)
    save_team({"a": make_policy(0)}, folder)
    (folder / "a").rename(folder / "b")
    with pytest.raises(FileNotFoundError, match="lacks the folder 'a'"):
        load_saved_team(folder)
    text = (folder / "team.json").read_text()
    (folder / "team.json").write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(ValueError, match="has the format 2, and this version reads 1"):
        load_saved_team(folder)
    for broken in (text[:20], "[]", "{}"):
        (folder / "team.json").write_text(broken)
        with pytest.raises(ValueError, match="is no manifest of a team"):
            load_saved_team(folder)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"kind": "model"}, "the policy 'p' needs the text 'folder', got None"),
        ({"kind": "model", "folder": 3}, "the policy 'p' needs the text 'folder', got 3"),
        ({}, "the policy 'p' needs the text 'kind', got None"),
        ("gold", "agents, policies and each policy must be mappings"),
    ],
)
def test_a_manifest_of_another_form_is_refused(tmp_path: Path, policy: object, text: str) -> None:
    content = {"format": 1, "agents": {"a": "p"}, "policies": {"p": policy}, "versions": {}}
    (tmp_path / "team.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=text):
        load_saved_team(tmp_path)
