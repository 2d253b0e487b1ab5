"""Seeded mistakes of ports and faithful ones: what `zoolens port` says of each, as the table of docs/port.md.

    python -m scripts.measure_port_mistakes          # prints the table; takes minutes
    python -m scripts.measure_port_mistakes --write  # puts it into docs/port.md
    python -m scripts.measure_port_mistakes --sequences [--write]  # only recurrent layers and attention

The pairs are those of the slow tests `test_mistakes.py`, `test_training_mistakes.py`, `test_jax_mistakes.py` and, of
recurrent layers and attention, `test_sequence_mistakes.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoolens.training.pairs.live.jax import test_jax_mistakes as of_jax
from zoolens.training.pairs.live.setting_words import difference_words
from zoolens.training.pairs.lockstep.lockstep import Lockstep, lockstep
from zoolens.training.pairs.lockstep.lockstep_words import departure_words, lockstep_lines
from zoolens.training.port import test_mistakes as of_networks
from zoolens.training.port import test_sequence_mistakes as of_sequences
from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_lines
from zoolens.training.port.training import test_training_mistakes as of_training

PAGE = Path(__file__).parent.parent / "docs" / "port.md"
TRAININGS = {**of_training.MISTAKES, **{f"{name}, in JAX": pair for name, pair in of_jax.MISTAKES.items()}}
FAITHFUL_TRAININGS = {**of_training.FAITHFUL, **{f"{name}, in JAX": pair for name, pair in of_jax.FAITHFUL.items()}}
BEGIN, END = "<!-- measured: mistakes -->", "<!-- end -->"
SEQUENCES = "<!-- measured: sequences -->"


def main() -> None:
    if "--sequences" in sys.argv[1:]:
        _tell(_sequence_lines(), SEQUENCES)
        return
    rows = [*_network_rows(), *_training_rows()]
    named = sum(said != "" for _, _, said in rows)
    accused = [name for name, quiet in (*_faithful_networks(), *_faithful_trainings()) if not quiet]
    count = len(of_networks.FAITHFUL) + len(FAITHFUL_TRAININGS)
    lines = [
        f"{named} of {len(rows)} mistakes are named. Of {count} faithful ports and trainings, {len(accused)} are "
        f"accused{': ' + ', '.join(accused) if accused else ''}.",
        "",
        "| mistake | found by | what is said |",
        "| --- | --- | --- |",
        *(f"| {name} | {how} | {said or 'nothing'} |" for name, how, said in rows),
    ]
    _tell(lines, BEGIN)


def _tell(lines: list[str], begin: str) -> None:
    text = "\n".join(lines)
    print(text)
    if "--write" in sys.argv[1:]:
        page = PAGE.read_text()
        start, end = page.index(begin) + len(begin), page.index(END, page.index(begin))
        PAGE.write_text(f"{page[:start]}\n{text}\n{page[end:]}")


def _sequence_lines() -> list[str]:
    """Faithful ports first, each with its verdict, then mistakes with what is said of them."""
    faithful = [(name, check(a(), b(), inputs)) for name, (inputs, a, b) in of_sequences.FAITHFUL.items()]
    accused = [name for name, found in faithful if not found.same]
    rows = list(_sequence_rows())
    named = sum(said != "" for _, _, said in rows)
    figures = [f"{name} ({found.agreement.error:.0e})" for name, found in faithful]
    return [
        f"Of {len(faithful)} faithful ports {len(accused)} are accused{': ' + ', '.join(accused) if accused else ''}. "
        f"{named} of {len(rows)} mistakes are named. The faithful ones, each with how far the outputs are apart: "
        f"{', '.join(figures)}.",
        "",
        "| mistake | verdict | what is said |",
        "| --- | --- | --- |",
        *(f"| {name} | {outcome} | {said or 'nothing'} |" for name, outcome, said in rows),
    ]


def _sequence_rows() -> Iterator[tuple[str, str, str]]:
    for name, (inputs, a, b, words) in of_sequences.MISTAKES.items():
        found = check(a(), b(), inputs)
        said = next((line.strip() for line in check_lines(found) if words in line), "")
        yield name, found.verdict.outcome.value, _cell(said)


def _network_rows() -> Iterator[tuple[str, str, str]]:
    for name, (shape, a, b, words) in of_networks.MISTAKES.items():
        lines = [line.strip() for line in check_lines(check(a(), b(), [shape]))]
        said = next((line for line in lines if words in line.replace("BN", "norm")), "")
        yield name, "check", _cell(said)


def _training_rows() -> Iterator[tuple[str, str, str]]:
    for name, pair in TRAININGS.items():
        yield name, "lockstep", _cell(_said(_followed(pair), pair))


def _followed(pair: Any) -> Lockstep:
    data = of_training.batches(of_training.shape_of(pair))
    return lockstep(pair.a, pair.b, [pair.shape], data, steps=(1, 2, 4))


def _said(found: Lockstep, pair: Any) -> str:
    """The cause that the lockstep proves, or the line that names the mistake."""
    if pair.words:
        lines = [line.strip() for line in lockstep_lines(found)]
        return next((line for line in lines if pair.words in line), "")
    for cause in found.causes:
        if cause.proved and {one.name for one in cause.differences} & set(pair.names):
            told = " and ".join(difference_words(one) for one in cause.differences)
            return f"{told}; first seen in {departure_words(cause.departure)}"
    return ""


def _faithful_networks() -> Iterator[tuple[str, bool]]:
    for name, (shape, a, b) in of_networks.FAITHFUL.items():
        yield name, check(a(), b(), [shape]).same


def _faithful_trainings() -> Iterator[tuple[str, bool]]:
    for name, pair in FAITHFUL_TRAININGS.items():
        found = _followed(pair)
        quiet = of_training.proved(found) <= of_training.FRAMEWORKS_OWN and all(one.proved for one in found.causes)
        yield name, quiet


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
