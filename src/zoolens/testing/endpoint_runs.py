"""Verifications of endpoints that nobody asked: distances drawn at random, kept as those of real ones are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from zoolens.base.store.records import Run
from zoolens.base.store.store import Store
from zoolens.findings.endpoints.hypothesis import Hypothesis
from zoolens.findings.endpoints.questions import By, kind_of_next
from zoolens.findings.endpoints.stored_verification import store_verification
from zoolens.findings.endpoints.verification import Asked, Verification
from zoolens.findings.endpoints.verify_endpoint import ALLOWANCE, CONTEXT, ERROR, MOST, ROUNDING

_SECOND: Final = 1_000_000_000  # nanoseconds


@dataclass(frozen=True)
class _Placed:
    title: str


@dataclass(frozen=True)
class _Model:
    """What a store keeps of a `CandidateModel`: its title."""

    placement: _Placed


@dataclass(frozen=True)
class Teller:
    """What an endpoint tells. `untold`: prompts at the end of which it tells too little; `failure`: how it ends."""

    address: str = "http://127.0.0.1:8080/v1"
    by: By = By.LOGPROBS
    stated: Mapping[str, Any] = field(default_factory=dict)
    untold: int = 0
    failure: str = ""


USUAL: Final = Teller()


def verification_run(store: Store, distances: Mapping[str, float], teller: Teller = USUAL, *, most: int = MOST) -> Run:
    """`distances`: about how far each model is from what is told, the one that is named first."""
    settings = {
        "seed": 7, "context": CONTEXT, "error": ERROR, "allowance": ALLOWANCE, "rounding": ROUNDING, "most": most,
        "chat": False, "by": None, "data": None,
    }  # fmt: skip
    found = Verification(
        teller.address,
        [Hypothesis(name, ERROR, ALLOWANCE, ROUNDING, teller.by is By.TOKENS) for name in distances],
        dict(teller.stated),
        settings,
        teller.by,
        failure=teller.failure,
    )
    random, begun = np.random.default_rng(3), time.time_ns()
    for number in range(most):
        silent = teller.by is By.TOKENS or number >= most - teller.untold
        _ask(found, number, {} if silent else _drawn(random, distances), begun + number * _SECOND)
        if found.settled:
            break
    models: Any = [_Model(_Placed(f"{name} in llamacpp")) for name in distances]
    return store_verification(found, models, store)


def _drawn(random: np.random.Generator, distances: Mapping[str, float]) -> dict[str, float]:
    return {name: min(1.0, usual * float(random.lognormal(0, 0.4))) for name, usual in distances.items()}


def _ask(found: Verification, number: int, told: Mapping[str, float], moment: int) -> None:
    long = kind_of_next(number)
    for each in found.hypotheses:
        if found.by is By.LOGPROBS:
            each.add_distance(told.get(each.name), long=long)
        else:
            each.add_token(np.array([0.5, 0.5]), {}, number % 2, 0.5)
    tokens = int(found.settings["context"]) - 1 if long else 20
    found.asked.append(Asked(moment, tokens, long, told, " the", found.named.log_against))
