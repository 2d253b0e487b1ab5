"""The three values of a verdict and the coverage that it rests on; every command that judges uses these."""

from zoolens.verdicts.coverage import Coverage, Gap, Tally, at_least
from zoolens.verdicts.verdict import NotKnown, Outcome, Verdict, combined, judged, refuse_unknown

__all__ = [
    "Coverage",
    "Gap",
    "NotKnown",
    "Outcome",
    "Tally",
    "Verdict",
    "at_least",
    "combined",
    "judged",
    "refuse_unknown",
]
