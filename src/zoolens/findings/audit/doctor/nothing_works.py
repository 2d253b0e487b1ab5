"""Where no variant finds anything, none can be told from another: the manifest is neither right nor wrong."""

from __future__ import annotations

from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.diagnosis import Diagnosis, Status
from zoolens.findings.audit.doctor.evidence import ALPHA, FEWEST, Evidence
from zoolens.findings.audit.doctor.evidence_figures import JudgedAnswers, is_above_blind
from zoolens.findings.audit.doctor.figure_words import FigureWords
from zoolens.findings.audit.doctor.next_token_sense import Works, next_token_sense
from zoolens.findings.audit.doctor.search import found_nothing
from zoolens.findings.audit.doctor.variants import Variant
from zoolens.inventory.tasks.task import has_one_truth


def doubt_nothing(diagnosis: Diagnosis, bench: VariantBench, best: Variant) -> Diagnosis:
    """Return the diagnosis, or a suspicious one without a correction where even the best figure is near nothing; an
    undecided one where blind answers are as good as any, or where chance may have made the figure."""
    evidence = bench.measure(best, Level.SELECTION)
    figure = evidence.figure
    if not isinstance(figure, JudgedAnswers) or evidence.n < FEWEST:
        return diagnosis
    figures = FigureWords(diagnosis.metric, diagnosis.unit)
    metric = figure.metric
    if evidence.one_answer and not (metric.tells and found_nothing(evidence)):
        return diagnosis.suspicious(
            f"Nothing works: the model's outputs are the same numbers for every one of {evidence.n:,} {bench.noun}, "
            f"whatever {figures.name} ({figures.value(evidence.value)}) that makes. Suspect the weights, the "
            "preprocessing and the tensors that the manifest names."
        )
    remedy = f"Use {bench.noun} whose truths differ."
    if has_one_truth(figure.answers):
        sentence = (
            f"Undecided: all {evidence.n:,} {bench.noun} have the same truth, so that {figures.name} does not show "
            f"whether the model looks at them. {remedy}"
        )
        return diagnosis.suspicious(sentence).undecided(sentence, remedy)
    if not metric.tells:
        sentence = (
            f"Undecided: on these data answers that have nothing to do with the {bench.noun} reach {figures.name} "
            f"{figures.value(metric.blind)} (the best there is: {figures.value(metric.best)}), so that one variant "
            f"cannot be told from another. {remedy}"
        )
        return diagnosis.suspicious(sentence).undecided(sentence, remedy)
    if not found_nothing(evidence):
        unsure = diagnosis.status is Status.RIGHT and _may_be_blind(figure)
        return _undecided(diagnosis, evidence, bench.noun) if unsure else diagnosis
    sense = next_token_sense(evidence, bench.noun)
    if sense is not None and sense.works is not Works.NO:
        return _undecided(diagnosis, evidence, bench.noun) if diagnosis.status is Status.RIGHT else diagnosis
    error = diagnosis.trials[0].error
    sentence = (
        f"Nothing works: neither as declared nor with any of {len(diagnosis.trials) - 1} variants is {figures.name} "
        f"({figures.value(evidence.value)} on {evidence.n:,} {bench.noun}) better than that of answers that have "
        f"nothing to do with the {bench.noun}, so that one cannot be told from another. Suspect the weights, the "
        "tensors that the manifest names, and whether these data are what the model was trained for."
    )
    if error:
        sentence += f" As declared it cannot be evaluated at all: {error}"
    return diagnosis.suspicious(sentence)


def _may_be_blind(figure: JudgedAnswers) -> bool:
    """Whether answers that have nothing to do with the inputs may have made this figure. An interval does not tell:
    that of a share never reaches 0, which is the blind value of many metrics."""
    return figure.metric.blind is not None and not is_above_blind(figure, ALPHA)


def _undecided(diagnosis: Diagnosis, evidence: Evidence, noun: str) -> Diagnosis:
    figures = FigureWords(diagnosis.metric, diagnosis.unit)
    sentence = (
        f"Undecided: no variant is better, but {figures.name} ({figures.value(evidence.value)} on {evidence.n:,} "
        f"{noun}) is not better by more than noise than that of answers that have nothing to do with the {noun}; more "
        f"{noun} tell."
    )
    return diagnosis.undecided(sentence, f"Use more labelled {noun}.")
