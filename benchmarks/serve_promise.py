"""Whether a service keeps what `query` promised of its fallbacks, on inputs that the query has never seen.

    python benchmarks/serve_promise.py [--seconds 120] [--share 0.25]
    python benchmarks/serve_promise.py --demo            # small networks, without the reference models
    python benchmarks/serve_promise.py --detectors       # two detectors, whose answers agree in part

The models answer one half of the data (the probes), and the ladder is made from these answers. Then the other half is
sent under a load that rises and falls, so that fallbacks answer. Three figures of each fallback are held together:

- promised: the least share of equal answers (of detectors, the least mean agreement) with 95 % confidence, from the
  probes, as the service says it with every answer;
- shadowed: what the service itself measures while it serves, by asking the reference about a share of the answers;
- all: the reference is asked about every input before the run, and each answer of the run is compared with that.

"shadowed" may differ from "all" by chance only, for otherwise the service measures something else than what it answers;
and "all" may not lie below "promised".
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from detectors import FILES, SSD, Agreed, BoxJudge, boxes_of, detectors
from serve_switching import DEMO, LONGEST_WAIT, NAME, Bench, Setup, definition, fill, imagenet
from served import serving
from zoolens.base.protocol.client import open_client
from zoolens.base.protocol.client_base import Client
from zoolens.base.protocol.messages import InferResponse
from zoolens.base.statistics.intervals import Interval
from zoolens.base.store.store import open_store
from zoolens.faces.load.arrivals import Arrivals, varying
from zoolens.faces.load.driver import DriverSettings
from zoolens.faces.load.open_loop import drive_open_loop
from zoolens.faces.load.results import AnsweredBy, Results, summarise
from zoolens.faces.load.run_load import Inputs, Target, prepare, transport_to
from zoolens.faces.load.workload import Workload
from zoolens.faces.serving.services.events import ModelComparison, Session, sessions
from zoolens.inventory.runtimes.remote import ANSWERED_BY

LOW, HIGH = 0.5, 2.5  # times the reference's capacity
PHASE = 10.0  # seconds of each
FEWEST = 30  # requests that were compared, of a fallback that is judged
FEWEST_INPUTS = 20  # that are no probes
ALL = 1 << 20  # more inputs than the data have
STAND_INS = (  # of the reference zoo: some that are near to the reference, and some that are not
    "efficientnet_lite0_int8",
    "stm_mobilenet_v2_1.0_224_int8_per_tensor",
    "stm_mobilenet_v1_0.5_224_int8",
    "stm_mobilenet_v2_0.35_224_int8",
)


@dataclass(frozen=True)
class Verdict:
    holds: bool
    words: str


def pattern(capacity: float, seconds: float, seed: int) -> Arrivals:
    phases = max(2, 2 * round(seconds / PHASE / 2))
    parts = [(seconds / phases, capacity * (LOW if number % 2 == 0 else HIGH)) for number in range(phases)]
    return varying(parts, seed, f"Poisson, {LOW * capacity:.1f} and {HIGH * capacity:.1f} requests/s in turns")


def service_file(path: str, share: float) -> str:
    """The service of the burst, which also asks the reference about a share of what fallbacks answer."""
    file = Path(path)
    defined = yaml.safe_load(file.read_text())
    for service in defined["services"].values():
        service["promise"] = {"share": share}
    file.write_text(yaml.safe_dump(defined))
    return path


def few(setup: Setup) -> Setup:
    """The reference and some fallbacks: each has to answer the probes first."""
    chosen = [path for path in setup.models if path == setup.like or Path(path).stem in STAND_INS]
    return replace(setup, models=tuple(chosen))


@dataclass(frozen=True)
class Promise:
    """What the service says of a model: the share of probes that it answers as the reference does, and how large that
    share is at least, with the query's confidence, for inputs like them."""

    equivalence: float
    lower: float


# --- the run


def unseen(url: str, setup: Setup) -> tuple[Target, Workload]:
    """Requests of all inputs behind the probes."""
    probes = setup.limit or 0
    target, workload = prepare(f"{url}/v2/models/{NAME}", inputs=Inputs(setup.data, setup.like, limit=ALL))
    requests = workload.requests[probes:]
    if len(requests) < FEWEST_INPUTS:
        raise SystemExit(f"Behind the {probes:,} probes the data have {len(requests)} inputs, too few to judge.")
    return target, replace(workload, requests=requests, description=f"{len(requests):,} inputs that are no probes")


