"""What other models say to the requests of a service: they are asked as well, and their answers compared.

Three ask for it: the promise of a tier, which the reference checks on a sample; a split, whose arms are compared with
the reference; and a shadow. With labels that clients send back it is also known which of two models is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from zoolens.base.present.figures import percent
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import Tensor
from zoolens.faces.serving.contracts.adapter import Told
from zoolens.faces.serving.contracts.ladder import Rung
from zoolens.faces.serving.contracts.observer import BatchReport
from zoolens.faces.serving.services.comparison import Compared, ModelPair, answered_rows, rows_agreement
from zoolens.faces.serving.services.events import ModelComparison
from zoolens.faces.serving.services.labels import AnsweredRequest, AnswerMemory, OtherAnswer, label_classes
from zoolens.faces.serving.services.service_ladder import ServiceLadder
from zoolens.faces.serving.services.shadowing import Ask, Question, Shadow
from zoolens.inventory.tasks.task import Answers

_FEWEST_COMPARED: Final = 30  # comparisons before a promise is judged


class LiveComparisons:
    """The pairs of models of one service that have answered the same requests. Belongs to the event loop. `ask` lets a
    model answer in the background. `violated` is called with a tier and a sentence, once, where the tier agrees with
    the reference less than was promised."""

    def __init__(
        self, name: str, built: ServiceLadder, ask: Ask, violated: Callable[[Rung, str], None], seed: int | None
    ) -> None:
        self.pairs: dict[tuple[str, str], ModelPair] = {}
        self.shadow = Shadow(ask, seed)
        self._name, self._built, self._service = name, built, built.service
        self._violated = violated
        self._answers = AnswerMemory()
        self._recorded: dict[tuple[str, str], tuple[int, int, int]] = {}  # what was recorded of each pair last
        self._warned: set[tuple[str, str]] = set()

    def replace(self, built: ServiceLadder) -> None:
        """Go on with another ladder. What was found out about models that have another content, or another promise, by
        now is dropped."""
        before, after = self._built.by_model, built.by_model
        models = before.keys() | after.keys()
        changed = {model for model in models if before.get(model) != after.get(model)}
        self.pairs = {key: pair for key, pair in self.pairs.items() if changed.isdisjoint(key)}
        self._warned = {key for key in self._warned if key[0] not in changed}
        self._built = built

    def entries(self) -> Iterator[ModelComparison]:
        """The pairs of which something is new since the last time."""
        for key, pair in self.pairs.items():
            state = (pair.compared_requests, pair.labelled, pair.dropped)
            if state != self._recorded.get(key, (0, 0, 0)):
                self._recorded[key] = state
                yield pair.compared()

    # --- who else is asked

    def sample(self, report: BatchReport, rung: Rung, *, ask_others: bool) -> None:
        """Draw from the requests of a batch, which a tier has answered, those that other models are asked about.
        `ask_others`: False where energy or computing time is to be saved."""
        others = self._also_asked(rung) if ask_others else []
        if not (others or self._remembers):
            return
        told = Told(report.outputs, report.kept)
        start = 0
        for request, rows in zip(report.requests, report.rows, strict=True):
            end = start + rows
            tickets = ((other, self.shadow.drawn(share)) for other, share in others)
            drawn = [(other, ticket) for other, ticket in tickets if ticket is not None]
            if drawn or (self._remembers and request.id):
                answered = answered_rows(told, start, end)
                entry = self._remembered(request.id, rung, answered)
                inputs = {name: np.array(tensor[start:end]) for name, tensor in report.inputs.items()} if drawn else {}
                for other, ticket in drawn:
                    self.shadow.offer(self._question(entry, rung, other, inputs, answered, ticket))
            start = end

    def _also_asked(self, rung: Rung) -> list[tuple[Rung, float]]:
        """Which tiers are asked about an answer of this one, and about which share of its answers."""
        service, reference, shadow = self._service, self._built.ladder.reference, self._built.shadow
        others: dict[str, tuple[Rung, float]] = {}
        if rung.model != reference.model:
            is_arm = bool(service.splits) and rung.model in self._built.arm_models
            share = 1.0 if is_arm else service.promise.share
            if share > 0:
                others[reference.model] = (reference, share)
        if service.shadow is not None and shadow is not None and shadow.model != rung.model:
            others[shadow.model] = (shadow, service.shadow.share)
        return list(others.values())

    @property
    def _remembers(self) -> bool:
        """Whether answers are kept until labels come back."""
        return self._built.answers_classes and bool(self._service.splits or self._service.shadow)

    def _remembered(self, request_id: str, rung: Rung, answered: Compared) -> AnsweredRequest | None:
        if not self._remembers or isinstance(answered, Answers):
            return None
        return self._answers.add(request_id, rung.model, answered)

    def _question(
        self,
        entry: AnsweredRequest | None,
        rung: Rung,
        other: Rung,
        inputs: Mapping[str, Tensor],
        answered: Compared,
        ticket: float,
    ) -> Question:
        key = (rung.model, other.model)
        measure = "" if self._built.answers_classes else self._built.agreement_name
        pair = self.pairs.setdefault(key, ModelPair(*key, measure=measure))

        def done(told: Told) -> None:
            others = answered_rows(told)
            if len(others) != len(answered) or self.pairs.get(key) is not pair:
                # One of the two is another model by now.
                return
            pair.add(answered, others, ticket)
            if entry is not None and not isinstance(others, Answers):
                entry.others[other.model] = OtherAnswer(others, ticket)
                self._count_labels(entry, other.model)
            self._judge(rung, pair)

        def weighed(agreement: float) -> None:
            if self.pairs.get(key) is pair:
                pair.add_agreement(agreement, ticket)
                self._judge(rung, pair)

        def dropped() -> None:
            pair.dropped += 1

        whom, now = (other.model, other.runtime), time.monotonic()
        if isinstance(answered, Answers):
            # Boxes of two models take up to some milliseconds to compare.
            weigh = partial(_mean_agreement, answered)
            return Question(whom, inputs, weighed, dropped, now, pair, ticket, weigh, answered.nbytes)
        return Question(whom, inputs, done, dropped, now, pair, ticket)

    def _judge(self, rung: Rung, pair: ModelPair) -> None:
        """Hold what was measured while serving against what the query promised of a tier."""
        key = (rung.model, rung.runtime)
        promised = rung.promised
        if pair.other != self._built.ladder.reference.model or key in self._warned or pair.n < _FEWEST_COMPARED:
            return
        high = pair.agreement_interval.high
        if high >= promised:
            return
        self._warned.add(key)
        found = f"{_agreement_words(rung.model, pair)} (at most {percent(high, 1)})"
        reason = f"{found}, but {percent(promised, 1)} was promised."
        self._violated(rung, reason)

    # --- labels

    async def feedback(self, labels: Mapping[str, Any]) -> int:
        """True classes by request id, each a class's name or number, or a list of them. How many ids were known.

        All labels are read before any counts: a wrong one among them changes nothing.
        """
        if not self._built.answers_classes:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"Service '{self._name}' takes no feedback: labels are classes, and it answers other things.",
            )
        if not self._remembers:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"Service '{self._name}' takes no feedback: it has no split and no shadow, so answers are not kept.",
            )
        count, names = self._built.outputs[0].shape[-1], self._built.output_labels
        truths = {key: label_classes(self._name, label, count, names) for key, label in labels.items()}
        for request_id, truth in truths.items():
            entry = self._answers.get(request_id)
            if entry is not None and len(entry.classes) != len(truth):
                raise ServingError(
                    Refusal.INVALID,
                    f"Request {request_id[:60]!r} had {len(entry.classes)} inputs, but {len(truth)} labels were given.",
                )
        known = 0
        for request_id, truth in truths.items():
            entry = self._answers.take(request_id)
            if entry is not None:
                known += 1
                entry.truth = truth
                for other in entry.others:
                    self._count_labels(entry, other)
        return known

    def _count_labels(self, entry: AnsweredRequest, other: str) -> None:
        """Count a request whose true classes are known and which two models have answered."""
        pair = self.pairs.get((entry.model, other))
        answer, truth = entry.others[other], entry.truth
        if pair is None or truth is None or len(answer.classes) != len(truth):
            return
        answered = entry.classes.astype(np.int64)
        pair.add_labels(answered, answer.classes, truth, answer.ticket)


def _mean_agreement(answered: Answers, told: Told) -> float:
    return float(rows_agreement(answered, answered_rows(told)).mean())


def _agreement_words(model: str, pair: ModelPair) -> str:
    agreement = percent(pair.agreement, 1)
    if pair.measure:
        return f"Between {model} and the reference, {pair.measure} is {agreement} over {pair.n:,} requests"
    return f"{model} agrees with the reference on {agreement} of {pair.n:,} requests"
