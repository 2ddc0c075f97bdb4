"""The paper's real-data benchmark, and a harness for further data sets, models and variants."""

from evencover.reproduction.benchmark.result_files import write_results
from evencover.reproduction.benchmark.runs import PAPER_SPLITS, Benchmark, run_benchmark
from evencover.reproduction.benchmark.summary import summarize
from evencover.reproduction.benchmark.trials import Trial, run_trial
from evencover.reproduction.benchmark.variants import VARIANTS, BenchmarkModel, Variant, paper_models

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
