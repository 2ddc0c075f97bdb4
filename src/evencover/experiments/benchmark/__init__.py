"""The paper's real-data benchmark, and a harness for further data sets, models and variants."""

from evencover.experiments.benchmark.contenders import VARIANTS, Contender, Variant, papers_models
from evencover.experiments.benchmark.plan import PAPERS_SPLITS, Benchmark
from evencover.experiments.benchmark.results import write_results
from evencover.experiments.benchmark.running import run_benchmark
from evencover.experiments.benchmark.summary import summary_of
from evencover.experiments.benchmark.trials import Trial, run

__all__ = [
    "PAPERS_SPLITS",
    "VARIANTS",
    "Benchmark",
    "Contender",
    "Trial",
    "Variant",
    "papers_models",
    "run",
    "run_benchmark",
    "summary_of",
    "write_results",
]
