"""The kinds of cases: how each is generated and run, and how much of the time it gets."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz import arrays, commands, saved_files, table_files, text_tables


@dataclass(frozen=True)
class Kind:
    """How cases of one kind are generated (a strategy of hypothesis) and run."""

    cases: Callable[[], Any]
    run: Callable[[Any], None]
    share: float  # of the time, relative to the others
    cases_of_a_process: int = 200
    cases_of_a_round: int = 200


_MISTAKES = {
    "crash": os.abort,
    "hang": lambda: signal.raise_signal(signal.SIGPROF),  # as the limit of processor time does
    "memory": lambda: bytearray(2**36),
    "exception": lambda: {}["missing"],
    "none": lambda: None,
}
KINDS = {
    "mistakes": Kind(lambda: None, lambda name: _MISTAKES[name](), share=0.0),  # to test the worker
    "arrays": Kind(arrays.cases, arrays.run, share=1.0),
    "text": Kind(text_tables.cases, text_tables.run, share=1.0),
    "tables": Kind(table_files.cases, table_files.run, share=1.0, cases_of_a_process=50),
    "damaged": Kind(saved_files.damaged_cases, saved_files.run_damaged, share=1.0),
    "forged": Kind(
        saved_files.forged_cases, saved_files.run_forged, share=2.0, cases_of_a_process=10, cases_of_a_round=60
    ),
    "commands": Kind(commands.cases, commands.run_command, share=1.0, cases_of_a_process=20, cases_of_a_round=100),
    "run": Kind(commands.run_cases, commands.run_command, share=0.5, cases_of_a_process=5, cases_of_a_round=20),
}
