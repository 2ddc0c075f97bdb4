"""Every case of the corpus of the fuzzer gets a right answer or one clear error, and the fuzzer sees what is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.corpus import FOLDER, corpus_files, write_case

REPOSITORY = Path(__file__).parents[1]
OPEN = frozenset(  # cases whose mending is not here yet: their outcomes may be bad
    """
    audit_int64 audit_uint64 ball_tree_index calibration_claim calibration_exact control_in_column control_in_path
    coverage_int64 extra_trees_feature_far feather_claim feather_crash feather_index feather_integers feather_utf8
    fit_one_row flipped_calibration_clusters flipped_calibration_edges forest_feature_far
    gradient_boosting_feature_far header_line_break histogram_boosting_bitset_far histogram_boosting_categories
    histogram_boosting_child_far histogram_boosting_cycle histogram_boosting_feature_50
    histogram_boosting_feature_far huge_int_bound huge_targets kd_tree_index kd_tree_node keep_formula
    last_cell_empty limits_scalar long_cell_first made_far_row made_gzip_bomb many_columns masked_bound_audit
    masked_bound_by_group masked_feature masked_target message_of_lines network_claim network_empty network_plan
    network_scalar network_scaling network_square number_column_stop objects_claim parquet_control
    quantile_forest_0 quantile_forest_1 quantile_forest_2 quantile_forest_cycle results_list semicolons_plus
    text_bound tree_child_far tree_child_negative tree_cycle tree_feature_50 tree_feature_far
    """.split()  # noqa: SIM905
)


def replayed(*paths):
    """Return the outcomes of cases by the names of their files; they run in a process of their own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--replay", *map(str, paths)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode in (0, 1), done.stderr
    return {Path(each["file"]).stem: each for each in found}


@pytest.fixture(scope="module")
def outcomes():
    return replayed(FOLDER)


@pytest.mark.parametrize("name", [path.stem for path in corpus_files()])
def test_a_case_gets_a_right_answer_or_one_clear_error(outcomes, name):
    found = outcomes[name]
    if found["bad"] and name in OPEN:
        pytest.xfail(f"{found['name']}: {found['text']}")
    assert not found["bad"], f"{found['name']}: {found['text']}"


def test_bad_outcomes_are_seen(tmp_path):
    """A crash, a hang or too much memory is the outcome of one case, and the next one runs."""
    for name in ("crash", "hang", "memory", "exception", "none"):
        write_case(tmp_path / f"{name}.json", "mistakes", name, "")
    found = replayed(tmp_path)
    expected = {name: name for name in ("crash", "hang", "memory", "exception")}
    assert {name: each["name"] for name, each in found.items()} == {**expected, "none": "right answer"}
    assert [name for name, each in found.items() if not each["bad"]] == ["none"]
