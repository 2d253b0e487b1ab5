"""A lockstep of a port as lines for a terminal and as data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.live.setting_words import difference_words, unread_words
from zoolens.training.pairs.lockstep.cause_search import DepartureCause
from zoolens.training.pairs.lockstep.lockstep import Lockstep
from zoolens.training.pairs.lockstep.lockstep_result import finite
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity
from zoolens.training.pairs.lockstep.setting_search import BIASES, MARGIN

_KINDS: Final = {
    "activation": "what the layer {name} answers",
    "output": "what the network answers",
    "statistic": "the statistic {name}",
    "loss": "the loss",
    "gradient": "the gradient of {name}",
    "first": "the optimizer's first moment of {name}",
    "second": "the optimizer's second moment of {name}",
    "average": "the optimizer's mean gradient of {name}",
    "tensor": "the tensor {name} after the update",
}


def _layers(lockstep: Lockstep) -> str:
    if lockstep.layers:
        return f"answers of {plural(lockstep.layers, 'layer')} among them"
    return "but no answers of layers, which one of the sides does not show"


def lockstep_lines(lockstep: Lockstep) -> list[str]:
    """The verdict, each cause with its proof, and what a lockstep cannot see."""
    steps = ", ".join(map(str, lockstep.steps))
    lines = [
        f"Lockstep: the same first weights and batches; {len(lockstep.rows):,} quantities compared "
        f"at {'steps' if len(lockstep.steps) > 1 else 'step'} {steps}, {_layers(lockstep)}."
    ]
    lines += (
        [f"  {lockstep.blind} of them tell nothing: rounding alone moves them by their size."] if lockstep.blind else []
    )
    if lockstep.lost is not None:
        lines.append(
            f"  The loss or a tensor of A is not finite at step {lockstep.lost}: from there on nothing is told."
        )
    if lockstep.without_dropout:
        lines.append("  Dropout was turned off on both sides, for each draws other numbers.")
    if lockstep.unlearned:
        lines.append(f"  Only one side learns {', '.join(lockstep.unlearned[:4])}{_more(lockstep.unlearned)}.")
    lines += _causes(lockstep)
    if lockstep.doubtful is not None:
        lines.append(
            f"Taken for rounding: {departure_words(lockstep.doubtful)}, and nothing explains it. Two frameworks may "
            "round a long sum otherwise by more than each does by itself; from there on all floors were "
            f"{MARGIN:g} times as wide."
        )
    lines += _verdict(lockstep)
    suspected = {difference.name for cause in lockstep.causes for difference in cause.differences}
    unseen = [difference for difference in lockstep.unseen if difference.name not in suspected]
    differing = [f"  {difference_words(difference)}" for difference in unseen if not _unknown(difference)]
    if differing:
        lines += ["Settings that differ and that no departure was traced to in these steps:", *differing]
    unread = _not_known(unseen)
    return lines + (["Settings that could not be compared:", *unread] if unread else [])


def _unknown(difference: SettingDifference) -> bool:
    return difference.a is None or difference.b is None


def _not_known(differences: Sequence[SettingDifference]) -> list[str]:
    """One line for each side with all that its live objects do not show."""
    lines = []
    for letter, side in (("A", 0), ("B", 1)):
        names = [difference.name for difference in differences if (difference.a, difference.b)[side] is None]
        if names:
            lines.append(f"  not known of {letter}, whose objects do not show it: {', '.join(unread_words(names))}")
    return lines


def _causes(lockstep: Lockstep) -> list[str]:
    if lockstep.only_counted is not None:
        return [
            f"The weights agree after every compared step. On the way {departure_words(lockstep.only_counted)}, which "
            "changes no weight in these steps."
        ]
    lines = []
    for number, cause in enumerate(lockstep.causes, 1):
        after = "" if number == 1 else "With that, "
        sentence = f"{after}{departure_words(cause.departure)}."
        lines += [f"{number}. {sentence[0].upper()}{sentence[1:]}", *(f"   {line}" for line in _cause(cause, lockstep))]
    if lockstep.causes and lockstep.causes[-1].proved:
        like = "B trains like A: " if lockstep.coverage.whole else ""
        lines.append(f"With all of this alike, {like}nothing else departs by more than rounding.")
    return lines


def _verdict(lockstep: Lockstep) -> list[str]:
    """The last word: only what was judged is called alike."""
    verdict = lockstep.verdict
    if verdict.outcome is Outcome.DIFFERENT:
        return []
    if verdict.outcome is Outcome.NOT_KNOWN:
        lines = [f"Not known whether they train alike. {lockstep.coverage.text}"]
        return lines + [f"  {remedy}" for remedy in lockstep.coverage.remedies]
    conventions = [
        "That the running variance of norms is divided otherwise is no difference in training: each framework fixes "
        "it, and it changes no weight. In evaluation it shows."
    ]
    count = lockstep.coverage.tallies[0].understood
    return [
        *(conventions if lockstep.causes else []),
        f"They train alike in these steps: none of {plural(count, 'tensor')} departs by more than rounding.",
    ]


def departure_words(departure: ComparedQuantity) -> str:
    """Which quantity departs, how far, and when."""
    what = _KINDS[departure.kind].format(name=departure.name)
    apart = departure.apart
    far = {"not finite": "is not finite on one side", "shape": "has another shape"}.get(apart.why)
    figures = f"is {apart.error:.1e} apart (floor {departure.floor:.1e})" if far is None else far
    return f"{what} {figures} at step {departure.step}"


def _cause(cause: DepartureCause, lockstep: Lockstep) -> list[str]:
    if cause.proved:
        reasons = " and ".join(difference_words(difference) for difference in cause.differences)
        return [f"Because {reasons}.", *_advice(cause), _proof(cause)]
    lines = ["Unexplained: no setting that could be switched on B makes it vanish or move later."]
    if lockstep.unlearned:
        lines.append("  It may be that only one side learns some tensors: see above.")
    for difference in (difference for difference in cause.differences if not _unknown(difference)):
        why = cause.fixed.get(difference.name)
        tried = f" Not switched: {why}" if why else " Switched in B, it is not enough."
        lines.append(f"  It may be that {difference_words(difference)}.{tried}")
    lines += _not_known(cause.differences)
    if cause.departure.kind in ("activation", "output", "loss", "gradient"):
        lines += [f"  The networks differ: {text}." for text in lockstep.structure[:4]]
    return [*lines, *_ratio(cause.departure)]


def _advice(cause: DepartureCause) -> list[str]:
    """What to do about a difference that frameworks fix."""
    if BIASES not in (difference.name for difference in cause.differences):
        return []
    return [
        "Each framework fixes it: the sum of two biases moves twice as far. They train alike where the second bias "
        "(torch: bias_hh) is not learned."
    ]


def _proof(cause: DepartureCause) -> str:
    given = "A's value in B" if cause.switched_on == "B" else "B's value in A"
    if cause.then is None:
        return f"Proved: with {given}, it does not depart any more, nor does anything else."
    return f"Proved: with {given}, it does not depart any more; the next departure is at step {cause.then.step}."


def _ratio(departure: ComparedQuantity) -> list[str]:
    if departure.ratio is None:
        return []
    what = "its change by the first step" if departure.kind == "tensor" else "it"
    return [f"  In B {what} is {departure.ratio:.6g} times what it is in A, in every element."]


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 4} more" if len(names) > 4 else ""


def lockstep_data(lockstep: Lockstep) -> dict[str, Any]:
    """For JSON."""
    return {
        "names": list(lockstep.names),
        "steps": list(lockstep.steps),
        "quantities": len(lockstep.rows),
        "blind": lockstep.blind,
        "causes": [_cause_data(cause) for cause in lockstep.causes],
        "unseen": [difference.as_data() for difference in lockstep.unseen],
        "unlearned": list(lockstep.unlearned),
        "structure": list(lockstep.structure),
        "without_dropout": lockstep.without_dropout,
        "layers": lockstep.layers,
        "tells": any(row.kind == "tensor" and not row.blind for row in lockstep.rows),
        "only_counted": _departure_data(lockstep.only_counted),
        "doubtful": _departure_data(lockstep.doubtful),
        "lost": lockstep.lost,
        "agree": lockstep.agree,
        **lockstep.verdict.as_data(),
    }


def _cause_data(cause: DepartureCause) -> dict[str, Any]:
    return {
        "departure": _departure_data(cause.departure),
        "differences": [difference.as_data() for difference in cause.differences],
        "proved": cause.proved,
        "fixed": dict(cause.fixed),
        "then": _departure_data(cause.then),
        "switched_on": cause.switched_on,
    }


def _departure_data(departure: ComparedQuantity | None) -> dict[str, Any] | None:
    if departure is None:
        return None
    data = asdict(departure)
    (apart,) = data.pop("sides")
    return {**data, "apart": {**apart, "error": finite(departure.apart.error)}, "floor": finite(departure.floor)}
