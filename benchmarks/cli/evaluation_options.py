"""The command `eval` of the command line, and the options that others share with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

BASELINES = (
    *("single_agent", "single_agent_matched", "naive_concatenation", "sequential_pipeline"),
    *("one_round_discussion", "expert_edits", "gold", "random"),
)
"""The names in `llm_decpomdp.benchmarks.evaluation.baselines`, which loads what help needs not."""

EXAMPLES = """\
Examples:

llm-decpomdp eval --team runs/demo-20260101-120000 --samples 5

llm-decpomdp eval --baseline gold --env classeval-v0

llm-decpomdp eval --model gpt-4o-mini --model gpt-4o --samples 5 --on-error skip

llm-decpomdp eval --model my-model --base-url http://localhost:8000/v1

docs/evaluation.md says what is measured.
"""

Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="KEY=VALUE ...", help="Set keys of the configuration."),
]
Checkpoint = Annotated[str | None, typer.Option(help="Which team of a run: final, best or last.")]
Env = Annotated[str | None, typer.Option(help="An environment instead of the configuration's.")]
EnvOptions = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An argument of the environment.")
]
Split = Annotated[
    str | None,
    typer.Option(
        help="Which problems, such as test[:16]; by default the held-out, of --env its usual."
    ),
]
Tasks = Annotated[int | None, typer.Option(min=1, help="How many of them, from the first on.")]
Samples = Annotated[int, typer.Option(min=1, help="Episodes of each problem.")]
Greedy = Annotated[bool, typer.Option("--greedy", metavar="", help="Take the likeliest token.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides what is sampled.")]
AtATime = Annotated[int, typer.Option(min=1, help="Episodes that are played together.")]
OnError = Annotated[
    str,
    typer.Option(
        help="What to do once a request to a server has failed for good: raise ends the evaluation, skip "
        "leaves its episode out and counts it."
    ),
]
Output = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the results go.")]


@app.command("eval", epilog=EXAMPLES, rich_help_panel="Train and measure")
def eval_(
    config: Annotated[
        str | None,
        typer.Option(help="Name or path of a configuration, whose team plays untrained."),
    ] = None,
    override: Overrides = None,
    team: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A saved team, or a run, instead.")
    ] = None,
    checkpoint: Checkpoint = None,
    baseline: Annotated[
        str | None, typer.Option(help=f"A baseline instead: {', '.join(BASELINES)}.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A model behind a server that speaks OpenAI's protocol plays all agents instead; several, each "
            "after its own --model, make one table.",
        ),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Its server, mostly ending in /v1; by default OpenAI's."),
    ] = None,
    key_variable: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIABLE",
            help="The environment variable that holds its key; by default OPENAI_API_KEY.",
        ),
    ] = None,
    model_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Another key of its policy, such as timeout=60, omit=\\[top_p] or extra={reasoning_effort: low}.",
        ),
    ] = None,
    env: Env = None,
    env_option: EnvOptions = None,
    split: Split = None,
    tasks: Tasks = None,
    samples: Samples = 1,
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Of pass@k; may be given several times.")
    ] = None,
    greedy: Greedy = False,
    seed: Seed = 0,
    at_a_time: AtATime = 64,
    on_error: OnError = "raise",
    output: Output = None,
) -> None:
    """Measure a team or a baseline, with intervals. Stopped, the same command goes on."""
    from llm_decpomdp.benchmarks.cli import evaluate as evaluating
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.evaluation.remote_models import remote_models

    prepare_process()
    with exit_codes():
        models = remote_models(model or (), base_url or (), key_variable or (), model_option or ())
        evaluating.run(
            evaluating.Request(
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
            ),
            models,
        )
