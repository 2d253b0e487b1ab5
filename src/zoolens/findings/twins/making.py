"""Make stitched models of a model: splice parts of a donor into it, run it, and keep what answers alike often enough.

twins = zoolens.make_twins("demo:lenet-wide", "demo:lenet-wide-int8", data="demo", epsilon=0.01)

The quality of a stitched model is measured: it is run on the data like any model, and its answers are compared with
those of the reference. The order matters: parts of B in A make another network than parts of A in B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.errors import ModelError, UnsupportedAbility, ZoolensError
from zoolens.base.present.results import Result
from zoolens.base.progress import Progress, Silent
from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.statistics.multiplicity import corrected
from zoolens.base.store.records import Run, Stage
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.equivalence import OnData, equiv
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.segments.common_segments import common_segments
from zoolens.findings.graph.segments.splicing import splice_all
from zoolens.findings.graph.structures.structure_sources import find_entries
from zoolens.findings.graph.structures.weighted_graph import folded, weighted_graph
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.twins.pieces import Piece, pieces_of
from zoolens.findings.twins.provenance import WrittenTwin, segment_data, twins_folder, write_twin
from zoolens.findings.twins.search import attempts
from zoolens.findings.twins.theory import Theory, some_inputs, theory_of
from zoolens.findings.twins.theory import as_data as theory_data
from zoolens.inventory.catalog.lookup import Model, find, model_text
from zoolens.inventory.catalog.stored import check_model
from zoolens.inventory.datasets.opening import Data, whole_data
from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.zoos.zoo import Entry

EPSILON: Final = 0.01
_ROUNDING: Final = 1e-12  # 5 of 2,000 are 0.25 %
_LAST_STAGE: Final = Stage.SIZE  # of those that every stitched model goes through


@dataclass(frozen=True, repr=False)
class Twin(Result):
    """One stitched model that was tried. `on` holds the measured answers of the reference (a) and of the stitched model
    (b).

    Bounds in `on` hold for all attempts at once. `within`: it agrees with its reference on at least 1 − epsilon of
    the inputs of this data, as measured.
    """

    reference: str
    donor: str
    manifest: Path
    pieces: tuple[Piece, ...]
    dropped: int  # pieces that were given up on the way
    replaced: float  # share of the reference's multiply-accumulates that the donor's parts stand in for
    on: OnData
    epsilon: float
    splice_seconds: float
    run_seconds: float  # to run it on the data and judge it; next to nothing where that was done before
    theory: Theory | None = None  # what could be said without its answers, where that was asked for

    @property
    def agreement(self) -> float:
        return self.on.worst.agreement

    @property
    def within(self) -> bool:
        return 1 - self.agreement <= self.epsilon + _ROUNDING

    @property
    def accuracy_difference(self) -> float | None:
        """Twin − reference."""
        accuracy = self.on.outputs[0].accuracy
        return None if accuracy is None else accuracy.difference


def make_twins(
    a: Model,
    b: Model,
    *,
    data: Data,
    epsilon: float = EPSILON,
    theory: bool = False,
    runtime: str | None = None,
    store: Store | str | Path | None = None,
    folder: Path | str | None = None,
    progress: Progress | None = None,
) -> list[Twin]:
    """Twins of `a` with parts of `b`, in the order in which they were tried; the last is within epsilon, if any is.

    Files go to `folder` (default: "twins" in zoolens' data folder), measurements into the store. What was made and
    measured before is found again. `theory`: beside the last stitched model's measured quality the analytic bound and
    the noise estimate, each about a few of the inputs.
    """
    if not 0 <= epsilon < 1:
        raise ZoolensError(f"An epsilon of {epsilon:g} makes no sense.", hint="Give a share such as 0.01.")
    if runtime is not None:
        _check_runtime(runtime)
    spec = whole_data(data)
    reference, donor = find(a), _one(b)
    graphs = folded(weighted_graph(reference)), folded(weighted_graph(donor))
    pieces = pieces_of(*graphs, common_segments(*graphs, least=1))
    if not pieces:
        raise ModelError(f"{reference.ref} and {donor.ref} have no segment in common.", hint="Compare them with diff.")
    with borrowed_store(store) as opened:
        maker = _Maker(model_text(a), reference, donor, graphs, Path(folder or twins_folder()), len(pieces), epsilon)
        watcher = progress or Silent()

        def measure(kept: Sequence[Piece]) -> Twin:
            return maker.measured(kept, data=spec, runtime=runtime, store=opened, progress=watcher)

        *twins, last = attempts(pieces, measure, lambda twin: twin.within)
        return [*twins, maker.explained(last) if theory else last]


def _check_runtime(name: str) -> None:
    if "onnx" not in plugins.load(plugins.RUNTIMES, name)().formats:
        raise UnsupportedAbility(name, "run_twins", "they are written as ONNX, which it does not read.")


def _one(model: Model) -> Entry:
    entries = find_entries([model])
    if len(entries) != 1:
        raise ModelError(f"{model_text(model)} names {len(entries)} models.", hint="Name a single model.")
    return entries[0]


@dataclass(frozen=True)
class _Maker:
    name: str  # of the reference, as the user gave it
    reference: Entry
    donor: Entry
    graphs: tuple[Graph, Graph]
    folder: Path
    candidates: int  # stitched models that may be tried: each could be the one that is kept
    epsilon: float

    def spliced(self, kept: Sequence[Piece]) -> Graph:
        return splice_all(*self.graphs, [(piece.common.a, piece.common.b) for piece in kept])

    def explained(self, twin: Twin) -> Twin:
        spliced = self.spliced(twin.pieces)
        given = read_manifest(twin.manifest).inputs[0]
        inputs = some_inputs(twin.on.b, given, self.graphs[0])
        return replace(twin, theory=theory_of(*self.graphs, spliced, twin.pieces, inputs))

    def measured(
        self, kept: Sequence[Piece], *, data: str, runtime: str | None, store: Store, progress: Progress
    ) -> Twin:
        began = perf_counter()
        spliced = self.spliced(kept)
        splice_seconds = perf_counter() - began
        written = write_twin(spliced, self.reference, self.donor, kept, self.folder, among=self.candidates)
        began = perf_counter()
        confidence = 1 - corrected(1 - CONFIDENCE, self.candidates)
        with _removed_on_failure(written):
            report = equiv(
                self.name, str(written.manifest), data=data, runtime=runtime, store=store,
                confidence=confidence, progress=progress,
            )  # fmt: skip
            check_model(self.reference, report.worst.a)
            _complete(report.worst.b, written.manifest, store, progress)
        return Twin(
            reference=self.reference.full_ref,
            donor=self.donor.full_ref,
            manifest=written.manifest,
            pieces=tuple(kept),
            dropped=self.candidates - len(kept),
            replaced=sum(piece.macs for piece in kept) / max(1, cost(self.graphs[0]).macs),
            on=report.worst,
            epsilon=self.epsilon,
            splice_seconds=splice_seconds,
            run_seconds=perf_counter() - began,
        )


@contextmanager
def _removed_on_failure(written: WrittenTwin) -> Iterator[None]:
    """A stitched model that could not be judged leaves no files behind, nor a folder that was made for them."""
    try:
        yield
    except BaseException:
        for path in written.new:
            path.unlink(missing_ok=True)
        if written.new and not any(written.manifest.parent.iterdir()):
            written.manifest.parent.rmdir()
        raise


def _complete(run: Run, manifest: Path, store: Store, progress: Progress) -> None:
    """What a killed call left undone: answers are enough to judge a stitched model, but queries ask for accuracy and
    size too."""
    if _LAST_STAGE not in run.stages:
        evaluate(
            [str(manifest)], run.origin["data"], runtimes=[run.stack.runtime], limit=run.origin["limit"],
            seed=run.origin["seed"], batches=(), cold=False, store=store, progress=progress,
        )  # fmt: skip


def as_data(twin: Twin) -> dict[str, Any]:
    """The stitched model as plain JSON-able values."""
    accuracy, bounds = twin.on.outputs[0].accuracy, twin.on.bounds
    return {
        "reference": twin.reference,
        "donor": twin.donor,
        "manifest": str(twin.manifest),
        "run": twin.on.b.id,
        "dataset": twin.on.dataset,
        "n": twin.on.n,
        "segments": [segment_data(piece) for piece in twin.pieces],
        "dropped": twin.dropped,
        "macs_replaced": twin.replaced,
        "agreement": twin.agreement,
        "agreement_at_least": None if bounds is None else bounds.agreement,
        "confidence": CONFIDENCE,
        "accuracy_reference": None if accuracy is None else accuracy.a,
        "accuracy": None if accuracy is None else accuracy.b,
        "accuracy_difference": twin.accuracy_difference,
        "accuracy_difference_interval": None if bounds is None else bounds.difference,
        "epsilon": twin.epsilon,
        "within": twin.within,
        "splice_seconds": twin.splice_seconds,
        "run_seconds": twin.run_seconds,
        "theory": None if twin.theory is None else theory_data(twin.theory),
    }
