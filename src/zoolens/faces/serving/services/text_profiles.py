"""How long a language model takes for a whole text, by the tokens that it writes: from the speeds in the store.

A text takes as long as its prompt and each token behind it. Both count as of the longest text that the service writes:
the first token comes behind the longest prompt, and each further one costs what the very last one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run
from zoolens.base.store.scopes import Dimension, context_scope
from zoolens.base.store.store import Store
from zoolens.faces.serving.contracts.ladder import LatencyProfile
from zoolens.faces.serving.services.candidates import Candidate
from zoolens.faces.serving.services.definition import TextSettings
from zoolens.faces.serving.services.input_conversion import NotConvertible
from zoolens.faces.serving.services.profiles import (
    StoredTiming,
    TimedCall,
    is_same,
    measure_timings,
    profile_of,
    stored_timings,
)
from zoolens.findings.measure.generation_speed import FIRST, FURTHER, MEMORY, writes
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.latency import LatencySettings
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER

_FIRST: Final = TimedCall(FIRST, Dimension.CONTEXT, lambda tokens: f"prefill-{tokens}x1")
_FURTHER: Final = TimedCall(FURTHER, Dimension.CONTEXT, lambda tokens: f"decode-{tokens}x1")


@dataclass(frozen=True)
class TextTimings:
    """The first token behind the longest prompt, and the last one of the longest text."""

    first: StoredTiming
    further: StoredTiming

    @property
    def disturbed(self) -> bool:
        return self.first.disturbed or self.further.disturbed

    def profile(self, most: int) -> LatencyProfile:
        """Seconds of a text by its tokens, from one to the most."""
        measured = [each.measured for each in (self.first, self.further) if each.measured is not None]
        lengths = {tokens: self._of(tokens) for tokens in (1, most)}
        oldest = min(measured, default=None)
        return profile_of({tokens: StoredTiming(*ends, measured=oldest) for tokens, ends in lengths.items()})

    def _of(self, tokens: int) -> tuple[float, float, float]:
        """Seconds of a text with so many tokens, with the ends of their interval."""
        first, further, behind = self.first, self.further, tokens - 1
        seconds = (first.seconds or 0.0, further.seconds or 0.0)
        low = (first.low or seconds[0], further.low or seconds[1])
        high = (first.high or seconds[0], further.high or seconds[1])
        return tuple(one + behind * each for one, each in (seconds, low, high))  # type: ignore[return-value]


def check_writes(texts: TextSettings, reference: Candidate, candidate: Candidate) -> None:
    """Refuse a model that does not write texts here, or whose tokenizer makes other tokens of a prompt than the
    reference's."""
    if not writes(candidate.job):
        task = candidate.job.manifest.task
        raise NotConvertible(f"its task is {task}" if task != "language-model" else _not_continued(candidate.job))
    ours, theirs = reference.input.tokenizer, candidate.input.tokenizer
    if ours is None or theirs is None:
        raise NotConvertible("it has no tokenizer")
    if theirs.padding == "max_length":
        raise NotConvertible("it takes texts of one length alone (padding: max_length)")
    if texts.prompt + texts.answer > theirs.max_length:
        raise NotConvertible(
            f"its texts have {theirs.max_length:,} tokens, and the service's {texts.prompt + texts.answer:,}"
        )
    if ours != theirs:
        differing = [name for name in type(ours).model_fields if getattr(ours, name) != getattr(theirs, name)]
        raise NotConvertible(f"its manifest has another tokenizer: {', '.join(differing)}")
    if digest(reference.job.paths[TOKENIZER]) != digest(candidate.job.paths[TOKENIZER]):
        raise NotConvertible("the file of its tokenizer is not the reference's")


def _not_continued(job: Job) -> str:
    return f"{job.runtime.name} does not continue sequences of tokens, so that each would cost the whole text"


def ensure_text_timings(
    store: Store, job: Job, run: Run, texts: TextSettings, progress: Progress, settings: LatencySettings | None
) -> TextTimings:
    """Measured times of a model on this machine. What the store does not know is measured now and stored; without
    `settings` nothing is measured."""
    found = stored_text_timings(store, job, texts)
    if found is None and settings is not None:
        measure_timings(store, job, run, (), progress, settings, contexts=_contexts(texts))
        found = stored_text_timings(store, job, texts)
    if found is not None:
        return found
    contexts = ",".join(map(str, _contexts(texts)))
    raise ZoolensError(
        f"how fast it writes texts of this length is not known on this machine: zoolens eval {job.entry.ref} --runtime "
        f"{job.runtime.name} --context {contexts}."
    )


def text_memory(store: Store, job: Job, texts: TextSettings) -> float | None:
    """Bytes of a process that has read the longest text; None where that was not measured here."""
    scope = context_scope(_contexts(texts)[1])
    same = (run for run in store.runs(model=job.entry.full_ref, trials=True) if is_same(run, job))
    found = (
        each for run in same for each in store.observations(run.id) if (each.metric, each.scope) == (MEMORY, scope)
    )
    return next((each.value for each in found if each.value is not None), None)


def _contexts(texts: TextSettings) -> tuple[int, int]:
    return texts.prompt, texts.prompt + texts.answer


def stored_text_timings(store: Store, job: Job, texts: TextSettings) -> TextTimings | None:
    """None where the store does not know both."""
    prompt, longest = _contexts(texts)
    first = stored_timings(store, job, _FIRST).get(prompt)
    further = stored_timings(store, job, _FURTHER).get(longest)
    if first is None or further is None or first.seconds is None or further.seconds is None:
        return None
    return TextTimings(first, further)
