"""Studies that others published: the contract of the plug-ins that know them (group `zoolens.published_studies`).

`published_study` is the one that `--published`, `design: published` and `import` mean. A published study is imported as
what others claim; a report on it also says which figures of its paper the released trials reproduce.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from zoolens.base import plugins
from zoolens.base.store.store import Store, borrowed_store
from zoolens.training.crosstrain.study.analysis.collapsed import Labels
from zoolens.training.crosstrain.study.search.hyperspace import Axis, Point
from zoolens.training.crosstrain.study.study_plan import Dimension, Search
from zoolens.training.crosstrain.training.trials import Study

Verdict = Literal["matches", "differs"]


@dataclass(frozen=True)
class Imported:
    """What came of importing published studies."""

    studies: tuple[str, ...]
    written: int  # trials that are new in the store
    kept: int  # those that were there


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper beside ours. `paper` holds the paper's words or digits, or None where the paper says
    nothing of it that we know. `told` means that others found the reason and the release itself does not show it."""

    what: str
    paper: str | None
    ours: str
    verdict: Verdict
    why: str = ""
    told: bool = False

    def __str__(self) -> str:
        figures = f"paper {self.paper}; release {self.ours}" if self.paper else self.ours
        remark = " (as others found; the release does not show it)" if self.told else ""
        return f"{self.what}: {figures}{f'; {self.why}' if self.why else ''}{remark}"


@dataclass(frozen=True)
class PaperComparison:
    figures: tuple[PaperFigure, ...]

    @property
    def matches(self) -> tuple[PaperFigure, ...]:
        return self._with("matches")

    @property
    def mismatches(self) -> tuple[PaperFigure, ...]:
        return self._with("differs")

    def _with(self, verdict: Verdict) -> tuple[PaperFigure, ...]:
        return tuple(figure for figure in self.figures if figure.verdict == verdict)

    @property
    def sections(self) -> Mapping[str, tuple[PaperFigure, ...]]:
        """Headings and the figures under them; headings without figures are left out."""
        named = {"Matches the paper": self.matches, "Does not match the paper": self.mismatches}
        return {heading: figures for heading, figures in named.items() if figures}

    def words(self) -> list[str]:
        """Lines for a terminal."""
        return [
            line
            for heading, figures in self.sections.items()
            for line in (heading, *(f"  - {figure}" for figure in figures))
        ]

    def as_data(self) -> list[dict[str, Any]]:
        return [asdict(figure) for figure in self.figures]


class PublishedStudy(ABC):
    """`space` and `search` are those of the published search."""

    space: ClassVar[tuple[Dimension, ...]]
    search: ClassVar[Search]

    @abstractmethod
    def is_in(self, folder: Path) -> bool:
        """Whether the folder looks as if it held the published files."""

    @abstractmethod
    def read(self, folder: Path) -> tuple[Study, ...]:
        """The studies in the published files; what is wrong in them is named by file, line and column."""

    @abstractmethod
    def import_into(self, store: Store, folder: Path, progress: Callable[[int, int], None] | None = None) -> Imported:
        """File the published trials as what others claim. Trials that are in the store already are left alone.
        `progress` is called after each trial with how many of how many are done."""

    @abstractmethod
    def is_released(self, study: Study) -> bool:
        """Whether this is one of the published studies, whole: a stranger's study may only say so."""

    @abstractmethod
    def compare_with_paper(self, store: Store, labels: Labels | None) -> PaperComparison:
        """The paper against its studies in the store. `labels` are those of the test set, in its order."""

    @abstractmethod
    def points(self, axes: Sequence[Axis], seed: int) -> Iterator[Point]:
        """The initial points of the published search in one subspace, without end."""

    @abstractmethod
    def hits(self, points: tuple[Point, ...], study: Study) -> int:
        """How many of the points are among the released trials."""


def published_study() -> PublishedStudy:
    """The published study that commands and plans mean by that word."""
    study: PublishedStudy = plugins.load(plugins.PUBLISHED_STUDIES, "published")()
    return study


def released_by(study: Study) -> PublishedStudy | None:
    """The plug-in whose published study this is, if any."""
    known = (plugins.load(plugins.PUBLISHED_STUDIES, name)() for name in plugins.names(plugins.PUBLISHED_STUDIES))
    return next((published for published in known if published.is_released(study)), None)


def import_published(
    store: Store | str | Path | None, folder: Path | str, progress: Callable[[int, int], None] | None = None
) -> Imported:
    """File the published trials in this folder as what others claim; see `PublishedStudy.import_into`."""
    with borrowed_store(store) as opened:
        return published_study().import_into(opened, Path(folder), progress)
