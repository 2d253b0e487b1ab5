"""What an evaluation of all models of a folder comes to: the query that chooses, and the model to ship."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from zoolens.base.phrases import first_few
from zoolens.base.present.terminal import echo_prose

if TYPE_CHECKING:
    from zoolens.base.store.records import DatasetRecord, Run
    from zoolens.base.store.store import Store
    from zoolens.findings.measure.plan import Outcome
    from zoolens.findings.queries.answers.matches import Match
    from zoolens.findings.queries.answers.query_answers import Answer

_SPEED = "latency_p50"
_NAMED = 5
_MOST_NAMES = 50  # classes that a command can list


@dataclass(frozen=True)
class Question:
    """What a user wants to know. `again`: the command with further options; `checked`: the doctor was asked."""

    store: str | None
    lose: float
    data: str  # as --data takes it
    again: Callable[..., str]
    checked: bool


def conclude(outcomes: Sequence[Outcome], question: Question) -> None:
    """Say which model is the quickest of those that lose little enough, and what that rests on. What is guessed or
    looks wrong takes no part."""
    from zoolens.base.store.store import borrowed_store

    measured = [outcome for outcome in outcomes if outcome.run is not None and not outcome.errors]
    doubted = [outcome for outcome in measured if outcome.guessed or outcome.warnings]
    settled = [outcome.run for outcome in measured if outcome.run is not None and outcome not in doubted]
    with borrowed_store(question.store) as store:
        if settled:
            _choose(store, settled, question)
    if doubted:
        _print_doubts(doubted, question, none_left=not settled)


def conclude_without_labels(outcomes: Sequence[Outcome]) -> None:
    """Without labels nothing says which is right; how far models agree can be asked."""
    models = list(dict.fromkeys(_name(outcome) for outcome in outcomes if outcome.run is not None))
    if len(models) > 1:
        echo_prose(
            "\nWithout labels nothing says which is right. How often any two give the same answer, which preprocessing "
            "that is only guessed changes too:"
        )
        click.echo(f"  zoolens equiv {shlex.join(models[:2])}")


# --- the choice


def _choose(store: Store, runs: Sequence[Run], question: Question) -> None:
    accuracies = _accuracies(store, runs)
    if not accuracies:
        return
    answer = _answer(store, accuracies, runs[0].dataset, question)
    if not answer.exact:
        return
    run_of = {run.id: run for run in runs}
    best, chosen = max(accuracies, key=lambda run: accuracies[run]), answer.matches[0]
    untimed = [run_of[run] for run in accuracies if not _timed(store, run)]
    if untimed:
        sentence = f"Which is the quickest is not known: {_ref(untimed[0])} was not timed."
    elif chosen.row.key == best:
        sentence = shipping_sentence(chosen, "", "")
    else:
        most = f"{_ref(run_of[best])} in {run_of[best].stack.runtime} with {100 * accuracies[best]:.1f} %"
        sentence = shipping_sentence(chosen, most, _against_best(store, run_of[best], run_of[chosen.row.key]))
    echo_prose(f"\n{sentence}")


def _accuracies(store: Store, runs: Sequence[Run]) -> dict[str, float]:
    """The accuracy of each run of a classifier. Models of other tasks are named."""
    from zoolens.findings.measure.run_data import ACCURACY, judged_observation, main_metric

    others = [run for run in runs if main_metric(run) != ACCURACY]
    if others:
        names = first_few(list(dict.fromkeys(map(_ref, others))), _NAMED)
        echo_prose(f"\nThese answer no classes, and accuracy does not rank them: {names}. `zoolens compare` takes two.")
    found = {run.id: judged_observation(run, store.observations(run.id)) for run in runs if run not in others}
    return {run: one.value for run, one in found.items() if one is not None and one.value is not None}


def _answer(store: Store, accuracies: Mapping[str, float], dataset: DatasetRecord, question: Question) -> Answer:
    """Ask the query of these runs alone, and print it with its answer."""
    from zoolens.faces.cli.query import print_answer
    from zoolens.findings.index.opener import build_index
    from zoolens.findings.queries.query import query

    text = choosing_query(dataset.name, dataset.fingerprint, least(accuracies, question.lose, dataset))
    option = "" if question.store is None else f" --store {shlex.quote(question.store)}"
    click.echo(f"\n$ zoolens query {_in_shell(text)}{option}")
    index = build_index(store, data=_data_name(dataset.name, dataset.fingerprint))
    answer = query(text, store=index.only(accuracies))
    print_answer(answer)
    strangers = int(index.rows.signed.sum()) - len(accuracies)
    if strangers > 0:
        echo_prose(
            f"This is of the models above alone. The store has {strangers:,} more runs on these inputs, which the "
            "query would ask too."
        )
    return answer


def _timed(store: Store, run: str) -> bool:
    return any(one.metric == _SPEED and one.value is not None for one in store.observations(run))


def least(accuracies: Mapping[str, float], lose: float, dataset: DatasetRecord) -> str:
    """The accuracy in per cent that a model needs: so many points below the best, to a tenth of one input."""
    digits = max(1, math.ceil(math.log10(max(dataset.size, 10) / 10)))
    wanted = 100 * Decimal(repr(max(accuracies.values()))) - Decimal(repr(lose))
    rounded = max(wanted, Decimal(0)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)
    return f"{rounded:f}".rstrip("0").rstrip(".")


def choosing_query(name: str, fingerprint: str, accuracy: str) -> str:
    """The quickest model of those that are accurate enough."""
    from zoolens.findings.queries.language.tokens import quoted

    return (
        f"ON accuracy >= {accuracy}% ORDER BY {_SPEED} SHOW accuracy, {_SPEED}, file_size "
        f"DATA {quoted(_data_name(name, fingerprint))}"
    )


def _in_shell(text: str) -> str:
    """The text as one word of a shell. Single quotes stand in every query, so that double ones read better."""
    return shlex.quote(text) if set('"$`\\!') & set(text) else f'"{text}"'


def _data_name(name: str, fingerprint: str) -> str:
    """A name of the data that no other data have."""
    return f"{name}#{fingerprint[:8]}"


def _against_best(store: Store, best: Run, chosen: Run) -> str:
    """How much less accurate one run is than the most accurate one, on the same inputs, with the interval."""
    from zoolens.findings.comparisons.compare import compare_runs

    compared = compare_runs(store, best, chosen, open_files=False).answers
    if compared is None:
        return ""
    low, high = (100 * bound for bound in compared.difference)
    return f"{100 * compared.top1_change:+.2f} points [{low:+.2f}, {high:+.2f}]"


def shipping_sentence(chosen: Match, best: str, change: str) -> str:
    """Which model to ship. `best`: the most accurate one with its accuracy, and `change` from it to the chosen one;
    both are empty where the chosen one is the most accurate."""
    ship = f"Ship {_named(chosen)}: {_figure(chosen, 'accuracy')} in {_figure(chosen, _SPEED)}"
    if not best:
        return f"{ship}. None is more accurate, and none that is accurate enough is quicker."
    return (
        f"{ship}. The most accurate is {best}; from it to this one it is {change}. The brackets say what the pictures "
        "tell of further ones like them, for this pair alone."
    )


def _named(match: Match) -> str:
    return f"{match.ref.partition('@')[0]} in {match.runtime}"


def _figure(match: Match, name: str) -> str:
    from zoolens.base.present.figures import NOTHING, figure

    known = match.figures.get(name)
    return NOTHING if known is None else figure(known.value, known.unit)


# --- what takes no part


def order_guesses(outcomes: Sequence[Outcome]) -> list[str]:
    """The guesses about which class is which output: what an accuracy rests on besides the guesses of its manifest."""
    return list(dict.fromkeys(guess for outcome in outcomes for guess in _order_guesses(outcome)))


def _order_guesses(outcome: Outcome) -> Iterator[str]:
    from zoolens.inventory.manifests.guesses import guesses_in

    if outcome.run is None:
        return
    manifest = outcome.run.origin.get("manifest") or {}
    own = guesses_in(manifest.get("attributes") or {})
    yield from (guess for guess in outcome.guessed if guess not in own)


def in_this_order(spec: str) -> str | None:
    """The data with its classes named in the order that they are in, so that it is no guess any more; None where a
    command cannot list them."""
    from zoolens.inventory.datasets.opening import open_dataset

    classes = open_dataset(spec).classes or ()
    if not 1 < len(classes) <= _MOST_NAMES or any("," in name or name != name.strip() for name in classes):
        return None
    return f"{spec}{'&' if '?' in spec else '?'}classes={quote(','.join(classes), safe=',')}"


def _print_doubts(doubted: Sequence[Outcome], question: Question, *, none_left: bool) -> None:
    names = first_few(list(dict.fromkeys(map(_name, doubted))), _NAMED)
    begin = "Do not ship yet" if none_left else "These take no part"
    echo_prose(f"\n{begin}: the accuracies of {names} may be wrong, as they rest on guesses or look wrong (see above).")
    fed = any(set(outcome.guessed) - set(_order_guesses(outcome)) for outcome in doubted)
    order, asked = order_guesses(doubted), ["--doctor"] if fed and not question.checked else []
    if asked:
        echo_prose("How they should be fed is guessed. Let the doctor try other ways on your pictures:")
        click.echo(f"  {question.again(*asked)}")
    elif fed:
        echo_prose(
            "The doctor could not settle how they should be fed. Write what you know into their manifests, and remove "
            "from the attribute `guessed` what is no guess any more."
        )
    if order:
        # A doctor who settled nothing may have found that this order is wrong.
        spec = None if fed and question.checked else in_this_order(question.data)
        _print_order_remedy(None if spec is None else question.again(*asked, data=spec))


def _print_order_remedy(command: str | None) -> None:
    """Say how the order of the classes is told. `command`: what says that it is that of the alphabet."""
    file = "a classes.txt beside the pictures, with one class a line in the order of the models' outputs"
    echo_prose(f"Only the alphabet says which class is which output; {file}, says it.")
    if command is not None:
        echo_prose("If the outputs are in the order of the alphabet, this says so:")
        click.echo(f"  {command}")


def _name(outcome: Outcome) -> str:
    return _ref(outcome.run) if outcome.run is not None else outcome.title.partition(" in ")[0]


def _ref(run: Run) -> str:
    return run.ref.partition("@")[0]
