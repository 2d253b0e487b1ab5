"""Evidence that grows prompt by prompt and may be believed whenever one stops.

Each kind of evidence is a capital that bets against a hypothesis: it is 1 in the beginning and does not grow on average
where the hypothesis is true, so that it ever reaches 1/α with probability α at most (Ville's inequality).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HONEST_SHARE: Final = 0.01  # of prompts at which an honest server may differ by more than the allowance
# Largest ratio of a bet: the more a single token may win, the more an honest server's rounding could win.
_MOST_WON: Final = 8.0
_BINS: Final = 8
_PRIOR: Final = 6.0  # tokens that each bin of the learned bet has seen before the first


@dataclass
class ShareTest:
    """Bets on how often answers differ by more than the allowance: against an honest server, at whose prompts this
    happens to a share of HONEST_SHARE at most, and against another model, at whose prompts it happens to `telling` at
    least. Both capitals are logarithms."""

    telling: float
    asked: int = 0
    exceeded: int = 0
    untold: int = 0

    def add(self, *, exceeds: bool) -> None:
        self.asked += 1
        self.exceeded += exceeds

    def add_untold(self) -> None:
        """A prompt that the endpoint tells too little of."""
        self.untold += 1

    @property
    def against_honest(self) -> float:
        kept = math.log((1 - self.telling) / (1 - HONEST_SHARE))
        return self.exceeded * self._of_exceeded + (self.asked - self.exceeded) * kept

    @property
    def against_other(self) -> float:
        """A prompt of which too little was told rejects nobody, and may be one at which another model differs."""
        return -self.against_honest - self.untold * self._of_exceeded

    @property
    def _of_exceeded(self) -> float:
        return math.log(self.telling / HONEST_SHARE)


@dataclass
class TokenTest:
    """Bets of several alternatives on single tokens, against the hypothesis that each token is drawn from the model's
    own distribution, or from one within `rounding` of it (total variation)."""

    rounding: float
    asked: int = 0
    _capitals: dict[str, float] = field(default_factory=dict)
    _seen: Floats = field(default_factory=lambda: np.full(_BINS, _PRIOR))

    @property
    def log_capital(self) -> float:
        """The mean of all alternatives' capitals is a capital as well; this is its logarithm."""
        if not self._capitals:
            return 0.0
        values = np.array(list(self._capitals.values()))
        return float(values.max() + np.log(np.exp(values - values.max()).mean()))

    @property
    def best(self) -> str:
        """The alternative that won most."""
        return max(self._capitals, key=lambda name: self._capitals[name], default="")

    def add(self, own: Floats, alternatives: Mapping[str, Floats], token: int, uniform: float) -> None:
        """`own`: the model's distribution over what can be told apart; `alternatives`: those of the others, which must
        be the same ones each time; `uniform`: a number from 0 to 1 that nobody else knows."""
        bets = {name: _ratio(other, own) for name, other in alternatives.items()}
        for name, bet in bets.items():
            self._capitals[name] = self._capitals.get(name, 0.0) + self._gain(bet, own, float(bet[token]))
        shares = self._seen / self._seen.sum()
        place = _rank_place(own, token, uniform)
        # Under the hypothesis the place is uniform, whatever the distribution is.
        learned = self._capitals.get(LEARNED, 0.0)
        self._capitals[LEARNED] = learned + self._gain(_BINS * shares, np.full(_BINS, 1 / _BINS), _BINS * shares[place])
        self._seen[place] += 1
        self.asked += 1

    def _gain(self, bet: Floats, own: Floats, won: float) -> float:
        """The logarithm of what is won. A server within the rounding of the hypothesis wins at most `rounding` times
        the span of the bet more than the bet's mean, which is therefore taken off."""
        mean = float(own @ bet)
        most = mean + self.rounding * float(bet.max() - bet.min())
        return math.log(max(won, 1e-300) / most)


LEARNED: Final = "places"


def _ratio(other: Floats, own: Floats) -> Floats:
    """What a bet on `other` pays for each token. Half of the stake is kept, so that no token loses everything."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(own > 0, other / own, np.where(other > 0, _MOST_WON, 0.0))
    return np.asarray(0.5 + 0.5 * np.minimum(ratio, _MOST_WON))


def _rank_place(own: Floats, token: int, uniform: float) -> int:
    """In which of equal parts of the probability the token lies, the likeliest tokens first."""
    chance = own[token]
    before = float(own[own > chance].sum())
    ties = np.flatnonzero(own == chance)
    before += float(chance) * int(np.searchsorted(ties, token))
    return min(int((before + uniform * float(chance)) * _BINS), _BINS - 1)


def mixed(capitals: Sequence[tuple[float, float]]) -> float:
    """The logarithm of a mean of capitals, given as (weight, logarithm); weights sum up to 1."""
    logs = np.array([math.log(weight) + value for weight, value in capitals])
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))


def at_temperature(own: Floats, temperature: float) -> Floats:
    with np.errstate(divide="ignore"):
        logs = np.log(own) / temperature
    powers = np.exp(logs - logs.max())
    return np.asarray(powers / powers.sum())
