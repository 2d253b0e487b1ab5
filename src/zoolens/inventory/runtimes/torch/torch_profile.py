"""Times of the operators of a torch model, as kineto, torch's own profiler, records them.

Kineto names operators ("aten::conv2d") and not the parts of a network that called them. So the parts mark themselves in
kineto's timeline while they run (`Marks`): modules by forward hooks, the nodes of a program by an interpreter. An
operator then belongs to the innermost mark around it. TorchScript runs its modules without hooks, and a compiled
network has no modules any more: their operators carry the names that torch gives them.

Where the level of libraries is asked for, oneDNN's own log is on as well: its primitives stand below the operators of
torch that called them, since both tell when they ran.

On a CUDA device an operator only launches kernels, so that its time on the host says little: a layer's time is then the
time that its kernels took on the device.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zoolens.inventory.runtimes.observing import Level, OperatorTime, Profile
from zoolens.inventory.runtimes.timing.calls import ObservedCall, observed_calls
from zoolens.inventory.runtimes.timing.onednn_log import Log, Primitive, recorded_log
from zoolens.inventory.runtimes.timing.process_wide import quiet_stderr
from zoolens.inventory.runtimes.torch.profiler_marks import MARK, Mark, Marks

_ONEDNN: Final = "oneDNN "  # before the name of each of its primitives
_CALL: Final = "call"  # the kind of mark that is around a whole prediction
_REORDERS: Final = ("nchwtonhwc", "nhwctonchw", "nchw2nhwc", "nhwc2nchw")  # in names of cuDNN's kernels, small letters
_COMPILED: Final = ("graph_", "cpp_", "triton_", "kernel_cpp_")  # how kernels that torch.compile wrote are called
# Operators that only look at a tensor in another way, or make room for one.
_TRIVIAL: Final = frozenset(
    {
        "aten::alias", "aten::as_strided", "aten::as_strided_", "aten::contiguous", "aten::detach", "aten::empty",
        "aten::empty_like", "aten::empty_strided", "aten::expand", "aten::expand_as", "aten::lift_fresh",
        "aten::narrow", "aten::permute", "aten::reshape", "aten::_reshape_alias", "aten::resize_",
        "aten::resolve_conj", "aten::resolve_neg", "aten::result_type", "aten::select", "aten::set_", "aten::slice",
        "aten::split", "aten::squeeze", "aten::t", "aten::transpose", "aten::unbind", "aten::unsqueeze", "aten::view",
    }
)  # fmt: skip
_OURS: Final = frozenset({"aten::lift_fresh"})  # what making a tensor of an array calls
_TRANSFERS: Final = {"Memcpy HtoD": "inputs to the device", "Memcpy DtoH": "answers to the host"}
# Operators that choose an implementation and call it, although torch does not declare them as composite.
_CHOOSERS: Final = frozenset({"aten::convolution", "aten::_convolution", "aten::_batch_norm_impl_index"})


@dataclass
class _Span:
    """One event of kineto on the host, with those inside it."""

    name: str
    start: int
    end: int
    thread: int
    correlation: int
    inside: list[_Span] = field(default_factory=list)

    @property
    def duration(self) -> int:
        return self.end - self.start

    def below(self) -> Iterator[_Span]:
        """This event and all inside it."""
        yield self
        for span in self.inside:
            yield from span.below()


@dataclass(frozen=True)
class _DeviceEvent:
    name: str
    start: int
    duration: int
    device: str
    launched_by: int  # the correlation of the event on the host


def recorded_profiles(
    torch: Any,
    prepare: Callable[[Marks], AbstractContextManager[Callable[[], object]]],
    repeats: int,
    *,
    kernels: bool,
    named_nodes: bool = False,
    script: Sequence[tuple[str, str]] = (),
    device: str = "cpu",
) -> list[Profile]:
    """Run `repeats` times with kineto on. `prepare` gives the call that runs the model once.

    `named_nodes`: names of marks are names of nodes of the model's file. `script`: name and kind of each operator of a
    TorchScript graph, which are used where the operators that ran are just those.
    """
    marks = Marks(torch)

    def call() -> None:
        with marks.around("", _CALL, leaf=False):
            observed_run()

    accelerated = device != "cpu"
    profiler = torch.autograd.profiler.profile(use_kineto=True, use_device="cuda" if accelerated else None)
    logging = _onednn_log(torch) if kernels and not accelerated else nullcontext(Log())
    with prepare(marks) as observed_run, logging as log:
        with quiet_stderr():  # kineto says that it starts and stops
            profiler.__enter__()
        try:
            # Kineto prepares itself, and torch its threads.
            call()
            calls = observed_calls(call, repeats)
        finally:
            with quiet_stderr():
                profiler.__exit__(None, None, None)
    spans, on_device = _events(torch, profiler.kineto_results)
    roots = [span for span in spans if (mark := marks.of(span.name)) is not None and mark.kind == _CALL]
    reader = _Reader(torch, marks, script, log.primitives, kernels=kernels, named_nodes=named_nodes)
    return [
        Profile(
            observed.start,
            observed.duration,
            reader.operators(root, _launched_in(root, on_device, observed), accelerated=accelerated),
            observed.delay,
        )
        for root, observed in zip(roots[1:], calls, strict=True)
    ]


@contextmanager
def _onednn_log(torch: Any) -> Iterator[Log]:
    """oneDNN's primitives until the context ends; none where torch was built without it."""
    onednn = torch.backends.mkldnn
    if not onednn.is_available() or not hasattr(onednn, "verbose"):
        yield Log()
        return
    with recorded_log() as log, onednn.verbose(onednn.VERBOSE_ON):
        yield log


