"""A policy by the name of its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.offline import OFFLINE_MODEL, offline_model

if TYPE_CHECKING:
    from llm_decpomdp.agents.causal_lm import CausalLM


def load_policy(name: str, *arguments: Any, **options: Any) -> CausalLM:
    """Load a model as a policy.

    Args:
        name: `smollm2-135m-instruct` for the offline model, or a transformers name or path.
        *arguments: Passed on to `CausalLM.from_pretrained`.
        **options: Likewise.

    Raises:
        ImportError: If torch, transformers or the offline model's package is missing.
        OSError: If transformers finds no model of this name.
    """
    try:
        from llm_decpomdp.agents.causal_lm import CausalLM
    except ImportError as error:
        raise ImportError(
            f"a language model needs torch and transformers ({error}): pip install 'llm-decpomdp[train]'"
        ) from error
    path = offline_model() if name.lower() == OFFLINE_MODEL else name
    return CausalLM.from_pretrained(path, *arguments, **options)
