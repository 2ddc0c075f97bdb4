"""Saved predictors, calibrations and networks: damaged ones, and forged ones, complete but with other content."""

import copy
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from tests.archives import members_of, sealed, zipped
from tests.fuzz.outcomes import WrongAnswerError, clear_errors
from tests.fuzz.samples import NAMES, sample
from tests.saved_files import answers, load

_HEADER, _OBJECTS, _SCHEMA = "header.json", "objects.skops", "schema.json"
_NUMBERS = (-1, 0, 1, 2, 3, 7, 50, -2, 10**9, -(10**9), 2**31, 2**62, 10**30, 0.5, -1.5, 1e308, math.nan, math.inf)
_VALUES = (*_NUMBERS, None, True, "", "x", "all", "inf", [], [0], [[1, 2]], ["a", "a"], {}, {"a": 1}, "x\x1b[31m\ny")
_SHAPES = ([], [0], [1], [0, 0], [1, 1], [3, 0], [2, 2], [5], [1, 1, 1])
_TYPES = ("float64", "float32", "int64", "int32", "uint8", "bool", "complex128", "<U3", "S2", "datetime64[s]")
_CLAIMS = ([10**15], [2**62], [-1], [10**9, 10**9], [2**31, 1])
_CLASSES = (
    *("builtins.dict", "builtins.list", "builtins.str", "numpy.ndarray", "evencover.taxonomies.Marginal"),
    *("sklearn.linear_model._base.LinearRegression", "sklearn.tree._tree.Tree", "evencover.files.objects.SavedBooster"),
    *("functools.partial", "os.system", "sklearn.preprocessing._data.StandardScaler", "no.such.module"),
)


# ---------------------------------------------------------------- forged files


@st.composite
def forged_cases(draw):
    """Return a sample and one or two changes of its content."""
    name = draw(st.sampled_from(NAMES))
    return {"sample": name, "changes": draw(st.lists(_changes(name), min_size=1, max_size=2))}


@cache
def _changes(name):
    """Return the strategy of a change: in an array of an object, a value of one, the header, an array, a node."""
    places = _places(sample(name)[0])
    array, value = _array_changes(), st.sampled_from(_VALUES)
    kinds = {
        "object array": st.fixed_dictionaries({"array": array}),
        "object value": st.fixed_dictionaries({"value": value}),
        "header": st.fixed_dictionaries({"value": value}) | st.just({"remove": True}),
        "array": st.fixed_dictionaries({"array": array}) | st.just({"remove": True}),
        "node": st.just({"remove": True})
        | st.fixed_dictionaries({"class": st.sampled_from(_CLASSES)})
        | st.fixed_dictionaries({"copy_of": st.sampled_from(places["node"] or [[]])}),
    }
    weights = {"object array": 4, "object value": 2, "header": 2, "array": 2, "node": 1}
    every = [
        st.builds(lambda at, change: {"at": at, **change}, st.sampled_from(places[kind]), kinds[kind])
        for kind in kinds
        if places[kind]
        for _ in range(weights[kind])
    ]
    return st.one_of(every)