def _launched_in(call: _Span, events: list[_DeviceEvent], observed: ObservedCall) -> list[_DeviceEvent]:
    """Returns what a call launched on the device; if not recorded, what started there before the call ended."""
    own = {span.correlation for span in call.below()}
    end = observed.start + observed.duration
    return [
        event
        for event in events
        if event.launched_by in own or (event.launched_by <= 0 and observed.start <= event.start <= end)
    ]


def _events(torch: Any, results: Any) -> tuple[list[_Span], list[_DeviceEvent]]:
    """Outermost events on the host, with those inside them, and events on devices, each in order of time."""
    host, on_device = [], []
    cpu = torch.autograd.DeviceType.CPU
    for event in results.events():
        if event.device_type() == cpu:
            name, start, thread = event.name(), event.start_ns(), event.start_thread_id()
            # Calls of the CUDA library are linked to an operator, and are counted apart from operators.
            number = -1 if event.linked_correlation_id() > 0 else event.correlation_id()
            host.append(_Span(name, start, start + event.duration_ns(), thread, number))
        elif not event.name().startswith(MARK) and not event.is_user_annotation():
            place = f"cuda:{event.device_index()}"
            link = event.linked_correlation_id()
            on_device.append(_DeviceEvent(event.name(), event.start_ns(), event.duration_ns(), place, link))
    return _nested(host), sorted(on_device, key=lambda event: event.start)


def _nested(spans: list[_Span]) -> list[_Span]:
    spans.sort(key=lambda span: (span.thread, span.start, -span.end))
    outermost: list[_Span] = []
    open_: list[_Span] = []
    for span in spans:
        while open_ and (open_[-1].thread != span.thread or open_[-1].end < span.end or open_[-1].end <= span.start):
            open_.pop()
        (open_[-1].inside if open_ else outermost).append(span)
        open_.append(span)
    return outermost


