"""The command line as a process: the script ``evencover``, and ``python -m evencover``."""

import _signal  # type: ignore[import-not-found]  # `signal` takes milliseconds to import, too long without a handler
import os


def main() -> None:
    """Run the command line; a signal while it is imported ends the process at once, because there is nothing to undo.

    From then on, `evencover.cli.stop_signals` handles signals.
    """
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, lambda received, _: os._exit(128 + received))
    from evencover.cli import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
