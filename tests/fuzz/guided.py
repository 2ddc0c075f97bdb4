"""A search that is guided by coverage: atheris chooses the bytes from which hypothesis makes a case.

    python -m tests.fuzz.guided text --seconds 600

It runs in one process, until the first bad outcome, whose case is in build/fuzz. It needs `pip install atheris`.
"""

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given

from tests.fuzz.corpus import write_case


def main():
    """Search until something is found, or for so many seconds; atheris then ends the process."""
    import atheris  # here, so that this file can be imported without it

    with atheris.instrument_imports(include=["evencover"]):
        from tests.fuzz.kinds import KINDS
        from tests.fuzz.outcomes import judged
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=int, default=600)
    arguments = parser.parse_args()
    kind, found = KINDS[arguments.kind], Path("build/fuzz").absolute() / f"{arguments.kind}-guided.json"

    @given(kind.cases())
    def check(case):
        outcome = judged(kind.run, case)
        if outcome.is_bad:
            write_case(found, arguments.kind, case, vars(outcome))
            raise AssertionError(f"{found}: {outcome.name} ({outcome.place}): {outcome.text}")

    with TemporaryDirectory(prefix="fuzz-") as folder:
        os.chdir(folder)
        atheris.Setup([sys.argv[0], f"-max_total_time={arguments.seconds}"], check.hypothesis.fuzz_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
