"""A team as a folder: one checkpoint for each policy in the formats of transformers and peft, and a manifest.

```
team.json          the policy of each agent, and its sampling
<policy>/          a transformers model or a peft adapter, and its tokenizer
```

transformers and peft alone can load a checkpoint. The manifest contains policies without weights completely.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import llm_decpomdp
from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.policy_kinds import CLASSES, KINDS, check_declaration, endpoint_address
from llm_decpomdp.agents.scripted import Replay
from llm_decpomdp.options import names
from llm_decpomdp.plugins import plugin_origin
from llm_decpomdp.policy import Policy, Team, TrainablePolicy, policy_attribute
from llm_decpomdp.utils.extras import MODEL_PACKAGES, installed

FORMAT = 1  # version of the folder's format
MANIFEST = "team.json"

_MACHINE = (
    "device",
    "attn_implementation",
    "gradient_checkpointing",
    "fused_kernels",
    "compile",
    *names(Caching),
    "lora",
    "name",
)
"""Options of a model that are not read from a team's folder: they belong to the machine, or to the checkpoint."""
# An `attn_implementation` could also name code on the hub, which would be run.

_ATTRIBUTES = {"name": "model"}
"""Attributes of an `Endpoint` by fields of `PolicySpec`, if they differ."""

logger = logging.getLogger(__name__)


