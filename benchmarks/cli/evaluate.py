"""The command `eval`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from llm_decpomdp.benchmarks.cli.console import (
    AllowEndpoint,
    AtATime,
    Checkpoint,
    Env,
    EnvOptions,
    Greedy,
    Output,
    Overrides,
    Samples,
    Seed,
    Split,
    Tasks,
    complete_config,
    complete_run,
    give_result,
)

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult

# A copy of the names in `benchmarks/evaluation/baselines.py`, whose import is slow; a test compares both.
BASELINES = (
    *("single_agent", "single_agent_matched", "self_consistency", "naive_concatenation"),
    *("sequential_pipeline", "one_round_discussion", "expert_edits", "gold", "random"),
)

EXAMPLES = """\
Examples:

llm-decpomdp eval --team runs/demo-20260101-120000 --samples 5

llm-decpomdp eval --baseline gold --env classeval-v0

llm-decpomdp eval --model gpt-4o-mini --model gpt-4o --samples 5 --on-error skip

llm-decpomdp eval --model my-model --base-url http://localhost:8000/v1

docs/evaluation.md says what is measured.
"""


def eval_(
    config: Annotated[
        str | None,
        Option(
            help="Name or path of a configuration, whose team plays untrained.",
            autocompletion=complete_config,
        ),
    ] = None,
    override: Overrides = None,
    team: Annotated[
        Path | None,
        Option(
            metavar="FOLDER", help="A saved team, or a run, instead.", autocompletion=complete_run
        ),
    ] = None,
    checkpoint: Checkpoint = None,
    baseline: Annotated[
        str | None,
        Option(help=f"A baseline instead: {', '.join(BASELINES)}, or module:NAME of yours."),
    ] = None,
    model: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="A model behind a server that speaks OpenAI's protocol plays all agents instead; several, each "
            "after its own --model, make one table.",
        ),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        Option(metavar="URL", help="Its server, mostly ending in /v1; by default OpenAI's."),
    ] = None,
    key_variable: Annotated[
        list[str] | None,
        Option(
            metavar="VARIABLE",
            help="The environment variable that holds its key; by default OPENAI_API_KEY.",
        ),
    ] = None,
    model_option: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=VALUE",
            # Typer prints help as markup of rich, where brackets without a backslash are a style.
            help="Another key of its policy, such as timeout=60, omit=\\[top_p] or extra={reasoning_effort: low}.",
        ),
    ] = None,
    env: Env = None,
    env_option: EnvOptions = None,
    split: Split = None,
    tasks: Tasks = None,
    samples: Samples = 1,
    k: Annotated[
        list[int] | None,
        Option("--k", metavar="K", help="Also report pass@K; may be given several times."),
    ] = None,
    greedy: Greedy = False,
    seed: Seed = 0,
    at_a_time: AtATime = 64,
    on_error: Annotated[
        str,
        Option(
            help="What to do once a request to a server has failed for good: raise ends the evaluation, skip "
            "leaves its episode out and counts it."
        ),
    ] = "raise",
    allow_endpoint: AllowEndpoint = None,
    output: Output = None,
) -> None:
    """Measure a team or a baseline, with intervals. Stopped, the same command goes on."""
    from llm_decpomdp.benchmarks.evaluation.request import EvalRequest, evaluate_models
    from llm_decpomdp.benchmarks.evaluation.teams import remote_models

    models = remote_models(model or (), base_url or (), key_variable or (), model_option or ())
    request = EvalRequest(
        config=config,
        overrides=override or (),
        team=team,
        checkpoint=checkpoint,
        baseline=baseline,
        env=env,
        env_options=env_option or (),
        split=split,
        tasks=tasks,
        samples=samples,
        k=k or (),
        greedy=greedy,
        seed=seed,
        at_a_time=at_a_time,
        on_error=on_error,
        output=output,
        allow_endpoints=allow_endpoint or (),
    )
    show(evaluate_models(request, models))


def show(evaluations: Mapping[str, EvaluationResult]) -> None:
    """Print the table of an evaluation, or that of several models by name, with failures and folders."""
    from rich.console import Console

    from llm_decpomdp.benchmarks.evaluation.folder import comparison, summary, table

    give_result(
        {name: {"folder": of.folder, **summary(of)} for name, of in evaluations.items()}
        if len(evaluations) > 1
        else {"folder": (first := next(iter(evaluations.values()))).folder, **summary(first)}
    )
    console = Console(highlight=False)
    first = next(iter(evaluations.values()))
    console.print(table(first) if len(evaluations) == 1 else comparison(evaluations))
    for evaluation in evaluations.values():
        failures = evaluation.failures
        if failures:
            console.print(
                f"{len(failures)} of {evaluation.episodes + len(failures)} episodes failed and count in no "
                f"measure, such as: {failures[0]}. The same command tries them again",
                soft_wrap=True,
            )
        console.print(f"evaluation: {evaluation.folder}", soft_wrap=True)
