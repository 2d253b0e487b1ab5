"""Programs exported with jax.export, on CPU and CUDA.

The file is FlatBuffers around StableHLO: no pickle. It may still name functions of the hosting process ("custom
calls"), Python callbacks among them, so only those that compute are let through.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError, ZoolensError, first_line
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.devices import DeviceTimes, device_index, device_kind
from zoolens.inventory.runtimes.jax.jax_capture import TappedProgram, capture_points
from zoolens.inventory.runtimes.jax.jax_cuda import LARGE, Mover, graph_options
from zoolens.inventory.runtimes.jax.jax_instructions import Instruction, read_instructions
from zoolens.inventory.runtimes.jax.jax_profile import recorded_profiles
from zoolens.inventory.runtimes.model_files.allowlists import allowed
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile, check_points
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

_CUSTOM_CALLS: Final = re.compile(
    r"shape_assertion|Sharding|SPMD\w+|annotate_device_placement|(stable|m|c)hlo\.\w+|lapack_\w+|mhlo\.\w+"
)
_ALLOWED: Final = frozenset(
    {f"stablehlo.{name}" for name in allowed("stablehlo")["operations"]}
    | {"builtin.module", "func.func", "func.return", "func.call", "sdy.mesh", "sdy.sharding_constraint"}
)
_HEAVY: Final = {"stablehlo.convolution", "stablehlo.dot_general", "stablehlo.dot"}
_TYPES: Final = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "ui8": "int8"}


class Jax(Runtime):
    name = "jax"
    summary = "JAX programs from jax.export, CPU and CUDA"
    formats = ("jax-export",)
    devices = ("cpu", "cuda")
    requirements = ("jax",)
    distributions = ("jax", "jaxlib")
    extra = "jax"
    cannot: ClassVar[Mapping[str, str]] = {
        "dynamic_batch": "a program exported with a fixed batch size runs with that one only",
        "set_threads": "XLA's thread pool is made once per process and has no setting",
        "compile_mode": "a program is always compiled",
        "extend": NO_SEQUENCES,
    }
    fragile = "damaged files can crash the compiler that reads them"

    def load_library(self) -> Any:
        # Otherwise JAX takes most of a GPU's memory when it starts, whatever a model needs.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        import jax.export

        return jax

    def load(self, model: ModelFiles, options: Options) -> tuple[Any, list[tuple[str, Any]]]:
        jax = self.load_library()
        content = model_bytes(model.path())
        if len(content) < 64:
            raise ModelError(f"{model.path().name} is not a complete jax.export file.", hint="Fetch it again.")
        exported = jax.export.deserialize(bytearray(content))
        if (kind := device_kind(options.device)) not in exported.platforms:
            raise ModelError(
                f"The program was exported for {', '.join(exported.platforms)}, not for {kind}.",
                hint="Export it with jax.export.export(…, platforms=['cpu', 'cuda']).",
            )
        return exported, list(_operations(exported))

    def compile(self, loaded: tuple[Any, list[tuple[str, Any]]], model: ModelFiles, options: Options) -> Session:
        exported, operations = loaded
        return JaxSession(self.load_library(), exported, operations, model, options)


@dataclass
class _Prediction:
    """A prediction whose inputs are on their way, each in pieces; `answers` once it is launched."""

    inputs: list[list[Any]]
    answers: list[Any] | None = None


class JaxSession(Session):
    def __init__(
        self, jax: Any, exported: Any, operations: list[tuple[str, Any]], model: ModelFiles, options: Options
    ) -> None:
        self._device = _device(jax, options.device)
        self._jax, self._exported = jax, exported
        self._operations = operations
        self._tapped: dict[tuple[tuple[int, ...], ...], TappedProgram] = {}
        self._instructions: dict[tuple[tuple[int, ...], ...], dict[str, Instruction]] = {}
        self._tree = exported.in_tree
        self._accelerated = self._device is not None and self._device.platform != "cpu"
        self._places_inputs = False  # whether the compiled program moves arrays of the host's memory to its device
        self._call = self._jitted()
        self._mover = Mover(jax, self._device)
        self._begun: _Prediction | None = None  # begun last, and not launched yet
        self.in_flight = 3 if self._accelerated else 1
        self.inputs = _specs(exported.in_avals, _names(jax, exported.in_tree, "input", model.inputs))
        self.outputs = _specs(exported.out_avals, _names(jax, exported.out_tree, "output", model.outputs))
        blanks = {spec.name: np.zeros([extent or 1 for extent in spec.shape], spec.dtype) for spec in self.inputs}
        # Compiles, so that the compile phase is what it says.
        self.predict(blanks)

    def _jitted(self) -> Any:
        jax, exported = self._jax, self._exported
        if not self._accelerated:
            return self._plain
        _, named = jax.tree_util.tree_unflatten(exported.in_tree, range(len(exported.in_avals)))
        # JAX takes no shardings for arguments that are passed by name.
        placing = {} if named else {"in_shardings": jax.sharding.SingleDeviceSharding(self._device)}
        self._places_inputs = bool(placing)
        return jax.jit(exported.call, compiler_options=graph_options(jax), **placing)

    @cached_property
    def _plain(self) -> Any:
        """The program without CUDA graphs, in which a profile sees every instruction."""
        return self._jax.jit(self._exported.call)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        check_feeds(self.inputs, feeds)
        arrays = [feeds[spec.name] for spec in self.inputs]
        with self._explained():
            # The compiled program moves small inputs in a fraction of the time that `device_put` takes.
            direct = self._places_inputs and sum(array.nbytes for array in arrays) < LARGE
            return self._fetched(self._run(self._call, arrays if direct else self._placed(arrays)))

    def begin_predict(self, batches: Sequence[Mapping[str, Tensor]]) -> Callable[[], list[Tensors]]:
        """XLA lets inputs wait for all that was launched before them: they are sent before what was begun last is
        launched, so that they travel while the device computes."""
        if not self._accelerated:
            return super().begin_predict(batches)
        begun = [self._begin(feeds) for feeds in batches]
        return lambda: [self._finished(prediction) for prediction in begun]

    def _begin(self, feeds: Mapping[str, Tensor]) -> _Prediction:
        check_feeds(self.inputs, feeds)
        with self._explained():
            prediction = _Prediction([self._mover.begun(feeds[spec.name]) for spec in self.inputs])
            if self._begun is not None:
                self._launched(self._begun)
        self._begun = prediction
        return prediction

    def _launched(self, prediction: _Prediction) -> list[Any]:
        if prediction.answers is None:
            prediction.answers = self._run(self._call, [self._mover.joined(pieces) for pieces in prediction.inputs])
            prediction.inputs = []
        return prediction.answers

    def _finished(self, prediction: _Prediction) -> Tensors:
        with self._explained():
            return self._fetched(self._launched(prediction))

    def _run(self, call: Any, placed: Sequence[Any]) -> list[Any]:
        """Launch the program; its answers, which are not waited for and are sent to the host's memory."""
        args, kwargs = self._jax.tree_util.tree_unflatten(self._tree, placed)
        answers: list[Any] = self._jax.tree_util.tree_leaves(call(*args, **kwargs))
        for answer in answers if self._accelerated else ():
            answer.copy_to_host_async()
        return answers

    def _fetched(self, answers: Sequence[Any]) -> Tensors:
        return {spec.name: np.array(answer) for spec, answer in zip(self.outputs, answers, strict=True)}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise ModelError(f"jax failed while running the model: {first_line(error)}") from error

    def _placed(self, arrays: Sequence[Tensor]) -> Sequence[Any]:
        """Inputs on the program's device; JAX itself moves them to a device that is the only one."""
        return arrays if self._device is None else [self._mover.moved(array) for array in arrays]

    def _arguments(self, arrays: Sequence[Tensor]) -> Any:
        """Inputs as the program takes them."""
        return self._jax.tree_util.tree_unflatten(self._tree, self._placed(arrays))

    def effective(self) -> Effective:
        heavy = {_TYPES.get(kind.element, kind.element) for name, kind in self._operations if name in _HEAVY}
        device = self._device
        if not self._accelerated:
            return Effective(provider="XLA CPU", precision="+".join(sorted(heavy)) or "float32")
        capability = str(getattr(device, "compute_capability", ""))
        if "float32" in heavy and float(capability or 0) >= 8:
            # What XLA may round products of float32 to, unless the program asks for more.
            heavy.add("tf32")
        details = {
            "device": str(device.device_kind),
            "compute_capability": capability,
            "xla": str(device.client.platform_version).replace("\n", " ")[:200],
            "cuda_graphs_of_convolutions": "yes" if graph_options(self._jax) else "no",
        }
        return Effective(provider="XLA CUDA", precision="+".join(sorted(heavy)) or "float32", details=details)

    def device_times(self, feeds: Mapping[str, Tensor], repeats: int = 1) -> list[DeviceTimes]:
        if not self._accelerated:
            raise NotImplementedError
        check_feeds(self.inputs, feeds)
        arrays = [feeds[spec.name] for spec in self.inputs]
        try:
            return [self._timed(arrays) for _ in range(repeats + 1)][1:]
        except Exception as error:
            raise ModelError(f"jax failed while running the model: {first_line(error)}") from error

    def _timed(self, arrays: Sequence[Tensor]) -> DeviceTimes:
        clock, wait = time.perf_counter_ns, self._jax.block_until_ready
        started = clock()
        args, kwargs = wait(self._arguments(arrays))
        moved = clock()
        answers = self._call(*args, **kwargs)
        launched = clock()
        wait(answers)
        computed = clock()
        for answer in self._jax.tree_util.tree_leaves(answers):
            np.asarray(answer)
        ended = clock()
        held = (self._device.memory_stats() or {}).get("peak_bytes_in_use")
        peak = None if held is None else int(held)
        times = (ended - started, launched - moved, moved - started, computed - moved, ended - computed)
        return DeviceTimes(*times, peak_memory=peak, events=False)

    def count_parameters(self) -> int:
        """The constants an exported program carries; weights that are arguments are not part of the model."""
        return sum(
            kind.elements
            for name, kind in self._operations
            if name == "stablehlo.constant" and kind.rank and kind.element in ("f32", "f64", "f16", "bf16", "i8")
        )

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        check_feeds(self.inputs, feeds)
        try:
            instructions = self._compiled_instructions(feeds)
            how = {"kernels": kernels, "accelerated": self._accelerated}
            arrays = [feeds[spec.name] for spec in self.inputs]

            def call() -> Tensors:
                return self._fetched(self._run(self._plain, self._placed(arrays)))

            return recorded_profiles(self._jax, call, repeats, instructions, **how)
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(f"jax failed while it profiled the model: {first_line(error)}") from error

    def _compiled_instructions(self, feeds: Mapping[str, Tensor]) -> dict[str, Instruction]:
        """What XLA made of the program for inputs of these shapes; compiled again, since jit does not show its own."""
        shapes = tuple(feeds[spec.name].shape for spec in self.inputs)
        if shapes not in self._instructions:
            args, kwargs = self._arguments([feeds[spec.name] for spec in self.inputs])
            compiled = self._plain.lower(*args, **kwargs).compile()
            self._instructions = {shapes: read_instructions(compiled.as_text())}
        return self._instructions[shapes]

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return self._points

    @cached_property
    def _points(self) -> tuple[CapturePoint, ...]:
        try:
            first = self._program(self._blanks(1))
            free = any(None in spec.shape for spec in self.inputs)
            return capture_points(first, self._program(self._blanks(2)) if free else None)
        except Exception as error:
            raise ModelError(f"jax cannot list the tensors inside the model: {first_line(error)}") from error

    def _blanks(self, extent: int) -> list[Tensor]:
        return [np.zeros([known or extent for known in spec.shape], spec.dtype) for spec in self.inputs]

    def _program(self, arrays: Sequence[Tensor]) -> TappedProgram:
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self._tapped:
            platform = "cuda" if self._accelerated else "cpu"
            self._tapped = {shapes: TappedProgram(self._jax, self._exported, arrays, platform)}
        return self._tapped[shapes]

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_feeds(self.inputs, feeds)
        check_points(tuple(names), self._points)
        try:
            arrays = [feeds[spec.name] for spec in self.inputs]
            answers, values = self._program(arrays).run(arrays, names, self._arguments)
        except Exception as error:
            raise ModelError(f"jax failed while it observed the model: {first_line(error)}") from error
        outputs = {spec.name: answer for spec, answer in zip(self.outputs, answers, strict=True)}
        return Captured(dict(zip(names, values, strict=True)), outputs)

    def close(self) -> None:
        self._call = self._begun = None


