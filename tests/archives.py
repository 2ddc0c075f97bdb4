"""Saved files as zip archives: what their header says, and files whose contents were changed."""

import json
from io import BytesIO
from zipfile import ZipFile

import numpy as np

from evencover.files.checksums import add_checksum


def header(path):
    """Return the header of a saved file; calibrations of tables were a file of JSON up to version 4."""
    if path.read_bytes()[:1] == b"{":
        return json.loads(path.read_text(encoding="utf-8"))
    with ZipFile(path) as archive:
        return json.loads(archive.read("header.json"))


def rewrite(path, *, values=(), arrays=(), texts=(), objects=None, **entries):
    """Forge a saved file: entries of its header, values and arrays of what was learned, texts and members of objects.

    ``objects`` is a function that changes the members of the objects, a mapping from name to bytes.
    """
    members = members_of(path)
    changed = {**header(path), **entries}
    members["header.json"] = json.dumps({**changed, "values": {**changed["values"], **dict(values)}}).encode()
    for name, array in dict(arrays).items():
        np.save(content := BytesIO(), array)
        members[f"arrays/{name}.npy"] = content.getvalue()
    if texts or objects:
        held = members_of(BytesIO(members["objects.skops"]))
        for old, new in dict(texts).items():
            assert old in held["schema.json"].decode()
            held["schema.json"] = held["schema.json"].replace(old.encode(), new.encode())
        if objects:
            objects(held)
        members["objects.skops"] = zipped(held)
    path.write_bytes(sealed(zipped(members)))


def sealed(archive):
    """Return the bytes of an archive with their checksum."""
    content = BytesIO(archive)
    add_checksum(content)
    return content.getvalue()


def members_of(file):
    """Return the content of each member of an archive by its name."""
    with ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members):
    """Return the bytes of an archive of these members, a mapping from name to bytes."""
    with ZipFile(content := BytesIO(), "w") as archive:
        for name, held in members.items():
            archive.writestr(name, held)
    return content.getvalue()
