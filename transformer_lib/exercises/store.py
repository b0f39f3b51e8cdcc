"""The exercises as they ship: one JSON file each in `transformer_lib/exercise_data/`."""

import functools
import json
from importlib import resources
from typing import Any

from transformer_lib.exercises import values
from transformer_lib.exercises.declared import Case, Exercise, KnownMistake, Outcome


@functools.cache
def load(number: str) -> Exercise:
    """Return the exercise with the number, such as "2.1".

    Raises:
        ValueError: there is none.
    """
    if number not in known():
        raise ValueError(f"the exercise must be one of {', '.join(known())}, got {number!r}")
    return parsed(_folder().joinpath(f"{number}.json").read_text(encoding="utf-8"))


@functools.cache
def known() -> tuple[str, ...]:
    """Return the numbers of all exercises, in order."""
    names = [path.name.removesuffix(".json") for path in _folder().iterdir() if path.name.endswith(".json")]
    return tuple(sorted(names, key=lambda name: [int(part) for part in name.split(".")]))


def pieces() -> dict[str, str]:
    """Return the name of each piece of the library that an answer can replace -> the exercise that asks for it."""
    replaced = {number: load(number).replaces for number in known()}
    return {path.rpartition(".")[2]: number for number, path in replaced.items() if path}


def _folder() -> Any:
    return resources.files("transformer_lib").joinpath("exercise_data")


def written(exercise: Exercise) -> str:
    """Return the text of an exercise's file: one line for each case and each mistake."""
    head = {
        name: getattr(exercise, name)
        for name in ("id", "title", "kind", "points", "minutes", "difficulty", "entry", "tolerance", "replaces")
    }
    head |= {"original": list(exercise.original)} if exercise.original else {}
    head |= {"properties": list(exercise.properties), "rubric": [list(line) for line in exercise.rubric]}
    lists = {
        "cases": [_case(case) for case in exercise.cases],
        "right": [_outcome(outcome) for outcome in exercise.right],
        "wrong": [
            {"name": m.name, "sentence": m.sentence, "outcomes": _unlike(m.outcomes, exercise.right)}
            for m in exercise.wrong
        ],
    }
    lines = [f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in head.items()]
    for name, rows in lists.items():
        inner = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
        lines.append(f'"{name}": [\n{inner}\n]' if rows else f'"{name}": []')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def parsed(text: str) -> Exercise:
    """Return the exercise that `written` wrote."""
    fields = json.loads(text)
    fields["properties"] = tuple(fields["properties"])
    fields["original"] = tuple(fields.get("original", ()))
    fields["rubric"] = tuple((points, line) for points, line in fields["rubric"])
    fields["cases"] = tuple(_read_case(case) for case in fields["cases"])
    fields["right"] = tuple(_read_outcome(outcome) for outcome in fields["right"])
    fields["wrong"] = tuple(
        KnownMistake(m["name"], m["sentence"], _read_unlike(m["outcomes"], fields["right"])) for m in fields["wrong"]
    )
    return Exercise(**fields)


def _case(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {"name": case.name}
    parts = {"inputs": case.inputs, "constructor": case.constructor, "state": case.state}
    row |= {name: values.encode(part)["items"] for name, part in parts.items() if part}
    row |= {"mentions": list(case.mentions)} if case.mentions else {}
    return row | ({"telling": case.telling} if case.telling else {})


def _read_case(row: dict[str, Any]) -> Case:
    parts = {name: values.decode({"items": row.get(name, {})}) for name in ("inputs", "constructor", "state")}
    return Case(row["name"], **parts, mentions=tuple(row.get("mentions", ())), telling=row.get("telling", ""))


def _unlike(outcomes: tuple[Outcome, ...], right: tuple[Outcome, ...]) -> list[Any]:
    """Return a mistake's outcomes, without those that are the right ones: of these the word alone."""
    pairs = zip(map(_outcome, outcomes), map(_outcome, right), strict=True)
    return ["right" if row == other else row for row, other in pairs]


def _read_unlike(rows: list[Any], right: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    return tuple(other if row == "right" else _read_outcome(row) for row, other in zip(rows, right, strict=True))


def _outcome(outcome: Outcome) -> dict[str, Any]:
    if not outcome.errors:
        return {"value": values.encode(outcome.value)}
    return {"errors": list(outcome.errors), "message": outcome.message}


def _read_outcome(row: dict[str, Any]) -> Outcome:
    return (
        Outcome(errors=tuple(row["errors"]), message=row["message"])
        if "errors" in row
        else Outcome(value=values.decode(row["value"]))
    )
