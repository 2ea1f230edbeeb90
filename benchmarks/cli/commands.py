"""The commands: their functions by groups, their examples, and their properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llm_decpomdp.benchmarks.cli import (
    bench,
    check,
    demo,
    evaluate,
    play,
    publish,
    results,
    serve,
    train,
)

Functions = Mapping[Callable[..., None], str | None]
"""Functions of commands, and the last lines of their help."""

COMMANDS: Mapping[str, Functions] = {
    "Start": {
        demo.demo: "Example: llm-decpomdp demo",
        play.play: "Example: llm-decpomdp play bugfix-v0 --policy gold",
        check.list_: None,
        check.doctor: None,
    },
    "Train and measure": {
        train.train_: "Example: llm-decpomdp train --config demo --override algorithm.name=marloo env.num_turns=2",
        evaluate.eval_: evaluate.EXAMPLES,
        bench.plan: "Example: llm-decpomdp plan magrpo_che_config --gpus 8xh100",
        bench.bench: "Example: llm-decpomdp bench laptop --dry-run",
        publish.demonstrations: "Example: llm-decpomdp demonstrations mbpp-v0 --split train --output a.jsonl",
        serve.serve: "Example: llm-decpomdp serve coophumaneval-v0 --seat main_0 --partner aux_0=gold",
    },
    "During and after a run": {
        results.watch: "Example: llm-decpomdp watch runs/demo-20260101-120000",
        results.report: "Example: llm-decpomdp report runs/a runs/b --output both.html",
        publish.export: "Example: llm-decpomdp export runs/a --pairs --to jsonl",
        publish.publish: "Example: llm-decpomdp publish runs/a --push OWNER/NAME",
        publish.reward_model: "Example: llm-decpomdp reward-model --pairs runs/a/pairs-jsonl/train.jsonl "
        "--config demo --output runs/judge",
    },
}
GROUPS: Mapping[str, tuple[str, Functions]] = {
    "analyze": (
        "Measure how the agents of a team work together.",
        {
            results.credit: "Example: llm-decpomdp analyze credit runs/a",
            results.crossplay: "Example: llm-decpomdp analyze crossplay runs/a runs/b",
            results.partners: "Example: llm-decpomdp analyze partners runs/a runs/b",
            results.necessity: "Example: llm-decpomdp analyze necessity runs/eval-team runs/eval-single",
        },
    ),
    "check": (
        "Check an environment, the data of one, or the rewards of stored episodes.",
        {
            check.env: "Example: llm-decpomdp check env bugfix-v0",
            check.data: "Example: llm-decpomdp check data classeval-v0 --output audit.json",
            check.rewards: "Example: llm-decpomdp check rewards runs/a",
        },
    ),
}
# Scripts of users call them, so they stay.
OLD_NAMES: Mapping[str, Callable[..., None]] = {
    "credit": results.credit,
    "crossplay": results.crossplay,
    "partners": results.partners,
    "necessity": results.necessity,
    "audit": check.data,
    "rescore": check.rewards,
}
"""Commands of earlier versions, which help does not show."""

WITH_MODELS = {
    *("train", "demo", "eval", "play", "reward-model", "serve", "crossplay", "partners"),
    *("analyze crossplay", "analyze partners"),
}
"""Commands in whose process models compute."""

WITH_RESULTS = (
    *(check.list_, check.doctor, check.env, check.data, check.rewards),
    *(demo.demo, train.train_, publish.reward_model, evaluate.eval_, bench.plan, bench.bench),
    *(results.credit, results.crossplay, results.partners, results.necessity),
    *(results.report, publish.export, publish.demonstrations, publish.publish),
)
