"""The three values of a verdict and the coverage that it rests on; every command that judges uses these."""

from zoolens.verdicts.coverage import Coverage, Gap, Tally, at_least
from zoolens.verdicts.gates import UNKNOWN, UnknownGate, enforce
from zoolens.verdicts.verdict import NotKnown, Outcome, Verdict, combined, judged, refuse_unknown

__all__ = [
    "UNKNOWN",
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
