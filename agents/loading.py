"""From a model's name to a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.offline import OFFLINE_MODEL, offline_model
from llm_decpomdp.agents.tiny_model import TINY_MODEL, tiny_model

if TYPE_CHECKING:
    from llm_decpomdp.agents.causal_lm import CausalLM
    from llm_decpomdp.agents.sampling import Sampling


def load_policy(
    name: str | Path,
    sampling: Sampling | None = None,
    *,
    compute_dtype: str = "auto",
    lora: Mapping[str, Any] | None = None,
    device: str = "auto",
    attn_implementation: str | None = None,
    gradient_checkpointing: bool = False,
    seed: int = 0,
) -> CausalLM:
    """Load a local model as a policy.

    Args:
        name: `smollm2-135m-instruct` (comes with the extra `demo`, needs no hub), `tiny-random` (made here, says
            nothing sensible), a name on the hub, or a folder with a transformers model or a peft adapter.
        sampling: How completions are drawn.
        compute_dtype: `auto`, `float32` or `bfloat16`.
        lora: Arguments of `peft.LoraConfig`: train an adapter, and freeze the model.
        device: `auto` (a GPU where there is one), or a torch device.
        attn_implementation: How transformers computes attention, such as `sdpa`; `None` leaves it the choice.
        gradient_checkpointing: Compute activations twice instead of keeping them: less memory, more time.
        seed: Seed of the sampler, and of a new adapter's weights.

    Raises:
        ImportError: If torch, transformers or the offline model's package is missing.
        OSError: If there is no such model, or the hub cannot be reached.
    """
    with explained(name):
        from llm_decpomdp.agents.causal_lm import CausalLM

        return CausalLM.from_pretrained(
            model_source(name),
            sampling,
            compute_dtype=compute_dtype,
            lora=lora,
            device=device,
            attn_implementation=attn_implementation,
            gradient_checkpointing=gradient_checkpointing,
            seed=seed,
        )


def model_source(name: str | Path) -> str | Path:
    """What transformers loads for a name: the folder of a model that needs no hub, or the name itself.

    Adapters on the offline model remember its folder, which another machine has elsewhere.
    """
    if str(name).lower() == TINY_MODEL:
        return tiny_model()
    moved = Path(name).name.startswith(f"{OFFLINE_MODEL}-") and not Path(name).is_dir()
    return offline_model() if moved or str(name).lower() == OFFLINE_MODEL else name


@contextmanager
def explained(name: str | Path) -> Iterator[None]:
    """Let errors while a model is loaded name it, and say what to do."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers", "peft"):
            raise
        raise ImportError(
            f"a language model needs torch, transformers and peft ({error}): "
            "pip install 'llm-decpomdp[train]'"
        ) from error
    except OSError as error:
        raise OSError(
            f"cannot load the model {str(name)!r}: it is no folder with a model, and the hub does not "
            f"give it; without a hub there is {OFFLINE_MODEL!r}. {error}"
        ) from error
