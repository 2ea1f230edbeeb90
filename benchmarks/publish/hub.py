"""Uploads to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError


def check_repository(name: str | None, *, public: bool = False) -> None:
    """Raise a `ConfigError` unless a text can name a repository of the hub; `None` if nothing is uploaded."""
    if name is None:
        if public:
            raise ConfigError("--public is of the repository that --push names: give both")
        return
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
        if "/" not in name:
            raise HFValidationError(f"{name!r} has no owner")
    except HFValidationError as error:
        raise ConfigError(f"--push takes OWNER/NAME: {error}") from None


def push(folder: Path, name: str, kind: Literal["model", "dataset"], *, public: bool) -> str:
    """Upload a folder into a repository, which is created if it is new.

    Args:
        folder: The folder.
        name: OWNER/NAME.
        kind: The kind of the repository.
        public: Whether a new repository is public; one that exists stays as it is.

    Returns:
        The address of the repository.

    Raises:
        RunError: If the hub refuses, or does not answer.
    """
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api = huggingface_hub.HfApi()
    try:
        address = api.create_repo(name, repo_type=kind, private=not public, exist_ok=True)
        api.upload_folder(folder_path=folder, repo_id=name, repo_type=kind)
    except (HfHubHTTPError, LocalTokenNotFoundError, OSError) as error:
        raise RunError(
            f"{folder} is written, and the hub does not take it as {name}: {error}. Log in with `hf auth login`, "
            f"then: hf upload {name} {folder} --repo-type {kind}"
        ) from error
    return str(address)
