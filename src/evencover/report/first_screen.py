"""The first screen of a report: how often right, how wide, is it even, what to do."""

import math
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.interval_quality import Quality
from evencover.diagnostics.verdicts import tolerance_range
from evencover.display.html import Markup, tag
from evencover.display.text import percent_text, range_text
from evencover.intervals import Side
from evencover.report.charts import coverage_chart, format_number
from evencover.report.sections import figure
from evencover.report.snapshots import Contents, LevelRecorder, LevelSnapshot
from evencover.scores.support import holds_whole_numbers
from evencover.taxonomies import group_meaning, group_names, rows_compared
from evencover.words import answers
from evencover.words.answers import model_text
from evencover.words.other_rows import other_rows_question, other_rows_text
from evencover.words.results import audit_notes
from evencover.words.studies import guarantee_text, study_group_meaning, study_warnings

_YES_OR_NO = {"even": "Yes. ", "uneven": "No. ", "undecided": "Not known yet. "}


def first_screen(contents: Contents, snapshot: LevelSnapshot, recorder: LevelRecorder) -> Markup:
    """Return the four answers at one level; for a diagnosis without test rows, the last two."""
    if snapshot.audit is None:
        parts = [_even_of_one_threshold(contents, snapshot.diagnosis, recorder)]
    else:
        parts = [
            _how_often(contents, snapshot.audit, recorder),
            (_how_wide if contents.side is None else _how_far)(contents, snapshot, snapshot.audit, recorder),
            _even(contents, snapshot.audit, recorder),
        ]
    beyond = _beyond_the_table(contents)
    parts = [*beyond, *parts] if _fails_beyond_the_table(contents) else [*parts, *beyond]
    parts.append(_what_to_do(contents, snapshot, recorder))
    return tag("section", *_table_warnings(contents), *parts, class_="answers", id="verdict", aria_label="The answers")


def _table_warnings(contents: Contents) -> list[Markup]:
    """Return what may be wrong with the table, which comes before all answers."""
    texts = [] if contents.study is None else study_warnings(contents.study, contents.style)
    paragraphs = (tag("p", text, class_="warning") for text in texts)
    return [_answer("Before you trust these results", *paragraphs, kind="wide")] if texts else []


def _fails_beyond_the_table(contents: Contents) -> bool:
    return contents.study is not None and any(each.shown.fails for each in contents.study.other_rows)


def _beyond_the_table(contents: Contents) -> list[Markup]:
    """Return how often later rows and new units are covered, at the level of the study."""
    found = () if contents.study is None else contents.study.other_rows
    if not found:
        return []
    paragraphs = (tag("p", other_rows_text(each), class_="warning" if each.shown.fails else "") for each in found)
    note = "Tested with a model that was fitted and calibrated without these rows, with the same score and groups."
    return [_answer(other_rows_question(found), *paragraphs, tag("p", note, class_="note"), kind="wide")]


def _answer(question: str, *content: Any, kind: str = "") -> Markup:
    return tag("div", tag("h2", question), *content, class_=f"answer {kind}".strip())


def _how_often(contents: Contents, audit: Audit, recorder: LevelRecorder) -> Markup:
    what, model = "" if contents.study is None else f" of {contents.study.target}", model_text(audit.quality)
    guarantee = "" if contents.study is None else guarantee_text(contents.study, audit.level)
    return _answer(
        f"How often are the {contents.noun} right?",
        tag(
            "p",
            recorder.text(percent_text(audit.overall.coverage)),
            tag("small", " asked: ", recorder.text(f"{100 * audit.level:g} %")),
            class_="number",
        ),
        tag("p", recorder.text(answers.share_text(audit))),
        *([tag("p", recorder.text(guarantee))] if guarantee else []),
        tag("p", f"{_right_if(contents.side, what)}{_kept_text(contents)}", class_="note"),
        *([tag("p", model, class_="warning" if audit.quality.explains_nothing else "note")] if model else []),
    )


def _kept_text(contents: Contents) -> str:
    """Return why the test rows of a study are a fair test, as a sentence after a space."""
    if contents.study is None:
        return ""
    if contents.study.evidence.kind != "cross":
        kept = " The test rows were kept aside: the model has not seen them."
        return kept + " Nor have the thresholds that test them." * (contents.study.evidence.kind == "turns")
    if contents.study.clusters is not None:
        return f" One row of each {contents.study.clusters} was tested, by models that have not seen any row of it."
    return " Every row was tested, by models that have not seen it."


