"""Saved files as zip archives: what their header says, and files whose contents were changed."""

import json
from io import BytesIO
from zipfile import ZipFile

import numpy as np


def header(path):
    """Return the header of a saved file; calibrations of tables were a file of JSON up to version 4."""
    if path.read_bytes()[:1] == b"{":
        return json.loads(path.read_text(encoding="utf-8"))
    with ZipFile(path) as archive:
        return json.loads(archive.read("header.json"))


def rewrite(path, *, values=(), arrays=(), texts=(), **entries):
    """Change a saved file: entries of its header, values and arrays of what was learned, texts in its objects."""
    members = _members(path)
    changed = {**header(path), **entries}
    members["header.json"] = json.dumps({**changed, "values": {**changed["values"], **dict(values)}}).encode()
    for name, array in dict(arrays).items():
        np.save(content := BytesIO(), array)
        members[f"arrays/{name}.npy"] = content.getvalue()
    if texts:
        objects = _members(BytesIO(members["objects.skops"]))
        for old, new in dict(texts).items():
            assert old in objects["schema.json"].decode()
            objects["schema.json"] = objects["schema.json"].replace(old.encode(), new.encode())
        members["objects.skops"] = _zipped(objects)
    path.write_bytes(_zipped(members))


def _members(file):
    with ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members):
    with ZipFile(content := BytesIO(), "w") as archive:
        for name, held in members.items():
            archive.writestr(name, held)
    return content.getvalue()
