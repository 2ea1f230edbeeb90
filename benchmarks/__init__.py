"""Benchmarks: configurations, training, evaluation, suites, reports and the command line.

Each name loads its module when it is first used.
"""

from typing import TYPE_CHECKING

from llm_decpomdp.utils.extras import lazy_names

if TYPE_CHECKING:
    from llm_decpomdp.benchmarks.analysis.credit import credits as credits
    from llm_decpomdp.benchmarks.analysis.replay import Replayed as Replayed
    from llm_decpomdp.benchmarks.analysis.replay import open_episodes as open_episodes
    from llm_decpomdp.benchmarks.analysis.replay import replay as replay
    from llm_decpomdp.benchmarks.evaluation.run import evaluate as evaluate
    from llm_decpomdp.benchmarks.evaluation.statistics import compare as compare
    from llm_decpomdp.benchmarks.report.document import write_report as write_report
    from llm_decpomdp.benchmarks.runs.setup import load_config as load_config
    from llm_decpomdp.benchmarks.runs.train import train as train
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