def judged_by_reference(client: Client, workload: Workload, *, boxes: bool) -> tuple[Workload, str]:
    """The workload whose answers are compared with those of the reference, asked before the run: they count as right
    where it gives the same class. And the reference's name."""
    floored = workload.with_parameters(zoolens_min_equivalence=1.0).requests  # only the reference is as equivalent
    answers = [client.infer(request) for request in floored]
    name = str(answers[0].parameters[ANSWERED_BY])
    if boxes:
        return replace(workload, judge=BoxJudge([boxes_of(answer) for answer in answers])), name
    classes = [answered_class(answer) for answer in answers]

    def judge(number: int, response: InferResponse) -> int:
        return int(answered_class(response) == classes[number])

    return replace(workload, judge=judge), name


def answers_boxes(target: Target) -> bool:
    return [output.name for output in target.model.outputs] == ["answer"]


def promises(client: Client, workload: Workload, models: Iterable[str]) -> dict[str, Promise]:
    """What the service promises of models that have answered, by their names."""
    found = {}
    for model in models:
        answer = client.infer(workload.with_parameters(zoolens_model=model).requests[0])
        equivalence, lower = (answer.parameters[f"zoolens_equivalence{end}"] for end in ("", "_lower"))
        found[model] = Promise(float(equivalence), float(lower))
    return found


def answered_class(response: InferResponse) -> int:
    (output,) = response.outputs.values()
    return int(output.reshape(-1).argmax())


@dataclass(frozen=True)
class Served:
    """A run, the name of the reference, and what was promised of those who answered."""

    results: Results
    reference: str
    promises: dict[str, Promise]
    agreed: tuple[Agreed, ...]  # of each model, over all of its answers
    boxes: bool = False


def serve_and_load(path: str, store: str, setup: Setup, arrivals: Arrivals, *, yielding: bool) -> Served:
    arguments = (path, "--store", store, "--queue", "100000", "--log-level", "warning")
    with serving(*arguments, yielding=yielding) as urls:
        target, workload = unseen(urls["http"], setup)
        with open_client(target.address) as client:
            workload, reference = judged_by_reference(client, workload, boxes=answers_boxes(target))
        settings = DriverSettings(connections=900, timeout=LONGEST_WAIT, warmup=0)
        exchanges = drive_open_loop(transport_to(target), workload, arrivals, settings)
        results = summarise(exchanges, loop="open", seconds=arrivals.duration)
        with open_client(target.address) as client:
            found = promises(client, workload, [row.model for row in results.models if row.model != reference])
    judge = workload.judge
    boxes = isinstance(judge, BoxJudge)
    rows = [judge.agreed(row.model) if isinstance(judge, BoxJudge) else _shared(row) for row in results.models]
    return Served(results, reference, found, tuple(rows), boxes)


def _shared(row: AnsweredBy) -> Agreed:
    assert row.accuracy is not None
    assert row.accuracy.interval is not None
    return Agreed(row.model, row.count, row.accuracy.value, row.accuracy.interval)


# --- verdicts


def verdicts(served: Served, session: Session) -> list[Verdict]:
    """Two verdicts for each fallback that has answered enough requests; where none has, the run shows nothing."""
    shadowed = {(row.model, row.other): row for row in session.comparisons}  # the last row of each pair counts
    rows = []
    for by_all in served.agreed:
        compared = shadowed.get((by_all.model, served.reference))
        if compared is not None and compared.n >= FEWEST:
            rows += [_promise(served, by_all), _shadow(served, by_all, compared)]
    return rows or [Verdict(False, f"No fallback was compared with the reference on {FEWEST} requests.")]


def _promise(served: Served, row: Agreed) -> Verdict:
    promise = served.promises[row.model]
    words = (
        f"{_short(row.model)}: {_agreeing(served, row)}; the query has promised {promise.lower:.1%} or more (it was "
        f"{promise.equivalence:.1%} on the probes)"
    )
    if row.value < promise.lower <= row.interval.high:
        words += "; less was seen, which may be chance"
    return Verdict(row.interval.high >= promise.lower, words)


