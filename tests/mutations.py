"""Mutations: small mistakes in the source, made one at a time, to see whether the tests notice them.

    python -m tests.mutations                    all of them; takes hours if many are noticed late, or not at all
    python -m tests.mutations --hints-only       only the test files that should notice each one
    python -m tests.mutations --only 3,14        by number; or by words, such as --only weights
    python -m tests.mutations --of FOLDER        the mutations in another working tree, such as an older one

A mutation that some test notices is killed. A mutation that survives shows what the tests do not prove. Each one is a
mistake that a developer could make, and was chosen before it was known whether a test notices it: a survivor is no
reason to remove it. The tests run in a copy of the working tree, first the files named as hints, then the default run.
At the end, the tests that failed run without a mutation, where they must pass. The exit status is 1 if fewer than
95 % are killed.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

SOURCE = "src/evencover"
REPOSITORY = Path(__file__).parents[1]
NEEDED = 95  # percent of the mutations that must be killed
LIMIT = 3600  # seconds of a run of the tests; far more than it needs on a busy machine


@dataclass(frozen=True)
class Mutation:
    """A mistake in a file of the package: `old`, which occurs there once, becomes `new`.

    `breaks` says what is wrong then. `hints` are the test files that should notice it, separated by spaces and without
    their ending; they save time, and decide nothing.
    """

    file: str
    old: str
    new: str
    breaks: str
    hints: str

    def applied(self, text: str) -> str:
        """Return the text of the file with the mistake."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} must have this text once, not {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "ranks and quantiles": (
        Mutation(
            "quantiles.py",
            "return -(-(n + 1) * fraction.numerator // fraction.denominator)",
            "return -(-n * fraction.numerator // fraction.denominator)",
            "the rank does not count the new row: ceil(n level)",
            "test_quantiles",
        ),
        Mutation(
            "quantiles.py",
            "quantiles = np.full(len(levels), np.inf)",
            "quantiles = np.full(len(levels), scores.max(initial=-np.inf))",
            "with too few scores, the threshold is the largest one instead of infinity",
            "test_quantiles",
        ),
        Mutation(
            "quantiles.py",
            "return level if isinstance(level, Fraction) else _decimal_fraction(str(level))",
            "return level if isinstance(level, Fraction) else Fraction(float(level))",
            "a level is its binary fraction, not its decimal digits, so some ranks are one too high",
            "test_quantiles",
        ),
        Mutation(
            "quantiles.py",
            "needed = (-(-total * level.numerator // level.denominator) for level in levels)",
            "needed = (total * level.numerator // level.denominator for level in levels)",
            "the weight of clusters that a threshold needs is rounded down",
            "test_clusters",
        ),
        Mutation(
            "calibration/histograms.py",
            "rounded = index + np.int64(2**by - 1)",
            "rounded = index.copy()",
            "scores in histograms are rounded down, so thresholds are too small",
            "test_score_histograms",
        ),
    ),
    "bin edges": (
        Mutation(
            "bins.py",
            "is_edge_row = (upper_ends[codes] <= values) & has_edge_rows[codes]",
            "is_edge_row = (upper_ends[codes] < values) & has_edge_rows[codes]",
            "rows on an edge count as other rows of their bin",
            "test_taxonomies",
        ),
        Mutation(
            "bins.py",
            "np.count_nonzero(compared > edges[-1]) == 1:",
            "np.count_nonzero(compared > edges[-1]) == 0:",
            "a single calibration row above the last edge keeps a bin of its own",
            "test_taxonomies",
        ),
        Mutation(
            "calibration/stored_scores.py",
            "if not each & ~bits)",
            "if each == bits)",
            "a new row on an edge is compared only with calibration rows on an edge",
            "test_conformal",
        ),
        Mutation(
            "bins.py",
            "return without_rounding_errors(values) if self.rounded else values",
            "return values",
            "values that differ by a rounding error fall into different learned bins",
            "test_taxonomies",
        ),
        Mutation(
            "groups.py",
            "edge = self._edge_bits() | (other._edge_bits() << self.n_edge_bits) if n_edge_bits else None",
            "edge = self._edge_bits() | other._edge_bits() if n_edge_bits else None",
            "a product of groups mixes up the edges of its parts",
            "test_taxonomies",
        ),
    ),
    "ties": (
        Mutation(
            "calibration/stored_scores.py",
            'counted = self._tail_weights[np.searchsorted(self._sorted_scores, scores, side="left")] + own',
            'counted = self._tail_weights[np.searchsorted(self._sorted_scores, scores, side="right")] + own',
            "calibration scores equal to the new one do not count in its p-value",
            "test_calibration",
        ),
        Mutation(
            "intervals.py",
            "return (self.lower <= target) & (target <= self.upper)",
            "return (self.lower <= target) & (target < self.upper)",
            "a target on the upper bound is not covered",
            "test_intervals",
        ),
        Mutation(
            "intervals.py",
            "margin, several, (low, high) = ROUNDING * self.magnitude,",
            "margin, several, (low, high) = 0.0 * self.magnitude,",
            "a target that is off a bound by a rounding error counts as strictly inside",
            "test_audit",
        ),
        Mutation(
            "calibration/group_thresholds.py",
            "lows = [-np.inf, *(float(np.nextafter(edge, np.inf)) for edge in edges)]",
            "lows = [-np.inf, *edges]",
            "a target on an edge belongs to the groups on both sides of it",
            "contracts/test_calibrators",
        ),
        Mutation(
            "calibration/cross_sets.py",
            '(len(own) - np.searchsorted(own, values, side=side) for side in ("left", "right"))',
            '(len(own) - np.searchsorted(own, values, side=side) for side in ("right", "left"))',
            "p-values of folds count ties as smaller scores",
            "test_cross_selection",
        ),
    ),
    "weights and clusters": (
        Mutation(
            "quantiles.py",
            "needed = (total + test_weights)[:, None] * np.array(",
            "needed = np.full_like(test_weights, total)[:, None] * np.array(",
            "a weighted threshold leaves out the weight of the new row",
            "test_quantiles",
        ),
        Mutation(
            "quantiles.py",
            "total = weight(len(scores)) + unit",
            "total = weight(len(scores)) + 1",
            "with clusters, the new row weighs too little",
            "test_clusters",
        ),
        Mutation(
            "calibration/stored_scores.py",
            "else test_weights / self._common_weight",
            "else test_weights",
            "in p-values, the weight of the new row is in another unit than the others",
            "test_calibration",
        ),
        Mutation(
            "calibration/stored_scores.py",
            "sorted_weights = self._cluster_unit / self.cluster_sizes[self._sort_order]",
            "sorted_weights = self._cluster_unit / self.cluster_sizes",
            "in p-values, the weights of clusters are not in the order of the scores",
            "test_clusters",
        ),
        Mutation(
            "calibration/stored_scores.py",
            "return np.concatenate([part + start for part, start in zip(parts, starts[:-1], strict=True)])",
            "return np.concatenate(parts)",
            "merged calibrations take different clusters for the same one",
            "test_clusters",
        ),
        Mutation(
            "groups.py",
            "order = rng.permutation(len(clusters))",
            "order = np.arange(len(clusters))",
            "of each cluster the first row is tested, not a random one",
            "test_clusters",
        ),
    ),
    "scores and their inverses": (
        Mutation(
            "scores/score.py",
            "divisor + epsilon * self.scale if epsilon",
            "divisor + epsilon if epsilon",
            "epsilon is added to the spread without its unit",
            "test_scores",
        ),
        Mutation(
            "scores/bounds.py",
            "upper + widened(distance, upper)",
            "upper + distance",
            "the upper bound has no margin for rounding, so a target with the score of the threshold can be missed",
            "contracts/test_scores",
        ),
        Mutation(
            "scores/bounds.py",
            "_beyond(lower, upper, threshold * self._width(lower, upper, prediction), prediction)",
            "_beyond(lower, upper, threshold * (upper - lower), prediction)",
            "the floor is in the score, but not in its interval",
            "contracts/test_scores",
        ),
        Mutation(
            "scores/probability.py",
            "return -at, below",
            "return -below, at",
            "the probabilities of targets below y and of at most y are exchanged",
            "contracts/test_scores",
        ),
        Mutation(
            "scores/support.py",
            "return np.where(self.support.contains(y), scores, np.inf)",
            "return scores",
            "impossible targets have a finite score",
            "test_support",
        ),
        Mutation(
            "target_support.py",
            "lower, upper = np.ceil(lower) + 0.0, np.floor(upper) + 0.0",
            "lower, upper = np.floor(lower) + 0.0, np.ceil(upper) + 0.0",
            "bounds are rounded outward to whole numbers",
            "test_support",
        ),
    ),
    "intervals and target scales": (
        Mutation(
            "intervals.py",
            "return ~(self.lower <= self.upper)",
            "return self.lower > self.upper",
            "an interval whose bounds are NaN is not empty",
            "test_intervals",
        ),
        Mutation(
            "metrics.py",
            "scores = intervals.upper - intervals.lower + 2 / alpha * missed",
            "scores = intervals.upper - intervals.lower + 1 / alpha * missed",
            "the interval score counts misses half",
            "test_metrics",
        ),
        Mutation(
            "scores/target_scales.py",
            "at, _ = self._crossing(values, np.greater)",
            "at, _ = self._crossing(values, np.greater_equal)",
            "an upper bound leaves out the targets that are transformed exactly to it",
            "test_target_scales",
        ),
        Mutation(
            "scores/target_scales.py",
            '"probabilities": 1 - prediction.probabilities[::-1]}',
            '"probabilities": prediction.probabilities}',
            "a decreasing transform keeps the probabilities of its quantiles",
            "test_target_scales",
        ),
    ),
    "calibrators": (
        Mutation(
            "calibration/group_thresholds.py",
            "shares = self.lower_share, 1 - self.lower_share",
            "shares = 1 - self.lower_share, self.lower_share",
            "the shares of the lower and of the upper tail are exchanged",
            "test_two_tails",
        ),
        Mutation(
            "calibration/cross.py",
            "rank = ceil(level * (len(own) + n_repeats))",
            "rank = ceil(level * len(own))",
            "the rank of CV+ does not count the new row",
            "contracts/test_cross_calibrators",
        ),
        Mutation(
            "calibration/cross.py",
            "        scores[:, folds.in_all_samples] = np.inf\n",
            "",
            "a row that all bootstrap samples hold is scored by models that were fitted on it",
            "test_cross_conformal",
        ),
        Mutation(
            "calibration/cross_sets.py",
            "np.partition(self.table(cells, values), rank - 1, axis=1)[:, rank - 1]",
            "np.partition(self.table(cells, values), rank - 2, axis=1)[:, rank - 2]",
            "the ends of intervals over small folds are one rank too far inside",
            "test_cross_selection",
        ),
    ),
    "predictive distributions and p-values": (
        Mutation(
            "calibration/predictive.py",
            "(smaller + tau * (ties + 1))",
            "(smaller + tau * ties)",
            "a randomized rank does not count the new row among the ties",
            "test_predictive",
        ),
        Mutation(
            "calibration/predictive.py",
            "exact = needed - Fraction(tau)",
            "exact = needed",
            "quantiles of a predictive distribution do not use tau",
            "test_predictive",
        ),
        Mutation(
            "calibration/predictive.py",
            "rank = (self.steps.n + 1) * (1 - level) / 2",
            "rank = self.steps.n * (1 - level) / 2",
            "the ranks of central intervals do not count the new row",
            "test_predictive",
        ),
        Mutation(
            "calibration/cross.py",
            "counted / (1 + len(own) / len(self.fold_scores))",
            "counted / (1 + len(own))",
            "p-values of repeated folds are divided by the number of scores in all repeats",
            "contracts/test_cross_calibrators",
        ),
    ),
    "coverage tests and verdicts": (
        Mutation(
            "diagnostics/exact_tests.py",
            "steps = p_values[order] * np.arange(len(order), 0, -1)",
            "steps = p_values[order] * len(order)",
            "Holm's adjustment is that of Bonferroni",
            "test_diagnosis",
        ),
        Mutation(
            "diagnostics/verdicts.py",
            "\n        and not group.within <= tolerance + _ROUNDING_MARGIN",
            "",
            "a group that is shown to be within the tolerance can be off",
            "test_diagnosis",
        ),
        Mutation(
            "diagnostics/verdicts.py",
            "return group.high < float(level) or group.inside_low > float(level)",
            "return group.high < float(level) or group.low > float(level)",
            "targets on a bound, which no narrower interval covers, count as coverage that is too high",
            "test_diagnosis",
        ),
        Mutation(
            "diagnostics/coverage_intervals.py",
            "np.prod(probability(each[..., None]), axis=-1)",
            "np.min(probability(each[..., None]), axis=-1)",
            "the groups are shown to be even one by one, not all together",
            "guarantees/test_verdicts",
        ),
        Mutation(
            "diagnostics/coverage_tests.py",
            "return known if self.split_at_random else known.confirmed_by(self.covered, self.rows, level)",
            "return known",
            "test rows that may have changed need not confirm what the calibration rows say",
            "guarantees/test_verdicts",
        ),
        Mutation(
            "diagnostics/exact_tests.py",
            "return below, [(a + more, max(b - more, 0.0)) for a, b in below]",
            "return below, below",
            "thresholds from few clusters are tested as if coverage could not be above the level",
            "test_clusters guarantees/test_cluster_coverage",
        ),
    ),
    "diagnosis and sample sizes": (
        Mutation(
            "diagnostics/one_threshold.py",
            "hypergeom.sf(self.covered - 1, *null)",
            "hypergeom.sf(self.covered, *null)",
            "the p-value of a group that is covered too often leaves out the observed number",
            "test_diagnosis",
        ),
        Mutation(
            "diagnostics/sample_sizes.py",
            "return max(n // (needed + 1), int(n >= needed))",
            "return max(n // needed, int(n >= needed))",
            "the number of groups forgets that each edge takes a row",
            "test_sample_sizes",
        ),
        Mutation(
            "diagnostics/recommendations.py",
            '= ("even", "undecided", "uneven")',
            '= ("even", "uneven", "undecided")',
            "an uneven score is recommended rather than an undecided one",
            "test_recommend",
        ),
    ),
    "splits": (
        Mutation(
            "model_selection.py",
            "calibration_size / (1 - test_size),",
            "calibration_size,",
            "the calibration share is one of the rows that the test part leaves",
            "test_model_selection",
        ),
        Mutation(
            "studies/table_study.py",
            "ends = np.flatnonzero(np.diff(times[order])) + 1  # of all times but the last",
            "ends = np.arange(1, n)  # of all times but the last",
            "rows of the same time are in two parts of a split by time",
            "test_columns",
        ),
        Mutation(
            "conformal/split.py",
            "scale = median_spread(fitted, X_training)",
            "scale = median_spread(fitted, X)",
            "the scale of a score depends on the calibration rows",
            "test_conformal",
        ),
        Mutation(
            "models/folds.py",
            "n_samples = int(rng.binomial(n_bootstraps, (1 - 1 / (n_units + 1)) ** n_units))",
            "n_samples = int(n_bootstraps)",
            "the number of bootstrap samples is fixed, but the guarantee needs a random one",
            "test_cross_conformal",
        ),
        Mutation(
            "models/folds.py",
            "fitted = fitted_clone(estimator, take(X, training), y[training], params)",
            "fitted = fitted_clone(estimator, X, y, fit_params)",
            "predictions out of fold come from models that were fitted on the rows they predict",
            "test_spread",
        ),
    ),
    "guarantees": (
        Mutation(
            "guarantees.py",
            "return n + 1 - sum(n + 1 - conformal_rank(",
            "return n - sum(n + 1 - conformal_rank(",
            "the rank of two tails is one too low, and so is the exact coverage",
            "test_two_tails",
        ),
        Mutation(
            "guarantees.py",
            "1 - (2 * rank + self.k - 2) / (self.n + self.k)",
            "1 - (rank + self.k - 1) / (self.n + self.k)",
            "the bound of CV+ forgets that a row can be missed twice as often as the level allows",
            "guarantees/test_cross_conformal_bounds",
        ),
        Mutation(
            "calibration/calibration.py",
            'guarantee = replace(guarantee, kind="approximate").assuming(LEARNED_FROM_CLUSTERS)',
            "guarantee = guarantee.assuming(LEARNED_FROM_CLUSTERS)",
            "groups that were learned from clusters have a guarantee of the level",
            "guarantees/test_cluster_coverage",
        ),
    ),
    "SQL and arrays": (
        Mutation(
            "calibration/sql.py",
            "needed <= position * denominator)",
            "needed < position * denominator)",
            "in SQL, a rank that is a whole number before rounding gives no threshold",
            "test_sql",
        ),
        Mutation(
            "calibration/sql.py",
            "self.writer.case((left < self.writer.number(b), self.writer.number(b)), default=left)",
            "self.writer.case((left > self.writer.number(b), self.writer.number(b)), default=left)",
            "in SQL, the floor is the largest spread",
            "test_sql",
        ),
        Mutation(
            "bins.py",
            "lowered = np.where(nearest > edges, np.nextafter(nearest, np.float32(-np.inf)), nearest)",
            "lowered = nearest",
            "float32 values between an edge and its rounded value are in the wrong group",
            "test_device_arrays",
        ),
        Mutation(
            "inputs/device_arrays.py",
            "[rank - up_to_low - 1]",
            "[rank - up_to_low - 2]",
            "of many scores, the selected one has a rank that is one too low",
            "test_device_arrays",
        ),
        Mutation(
            "calibration/device_scores.py",
            "for step in (0, -1, 1)]",
            "for step in (0, -1, -1)]",
            "on a device, a score after the threshold that equals it is no tie",
            "test_device_arrays",
        ),
        Mutation(
            "calibration/device_scores.py",
            "((score <= values) if right else (score < values))",
            "(score <= values)",
            "on a device, p-values leave out ties",
            "test_device_arrays",
        ),
        Mutation(
            "arithmetic.py",
            "float(xp.finfo(size.dtype).eps)",
            "float(xp.finfo(xp.float64).eps)",
            "the rounding margin of float32 is that of float64",
            "test_device_arrays",
        ),
        Mutation(
            "calibration/sql.py",
            "if isinstance(part, self.writer.exp.Binary) else part",
            "if isinstance(part, self.writer.exp.Div) else part",
            "in SQL, operations have no parentheses",
            "test_sql",
        ),
    ),
    "data in batches": (
        Mutation(
            "tables/table_calibration.py",
            "kept[:] = [ScoreHistogram.concatenate(kept)]",
            "kept[:] = [ScoreHistogram.concatenate(kept[:-1])]",
            "the scores of every sixteenth part of the data are lost",
            "test_partitions",
        ),
        Mutation(
            "calibration/histograms.py",
            "        if len(elsewhere):\n            self._add_part(",
            "        if not len(elsewhere):\n            self._add_part(",
            "scores that are far from the others are not counted",
            "test_score_histograms",
        ),
        Mutation(
            "diagnostics/audit_counts.py",
            "self.cells[cell] = self.cells.get(cell, RowTotals()) + totals",
            "self.cells[cell] = totals",
            "of each file only the last batch is counted",
            "test_table_audits",
        ),
        Mutation(
            "tables/table_audit.py",
            "np.searchsorted(self.positions, [first, first + len(batch)])",
            "np.searchsorted(self.positions, [first, first + len(batch) - 1])",
            "a random sample never holds the last row of a batch",
            "test_table_audits",
        ),
    ),
    "files and command line": (
        Mutation(
            "files/archive.py",
            'if header["version"] > VERSION:',
            'if header["version"] > VERSION + 1:',
            "a file of the next version of the format is read",
            "test_predictor_files",
        ),
        Mutation(
            "groups.py",
            "return codes.astype(np.min_scalar_type(-max(stop, 1)))",
            "return codes.astype(np.min_scalar_type(max(stop, 1)))",
            "a saved calibration forgets which rows have no group",
            "test_calibration",
        ),
        Mutation(
            "calibration/calibration_files.py",
            "if described_nonconformity(given) != description:",
            "if type(described_nonconformity(given)) is not type(description):",
            "a score is accepted for a file that was saved with another one",
            "test_calibration",
        ),
        Mutation(
            "cli/invocation.py",
            'return 4 if strict and verdict == "undecided" else 0',
            'return 4 if verdict == "undecided" else 0',
            "an undecided verdict is an exit status without --strict",
            "test_main_job",
        ),
    ),
    "error checks": (
        Mutation(
            "quantiles.py",
            "if not 0 < level < 1:",
            "if not 0 < level <= 1:",
            "1 is accepted as a level",
            "test_bad_input",
        ),
        Mutation(
            "inputs/arrays.py",
            "    if not all_finite:\n",
            "    if finite and not all_finite:\n",
            "NaN is accepted as a score",
            "test_bad_input",
        ),
        Mutation(
            "tables/text_files.py",
            "while unique in names or (unique != name and unique in taken):",
            "while unique != name and unique in taken:",
            "columns with the same name keep it",
            "test_table_files",
        ),
        Mutation(
            "models/folds.py",
            "if clusters is not None and np.isin(clusters[test], clusters[training]).any():",
            "if clusters is not None and np.isin(clusters[test], clusters[training]).all():",
            "folds that split some of the clusters are accepted",
            "test_cross_conformal",
        ),
    ),
}


