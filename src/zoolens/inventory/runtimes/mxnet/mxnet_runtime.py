"""Apache MXNet symbol files (CPU). Its last release needs an old numpy, so it runs in an environment of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from zoolens.base.errors import MissingDependency, ModelError, first_line
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.mxnet.mxnet_symbol import check_symbol
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, check_points
from zoolens.inventory.runtimes.runtime import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    check_feeds,
)

Shapes = dict[str, tuple[int, ...]]


class MxNet(Runtime):
    name = "mxnet"
    summary = "Apache MXNet symbol executor, CPU"
    formats = ("mxnet",)
    requirements = ("mxnet==1.9.1", "numpy<1.24")
    distributions = ("mxnet",)
    cannot: ClassVar[Mapping[str, str]] = {
        "set_threads": "MXNet fixes its threads when it is imported, from OMP_NUM_THREADS",
        "force_precision": "MXNet computes in the types of the graph and has no setting for others",
        "report_precision": "MXNet does not report the precision of its kernels",
        "compile_mode": "an executor is always optimised when it is bound",
        "profile": "MXNet's profiler reports kinds of operators, and not which node of the model each one is",
        "kernels": "MXNet's profiler does not report what its operators call",
        "extend": NO_SEQUENCES,
    }

    def load_library(self) -> Any:
        # An alias that numpy 1.24 dropped and MXNet 1.9.1 reads when imported.
        vars(np).setdefault("bool", bool)
        import mxnet

        return mxnet

    def library(self) -> Any:
        try:
            return super().library()
        except MissingDependency as missing:
            missing.hint = f"Run it in an environment of its own: --env '{','.join(self.requirements)}'"
            raise

    def load(self, model: ModelFiles, options: Options) -> tuple[Any, Any]:
        mx = self.load_library()
        check_symbol(model.path())
        return _read(model, "model", mx.sym.load), _read(model, "weights", mx.nd.load)

    def compile(self, loaded: tuple[Any, Any], model: ModelFiles, options: Options) -> Session:
        symbol, weights = loaded
        if not isinstance(weights, dict):
            raise ModelError(f"{model.path('weights').name} holds tensors without names, not the weights of a model.")
        return MxNetSession(self.load_library(), symbol, weights, model)


class MxNetSession(Session):
    """A symbol file carries no shapes of its own, so an executor is bound for the shapes that are fed."""

    def __init__(self, mx: Any, symbol: Any, weights: Mapping[str, Any], model: ModelFiles) -> None:
        self._mx = mx
        self._symbol = symbol
        self._arguments = _with_prefix("arg:", weights)
        self._states = _with_prefix("aux:", weights)
        self.inputs = _inputs(symbol, self._arguments, model)
        self._shapes: Shapes = {}
        self._executor: Any = None
        self._bind(_with_batch(self.inputs, 1))
        self.outputs = self._infer_outputs()

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        check_feeds(self.inputs, feeds)  # MXNet converts other types silently
        try:
            shapes = {spec.name: tuple(feeds[spec.name].shape) for spec in self.inputs}
            if shapes != self._shapes:
                self._bind(shapes)
            for name in shapes:
                self._executor.arg_dict[name][:] = feeds[name]
            answers = [answer.asnumpy() for answer in self._executor.forward(is_train=False)]
        except Exception as error:
            raise ModelError(f"mxnet failed while running the model: {_reason(error)}") from error
        return dict(zip((spec.name for spec in self.outputs), answers, strict=True))

    def effective(self) -> Effective:
        threads = os.environ.get("OMP_NUM_THREADS", "")
        onednn = self._mx.runtime.Features().is_enabled("MKLDNN")
        return Effective(
            provider="mxnet-cpu",
            threads=int(threads) if threads.isdigit() else None,
            details={"onednn": "yes" if onednn else "no"},
        )

    def count_parameters(self) -> int:
        return sum(int(array.size) for array in self._arguments.values())

    def close(self) -> None:
        self._executor = None

    def capture_points(self) -> tuple[CapturePoint, ...]:
        """Every output of every node. `kept` is not known: MXNet may join nodes where their outputs are not read."""
        internals = self._symbol.get_internals()
        two, three = (internals.infer_shape(**_with_batch(self.inputs, batch))[1] for batch in (2, 3))
        kinds = internals.infer_type(**{spec.name: np.dtype(spec.dtype) for spec in self.inputs})[1]
        given = {*internals.list_arguments(), *internals.list_auxiliary_states()}
        return tuple(
            CapturePoint(
                name,
                node=re.sub(r"_output\d*$", "", name),
                tensor=name,
                shape=tuple(a if a == b else None for a, b in zip(left, right, strict=True)),
                dtype=np.dtype(kind).name,
            )
            for name, left, right, kind in zip(internals.list_outputs(), two, three, kinds, strict=True)
            if name not in given
        )

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_feeds(self.inputs, feeds)
        check_points(tuple(names), self.capture_points())
        try:
            internals = self._symbol.get_internals()
            tapped = self._mx.sym.Group([self._symbol, *(internals[name] for name in names)])
            executor = self._bound(tapped, {spec.name: tuple(feeds[spec.name].shape) for spec in self.inputs})
            for spec in self.inputs:
                executor.arg_dict[spec.name][:] = feeds[spec.name]
            values = [value.asnumpy() for value in executor.forward(is_train=False)]
        except Exception as error:
            raise ModelError(f"mxnet failed while it observed the model: {_reason(error)}") from error
        count = len(self.outputs)
        outputs = {spec.name: value for spec, value in zip(self.outputs, values[:count], strict=True)}
        return Captured(dict(zip(names, values[count:], strict=True)), outputs)

    def _bind(self, shapes: Shapes) -> None:
        self._executor = self._bound(self._symbol, shapes)
        self._shapes = shapes

    def _bound(self, symbol: Any, shapes: Shapes) -> Any:
        """An executor of a symbol for these input shapes; the weights are shared, not copied."""
        wanted, _, states = symbol.infer_shape(**shapes)
        arguments = dict(self._arguments)
        kinds = {spec.name: spec.dtype for spec in self.inputs}
        for name, shape in zip(symbol.list_arguments(), wanted, strict=True):
            # Inputs, and labels that only training looks at.
            if name not in arguments:
                arguments[name] = self._mx.nd.zeros(shape, dtype=kinds.get(name, "float32"))
            elif arguments[name].shape != shape:
                raise ModelError(f"Weight {name} has shape {arguments[name].shape} but the graph expects {shape}.")
        names = symbol.list_auxiliary_states()
        kept = {name: array for name, array in self._states.items() if name in names}
        if missing := [name for name, _ in zip(names, states, strict=True) if name not in kept]:
            raise ModelError(f"The weights file lacks {', '.join(missing[:3])}, which the graph needs.")
        used = {name: arguments[name] for name in symbol.list_arguments()}
        return symbol.bind(self._mx.cpu(), args=used, grad_req="null", aux_states=kept)

    def _infer_outputs(self) -> tuple[TensorSpec, ...]:
        """A dimension that follows the batch size is a free one."""
        _, two, _ = self._symbol.infer_shape(**_with_batch(self.inputs, 2))
        _, three, _ = self._symbol.infer_shape(**_with_batch(self.inputs, 3))
        given = {spec.name: np.dtype(spec.dtype) for spec in self.inputs}
        _, kinds, _ = self._symbol.infer_type(**given)
        specs = []
        for name, left, right, kind in zip(self._symbol.list_outputs(), two, three, kinds, strict=True):
            shape = tuple(a if a == b else None for a, b in zip(left, right, strict=True))
            specs.append(TensorSpec(name, shape, np.dtype(kind).name))
        return tuple(specs)


def _read(model: ModelFiles, role: str, load: Callable[[str], Any]) -> Any:
    if not model.path(role).is_file():
        raise ModelError(f"There is no file {model.path(role).name}.", hint="Check the manifest's locations.")
    try:
        return load(str(model.path(role)))
    except Exception as error:
        raise ModelError(f"mxnet cannot read {model.path(role).name}: {_reason(error)}") from error


def _with_prefix(prefix: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}


def _inputs(symbol: Any, arguments: Mapping[str, Any], model: ModelFiles) -> tuple[TensorSpec, ...]:
    """The arguments that are no weights. Shapes come from the graph where it notes them, else from the manifest."""
    free = [name for name in symbol.list_arguments() if name not in arguments]
    data = [name for name in free if not name.endswith("label")] or free
    declared = {spec.name: spec for spec in model.inputs}
    if len(model.inputs) == len(data) and set(declared) != set(data):
        declared = dict(zip(data, model.inputs, strict=True))
    if unexpected := [name for name in data if name not in declared and _noted_shape(symbol, name) is None]:
        raise ModelError(
            f"{model.path().name} does not say what shape {', '.join(unexpected[:3])} has.",
            hint="Declare every input in the manifest; what should be a weight is absent from the weights file.",
        )
    return tuple(_input(name, declared.get(name), _noted_shape(symbol, name)) for name in data)


def _input(name: str, declared: TensorSpec | None, noted: tuple[int, ...] | None) -> TensorSpec:
    shape = declared.shape if declared else noted or ()
    if None in shape[1:]:
        raise ModelError(f"Input {name!r} of an mxnet model may leave only its first dimension free.")
    return TensorSpec(name, (None, *shape[1:]), declared.dtype if declared else "float32")


def _noted_shape(symbol: Any, name: str) -> tuple[int, ...] | None:
    text = symbol.attr_dict().get(name, {}).get("__shape__", "")
    parts = [part.strip() for part in text.strip("()[] ").split(",")]
    extents = [int(part) for part in parts if part.isdigit()]
    if not extents or 0 in extents[1:]:
        return None
    return tuple(extents)


def _with_batch(inputs: tuple[TensorSpec, ...], batch: int) -> Shapes:
    return {spec.name: (batch, *(extent or 1 for extent in spec.shape[1:])) for spec in inputs}


def _reason(error: Exception) -> str:
    """MXNet's messages begin with a C++ stack; the reason is on the line that names the error."""
    reasons = [line for line in str(error).splitlines() if "Error" in line]
    return reasons[-1].strip()[:300] if reasons else first_line(error)
