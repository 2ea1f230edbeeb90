"""Trackers: further receivers of the rows of `metrics.jsonl`, while a run goes on.

```yaml
output:
  trackers:
    tensorboard: true                    # into the run's folder; torch.utils.tensorboard.SummaryWriter
    wandb: {project: mine, tags: [a]}    # wandb.init
    trackio: {project: mine}             # trackio.init
    my_package.mine:Lines: {every: 10}   # a class of your own: Lines(run, config, every=10)
```

Each is on (`true`, or options of the call in its comment) or off (`false`). One of your own is a `Tracker`, made
from the run's folder (`RunFolder`) and its configuration as a mapping.

A value is named after the row and its key, as in `train/reward_mean` and `eval/solved`. Its step is the update, or
the step of a warm start for `warm_start/...`. Nothing depends on trackers. One that fails is left out from then
on, with a warning.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from llm_decpomdp.algorithms import TrainerCallback
from llm_decpomdp.algorithms.training.metrics import UNTRAINED, WARM_START
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.schema import Config, plain
from llm_decpomdp.plugins import entry_point_plugins, find, is_added
from llm_decpomdp.utils.storage import RunFolder, read_json_lines, write_atomically
from llm_decpomdp.validation import unknown

if TYPE_CHECKING:
    from llm_decpomdp.algorithms import Rollout, Trainer

TRACKERS = ("tensorboard", "wandb", "trackio")
"""Names of trackers and of the packages that they need."""


def check_trackers(wanted: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` for an unknown tracker or an invalid value."""
    for name, options in wanted.items():
        if name not in TRACKERS and not is_added("tracker", name):
            names = [*TRACKERS, *(plugin.name for plugin in entry_point_plugins("tracker"))]
            text = unknown("tracker in output.trackers", name, names)
            raise ConfigError(f"{text}. One of your own is 'module:NAME'")
        if not isinstance(options, (bool, Mapping)):
            raise ConfigError(
                f"output.trackers.{name} must be true, false or options such as {{project: mine}}, "
                f"got {options!r}"
            )


def _options_of(wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each tracker that is on."""
    return {
        name: {} if options is True else dict(options)
        for name, options in wanted.items()
        if options is not False
    }


def tracker_class(name: str) -> Any:
    """Return the class of somebody else's tracker, called with the run's folder, its configuration and options."""
    try:
        return find("tracker", name, TRACKERS)
    except (KeyError, ImportError) as error:
        raise ConfigError(f"output.trackers: {error.args[0]}") from None


def require_packages(wanted: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` where the package of a tracker is missing."""
    for name in _options_of(wanted):
        if name not in TRACKERS:
            tracker_class(name)
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:  # a folder of that name is no package
            raise ConfigError(f"output.trackers: {name} is not installed: pip install {name}")


LESSON = f"{WARM_START}/step"

PROJECT = "llm_decpomdp"

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]


class Tracker(Protocol):
    """Takes values while a run goes on."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add the values of a row; `step` is the update, or the step of a warm start for `warm_start/...`."""
        ...

    def close(self) -> None:
        """Hand over what is left."""
        ...


class _TensorBoard:
    """Writes event files into `tensorboard` in the run's folder.

    They are written anew from `metrics.jsonl` when a run goes on, since that has dropped some rows.
    """

    def __init__(self, run: RunFolder, config: Row, **options: Any) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = run.path / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self._writer: Any = SummaryWriter(str(folder), **options)
        for row in read_json_lines(run.metrics):
            self.log(get_values(row), get_step(row))

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _WeightsAndBiases:
    """Logs to Weights & Biases; a run that goes on goes on there too, which ignores repeated updates.

    `wandb_id` in the run's folder tells which run it is. W&B has one step for all values, which must not fall: the
    steps of a warm start come first, and the updates are counted after them. Charts have the update on their axis.
    """

    def __init__(self, run: RunFolder, config: Row, **options: Any) -> None:
        import wandb

        identity = run.path / "wandb_id"
        usual = {"project": PROJECT, "name": run.path.name, "dir": str(run.path)}
        if identity.exists():
            usual |= {"id": identity.read_text(encoding="utf-8"), "resume": "allow"}
        self._run = wandb.init(config=dict(config), **{**usual, **options})
        write_atomically(identity, self._run.id)
        for kind in ("train", "eval", UNTRAINED):
            self._run.define_metric(f"{kind}/*", step_metric="update")
        self._run.define_metric(f"{WARM_START}/*", step_metric=LESSON)
        lessons = (row for row in read_json_lines(run.metrics) if row["kind"] == WARM_START)
        self._lessons = max(map(get_step, lessons), default=0)

    def log(self, values: Mapping[str, float], step: int) -> None:
        if LESSON in values:
            self._lessons = step
            self._run.log(dict(values), step=step)
        else:
            self._run.log({**values, "update": step}, step=self._lessons + step)

    def close(self) -> None:
        self._run.finish()