@dataclass(frozen=True)
class Outcome:
    """Which test killed a mutation, if one did, and how long that took."""

    number: int
    kind: str
    mutation: Mutation
    killer: str
    seconds: float


@dataclass(eq=False)
class Runs:
    """Runs of the tests in copies of a working tree, each in a process group of its own; `stop` ends them all."""

    tree: Path
    folder: Path
    hints_only: bool
    running: set[subprocess.Popen[str]] = field(default_factory=set)
    stopped: bool = False
    lock: Lock = field(default_factory=Lock)

    def outcome(self, number: int, kind: str, mutation: Mutation) -> Outcome:
        """Make the mistake in a copy, and run the tests until one fails."""
        start, copy = time.monotonic(), self.copied(f"{number}")
        file = copy / SOURCE / mutation.file
        file.write_text(mutation.applied(file.read_text()))
        hints = [hint for hint in (f"tests/{each}.py" for each in mutation.hints.split()) if (copy / hint).exists()]
        failed = self.failed(copy, "-x", *hints) if hints else []
        if not failed and not self.hints_only:
            failed = self.failed(copy, "-x", "-n", "2", "--dist", "worksteal")
        shutil.rmtree(copy, ignore_errors=True)
        return Outcome(number, kind, mutation, next(iter(failed), ""), time.monotonic() - start)

    def copied(self, name: str) -> Path:
        """Return a new copy of the working tree, as it would be committed."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.check_output(listed, cwd=self.tree, text=True).split("\0")
        for file in (self.tree / each for each in names if each):
            if file.is_file():
                target = self.folder / name / file.relative_to(self.tree)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)
        (self.folder / name / "build" / "temporary").mkdir(parents=True)
        return self.folder / name

    def failed(self, copy: Path, *arguments: str) -> list[str]:
        """Return the tests that failed, in their order. Raise RuntimeError if pytest could not run them."""
        # The list of mutations is itself tested: each text must occur in its file, which is not so in a mutated copy.
        options = ("-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "--ignore=tests/test_mutations.py")
        paths = {"PYTHONPATH": str(copy / "src"), "TMPDIR": str(copy / "build" / "temporary")}
        with self.lock:
            if self.stopped:
                raise RuntimeError("the runs were stopped")
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *arguments],
                cwd=copy,
                env={**os.environ, **paths},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            self.running.add(process)
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return [f"no end after {LIMIT} seconds"]
        finally:
            _kill(process)
            process.wait()
            self.running.discard(process)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, flags=re.MULTILINE)
        # With several processes, pytest's status is 2 if it stops at the first failure.
        if process.returncode not in (0, 1, 2) or bool(process.returncode) != bool(failed):
            raise RuntimeError(f"pytest ended with status {process.returncode}:\n{output[-3000:]}")
        return failed

    def stop(self) -> None:
        """End all runs, and start no other."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and all that it has started, and that may outlive it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def chosen(only: str) -> list[tuple[int, str, Mutation]]:
    """Return the number, the kind and the mutation of those with these numbers, or with these words."""
    pairs = [(kind, mutation) for kind, mutations in MUTATIONS.items() for mutation in mutations]
    every = [(number, *pair) for number, pair in enumerate(pairs, start=1)]
    if re.fullmatch(r"\d+(,\d+)*", only):
        return [each for each in every if str(each[0]) in only.split(",")]
    return [each for each in every if only.lower() in f"{each[1]} {each[2].file} {each[2].breaks}".lower()]