def _device(jax: Any, wanted: str) -> Any:
    """The device to run on; None where JAX has the CPU only, and moves inputs there by itself."""
    if wanted == "cpu" and jax.default_backend() == "cpu":
        return None
    kind, number = device_kind(wanted), device_index(wanted)
    try:
        devices = jax.devices(kind)
    except RuntimeError as error:
        raise ModelError(
            f"jax cannot run on {wanted} here: it sees no such device.",
            hint="Run with --device cpu, or install jax for CUDA.",
        ) from error
    if number >= len(devices):
        raise ModelError(f"jax cannot run on {wanted}: this machine has {len(devices)} {kind} devices.")
    return devices[number]


class _Kind:
    """A tensor type, taken out of MLIR so that no compiler object outlives the load."""

    def __init__(self, text: str) -> None:
        match = re.fullmatch(r"tensor<((?:[\d?]+x)*)(\w+).*>", text)
        extents = match.group(1).split("x")[:-1] if match else []
        self.element = match.group(2) if match else ""
        self.rank = len(extents)
        self.elements = int(np.prod([int(e) for e in extents if e != "?"], dtype=np.int64)) if extents else 1


def _operations(exported: Any) -> Iterator[tuple[str, _Kind]]:
    """(name, type) of every operation; ModelError for an operation or custom call that is not known to compute."""
    from jax.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    context = mlir.make_ir_context()
    module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
    waiting = [module.operation]
    while waiting:
        operation = waiting.pop()
        if operation.name not in _ALLOWED and not operation.name.startswith("chlo."):
            raise ModelError(
                f"The program carries the operation {operation.name[:80]}, which zoolens does not run.",
                hint="Only operations that compute on tensors are run, not those that talk to the host or to devices.",
            )
        if operation.name == "stablehlo.custom_call":
            target = str(operation.attributes["call_target_name"]).strip('"')
            if not _CUSTOM_CALLS.fullmatch(target):
                raise ModelError(f"The program calls {target!r} in the hosting process, which zoolens does not allow.")
        # A product of narrow numbers is often summed in wide ones: what counts is what goes in.
        values = operation.operands if operation.name in _HEAVY else operation.results
        yield operation.name, _Kind(str(values[0].type) if len(values) else "")
        waiting.extend(inner.operation for region in operation.regions for block in region for inner in block)


def _names(jax: Any, tree: Any, prefix: str, declared: tuple[TensorSpec, ...]) -> list[str]:
    """Returns the manifest's names if their number matches, else dictionary keys, else input0, input1 and so on."""
    if len(declared) == tree.num_leaves:
        return [spec.name for spec in declared]
    filled = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    paths, _ = jax.tree_util.tree_flatten_with_path(filled)
    keys = [getattr(path[-1], "key", None) if path else None for path, _ in paths]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        return [str(key) for key in keys]
    return [f"{prefix}{i}" for i in range(tree.num_leaves)]


def _specs(avals: Any, names: list[str]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(name, tuple(e if isinstance(e, int) else None for e in aval.shape), str(aval.dtype))
        for name, aval in zip(names, avals, strict=True)
    )