class _Trackio:
    """Logs to trackio; where a run goes on, repeated updates stand there twice."""

    def __init__(self, run: RunFolder, config: Row, **options: Any) -> None:
        import trackio

        self._finish = trackio.finish  # which `Run.finish` is not: it would be called again at exit
        usual = {
            "project": PROJECT,
            "name": run.path.name,
            "resume": "allow" if run.metrics.exists() else "never",
        }
        self._run = trackio.init(config=dict(config), **{**usual, **options})

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._finish()


CLASSES: Mapping[str, Callable[..., Tracker]] = dict(
    zip(TRACKERS, (_TensorBoard, _WeightsAndBiases, _Trackio), strict=True)
)


@contextmanager
def tracking(wanted: Mapping[str, Any], run: RunFolder, config: Row) -> Iterator[list[Feed]]:
    """Open trackers, and close them at the end."""
    with ExitStack() as stack:
        feeds: list[Feed] = []
        for name, options in _options_of(wanted).items():
            try:
                begin = CLASSES.get(name) or tracker_class(name)
                feed = Feed(name, begin(run, config, **options))
            except Exception as error:  # whatever a package makes of options, accounts and networks
                raise RunError(
                    f"output.trackers: {name} cannot begin: {type(error).__name__}: {error}"
                ) from error
            stack.callback(feed.close)
            feeds.append(feed)
        yield feeds


def open_trackers(config: Config, run: RunFolder) -> AbstractContextManager[list[Feed]]:
    """Open the trackers of a configuration; errors as of `tracking`."""
    return tracking(config.output.trackers, run, plain(asdict(config)))


class Feed(TrainerCallback):
    """Passes rows on to a tracker, until that fails."""

    def __init__(self, name: str, tracker: Tracker) -> None:
        self._name = name
        self._tracker: Tracker | None = tracker

    def on_log(self, trainer: Trainer, row: Row, rollouts: Sequence[Rollout] = ()) -> None:
        """Pass a row of `metrics.jsonl` on."""
        self._attempt(lambda tracker: tracker.log(get_values(row), get_step(row)))

    def close(self) -> None:
        """Close the tracker."""
        self._attempt(lambda tracker: tracker.close())

    def _attempt(self, action: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            action(self._tracker)
        except Exception as error:  # no tracker's failure may end a run
            self._tracker = None
            logger.warning(
                "%s has failed and gets no more rows; metrics.jsonl has them all: %s: %s",
                self._name,
                type(error).__name__,
                error,
            )


def get_step(row: Row) -> int:
    """Return the step of a row of `metrics.jsonl`: the update, or the step of a warm start."""
    return int(row["step"] if row["kind"] == WARM_START else row["update"])


def get_values(row: Row) -> dict[str, float]:
    """Name the values of a row of `metrics.jsonl`; those that are null are left out.

    Examples:
        >>> get_values({"update": 3, "kind": "eval", "solved": 0.5, "reward_standard_error": None})
        {'eval/solved': 0.5}
    """
    kind, values = row["kind"], {key: row[key] for key in row if key not in ("update", "kind")}
    return {f"{kind}/{key}": value for key, value in values.items() if value is not None}
