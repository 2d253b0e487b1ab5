"""Where no variant finds anything, none can be told from another: the manifest is neither right nor wrong."""

from __future__ import annotations

from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.diagnosis import Diagnosis
from zoolens.findings.audit.doctor.evidence import FEWEST
from zoolens.findings.audit.doctor.figure_words import FigureWords
from zoolens.findings.audit.doctor.search import found_nothing
from zoolens.findings.audit.doctor.variants import Variant


def doubt_nothing(diagnosis: Diagnosis, bench: VariantBench, best: Variant) -> Diagnosis:
    """Return the diagnosis, or a suspicious one without a correction where even the best figure is near nothing."""
    evidence = bench.measure(best, Level.SELECTION)
    if evidence.distance is not None or evidence.n < FEWEST or not found_nothing(evidence):
        return diagnosis
    figures = FigureWords(diagnosis.metric, diagnosis.unit)
    error = bench.measure(Variant(), Level.SCREEN).error
    sentence = (
        f"Nothing works: neither as declared nor with any of {len(diagnosis.trials) - 1} variants is {figures.name} "
        f"({figures.value(evidence.value)} on {evidence.n:,} {bench.noun}) better than that of answers that have "
        f"nothing to do with the {bench.noun}, so that one cannot be told from another. Suspect the weights, the "
        "tensors that the manifest names, and whether these data are what the model was trained for."
    )
    if error:
        sentence += f" As declared it cannot be evaluated at all: {error}"
    return diagnosis.suspicious(sentence)
