"""The report of a run that goes on: a callback that writes it after evaluations."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llm_decpomdp.algorithms import TrainerCallback
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.utils.storage import RunFolder, write_atomically

if TYPE_CHECKING:
    from llm_decpomdp.algorithms import Trainer

logger = logging.getLogger(__name__)

PAUSE = 19
"""Least time between two pages, in durations of the earlier one: pages take at most 5 % of the time."""


class LiveReport(TrainerCallback):
    """Writes the page of a run after evaluations; it reloads itself until the run ends.

    Args:
        config: The configuration, of which `output.report_every` counts.
        folder: The run's folder.
    """

    def __init__(self, config: Config, folder: RunFolder) -> None:
        self._every = config.output.report_every if config.output.report else 0
        self._folder = folder
        self._evaluations = 0
        self._due = False
        self._next = 0.0
        self._warned = False

    def on_evaluate(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """Note that a page is due."""
        self._evaluations += 1
        self._due |= bool(self._every) and self._evaluations % self._every == 0

    def on_step_end(self, trainer: Trainer) -> None:
        """Write the page, if it is due."""
        # The first evaluation waits for an update, as there is nothing to compare it with before.
        begin = time.monotonic()
        if not self._due:
            return
        self._due = False
        # A page that comes too early is left out, and the next evaluation asks for one again.
        if begin < self._next:
            return
        try:
            self._write(f"update {trainer.learner.updates} of {trainer.total}")
        except Exception as error:  # no page may end a run
            self._every = 0
            logger.warning("no more pages during training: %s: %s", type(error).__name__, error)
        self._next = time.monotonic() + PAUSE * (time.monotonic() - begin)

    def on_train_end(self, trainer: Trainer) -> None:
        """End the reloads of the page, also where the run was stopped."""
        if self._evaluations and self._folder.report.is_file():
            from llm_decpomdp.benchmarks.report.page import end_reloads

            text = self._folder.report.read_text(encoding="utf-8")
            if (ended := end_reloads(text)) != text:
                write_atomically(self._folder.report, ended)

    def _write(self, moment: str) -> None:
        from llm_decpomdp.algorithms.training.metrics import exploited_tests
        from llm_decpomdp.benchmarks.evaluation.experiments import experiments
        from llm_decpomdp.benchmarks.report.diagnostics import evaluation_rows
        from llm_decpomdp.benchmarks.report.document import write_page
        from llm_decpomdp.benchmarks.runs.results import read_results

        run = read_results(self._folder)
        write_page(experiments([run]), self._folder.report, moment)
        logger.info("report: %s", self._folder.report)
        # This warning alone needs the episodes; the log of the run gives the others.
        for warning in () if self._warned else exploited_tests(evaluation_rows(run)):
            self._warned = True
            logger.warning("%s: %s", warning.name, warning.text)