def _array_changes():
    number = st.sampled_from(_NUMBERS)
    item = st.tuples(st.integers(0, 15), st.integers(0, 12), number).map(list)
    return st.one_of(
        st.fixed_dictionaries({"items": st.lists(item, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"items": st.lists(item, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"fill": number}),
        st.fixed_dictionaries({"shape": st.sampled_from(_SHAPES)}),
        st.fixed_dictionaries({"length": st.sampled_from([0, 1, 2, 3, 39, 41, 1000])}),
        st.fixed_dictionaries({"type": st.sampled_from(_TYPES)}),
        st.fixed_dictionaries({"claim": st.sampled_from(_CLAIMS)}),
    )


def _places(content):
    """Return where a file can be changed, as lists of keys: by the kind of what is there."""
    members = members_of(BytesIO(content))
    places = {"header": [], "array": [], "object array": [], "object value": [], "node": []}
    places["header"] = [["header", *path] for path, _ in _nodes(json.loads(members[_HEADER])) if path]
    places["array"] = [["array", name] for name in members if name.startswith("arrays/")]
    if _OBJECTS in members:
        for path, node in _nodes(json.loads(members_of(BytesIO(members[_OBJECTS]))[_SCHEMA])):
            if isinstance(node, dict) and "__loader__" in node:
                loader = {"JsonNode": "object value", "NdArrayNode": "object array"}.get(node["__loader__"], "node")
                places["node" if loader == "object array" and "file" not in node else loader].append(["objects", *path])
    return places


def _nodes(value, path=()):
    """Yield the path and the value of each part of JSON data."""
    yield list(path), value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _nodes(part, (*path, key))


def forged(content, changes):
    """Return a file with some changes of its content, complete and with its checksum."""
    members = members_of(BytesIO(content))
    header = json.loads(members[_HEADER])
    inner = members_of(BytesIO(members[_OBJECTS])) if _OBJECTS in members else {}
    schema = json.loads(inner.get(_SCHEMA, b"{}"))
    for change in changes:
        where, *path = change["at"]
        if where == "array":
            _change_member(members, path[0], change)
        elif where == "header":
            _change_value(header, path, change)
        else:
            _change_node(schema, inner, path, change)
    members[_HEADER] = json.dumps(header).encode()
    if inner:
        members[_OBJECTS] = zipped({**inner, _SCHEMA: json.dumps(schema).encode()})
    return sealed(zipped(members))


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def _change_value(header, path, change):
    with suppress(KeyError, IndexError, TypeError):  # an earlier change has removed it
        parent = _at(header, path[:-1])
        if "value" in change:
            parent[path[-1]] = change["value"]
        else:
            del parent[path[-1]]


def _change_member(members, name, change):
    if "array" in change and name in members:
        members[name] = changed_array(members[name], change["array"])
    else:
        members.pop(name, None)


def _change_node(schema, inner, path, change):
    """Change a part of the objects, in the form in which skops describes it."""
    with suppress(KeyError, IndexError, TypeError):  # an earlier change has removed it
        node = _at(schema, path)
        if "value" in change:
            node["content"] = json.dumps(change["value"])
        elif "array" in change:
            inner[node["file"]] = changed_array(inner[node["file"]], change["array"])
        elif "class" in change:
            node["__module__"], node["__class__"] = change["class"].rsplit(".", 1)
        elif "copy_of" in change:
            copied = copy.deepcopy(_at(schema, change["copy_of"][1:]))
            node.clear()
            node.update(copied)
        elif path:
            del _at(schema, path[:-1])[path[-1]]


def changed_array(content, change):
    """Return an array as numpy writes it, with other items, shape, length or type, or a shape that it only claims."""
    try:
        array = np.load(BytesIO(content), allow_pickle=False)
    except (MemoryError, ValueError):  # an earlier change has broken it
        return content
    if "claim" in change:
        header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": change["claim"]}
        written = BytesIO()
        np.lib.format.write_array_header_1_0(written, {**header, "shape": tuple(header["shape"])})
        return written.getvalue() + array.tobytes()
    with np.errstate(all="ignore"):
        array = _other_array(array, change)
    np.save(written := BytesIO(), array, allow_pickle=False)
    return written.getvalue()


def _other_array(array, change):
    if "shape" in change:
        return np.resize(array, change["shape"])
    if "length" in change:
        return np.resize(array, (change["length"], *array.shape[1:]))
    if "type" in change:
        kept = array[array.dtype.names[0]] if array.dtype.names else array
        return kept.astype(np.int64).astype(change["type"]) if kept.dtype.kind in "fiub" else kept
    array = array.copy()
    items = change["items"] if "items" in change else [[i, 0, change["fill"]] for i in range(array.size)]
    for place, field, number in items:
        _set_item(array, place, field, number)
    return array


def _set_item(array, place, field, number):
    """Set an item, or a field of it, to a number in the type of the array; what does not fit is cut to its bits."""
    if not array.size:
        return
    target = array[array.dtype.names[field % len(array.dtype.names)]] if array.dtype.names else array
    if target.dtype.kind in "iub":
        bits = int(number) if math.isfinite(number) else 2**63
        number = np.array(bits & (2 ** (8 * target.dtype.itemsize) - 1), "u8").astype(f"u{target.dtype.itemsize}")
        number = number.view(target.dtype) if target.dtype.kind != "b" else bool(bits)
    elif target.dtype.kind not in "fc":
        number = str(number)[:1]
    target.flat[place % target.size] = number


def run_forged(case):
    """Load a forged file and predict: twice the same for the same rows, or one clear error."""
    content, kind, rows, _ = sample(case["sample"])
    path = Path("forged.evencover")
    path.write_bytes(forged(content, case["changes"]))
    with clear_errors("forged.evencover"):
        saved = load(path, kind)
    if case.get("contradicts_itself"):  # a case of the corpus, chosen by hand
        raise WrongAnswerError("a file was loaded whose content cannot be right", "load")
    with clear_errors(one_line=False, printable=False):  # messages of scikit-learn have lines, and texts of the file
        first = answers(saved, rows)
        backwards = answers(saved, _backwards(rows))
    if not _equal(first, backwards, reverse=rows is not None):
        raise WrongAnswerError("the answer for a row depends on the other rows", "rows")


def _backwards(rows):
    if rows is None:
        return None
    return {name: values[::-1] for name, values in rows.items()} if isinstance(rows, Mapping) else rows[::-1]


def _equal(first, second, *, reverse=False, tolerance=1e-6):
    """Return whether answers are the same but for rounding."""
    for name, one in first.items():
        a, b = np.asarray(one, dtype=float), np.asarray(second[name], dtype=float)
        if reverse and a.shape[:1] == b.shape[:1] == (1,):
            continue  # not one answer for each row
        b = b[::-1] if reverse and b.ndim else b
        if a.shape != b.shape or not np.allclose(a, b, rtol=tolerance, atol=1e-9, equal_nan=True):
            return False
    return True


# --------------------------------------------------------------- damaged files


def damage():
    """Return the strategy of damage to a file: bits flipped, parts cut, repeated, moved or overwritten."""
    place, size = st.integers(0, 2**20), st.integers(1, 64)
    return st.one_of(
        st.builds(lambda at, bit: ["flip", at, bit], place, st.integers(0, 7)),
        st.builds(lambda at, bit: ["flip", at, bit], place, st.integers(0, 7)),
        st.builds(lambda at, n: ["cut", at, n], place, size),
        st.builds(lambda at: ["end", at], place),
        st.builds(lambda at, n, to: ["repeat", at, n, to], place, size, place),
        st.builds(lambda at, n, to: ["swap", at, n, to], place, size, place),
        st.builds(lambda at, held: ["write", at, held], place, st.binary(min_size=1, max_size=8)),
    )


def damaged(content, changes):
    """Return a file after some damage; places are counted modulo its length."""
    for name, at, *details in changes:
        at %= len(content) + 1
        if name == "flip":
            at %= max(len(content), 1)
            content = content[:at] + bytes([content[at] ^ 1 << details[0]]) + content[at + 1 :] if content else b""
        elif name == "cut":
            content = content[:at] + content[at + details[0] :]
        elif name == "end":
            content = content[:at]
        elif name == "repeat":
            to = details[1] % (len(content) + 1)
            content = content[:to] + content[at : at + details[0]] + content[to:]
        elif name == "swap":
            content = _swapped(content, at, *details)
        else:
            content = content[:at] + details[0] + content[at + len(details[0]) :]
    return content


def _swapped(content, at, size, other):
    one, two = sorted((at, other % (len(content) + 1)))
    size = min(size, two - one, len(content) - two)
    parts = content[:one], content[two : two + size], content[one + size : two], content[one : one + size]
    return b"".join(parts) + content[two + size :]


@st.composite
def damaged_cases(draw):
    """Return a sample and its damage."""
    return {"sample": draw(st.sampled_from(NAMES)), "damage": draw(st.lists(damage(), min_size=1, max_size=2))}


def run_damaged(case):
    """Load a damaged file: it answers as before, or it is an error that names it."""
    content, kind, rows, expected = sample(case["sample"])
    path = Path("damaged.evencover")
    path.write_bytes(damaged(content, case["damage"]))
    with clear_errors("damaged.evencover"):
        saved = load(path, kind)
    if not _equal(answers(saved, rows), expected, tolerance=0.0):
        raise WrongAnswerError("a damaged file was read, and answers otherwise", case["sample"])