class _Reader:
    """Makes operators of the events of one call."""

    def __init__(
        self,
        torch: Any,
        marks: Marks,
        script: Sequence[tuple[str, str]],
        primitives: Sequence[Primitive],
        *,
        kernels: bool,
        named_nodes: bool,
    ) -> None:
        self._torch, self._marks, self._script = torch, marks, script
        self._primitives = sorted(primitives, key=lambda primitive: primitive.middle)
        self._kernels, self._named_nodes = kernels, named_nodes
        self._composites: dict[str, bool] = {}

    def operators(self, call: _Span, on_device: list[_DeviceEvent], *, accelerated: bool) -> tuple[OperatorTime, ...]:
        launched: dict[int, list[_DeviceEvent]] = {}
        for event in on_device:
            launched.setdefault(event.launched_by, []).append(event)
        made: list[OperatorTime] = []
        names = _Names()
        layers = [layer for layer in self._layers(call, "") if layer[2][0].name not in _OURS]
        ran = [spans[0].name for _, _, spans in layers]
        if self._script and ran == [kind for _, kind in self._script]:
            layers = [(name, mark, spans) for (name, _), (_, mark, spans) in zip(self._script, layers, strict=True)]
        for path, mark, spans in layers:
            own = [event for span in spans for below in span.below() for event in launched.pop(below.correlation, ())]
            layer = self._layer(path, mark, spans, names)
            if accelerated:
                if not own:  # nothing was computed: a view
                    continue
                layer = _on_device(layer, own, names)
            place = len(made)
            made.append(layer)
            if self._kernels:
                for span in spans:
                    self._add_primitives(span, place, made)
                self._add_logged(place, made)
                made.extend(_kernel(event, place) for event in own)
        left = sorted((event for events in launched.values() for event in events), key=lambda event: event.start)
        # Those that no operator launched, such as the kernels of a CUDA graph, are layers themselves.
        made.extend(_kernel(event, None, level="layer", name=names.unique(event.name)) for event in left)
        return tuple(made)

    def _layers(self, span: _Span, path: str) -> Iterator[tuple[str, Mark | None, list[_Span]]]:
        """Parts without parts of their own, and operators that other parts call, with the operators of each."""
        for inner in span.inside:
            mark = self._marks.of(inner.name)
            if mark is not None and mark.leaf:
                operators = list(self._outermost_operators(inner))
                if operators:
                    yield mark.path, mark, operators
            elif mark is not None:
                yield from self._layers(inner, mark.path)
            elif _is_operator(inner.name):
                yield ".".join(part for part in (path, _short(inner.name)) if part), None, [inner]
            else:
                yield from self._layers(inner, path)

    def _outermost_operators(self, span: _Span) -> Iterator[_Span]:
        for inner in span.inside:
            if _is_operator(inner.name):
                yield inner
            else:
                yield from self._outermost_operators(inner)

    def _layer(self, path: str, mark: Mark | None, spans: list[_Span], names: _Names) -> OperatorTime:
        known = tuple(names.unique(path) for _ in spans)
        heaviest = max((below for span in spans for below in span.below()), key=_own_time)
        return OperatorTime(
            known[0],
            mark.kind if mark else spans[0].name,
            spans[-1].end - spans[0].start,
            spans[0].start,
            nodes=known if self._named_nodes else (),
            kernel=heaviest.name,
            precision=mark.precision if mark else None,
            shapes=mark.shapes if mark else (),
            thread=spans[0].thread,
        )

    def _add_primitives(self, span: _Span, parent: int, made: list[OperatorTime]) -> None:
        """Append what computed an operator: not those that only choose who computes, nor views."""
        if span.name in _TRIVIAL:
            return
        before = len(made)
        if self._chooses(span.name):
            for inner in span.inside:
                self._add_primitives(inner, parent, made)
            if len(made) > before:
                return
        if not _is_operator(span.name):
            for inner in span.inside:
                self._add_primitives(inner, parent, made)
            return
        time_ = OperatorTime(
            span.name, span.name, span.duration, span.start, "library", parent, kernel=span.name, thread=span.thread
        )
        made.append(time_)
        for inner in span.inside:
            self._add_primitives(inner, before, made)

    def _add_logged(self, layer: int, made: list[OperatorTime]) -> None:
        """Append oneDNN's primitives that ran during a layer, each below the innermost operator that was running. The
        longest of them that does more than change a layout names the layer's kernel."""
        start = made[layer].start or 0
        first, last = (
            bisect_left(self._primitives, moment, key=lambda primitive: primitive.middle)
            for moment in (start, start + made[layer].duration)
        )
        within = self._primitives[first:last]
        for primitive in within:
            callers = [place for place in range(layer, len(made)) if _runs(made[place], primitive.middle)]
            place = next(place for place in reversed(callers) if not made[place].name.startswith(_ONEDNN))
            made.append(_logged(primitive, place, made[place]))
        if within:
            computing = [primitive for primitive in within if primitive.kind != "reorder"] or within
            longest = max(computing, key=lambda primitive: primitive.duration)
            made[layer] = replace(made[layer], kernel=f"{_ONEDNN}{longest.kind} {longest.implementation}")

    def _chooses(self, name: str) -> bool:
        if name not in self._composites:
            try:
                composite = self._torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
            except RuntimeError:
                # An operator with overloads, or no operator at all.
                composite = False
            self._composites[name] = bool(composite) or name in _CHOOSERS
        return self._composites[name]


