"""The paper's real-data benchmark, and a harness for further data sets, models and variants."""

from evencover.reproduction.benchmark.results import summarize, write_results
from evencover.reproduction.benchmark.runs import PAPER_SPLITS, Benchmark, run_benchmark
from evencover.reproduction.benchmark.trials import VARIANTS, BenchmarkModel, Trial, Variant, paper_models, run_trial

__all__ = [
    "PAPER_SPLITS",
    "VARIANTS",
    "Benchmark",
    "BenchmarkModel",
    "Trial",
    "Variant",
    "paper_models",
    "run_benchmark",
    "run_trial",
    "summarize",
    "write_results",
]