def _agreeing(served: Served, row: Agreed) -> str:
    figures = f"{row.value:.1%} {_interval(row.interval)}"
    if served.boxes:
        return f"its {row.count:,} answers agree with the reference's by {figures} in the mean"
    return f"{figures} of its {row.count:,} answers are the reference's"


def _shadow(served: Served, row: Agreed, compared: ModelComparison) -> Verdict:
    interval = Interval(compared.low, compared.high)
    words = (
        f"{_short(row.model)}: the shadow says {compared.agreement:.1%} {_interval(interval)} "
        f"{'over' if served.boxes else 'of'} {compared.n:,} requests; {compared.dropped:,} more were drawn and not "
        f"asked; all answers: {row.value:.1%}"
    )
    return Verdict(interval.contains(row.value), words)


def _interval(interval: Interval) -> str:
    return f"[{interval.low:.1%}, {interval.high:.1%}]"


def _short(model: str) -> str:
    return model.rpartition("/")[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demo", action="store_true", help="small built-in networks")
    parser.add_argument("--detectors", action="store_true", help="EfficientDet-Lite0 and SSD MobileNet v1")
    parser.add_argument("--reference", help=f"of the reference zoo, or of {', '.join(FILES)}")
    parser.add_argument("--within", help="how equivalent a fallback must be; default: 75%%, of detectors 20%%")
    parser.add_argument("--probes", type=int, help="so many inputs are shown to the query; default: half of the data")
    parser.add_argument("--store", help="a store that may hold the answers on the probes already; default: a new one")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--capacity", type=float, help="requests/s of the reference; default: measured now")
    parser.add_argument("--bound", type=float, help="seconds; default: three times a lone request, measured now")
    parser.add_argument("--share", type=float, default=0.25, help="of the fallbacks' answers that are checked")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--usual-priority", action="store_true", help="where others keep the machine busy")
    options = parser.parse_args()
    probes = options.probes or (1000 if options.demo else 25 if options.detectors else 362)
    with tempfile.TemporaryDirectory() as name:
        setup = replace(chosen(options, Path(name)), limit=probes)
        store = options.store or str(Path(name) / "store.sqlite")
        print(f"Answers to the {probes:,} probes:", flush=True)
        fill(store, setup)
        capacity, bound = options.capacity, options.bound
        if capacity is None or bound is None:
            timing = argparse.Namespace(seconds=min(options.seconds, 60.0), inputs=100)
            # A server that yields never starts on a machine that others keep busy.
            capacity, alone = Bench(setup, store, timing, Path(name)).capacity(yielding=not options.usual_priority)
            bound = bound or 3 * alone
        path = service_file(definition(setup, bound, "latency", Path(name)), options.share)
        arrivals = pattern(capacity, options.seconds, options.seed)
        print(f"The reference answers {capacity:.1f} requests/s. {arrivals.pattern}", flush=True)
        served = serve_and_load(path, store, setup, arrivals, yielding=not options.usual_priority)
        with closing(open_store(store)) as opened:
            session = sessions(opened, NAME, 1)[0]
    return report(served, session)


def chosen(options: argparse.Namespace, folder: Path) -> Setup:
    if options.detectors:
        return detectors(folder, options.reference or SSD, options.within or "20%")
    usual = DEMO if options.demo else few(imagenet(options.reference or "tf_efficientnet_lite0_torch.yaml"))
    return replace(usual, within=options.within or "75%")


def report(served: Served, session: Session) -> int:
    results = served.results
    who = ", ".join(f"{_short(row.model)} {row.count:,}" for row in results.models)
    print(f"\n{results.requests:,} requests, {len(results.switches):,} changes of the model, answered by {who}")
    if results.accuracy is not None and results.accuracy.interval is not None:
        overall = f"{results.accuracy.value:.1%} {_interval(results.accuracy.interval)}"
        print(f"Of all answers, the reference's own among them, {overall} are the reference's.")
    print()
    rows = verdicts(served, session)
    for verdict in rows:
        print(f"{'holds ' if verdict.holds else 'FAILS '} {verdict.words}")
    return int(not all(verdict.holds for verdict in rows))


if __name__ == "__main__":
    raise SystemExit(main())
