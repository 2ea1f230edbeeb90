"""The report of runs and evaluations: `llm-decpomdp report`."""

from llm_decpomdp.benchmarks.report.document import write_report

__all__ = ["write_report"]