def outcomes(runs: Runs, mutations: Sequence[tuple[int, str, Mutation]], jobs: int) -> list[Outcome]:
    """Return the outcomes of numbered mutations with their kinds, and print each as soon as it is known."""
    found = []
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for future in as_completed([pool.submit(runs.outcome, *each) for each in mutations]):
                found.append(future.result())
                _say(_line(found[-1], "not killed by its hints" if runs.hints_only else "SURVIVED"))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runs.stop()
            raise
    return found


def _line(outcome: Outcome, alive: str) -> str:
    end = f"killed by {outcome.killer}" if outcome.killer else alive
    mutation = f"{outcome.mutation.file}: {outcome.mutation.breaks}"
    return f"{outcome.number:2}  {outcome.kind}  {mutation}  {end}  ({outcome.seconds:.0f} s)"


def failed_anyway(runs: Runs, found: Sequence[Outcome]) -> list[str]:
    """Return the tests that killed a mutation, but fail without one, too."""
    killers = sorted({each.killer for each in found if ".py" in each.killer})
    return runs.failed(runs.copied("original"), *killers) if killers else []


def summary(found: Sequence[Outcome], unfit: Sequence[str]) -> int:
    """Print how many mutations of each kind are killed. Return the exit status."""
    killed = Counter(each.kind for each in found if each.killer and each.killer not in unfit)
    for kind, n in Counter(each.kind for each in found).items():
        _say(f"{killed[kind]:3} of {n:2}  {kind}")
    for test in unfit:
        _say(f"This test fails without a mutation, too, and kills none: {test}")
    _say(f"{killed.total():3} of {len(found):2}  killed, {killed.total() / max(len(found), 1):.0%}")
    return int(100 * killed.total() < NEEDED * len(found))


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main() -> int:
    """Run the tests on the mutations that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description="Make mistakes, and run the tests.")
    parser.add_argument("--of", type=Path, default=REPOSITORY, metavar="FOLDER", help="the working tree to mutate")
    parser.add_argument("--only", default="", metavar="TEXT", help="numbers such as 3,14, or words")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutations that are tested at the same time")
    parser.add_argument("--hints-only", action="store_true", help="run only the test files that should notice them")
    options = parser.parse_args()
    if not (options.of / "src" / "evencover").is_dir():
        parser.error(f"--of must be a folder with src/evencover; got {options.of}")
    mutations = chosen(options.only) or parser.error(f"no mutation has the number or the words {options.only!r}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt, so that all is cleaned up
    with TemporaryDirectory(prefix="mutations-", ignore_cleanup_errors=True) as folder:
        runs = Runs(options.of.resolve(), Path(folder), options.hints_only)
        found = outcomes(runs, mutations, options.jobs)
        return summary(found, failed_anyway(runs, found))


if __name__ == "__main__":
    sys.exit(main())