class _Names:
    """Numbers calls of the same name as the importer of torch networks does: relu, relu#2, relu#3."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}

    def unique(self, name: str) -> str:
        count = self._calls[name] = self._calls.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"


def _own_time(span: _Span) -> int:
    return span.duration - sum(inner.duration for inner in span.inside) if _is_operator(span.name) else -1


def _logged(primitive: Primitive, place: int, caller: OperatorTime) -> OperatorTime:
    """A primitive below the operator that called it, whose clock is not quite oneDNN's."""
    begun = caller.start or 0
    start = max(primitive.start, begun)
    return OperatorTime(
        f"{_ONEDNN}{primitive.kind}",
        primitive.kind,
        min(primitive.start + primitive.duration, begun + caller.duration) - start,
        start,
        "library",
        place,
        kernel=primitive.implementation,
        precision=primitive.precision,
        thread=caller.thread,
    )


def _runs(operator: OperatorTime, moment: int) -> bool:
    return operator.start is not None and operator.start <= moment <= operator.start + operator.duration


def _is_operator(name: str) -> bool:
    return not name.startswith(MARK) and ("::" in name or name.startswith(_COMPILED))


def _short(name: str) -> str:
    return name.rpartition("::")[2].removesuffix("_")


def _on_device(layer: OperatorTime, events: list[_DeviceEvent], names: _Names) -> OperatorTime:
    """The layer as its kernels computed it: from the first one's start, for as long as they took together. The longest
    of them that does more than change the order of axes names the layer's kernel and precision."""
    computing = [event for event in events if not any(mark in event.name.lower() for mark in _REORDERS)]
    longest = max(computing or events, key=lambda event: event.duration)
    way = next((way for mark, way in _TRANSFERS.items() if longest.name.startswith(mark)), None)
    return OperatorTime(
        names.unique(way) if way else layer.name,
        "transfer" if way else layer.kind,
        sum(event.duration for event in events),
        min(event.start for event in events),
        nodes=() if way else layer.nodes,
        kernel=longest.name,
        precision=_precision_of(longest.name, layer.precision),
        shapes=layer.shapes,
        device=longest.device,
    )


def _kernel(event: _DeviceEvent, parent: int | None, level: Level = "library", name: str | None = None) -> OperatorTime:
    kind = "transfer" if event.name.startswith("Memcpy") else "memset" if event.name.startswith("Memset") else "kernel"
    precision = _precision_of(event.name, None)
    return OperatorTime(
        name or event.name,
        kind,
        event.duration,
        event.start,
        level,
        parent,
        kernel=event.name,
        precision=precision,
        device=event.device,
    )


def _precision_of(kernel: str, stored: str | None) -> str | None:
    """Kernels that multiply float32 numbers in a shorter format say so in their names. CUTLASS calls those that do it
    on tensor cores, which have no float32, `tensorop_s1688`."""
    lowered = kernel.lower()
    if ("tf32" in lowered and stored in (None, "float32")) or ("tensorop_s1688" in lowered and stored == "float32"):
        return "tf32"
    if stored is None and ("bf16" in lowered or "bfloat16" in lowered):
        return "bfloat16"
    return stored
