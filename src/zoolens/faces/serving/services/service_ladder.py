"""The ladder of a service, ready to be served: its tiers with their models and adapters, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.protocol.messages import TensorMetadata
from zoolens.faces.serving.contracts.adapter import Adapter
from zoolens.faces.serving.contracts.ladder import Ladder, Rung
from zoolens.faces.serving.plane.classification import raw_labels
from zoolens.faces.serving.policies.policy import Policy
from zoolens.faces.serving.services.candidate_outcomes import Excluded, promised_outcome
from zoolens.faces.serving.services.candidates import Candidate, quality_name
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.tier_bounds import agreement_of

EQUAL: Final = "equal answers"
SIMILARITY: Final = "mean similarity of the vectors (1 minus their relative distance)"


@dataclass(frozen=True)
class ServiceLadder:
    """A ladder with all that is needed to serve it. `adapters` and `candidates` belong to the tiers, one by one."""

    service: Service
    ladder: Ladder
    candidates: tuple[Candidate, ...]
    adapters: tuple[Adapter, ...]
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    labels: tuple[str, ...] | None
    dataset: str
    probes: int
    confidence: float | None
    query: str
    excluded: tuple[Excluded, ...] = ()  # models of the store that are no tier, and why
    notes: tuple[str, ...] = ()
    lacking: Mapping[str, str] = field(default_factory=dict)  # why it cannot answer, by the model that a split names
    extra: tuple[Rung, ...] = ()  # for splits and the shadow: the policy never chooses them
    extra_candidates: tuple[Candidate, ...] = ()
    extra_adapters: tuple[Adapter, ...] = ()
    arms: Mapping[str, int] = field(default_factory=dict)  # number of the tier, by the model that a split names
    shadow: Rung | None = None
    agreement_name: str = EQUAL  # what `equivalence` of a tier is, in words before a percentage
    quality_unit: str = "fraction"  # of the figure that says how good a model is

    def new_policy(self) -> Policy:
        """The policy of the service on this ladder. A ZoolensError where it cannot take its settings."""
        policy: type[Policy] = plugins.load(plugins.POLICIES, self.service.policy_name)
        return policy(self.ladder, self.service.policy_settings)

    @property
    def output_labels(self) -> Mapping[int, str]:
        """Class names by their place in the service's output. A raw output also has what postprocessing would drop."""
        names = self.labels or ()
        if self.service.output == "raw":
            return raw_labels(names, self.candidates[0].output.postprocess)
        return dict(enumerate(names))

    @property
    def answers_classes(self) -> bool:
        """Whether clients get probabilities; else they get documents, and answers agree as their task says."""
        return self.candidates[0].columns is not None

    @property
    def quality(self) -> str:
        """The name of the figure that says how good a model is."""
        return quality_name(self.candidates[0].task)

    @property
    def by_model(self) -> dict[str, tuple[Any, ...]]:
        """Content and promise of every tier, by model."""
        return {entry[0]: entry for entry in self.identity}

    @property
    def all_candidates(self) -> tuple[Candidate, ...]:
        return (*self.candidates, *self.extra_candidates)

    @property
    def all_adapters(self) -> tuple[Adapter, ...]:
        return (*self.adapters, *self.extra_adapters)

    @property
    def arm_models(self) -> frozenset[str]:
        rungs = (*self.ladder.rungs, *self.extra)
        return frozenset(rungs[place].model for place in self.arms.values())

    @property
    def reference_content(self) -> str:
        return self.candidates[0].job.model.fingerprint

    @property
    def identity(self) -> tuple[Any, ...]:
        """What another ladder must differ in to be worth a change: the tiers, their contents and their promises."""
        rungs = (*self.ladder.rungs, *self.extra)
        entries = []
        for rung, candidate in zip(rungs, self.all_candidates, strict=True):
            content = candidate.job.model.fingerprint
            entries.append((rung.model, rung.runtime, rung.equivalence, rung.equivalence_lower, content))
        return tuple(entries)


def ladder_data(built: ServiceLadder) -> Mapping[str, Any]:
    """Everything, ready for JSON."""
    return {
        "query": built.query,
        "dataset": built.dataset,
        "inputs": built.probes,
        "confidence": built.confidence,
        "agreement": built.agreement_name,
        "rungs": [
            {
                "model": rung.model,
                "runtime": rung.runtime,
                "equivalence": rung.equivalence,
                "equivalence_lower": rung.equivalence_lower,
                "seconds": {str(size): seconds for size, seconds in rung.profile.seconds.items()},
                "memory_bytes": rung.memory_bytes,
                **({} if rung.equivalence_least is None else {"equivalence_least": rung.equivalence_least}),
                "outcome": promised_outcome(built.service, agreement_of(rung)).value,
                "timed_at": None if rung.profile.measured is None else rung.profile.measured.isoformat(),
                "evaluated_at": candidate.run.created.isoformat(),
                **rung.figures,
            }
            for rung, candidate in zip(built.ladder.rungs, built.candidates, strict=True)
        ],
        "excluded": [other.as_data() for other in built.excluded],
        "notes": list(built.notes),
    }
