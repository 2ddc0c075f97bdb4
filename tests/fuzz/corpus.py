"""Cases on disk: as JSON, one case a file."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def as_text(case):
    """Return a case as JSON; bytes are written as text in Latin-1, which has a character for each byte."""
    return json.dumps(case, default=_described_bytes, ensure_ascii=True)


def _described_bytes(value):
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    raise TypeError(f"no part of a case: {value!r}")


def _with_bytes(described):
    return described["bytes"].encode("latin-1") if set(described) == {"bytes"} else described


def read_case(path):
    """Return the content of a file: `kind`, `case`, and what it is `about`."""
    return json.loads(path.read_text(encoding="utf-8"), object_hook=_with_bytes)


def write_case(path, kind, case, about):
    """Write a case to a file, and what is bad about it, or was."""
    described = {"kind": kind, "about": about, "case": case}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(described, default=_described_bytes, indent=1) + "\n", encoding="utf-8")


def corpus_files():
    """Return the files of the corpus in the repository, in order."""
    return sorted(FOLDER.rglob("*.json"))
