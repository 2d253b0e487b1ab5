"""`write_report`: a study as a folder with one page, its charts as PNG, and every number as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.present import images
from zoolens.base.present.figures import percent
from zoolens.base.present.pages import Page, Section, Tile, page_html
from zoolens.base.present.tables import Column, Table, write_csv
from zoolens.training.crosstrain.study.analysis.collapsed import Flag
from zoolens.training.crosstrain.study.analysis.dependence import TRUSTED, Dependence
from zoolens.training.crosstrain.study.analysis.information import Information
from zoolens.training.crosstrain.study.report.dependence_charts import curves_chart, interaction_chart, quality
from zoolens.training.crosstrain.study.report.study_findings import Findings, gather
from zoolens.training.crosstrain.study.report.study_tables import (
    accuracies_table,
    deltas_table,
    densities_table,
    dependence_tables,
    information_table,
    trials_table,
)
from zoolens.training.crosstrain.study.report.trial_charts import (
    MOST_DIMENSIONS,
    accuracy_chart,
    delta_chart,
    pairs_chart,
    space_chart,
    training_chart,
)
from zoolens.training.crosstrain.training.trials import Study

SHOWN: Final = 10  # trials at each end
CURVES: Final = 3  # trials whose training is drawn
INDEX: Final = "index.html"


def write_report(
    study: Study,
    folder: Path,
    *,
    sections: Sequence[Section] = (),
    flags: Sequence[Flag] | None = None,
    seed: int = 0,
) -> list[Path]:
    """Write the report of a study and return its files; those of the same name are replaced.

    `sections` stand after ours, their tables are written as CSV too. `flags`: collapsed sides from
    `analysis.collapsed.flag`, where test labels are known; None: without labels. The charts are drawn by the page
    itself; as PNG they are written where the extra `reports` is installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    findings = gather(study, flags=flags, seed=seed)
    parts = (*_sections(findings), *sections)
    drawn = images.can_draw()
    page = Page(
        study.name,
        study_lead(findings),
        tiles=tuple(study_tiles(findings)),
        sections=parts,
        facts=study.details,
        pictures=drawn,
    )
    written = [folder / INDEX]
    written[0].write_text(page_html(page), encoding="utf-8", errors="replace")
    for chart in (chart for part in parts for chart in part.charts if drawn):
        written.append(folder / f"{chart.name}.png")
        written[-1].write_bytes(images.png(chart))
    theirs = [table for part in sections for _, table in part.tables]
    return written + write_csv([*_files(findings), *theirs], folder)


def _files(findings: Findings) -> Iterator[Table]:
    yield trials_table(findings)
    yield accuracies_table(findings)
    yield deltas_table(findings)
    yield densities_table(findings)
    yield information_table(findings)
    yield from dependence_tables(findings)


def study_lead(findings: Findings) -> str:
    study = findings.study
    names = (
        f"{', '.join(study.frameworks[:-1])} and {study.frameworks[-1]}" if len(study.frameworks) > 1 else "one side"
    )
    varied = ", ".join(findings.columns) or "nothing"
    lead = f"{len(study.trials):,} trials, each trained by {names} with the same hyperparameters. Varied: {varied}."
    return f"{study.missing} {lead}" if study.missing else lead


def study_tiles(findings: Findings) -> Iterator[Tile]:
    yield Tile(f"{findings.pair_count:,}", "pairs with both accuracies")
    if findings.pair_count:
        share = findings.apart / findings.pair_count
        yield Tile(percent(share, 1), f"of pairs ≥ 5 % apart ({findings.apart:,})", "high" if share > 0 else "")
        yield Tile(percent(float(findings.delta.known.max())), "largest Δ")
        yield Tile(percent(float(np.median(findings.delta.known))), "median Δ")
    for status, count in findings.statuses.most_common():
        yield Tile(f"{count:,}", f"sides {status}", "high" if status != "finished" else "")
    yield Tile(f"{findings.collapsed:,}", "sides that always answer the same", "high" if findings.collapsed else "")


def _sections(findings: Findings) -> Iterator[Section]:
    yield Section(
        "Distributions",
        (
            "Kernel densities (Gaussian, Silverman's bandwidth, reflected at 0 and 100 %); each point below a curve "
            "is one trial. Δ is the absolute difference of test accuracy, in percentage points.",
        ),
        (findings.troubles["densities"],) if "densities" in findings.troubles else (),
        charts=tuple(chart for chart in (accuracy_chart(findings), delta_chart(findings)) if chart),
        tables=(("Accuracy", accuracies_table(findings)), ("Δ", deltas_table(findings))),
        files=("accuracies.csv", "deltas.csv", "densities.csv"),
    )
    pairs = pairs_chart(findings)
    if pairs:
        words = "Solid: equal. Dashed: 5 points apart."
        yield Section("Side against side", (words,), charts=(pairs,), files=("trials.csv",))
    yield _trials(findings)
    space = space_chart(findings)
    if space:
        yield Section("The space", tuple(_space_words(findings)), charts=(space,), files=("trials.csv",))
    yield _information(findings)
    yield _dependence(findings)