def _right_if(side: Side | None, what: str) -> str:
    if side is None:
        return f"An interval is right if the true value{what} lies in it."
    article, miss = ("An", "above") if side == "upper" else ("A", "below")
    return f"{article} {side} bound is right if the true value{what} is not {miss} it."


def _how_far(contents: Contents, snapshot: LevelSnapshot, audit: Audit, recorder: LevelRecorder) -> Markup:
    """Return how far one-sided bounds are from the predictions on average, or how large they are."""
    quality = audit.quality
    with_prediction = not math.isnan(quality.mean_distance)
    predicted = contents.study is not None or with_prediction
    value = abs(quality.mean_distance) if with_prediction else quality.mean_bound
    where = "above" if quality.mean_distance >= 0 else "below"
    text = f"{where} the prediction, on average" if with_prediction else "on average"
    finite = quality.side is not None and not quality.n_infinite
    return _answer(
        f"How far are the {contents.noun} from the predictions?" if predicted else "How large are they?",
        *_number_and_list(
            format_number(value) if finite else "infinite",
            f"{text}{_unit(contents)}" if finite else f"for {quality.n_infinite} of {quality.rows} rows",
            _example(contents, snapshot),
            recorder,
        ),
    )


def _how_wide(contents: Contents, snapshot: LevelSnapshot, audit: Audit, recorder: LevelRecorder) -> Markup:
    quality = audit.quality
    varies = sum(row.rows > 0 for row in audit.by_width) > 1
    typical = "typically: half of the intervals are at most this wide" if varies else "for every row"
    lines = [
        answers.thirds_text(audit.by_width, format_number)
        + f" Of all rows: {format_number(quality.mean_width)}." * varies,
        _without_model(quality),
        *_example(contents, snapshot),
        *_whole_numbers(contents),
    ]
    number = _number_and_list(format_number(quality.median_width), f"{typical}{_unit(contents)}", lines, recorder)
    return _answer("How wide are they?", *number)


def _number_and_list(number: str, text: str, lines: Sequence[str], recorder: LevelRecorder) -> list[Markup]:
    """Return a large number with a text next to it, and lines below."""
    large = tag("p", recorder.text(number), " ", recorder.text(text, "small"), class_="number")
    return [large, tag("ul", *(tag("li", recorder.text(line)) for line in lines))]


def _unit(contents: Contents) -> str:
    return "" if contents.study is None else f", in the unit of {contents.study.target}"


def _without_model(quality: Quality) -> str:
    """Return the width of an interval without any model."""
    if np.isinf(quality.no_model_width):
        return "Without any model: not known, because there are too few rows."
    worse = quality.mean_width >= quality.no_model_width
    but = " So this model does not make the intervals narrower." if worse else ""
    width = format_number(quality.no_model_width)
    return f"Without any model, to be right as often: one interval for all rows, {width} wide.{but}"


