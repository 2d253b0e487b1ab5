"""The statements of a function's body: variables for values, and loops for statements that repeat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.training.port.scaffolds.functions import Function, rendered_slots
from zoolens.training.port.scaffolds.steps import CodeStep, literal

_POOL: Final = ("x", "y", "z")
_LONGEST_PERIOD: Final = 4
_LEAST_ROUNDS: Final = 3
NAME: Final = "\0"  # stands in a statement where the name of its layer stands


@dataclass(frozen=True)
class Statement:
    """One line; `name` is that of its layer, or "" where it has none. `step` is its place among the steps. `alone`: it
    never becomes part of a loop, for its layer is called elsewhere, too."""

    text: str
    name: str
    step: int
    alone: bool = False


@dataclass(frozen=True)
class CodeLoop:
    """`rounds` times the statements, whose names have a number that begins with `first`."""

    statements: tuple[Statement, ...]
    first: int
    rounds: int
    steps: tuple[int, ...]  # the places of all steps that it stands for

    @property
    def stems(self) -> list[str]:
        """Names with {i} for the number that runs."""
        return [_with_counter(statement.name, self.first) for statement in self.statements]


def settings_text(
    step: CodeStep, functions: Sequence[Function], text_of: Callable[[int], str | None]
) -> Iterator[tuple[str, str, bool]]:
    """(keyword, text, positional) of each setting that is written; `text_of` gives the argument that a slot is."""
    for slot, keyword in rendered_slots(step, functions):
        setting, argument = step.settings[slot], text_of(slot)
        if argument is None and setting.omitted and step.body is None:
            continue
        yield keyword, argument or literal(setting.value), setting.positional and step.body is None


def argument_texts(step: CodeStep, functions: Sequence[Function], text_of: Callable[[int], str | None]) -> list[str]:
    return [
        text if positional else f"{keyword}={text}"
        for keyword, text, positional in settings_text(step, functions, text_of)
    ]


def assigned_variables(
    steps: Sequence[CodeStep], given: Mapping[str, str], kept: Iterable[str]
) -> list[tuple[list[str], list[str]]]:
    """For each step the variables of its inputs and of its values. A variable is used again when its value is."""
    last = {name: number for number, step in enumerate(steps) for name in step.inputs}
    last.update(dict.fromkeys(kept, len(steps)))
    variables = dict(given)
    occupied = {name: value for value, name in variables.items()}
    rows = []
    for number, step in enumerate(steps):
        inputs = [variables[name] for name in step.inputs]
        for name in step.inputs:
            if last[name] <= number and occupied.get(variables[name]) == name:
                del occupied[variables[name]]
        made = []
        for value in step.values:
            variable = next(name for name in _pool() if name not in occupied)
            variables[value] = variable
            if last.get(value, -1) > number:
                occupied[variable] = value
            made.append(variable)
        rows.append((inputs, made))
    return rows


def _pool() -> Iterator[str]:
    yield from _POOL
    number = 1
    while True:
        yield f"x{number}"
        number += 1


def rolled(statements: Sequence[Statement]) -> list[Statement | CodeLoop]:
    """The statements with loops for those that repeat with the next number in their names."""
    rows: list[Statement | CodeLoop] = []
    place = 0
    while place < len(statements):
        loop = _loop_at(statements, place)
        if loop is None:
            rows.append(statements[place])
            place += 1
        else:
            rows.append(loop)
            place += len(loop.statements) * loop.rounds
    return rows


def _loop_at(statements: Sequence[Statement], place: int) -> CodeLoop | None:
    for period in range(1, _LONGEST_PERIOD + 1):
        first = statements[place : place + period]
        if len(first) < period or not any(statement.name for statement in first):
            continue
        if any(statement.alone for statement in first):
            continue
        for number in _numbers(next(statement.name for statement in first if statement.name)):
            rounds = 1
            while _is_round(statements, place + rounds * period, first, number, rounds):
                rounds += 1
            if rounds >= _LEAST_ROUNDS:
                steps = tuple(statement.step for statement in statements[place : place + rounds * period])
                return CodeLoop(tuple(first), number, rounds, steps)
    return None


def _numbers(name: str) -> list[int]:
    return [int(text) for text in reversed(re.findall(r"\d+", name)) if len(text) < 6 and str(int(text)) == text]


def _is_round(
    statements: Sequence[Statement], start: int, first: Sequence[Statement], number: int, rounds: int
) -> bool:
    given = statements[start : start + len(first)]
    return len(given) == len(first) and all(
        not other.alone
        and other.text == statement.text
        and other.name == _counted(statement.name, number, number + rounds)
        for statement, other in zip(first, given, strict=True)
    )


def _counted(name: str, number: int, other: int) -> str:
    """The name with its last occurrence of a number replaced."""
    return _with_counter(name, number).replace("{i}", str(other))


def _with_counter(name: str, number: int) -> str:
    matches = list(re.finditer(rf"(?<!\d){number}(?!\d)", name))
    return f"{name[: matches[-1].start()]}{{i}}{name[matches[-1].end() :]}" if matches else name
