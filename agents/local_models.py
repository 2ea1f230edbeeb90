"""The models that need no hub, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from llm_decpomdp.agents.offline import OFFLINE_MODEL, offline_model
from llm_decpomdp.agents.tiny_model import TINY_MODEL, tiny_model

LOCAL_MODELS: Mapping[str, Callable[[], Path]] = {
    OFFLINE_MODEL: offline_model,
    TINY_MODEL: tiny_model,
}
"""What writes a model on first use, and says where."""


def model_source(name: str | Path) -> str | Path:
    """What transformers loads for a name: the folder of a model that needs no hub, or the name itself.

    Adapters on such a model remember its folder, which another machine has elsewhere.
    """
    path = Path(name)
    for known, folder in LOCAL_MODELS.items():
        moved = path.is_absolute() and path.name.startswith(f"{known}-") and not path.is_dir()
        if moved or str(name).lower() == known:
            return folder()
    return name