def _example(contents: Contents, snapshot: LevelSnapshot) -> list[str]:
    """Return the interval of one test row, with a width, or a one-sided bound, in the middle of the right ones."""
    rows, intervals = contents.rows, snapshot.intervals
    if rows is None or intervals is None or contents.study is None:
        return []
    sizes = intervals.width if contents.side is None else getattr(intervals, contents.side)
    covered, finite = intervals.covers(rows.y), np.isfinite(sizes)
    if not finite.any() and snapshot.audit is not None and snapshot.audit.n_untested:
        return [f"The {contents.noun} of the test are infinite; those of new rows are not."]
    right = np.flatnonzero(covered & finite if finite.any() else covered)
    if not len(right):
        return ["No interval is right." if contents.side is None else f"No {contents.side} bound is right."]
    chosen = int(right[np.argsort(sizes[right], kind="stable")[len(right) // 2]])
    lower, upper, y = (format_number(float(each[chosen])) for each in (intervals.lower, intervals.upper, rows.y))
    row = contents.study.row_numbers.text(rows.positions[chosen])
    if contents.side is not None:
        bound, words = (upper, "at most") if contents.side == "upper" else (lower, "at least")
        return [f"Example, {row}: {words} {bound}. The true value is {y}, so this {contents.side} bound is right."]
    return [f"Example, {row}: between {lower} and {upper}. The true value, {y}, lies in it, so this interval is right."]


def _whole_numbers(contents: Contents) -> list[str]:
    """Return what a width means if intervals hold only whole numbers."""
    if contents.study is None:
        return []
    whole = holds_whole_numbers(contents.study.regressor.calibration_.nonconformity)
    return ["Only whole numbers count: an interval from 0 to 1 is 1 wide and holds two values."] * whole


def _even(contents: Contents, audit: Audit, recorder: LevelRecorder) -> Markup:
    notes = [
        *([] if contents.study is None else [study_group_meaning(contents.study)]),
        *audit_notes(audit, contents.style),
    ]
    question = f"Are they right equally often {rows_compared(_study_taxonomy(contents))}?"
    return _with_picture(contents, audit, (question, answers.is_even(audit)), notes, recorder)


def _even_of_one_threshold(contents: Contents, diagnosis: Diagnosis | None, recorder: LevelRecorder) -> Markup:
    """Return whether one threshold for all rows would be even, from calibration rows."""
    if diagnosis is None:
        raise ValueError("a snapshot must have an audit or a diagnosis")
    answer = f"{_YES_OR_NO[diagnosis.verdict]}{answers.diagnosis_headline(diagnosis)}"
    groups = diagnosis.inputs.groups
    meaning = group_meaning(diagnosis.inputs.taxonomy, groups.labels, groups.counts.tolist())
    question = "With one threshold for all rows: are all groups right equally often?"
    return _with_picture(contents, diagnosis, (question, answer), [meaning], recorder)


def _with_picture(
    contents: Contents,
    result: Diagnosis | Audit,
    question_and_answer: tuple[str, str],
    notes: Sequence[str],
    recorder: LevelRecorder,
) -> Markup:
    question, text = question_and_answer
    caption = (
        f"Each line shows where the true share of right {contents.noun} in a group lies; we are about 95 % sure of all "
        "lines together. Dot: best estimate. Dashed: the share that was asked for. Groups are even if they are "
        f"shown to lie in the shaded box, between {range_text(*tolerance_range(result))}."
        f"{' A group in orange, with a diamond, is off.' if any(row in result.off for row in result.table) else ''}"
    )
    picture = coverage_chart(
        contents.shown(result.table),
        contents.group_numbers,
        level=result.level,
        tolerance=result.tolerance,
        recorder=recorder,
        names=group_names(
            result.inputs.taxonomy if isinstance(result, Diagnosis) else _study_taxonomy(contents),
            [row.rows for row in result.table],
        ),
    )
    answer = recorder.element(
        "div", tag("p", recorder.text(text), class_="verdict-text"), varying={"class_": f"verdict {result.verdict}"}
    )
    explained = [tag("p", note) for note in notes if note]
    drawn = figure(picture, tag("figcaption", recorder.text(caption)))
    return _answer(question, answer, *explained, drawn, kind="wide pictured")


def _study_taxonomy(contents: Contents) -> Any:
    return None if contents.study is None else contents.study.diagnosis.inputs.taxonomy


def _what_to_do(contents: Contents, snapshot: LevelSnapshot, recorder: LevelRecorder) -> Markup:
    """Return the action, its reasons, and a command to copy."""
    action, *reasons = snapshot.advice.sentences
    commands: list[Markup] = []
    if contents.study is not None and contents.style.command_line:
        again = command_again(contents.command, snapshot.advice.option)
        usable = snapshot.result.verdict != "uneven"
        text, command = "The new command:", again
        if not again:
            text, command = predict_command(contents.folder) if usable else ("", "")
        commands = [tag("p", recorder.text(text)), tag("pre", recorder.text(command, "code"))]
    return _answer(
        "What should I do?",
        tag("p", recorder.text(action), class_="action"),
        tag("p", recorder.text(" ".join(reasons))),
        *commands,
        kind="wide",
    )


def predict_command(folder: str) -> tuple[str, str]:
    """Return a sentence, and the command that gets intervals for new rows from the predictor in a folder."""
    which = "" if folder else "where FOLDER is the folder of this report, and "
    text = f"To get intervals for new rows, {which or 'where '}NEW.csv has the same columns (the target is not needed):"
    path = f"./{folder}" if folder.startswith("-") else folder or "FOLDER"
    return text, shlex.join(["evencover", "predict", path, "NEW.csv", "--output", "intervals.csv"])


def command_again(command: str, option: Sequence[str]) -> str:
    """Return a command with another value of an option, and another folder; empty without a command or an option."""
    if not command or not option:
        return ""
    words, kept = shlex.split(command), []
    while words:
        word = words.pop(0)
        if word in (option[0], "--output"):
            words.pop(0)
        else:
            kept.append(word)
    return shlex.join([*kept, *option, "--output", "NEW_FOLDER"])