def _trials(findings: Findings) -> Section:
    known = np.flatnonzero(np.isfinite(findings.delta.values))
    order = [int(place) for place in known[np.argsort(-findings.delta.values[known], kind="stable")]]
    without = [i for i in range(len(findings.study.trials)) if i not in set(order)]
    if len(order) <= 2 * SHOWN:
        shown = [("All trials with a Δ, the largest first", order)]
    else:
        shown = [(f"The {SHOWN} largest Δ", order[:SHOWN]), (f"The {SHOWN} smallest Δ", order[: -SHOWN - 1 : -1])]
    if without:
        some = f", the first {SHOWN}" if len(without) > SHOWN else ""
        shown.append((f"{len(without)} trials without a Δ{some}", without[:SHOWN]))
    tables = [(title, trials_table(findings, rows, brief=True)) for title, rows in shown if rows]
    words = "" if tables else "No trials."
    curves = training_chart([findings.study.trials[place] for place in order[:CURVES]])
    return Section(
        "Trials",
        (words,) if words else (),
        charts=(curves,) if curves else (),
        tables=tuple(tables),
        files=("trials.csv",),
    )


def _space_words(findings: Findings) -> Iterator[str]:
    yield "Every trial in every plane of two hyperparameters, the largest Δ drawn last. The last row is Δ itself."
    if len(findings.columns) > MOST_DIMENSIONS:
        yield f"The first {MOST_DIMENSIONS} of {len(findings.columns)} hyperparameters are drawn."


def _information(findings: Findings) -> Section:
    title = "What the hyperparameters say"
    trouble = (findings.troubles["information"],) if "information" in findings.troubles else ()
    if not findings.information:
        return Section(title, warnings=trouble)
    words = (
        "Mutual information in nats. Chance: what counting alone gives when the figure is dealt to the trials at "
        "random; p: how often such a deal reaches the value (not corrected for the number of rows; grey above 0.05). "
        "Synergy: what two say together beyond the sum of both, beside what chance makes of it.",
        f"Estimator: {findings.information[0].estimator}. With another number of bins weak values may fall on "
        "the other side of 0.05: read them as hints.",
    )
    tables = [(f"About {about.target}, one by one", _singles(about)) for about in findings.information]
    pairs = [(f"About {about.target}, two together", _joints(about)) for about in findings.information if about.joints]
    ordered = [table for pair in zip(tables, pairs, strict=True) for table in pair] if pairs else tables
    return Section(title, words, trouble, tables=tuple(ordered), files=("information.csv",))


def _singles(about: Information) -> Table:
    columns = (Column("hyperparameter"), Column("nats", "nats"), Column("chance", "nats"), Column("p", "p"))
    rows = sorted(about.singles, key=lambda row: -row.nats)
    return Table("singles", columns, tuple((row.name, row.nats, row.chance, row.p_value) for row in rows))


def _joints(about: Information) -> Table:
    names = ("nats", "chance", "synergy", "synergy by chance")
    columns = (Column("hyperparameters"), *(Column(name, "nats") for name in names), Column("p", "p"))
    rows = sorted(about.joints, key=lambda row: -row.nats)
    cells = [
        (" and ".join(row.names), row.nats, row.chance, row.synergy, row.synergy_chance, row.p_value) for row in rows
    ]
    return Table("joints", columns, tuple(cells))


def _ignored(dependence: Dependence) -> str:
    names = dependence.surrogate.ignored
    return f", nor are {', '.join(names)}: too few trials have them, or all the same" if names else ""


def _dependence(findings: Findings) -> Section:
    title, dependence = "Dependence of Δ", findings.dependence
    if dependence is None:
        return Section(title, warnings=(findings.troubles["dependence"],))
    words = (
        "A Gaussian process fitted to Δ, averaged over the other hyperparameters as the trials have them. "
        "H: share of what two do that is not the sum of what each does; strength: that part in points of Δ "
        "(root mean square), which decides the order.",
        f"{quality(dependence)}. {dependence.surrogate.left_out} trials are not in it{_ignored(dependence)}.",
    )
    poor = (
        f"Leave-one-out R² is below {TRUSTED}: most of Δ is noise or fine structure that this surrogate does not see."
    )
    charts = [curves_chart(dependence)]
    if dependence.surface is not None:
        charts.append(interaction_chart(dependence.surface, dict(findings.columns), dependence))
    columns = (Column("hyperparameters"), Column("H", "number"), Column("strength", "percent"))
    rows = tuple(
        (" and ".join(given.name for given in pair.inputs), pair.h, pair.strength) for pair in dependence.interactions
    )
    return Section(
        title,
        words,
        () if dependence.trusted else (poor,),
        charts=tuple(chart for chart in charts if chart),
        tables=(("Interactions", Table("h", columns, rows)),) if rows else (),
        files=tuple(f"{table.name}.csv" for table in dependence_tables(findings)),
    )