def save_team(team: Team, folder: Path | str, names: Mapping[str, str] | None = None) -> None:
    """Write a team to a folder, which is replaced as a whole if it holds a team already.

    A policy that stands for several, such as a partner pool, is saved as the first of them.

    Args:
        team: A policy for each agent.
        folder: The folder to write.
        names: The name of each agent's policy, by agent id; otherwise the names of the agents that share it.

    Raises:
        FileExistsError: If the folder holds something else than a team.
        TypeError: If a policy is of a kind that cannot be loaded again.
        ValueError: If names do not fit the policies.
    """
    folder = Path(folder)
    check_target(folder)
    firsts = {agent: _first_member(policy) for agent, policy in team.items()}
    if any(firsts[agent] is not policy for agent, policy in team.items()):
        # A partner has names of its own, such as one policy of two agents.
        team, names = firsts, None
    agents = _names(team) if names is None else {agent: names[agent] for agent in team}
    policies = _policies_by_name(team, agents)
    specs = {name: read_policy_spec(policy) for name, policy in policies.items()}
    check_declaration(agents, specs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, so that a failure leaves the old team, and the new one appears at once.
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        target = Path(scratch, "new")
        target.mkdir()
        manifest = {
            "format": FORMAT,
            "agents": agents,
            "policies": {
                name: _write(policies[name], specs[name], target, name) for name in policies
            },
            "versions": {
                "llm-decpomdp": llm_decpomdp.__version__,
                **{package: found for package in MODEL_PACKAGES if (found := installed(package))},
            },
        }
        text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
        (target / MANIFEST).write_text(text, encoding="utf-8")
        if folder.exists():
            folder.rename(Path(scratch, "old"))
        target.rename(folder)
    logger.info("saved %d policies to %s", len(policies), folder)


def _first_member(policy: Policy) -> Policy:
    members: Sequence[Policy] = policy_attribute(policy, "members") or (policy,)
    return members[0]


def check_target(folder: Path) -> None:
    """Raise a `FileExistsError` unless a folder for a team is new, empty or holds a team."""
    if folder.is_dir() and ((folder / MANIFEST).is_file() or not any(folder.iterdir())):
        return
    if folder.exists():
        raise FileExistsError(
            f"{folder} holds something else than a team, which would be lost: choose another folder"
        )


def load_saved_team(
    folder: Path | str,
    *,
    device: str = "auto",
    seed: int = 0,
    allow_code: Collection[str] = (),
    allow_endpoints: Collection[str] = (),
) -> dict[str, Policy]:
    """Load a team that `save_team` has written; agents that shared a policy share it again.

    Args:
        folder: The team's folder.
        device: Device of its models: `auto` (a GPU where there is one), or a torch device.
        seed: Seed of sampling.
        allow_code: Classes that the team may name by their paths, such as `mine:Parrot`. They are run, so an
            unknown team must not choose them. Classes that installed packages register need no permission.
        allow_endpoints: Servers that the team may ask, each with the environment variable that is sent to it as a
            key: `VARIABLE@ADDRESS`, such as `OPENAI_API_KEY@http://localhost:8000/v1`.

    Raises:
        FileNotFoundError: If there is no team, or a part of it is missing.
        ValueError: If the manifest cannot be read, has a newer format, or names a class or a server that is not
            allowed, or a folder outside of the team's.
    """
    agents, policies = declaration(folder, device=device)
    check_trust(folder, policies, allow_code, allow_endpoints)
    return load_team(agents, policies, seed=seed)


def check_trust(
    folder: Path | str,
    policies: Mapping[str, PolicySpec],
    allow_code: Collection[str],
    allow_endpoints: Collection[str],
) -> None:
    """Raise a `ValueError` if a saved team names a class or server that is not allowed; see `load_saved_team`."""
    for name, spec in policies.items():
        endpoint = endpoint_address(spec)
        if endpoint is not None and endpoint not in allow_endpoints:
            variable, _, address = endpoint.partition("@")
            raise ValueError(
                f"the policy {name!r} of the team in {folder} would send all prompts, and the environment "
                f"variable {variable} as a key, to {address}: if you trust that server, add --allow-endpoint "
                f"{endpoint!r} (in Python, allow_endpoints=[{endpoint!r}])"
            )
        if ":" in spec.kind and spec.kind not in allow_code:
            raise ValueError(
                f"the policy {name!r} of the team in {folder} is code, {spec.kind!r}, which would be imported and "
                f"run: if you know it, load the team with allow_code=[{spec.kind!r}], or in a command with a "
                f"configuration (or as part of a run) whose policies name it"
            )


def declaration(
    folder: Path | str, *, device: str = "auto"
) -> tuple[dict[str, str], dict[str, PolicySpec]]:
    """Return the arguments of `load_team` for a saved team; arguments and errors as in `load_saved_team`."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    keys = names(PolicySpec)
    policies: dict[str, PolicySpec] = {}
    for name, entry in manifest["policies"].items():
        options = {key: value for key, value in entry.items() if key in keys}
        if entry["kind"] == "model":
            checkpoint = _checkpoint(folder, name, entry["folder"])
            options = {key: value for key, value in options.items() if key not in _MACHINE}
            options |= {"name": str(checkpoint), "device": device}
        try:
            policies[name] = PolicySpec(**options)
        except ValueError as error:
            if "package" not in entry:
                raise
            raise ValueError(f"{error}; it was of the package {entry['package']}") from None
    return manifest["agents"], policies


def _checkpoint(folder: Path, name: str, place: str) -> Path:
    checkpoint = Path(folder, place)
    # A link or an absolute path could have any file of this machine loaded.
    if not checkpoint.resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"the policy {name!r} of the team in {folder} has the folder {place!r}, which is outside "
            "the team's folder: copy it into the team's folder, and correct its path in team.json"
        )
    if not checkpoint.is_dir():
        raise FileNotFoundError(f"the team in {folder} lacks the folder {place!r}")
    return checkpoint


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a team's `team.json`.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it cannot be read, or has a newer format.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no team: there is no {MANIFEST} in it")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        file_format = manifest["format"]
        entries = [manifest["agents"], manifest["policies"], *manifest["policies"].values()]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is no manifest of a team: {error!r}; restore it from a copy, or train again"
        ) from None
    if file_format != FORMAT:
        raise ValueError(
            f"{path} has the format {file_format!r}, and this version reads {FORMAT}: "
            "load it with the version of llm-decpomdp that it names"
        )
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(
            f"{path} is no manifest of a team: agents, policies and each policy must be mappings, got {entries}"
        )
    for name, entry in manifest["policies"].items():
        for key in ("kind", *["folder"] * (entry.get("kind") == "model")):
            if not isinstance(entry.get(key), str):
                raise ValueError(
                    f"{path} is no manifest of a team: the policy {name!r} needs the text {key!r}, got "
                    f"{entry.get(key)!r}"
                )
    return manifest


def _names(team: Team) -> dict[str, str]:
    """Name each policy by its agents, joined, with '_' for characters that are not fit for a folder."""
    names = {
        agent: "+".join(mate for mate in team if team[mate] is policy)
        for agent, policy in team.items()
    }
    return {agent: re.sub(r"[^A-Za-z0-9_+-]", "_", name) for agent, name in names.items()}


def _policies_by_name(team: Team, agents: Mapping[str, str]) -> dict[str, Policy]:
    policies: dict[str, Policy] = {}
    for agent, policy in team.items():
        if policies.setdefault(agents[agent], policy) is not policy:
            raise ValueError(f"two policies have the name {agents[agent]!r}; give each its own")
    if len(policies) > len({id(policy) for policy in policies.values()}):
        raise ValueError(f"agents that share a policy need one name for it, got {dict(agents)}")
    return policies


def read_policy_spec(policy: Policy) -> PolicySpec:
    """Return the declaration of a policy, without the options that belong to the machine.

    Raises:
        TypeError: If it is of another kind than `PolicySpec` knows.
    """
    if isinstance(policy, TrainablePolicy):
        from llm_decpomdp.agents.models.causal_lm import CausalLM
        from llm_decpomdp.agents.models.quantized import quantization_of

        if isinstance(policy, CausalLM):
            return PolicySpec(
                name=policy.name,
                **vars(policy.sampling),
                **vars(policy.encoder.prompting),
                trainable=any(parameter.requires_grad for parameter in policy.parameters()),
                compute_dtype=str(policy.compute_dtype).removeprefix("torch."),
                quantization=quantization_of(policy.model),
            )
    for kind, of_kind in CLASSES.items():
        if isinstance(policy, of_kind):
            options = {field: vars(policy)[_ATTRIBUTES.get(field, field)] for field in KINDS[kind]}
            if isinstance(policy, Replay):
                options["texts"] = list(policy.texts)
            return PolicySpec(kind, **options)
    if isinstance(spec := vars(policy).get("spec"), PolicySpec):
        return spec
    raise TypeError(
        f"a {type(policy).__name__} cannot be saved with its team, as nothing could load it again; "
        "save it on its own"
    )


def _write(policy: Policy, spec: PolicySpec, folder: Path, name: str) -> dict[str, Any]:
    """Write a policy's checkpoint, if it has one; return its entry of the manifest."""
    entry = {"kind": spec.kind, **spec.options()}
    if (origin := plugin_origin("policy", spec.kind, KINDS)) is not None:
        entry["package"] = origin
    if isinstance(policy, TrainablePolicy):
        policy.save(folder / name)
        entry = {key: value for key, value in entry.items() if key not in _MACHINE}
        adapter = (folder / name / "adapter_config.json").is_file()
        entry |= {"folder": name, "base_model": spec.name or None, "adapter": adapter}
    return entry


def identify_team(folder: Path) -> Mapping[str, str]:
    """Identify the team in a folder, among all others and among those that the folder held before.

    The identity has the names, sizes and times of the files.
    """
    # Reading gigabytes of weights for a digest would take too long.
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        status = path.stat()
        digest.update(
            f"{path.relative_to(folder)}:{status.st_size}:{status.st_mtime_ns}\n".encode()
        )
        if path.name == MANIFEST:
            digest.update(path.read_bytes())
    return {"team": str(folder.resolve()), "files": digest.hexdigest()}
