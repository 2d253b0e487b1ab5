"""The three values of a verdict and the coverage that it rests on; every command that judges uses these."""

from zoolens.base.verdicts.coverage import Coverage, Gap, Tally, at_least
from zoolens.base.verdicts.gates import UNKNOWN, Condition, UnknownGate, enforce
from zoolens.base.verdicts.verdict import NotKnown, Outcome, Verdict, combined, judged, refuse_unknown

__all__ = [
    "UNKNOWN",
    "Condition",
    "Coverage",
    "Gap",
    "NotKnown",
    "Outcome",
    "Tally",
    "UnknownGate",
    "Verdict",
    "at_least",
    "combined",
    "enforce",
    "judged",
    "refuse_unknown",
]
