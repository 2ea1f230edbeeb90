"""Entries of an environment for hubs: a folder for verifiers, OpenEnv and Inspect each.

A folder of `templates/` is a hub. Every file in it is a template, and `MODULE` in its name is the module.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import llm_decpomdp
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_config_errors, write_folder
from llm_decpomdp.benchmarks.publish.cards import TEMPLATES_FOLDER, describe_sources, render
from llm_decpomdp.registry import make
from llm_decpomdp.utils.extras import EXTRAS, requirements

HUBS = ("verifiers", "openenv", "inspect")
"""Folders of templates, and names of the extras with the library of each hub."""


def publish_environment(
    env_id: str, output: Path | None, options: Mapping[str, Any], wheel: Path | None
) -> dict[str, Path]:
    """Write the entries of an environment. After an error no part of them is left.

    Args:
        env_id: A registered id.
        output: A new folder; by default the id in the current folder.
        options: Arguments of the environment.
        wheel: The wheel of this package, which the entries install.

    Returns:
        The folder of each hub.

    Raises:
        ConfigError: If the environment, its options or the wheel are wrong, or the output exists.
        RunError: If the output cannot be written.
    """
    content = _describe(env_id, options)
    # A dependency by name would install whatever somebody else uploads under it.
    if wheel is None or not wheel.is_file() or wheel.suffix != ".whl":
        raise ConfigError(
            f"--wheel names the wheel that the entries install, got {wheel}: `make release-check` writes it to "
            "build/release/dist, as llm-decpomdp is on no package index"
        )
    folder = output or Path(env_id)
    content["wheel"] = wheel.name
    with write_folder(folder) as target:
        for hub in HUBS:
            _write(hub, target, content)
            shutil.copy(wheel, target / hub)
    return {hub: folder / hub for hub in HUBS}


def _describe(env_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    with raise_config_errors():
        env = make(env_id, **options)
        agents, metadata = env.possible_agents, env.metadata
    record = {"environment": env_id, "data": {"default": metadata["data"]}}
    return {
        "env_id": env_id,
        "module": env_id.replace("-", "_"),
        "version": llm_decpomdp.__version__,
        "options": dict(options),
        "agents": agents,
        "description": metadata.get("description", ""),
        "sources": describe_sources(record if metadata.get("data") else {}),
        # A checkout that is not installed has no metadata with requirements.
        "requirements": {hub: (requirements(hub) or EXTRAS[hub])[0] for hub in HUBS},
    }


def _write(hub: str, folder: Path, content: Mapping[str, Any]) -> None:
    for template in sorted(TEMPLATES_FOLDER.glob(f"{hub}/**/*.jinja")):
        name = template.relative_to(TEMPLATES_FOLDER).as_posix()
        path = folder / name.removesuffix(".jinja").replace("MODULE", content["module"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(name, **content), encoding="utf-8")
