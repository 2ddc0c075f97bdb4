"""The command line, run in this process: the one place where tests import it."""

import pytest

from evencover.cli import app, main

__all__ = ["app", "main", "run_command_line"]


def run_command_line(capsys, *arguments):
    """Return exit status, output and errors of a command run in this process."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    captured = capsys.readouterr()
    status = left.value.code
    if isinstance(status, str):  # what the interpreter does with it
        return 1, captured.out, status
    return status or 0, captured.out, captured.err
