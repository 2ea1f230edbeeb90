"""The models that need no hub, by name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from llm_decpomdp.agents.models.offline import OFFLINE_MODEL, offline_model
from llm_decpomdp.agents.models.tiny_model import TINY_MODEL, tiny_model

LOCAL_MODELS: Mapping[str, Callable[[], Path]] = {
    OFFLINE_MODEL: offline_model,
    TINY_MODEL: tiny_model,
}
"""Functions that write a model on first use and return its folder, by name."""


MODEL_FILES = ("config.json", "adapter_config.json")
"""Files of which a folder with a model or an adapter has one."""

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""Pattern of a name on the hub: a model, mostly after its owner."""


class ModelError(OSError):
    """A model that cannot be loaded; the text says why, and what to do."""


def model_source(name: str | Path) -> str | Path:
    """Return the source for transformers: the folder of a model that needs no hub, or the name itself.

    A folder's path is absolute, since adapters and saved teams remember it.
    Adapters on such a model remember its folder, which another machine has elsewhere.

    Raises:
        ModelError: If the name can only be a folder's, and there is no such folder, or no model in it.
    """
    path = Path(name)
    for local, folder in LOCAL_MODELS.items():
        elsewhere = path.is_absolute() and path.name.startswith(f"{local}-") and not path.is_dir()
        if elsewhere or str(name).lower() == local:
            return folder()
    if path.is_dir():
        if not any((path / file).is_file() for file in MODEL_FILES):
            raise ModelError(
                f"the folder {path} holds no model: it has no {' or '.join(MODEL_FILES)}"
            )
        return Path(os.path.abspath(path))
    if str(name).startswith((".", "~")) or not HUB_NAME.fullmatch(str(name)):
        raise ModelError(
            f"there is no folder {name}, and a model on the hub has a name like owner/model"
        )
    return name
