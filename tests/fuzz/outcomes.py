"""What comes of a case: a right answer, one clear error, or something bad."""

import re
import traceback
import unicodedata
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import evencover

RIGHT, ERROR = "right answer", "clear error"
DOCUMENTED = (ImportError, OSError, TypeError, ValueError)
SOURCE = str(Path(evencover.__file__).parent)


@dataclass(frozen=True)
class Outcome:
    """The name of an outcome; if it is bad, also what happened and where in the source."""

    name: str
    text: str = ""
    place: str = ""

    @property
    def is_bad(self):
        return self.name not in (RIGHT, ERROR)

    @property
    def signature(self):
        """What bad outcomes with one cause have in common, as far as a program can tell."""
        return self.name, self.place


class ClearRefusalError(Exception):
    """The product has refused the case, as it should."""


class BadOutcomeError(Exception):
    """The outcome of a case is bad."""

    def __init__(self, name, text, place=""):
        super().__init__(text)
        self.name, self.place = name, place


class WrongAnswerError(BadOutcomeError):
    def __init__(self, text, place=""):
        super().__init__("wrong answer", text, place)


def judged(run, case):
    """Return the outcome of a case, which `run` returns from, or raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(case)
    except ClearRefusalError as error:
        return Outcome(ERROR, str(error))
    except BadOutcomeError as error:
        return Outcome(error.name, str(error), error.place)
    except MemoryError as error:
        return Outcome("memory", f"MemoryError: {error}", place_of(error))
    except BaseException as error:
        return Outcome("exception", f"{type(error).__name__}: {error}", f"{type(error).__name__} in {place_of(error)}")
    return Outcome(RIGHT)


@contextmanager
def clear_errors(*names, any_of=("",), one_line=True, printable=True):
    """Turn a documented error into a `ClearRefusalError`; it is bad if its message is not clear, or lacks the names."""
    try:
        yield
    except DOCUMENTED as error:
        if isinstance(error, OSError) and error.filename is None and not any(name in str(error) for name in names):
            raise BadOutcomeError("error without path", f"{type(error).__name__}: {error}", place_of(error)) from None
        check_message(str(error), place_of(error), names, one_line=one_line, printable=printable)
        if not any(re.search(rf"\b{name}\b", str(error)) for name in any_of):
            raise BadOutcomeError(
                "message without a name", f"{type(error).__name__}: {error}", place_of(error)
            ) from None
        raise ClearRefusalError(str(error)) from None


def check_message(text, place, names=(), *, one_line=True, printable=True):
    """Raise unless a message is clear: one line of printable characters that holds the names."""
    if not text.strip():
        raise BadOutcomeError("empty message", repr(text), place)
    if text.rstrip().endswith(":"):
        raise BadOutcomeError("message without a reason", text, place)
    if one_line and len(text.splitlines()) > 1:
        raise BadOutcomeError("message of several lines", text, place)
    if printable and (bad := sorted({each for each in text if unicodedata.category(each) == "Cc" and each != "\n"})):
        raise BadOutcomeError("control characters", f"{bad} in {text!r}", place)
    if missing := [name for name in names if name not in text]:
        raise BadOutcomeError("message without the name", f"{missing} not in {text!r}", place)


def place_of(error):
    """Return the function of the package in which an error was raised; the last of all if the package has no part."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(SOURCE)]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.name}"
