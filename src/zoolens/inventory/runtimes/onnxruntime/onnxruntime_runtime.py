"""ONNX models in ONNX Runtime (CPU)."""

from __future__ import annotations

import ctypes
import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError, UnsupportedAbility, ZoolensError, first_line
from zoolens.inventory.runtimes.devices import device_index
from zoolens.inventory.runtimes.isolation.packed import BFLOAT16, STRING, TEXT_BYTES, packed, unpacked_texts, widened
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile, check_points
from zoolens.inventory.runtimes.onnx.decoder_form import LOGITS, check_counting, decoder_form
from zoolens.inventory.runtimes.onnx.onnx_editing import edited, node_label, unique_names
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, check_external, read_graph
from zoolens.inventory.runtimes.onnxruntime.fused_operators import computed_tensors, fused_nodes, made_tensors
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_profile import read_profiles
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_sequences import CachedSequences
from zoolens.inventory.runtimes.runtime import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    Yielding,
    check_feeds,
)
from zoolens.inventory.runtimes.timing.calls import observed_calls

# Every other ONNX Runtime type is spelled as numpy spells it.
_DTYPES = {"float": "float32", "double": "float64"}
_ONNX_BFLOAT16: Final = 16  # ONNX's number of the type
_ROUNDING: Final = re.compile("Quantize|QLinear|Integer|NBits|QGemm|QAttention")
_CLASSIC: Final = "ai.onnx.ml"  # the domain of operators of models that are no networks


class OnnxRuntime(Runtime):
    name = "onnxruntime"
    summary = "ONNX Runtime, CPU execution provider (CUDA: untested)"
    formats = ("onnx",)
    requirements = ("onnxruntime",)
    distributions = ("onnxruntime",)
    extra = "onnxruntime"
    takes_packed = True
    spins = True
    devices = ("cpu", "cuda")  # CUDA was never tried: none of our machines has a GPU and onnxruntime-gpu
    cannot: ClassVar[Mapping[str, str]] = {
        "dynamic_batch": "a file exported with a fixed batch size runs with that one only",
        "compile_mode": "a session is always optimised when it is made",
        "kernels": "ONNX Runtime's profiler names operators, and not the routines of its own library that they call",
    }

    def load_library(self) -> Any:
        import onnxruntime

        # What it would print is raised as well.
        onnxruntime.set_default_logger_severity(4)
        return onnxruntime

    def load(self, model: ModelFiles, options: Options) -> bytes | str:
        # By path where weights lie outside the file; ONNX Runtime then confines them to the model's folder.
        path = model.path()
        check_external(model)
        return str(path) if len(model.files) > 1 else model_bytes(path)

    def compile(self, loaded: bytes | str, model: ModelFiles, options: Options) -> Session:
        ort = self.load_library()
        entries = {"session.force_spinning_stop": "1"} if self.yielding else {}
        if self.yielding is Yielding.ALWAYS:
            entries["session.intra_op.allow_spinning"] = "0"
        try:
            session = _opened(ort, loaded, options, entries=entries)
        except ZoolensError:
            raise
        except Exception:
            # Of caches that do not fit, ONNX Runtime names the first operator that notices.
            graph = read_graph(model.path())
            decoder_form(graph.inputs, graph.outputs, model.path().name)
            raise
        return OnnxSession(ort, session, model, options)


def _opened(ort: Any, model: bytes | str, options: Options, **settings: Any) -> Any:
    """A session of the framework. `settings`: further ones than those of every session."""
    entries = settings.pop("entries", {})
    wanted = ort.SessionOptions()
    wanted.intra_op_num_threads = options.threads or 0
    wanted.inter_op_num_threads = 1
    # A file can be ONNX and ONNX Runtime's own format at once, and every check of ours reads ONNX.
    wanted.add_session_config_entry("session.load_model_format", "ONNX")
    for name, value in entries.items():
        wanted.add_session_config_entry(name, value)
    for name, value in settings.items():
        setattr(wanted, name, value)
    provider = _provider(ort, options)
    session = ort.InferenceSession(model, wanted, providers=[provider])
    # ONNX Runtime takes the CPU without a word.
    if session.get_providers()[0] != provider[0]:
        raise ModelError(
            f"onnxruntime cannot run on {options.device} here: {provider[0]} does not start.",
            hint="Run with --device cpu, or check that CUDA and cuDNN are those that onnxruntime-gpu wants.",
        )
    return session


def _provider(ort: Any, options: Options) -> tuple[str, dict[str, str]]:
    """The execution provider of a device, with its settings."""
    if options.device == "cpu":
        return "CPUExecutionProvider", {}
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        raise ModelError(
            f"onnxruntime cannot run on {options.device} here: this build has no provider for CUDA.",
            hint="Run with --device cpu, or install onnxruntime-gpu.",
        )
    tf32 = "0" if options.precision == "float32" else "1"
    return "CUDAExecutionProvider", {"device_id": str(device_index(options.device)), "use_tf32": tf32}


class OnnxSession(Session):
    """Operators are timed and inner tensors are read in other sessions of the same file, which are optimised alike:
    the operators of the one that predicts stay as they are."""

    def __init__(self, ort: Any, session: Any, model: ModelFiles, options: Options) -> None:
        self._ort, self._session = ort, session
        self._model, self._options = model, options
        self.inputs = tuple(_spec(node) for node in session.get_inputs())
        numeric = _numeric(session.get_outputs(), model.path().name)
        self.outputs = tuple(_output_spec(node) for node in numeric)
        # A language model that takes earlier keys and values is fed texts, which begin with none.
        self._decoder = decoder_form(self.inputs, self.outputs, model.path().name)
        if self._decoder is not None:
            self.inputs = self._decoder.inputs
            self.outputs = tuple(spec for spec in self.outputs if spec.name not in self._decoder.presents)
        self._padding_checked = False
        self._output_names = [spec.name for spec in self.outputs]
        self._packed = {spec.name: spec.dtype for spec in self.inputs if spec.dtype in (BFLOAT16, STRING)}
        self._widened = any(node.type == "tensor(bfloat16)" for node in session.get_outputs())
        self._tapped: tuple[tuple[str, ...], Any] = (), None  # the last session with inner tensors as outputs

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        return self._run(self._session, self._output_names, feeds)

    def _run(self, session: Any, names: list[str], feeds: Mapping[str, Tensor]) -> Tensors:
        try:
            own = self._unpacked(feeds) if self._packed else self._completed(feeds)
            answers = self._widened_answers(session, names, own) if self._widened else session.run(names, own)
        except ZoolensError:
            raise
        except Exception as error:
            check_feeds(self.inputs, feeds)
            raise ModelError(f"onnxruntime failed while running the model: {first_line(error)}") from error
        named = dict(zip(names, answers, strict=True))
        if self._decoder is not None and LOGITS in named:
            self._decoder.check_logits(named[LOGITS].shape, feeds[self._decoder.tokens.name])
        return named

    def _completed(self, feeds: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """With the inputs that follow from the texts: positions, and no earlier keys and values."""
        if self._decoder is None:
            return feeds
        check_feeds(self.inputs, feeds)
        whole = self._decoder.whole_texts(feeds)
        if self._decoder.pads_before(feeds) and not self._padding_checked:
            check_counting(model_bytes(self._model.path()))
            self._padding_checked = True
        return whole

    def _unpacked(self, feeds: Mapping[str, Tensor]) -> dict[str, Any]:
        """Feeds as ONNX Runtime takes them: its Python interface knows bfloat16 only as values of its own, made from
        the bits, and texts as Python's."""
        own = {name: array for name, array in feeds.items() if name not in self._packed and TEXT_BYTES not in name}
        for name, dtype in self._packed.items():
            if dtype == STRING:
                own[name] = unpacked_texts(name, feeds)
            else:
                bits = np.ascontiguousarray(packed({name: feeds[name]})[name])
                own[name] = self._ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _ONNX_BFLOAT16)
        return own

    def _widened_answers(self, session: Any, names: list[str], feeds: Mapping[str, Any]) -> list[Tensor]:
        """Answers of which some are bfloat16, which become float32: the same numbers. numpy cannot hold them, so that
        their bits are read where ONNX Runtime has them."""
        make = self._ort.OrtValue.ortvalue_from_numpy
        values = {name: make(value) if isinstance(value, np.ndarray) else value for name, value in feeds.items()}
        return [_widened_value(value) for value in session.run_with_ort_values(names, values)]

    def effective(self) -> Effective:
        # The CPU provider computes in the graph's own types. Where it has no kernel for float16, as mostly on x86, it
        # casts to float32 around the layer; which of the two it does shows in the graph that it makes of the file.
        precision = self._graph.precision()
        computed = self._optimised.precision() if "float16" in precision else precision
        if self._options.device != "cpu":
            rounded = precision == "float32" and self._options.precision != "float32"
            computed = "float32+tf32" if rounded else precision
        return Effective(
            provider=self._session.get_providers()[0],
            precision=computed,
            threads=self._options.threads,
            details={"weights": precision},
        )

    def count_parameters(self) -> int:
        classic = next((node.op for node in self._graph.nodes if node.domain == _CLASSIC), None)
        # Trees and linear models of scikit-learn.
        if classic is not None:
            raise ModelError(f"The parameters of {classic} are attributes of the operator and are not counted.")
        return self._graph.parameters()

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        # Explains feeds that do not fit, before a session is made.
        self.predict(feeds)
        own = self._unpacked(feeds) if self._packed else self._completed(feeds)
        return self._profiled(lambda twin: lambda: twin.run(self._output_names, own), repeats)

    def profile_extend(self, tokens: Tensor, kept: int, repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        if self._decoder is None:
            raise _no_sequences()
        form, name, exact = self._decoder, self._model.path().name, self._exact

        def prepared(twin: Any) -> Callable[[], object]:
            sequences = CachedSequences(self._ort, twin, form, name, exact=exact)
            if kept:
                sequences.extend(tokens[:, :kept], 0)
            return lambda: sequences.extend(tokens[:, kept:], kept)

        try:
            return self._profiled(prepared, repeats)
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(f"onnxruntime failed while it profiled the model: {first_line(error)}") from error

    def _profiled(self, prepare: Callable[[Any], Callable[[], object]], repeats: int) -> list[Profile]:
        """Profiles of a call that `prepare` makes of a session."""
        if self._options.device != "cpu":
            reason = "its profiler times on a GPU how long the host takes to launch kernels"
            raise UnsupportedAbility("onnxruntime", "profile operators on a GPU", reason)
        with tempfile.TemporaryDirectory(prefix="zoolens-profile-") as folder:
            # The session's own optimised graph: what it adds (ReorderOutput_token_3) is numbered again each time.
            twin, optimised = self._optimising_twin(
                folder, enable_profiling=True, profile_file_prefix=f"{folder}/profile"
            )
            fused = fused_nodes(self._graph, optimised)
            call = prepare(twin)
            call()  # the first run allocates
            calls = observed_calls(call, repeats)
            epoch = twin.get_profiling_start_time_ns()
            return read_profiles(Path(twin.end_profiling()), epoch, calls, fused)

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return self._points

    @cached_property
    def _points(self) -> tuple[CapturePoint, ...]:
        kept = made_tensors(self._optimised)
        specs = {**self._graph.values, **{spec.name: spec for spec in self.outputs}}
        unknown = TensorSpec("", (), "unknown")
        points = []
        for node, name in computed_tensors(self._graph):
            spec = specs.get(name, unknown)
            dtype = "" if spec.dtype == "unknown" else spec.dtype
            points.append(CapturePoint(name, node_label(node), name, name in kept, spec.shape, dtype))
        return tuple(points)

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_points(tuple(names), self._points)
        inner = tuple(sorted(set(names) - set(self._output_names)))
        if self._tapped[0] != inner or self._tapped[1] is None:
            # Before the next one is made: two would take twice the memory.
            self._tapped = (), None
            self._tapped = inner, self._twin(None, inner)
        values = self._run(self._tapped[1], [*self._output_names, *inner], feeds)
        odd = next((name for name, value in values.items() if not isinstance(value, np.ndarray)), None)
        if odd is not None:
            raise ModelError(f"The value of {odd[:80]!r} is not a tensor and cannot be read.")
        captured = {name: values[name] for name in names}
        outputs = {name: values[name] for name in self._output_names}
        return Captured(captured, outputs)

    def extend(self, tokens: Tensor, kept: int | None = None) -> Tensor:
        if self._decoder is None:
            raise _no_sequences()
        try:
            return self._sequences.extend(tokens, kept)
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(f"onnxruntime failed while running the model: {first_line(error)}") from error

    @cached_property
    def _sequences(self) -> CachedSequences:
        assert self._decoder is not None  # `extend` has asked
        return CachedSequences(self._ort, self._session, self._decoder, self._model.path().name, exact=self._exact)

    @property
    def _exact(self) -> bool:
        """Whether no number is rounded to fewer bits than float32 has."""
        rounding = any(_ROUNDING.search(node.op) for node in self._graph.nodes)
        return self._graph.precision() == "float32" and not rounding

    def _twin(self, names: Sequence[str] | None, outputs: Sequence[str] = (), **settings: Any) -> Any:
        """A session of the same file, with other names of nodes or more outputs."""
        path = self._model.path()
        content = edited(model_bytes(path), names, outputs)
        entries = {
            **settings.pop("entries", {}),
            "session.model_external_initializers_file_folder_path": str(path.parent),
        }
        try:
            return _opened(self._ort, content, self._options, entries=entries, log_severity_level=4, **settings)
        except Exception as error:
            raise ModelError(f"onnxruntime cannot open the model for observation: {first_line(error)}") from error

    @cached_property
    def _graph(self) -> OnnxGraph:
        return read_graph(self._model.path())

    @cached_property
    def _optimised(self) -> OnnxGraph:
        """The graph that ONNX Runtime makes of the file; its nodes have the names of `unique_names`."""
        with tempfile.TemporaryDirectory(prefix="zoolens-optimised-") as folder:
            return self._optimising_twin(folder)[1]

    def _optimising_twin(self, folder: str, **settings: Any) -> tuple[Any, OnnxGraph]:
        """A session with the names of `unique_names`, and the graph that it runs."""
        path = Path(folder) / "optimised.onnx"
        entries = {"session.optimized_model_external_initializers_file_name": "weights"}
        names = unique_names(self._graph)
        twin = self._twin(names, optimized_model_filepath=str(path), entries=entries, **settings)
        return twin, read_graph(path)

    def close(self) -> None:
        self._session = None
        self._tapped = (), None
        self.__dict__.pop("_sequences", None)


def _no_sequences() -> UnsupportedAbility:
    reason = "its inputs have no keys and values of earlier tokens (past_key_values.0.key and so on)"
    return UnsupportedAbility("onnxruntime", "continue a sequence with this model", reason)


def _numeric(outputs: Sequence[Any], file: str) -> list[Any]:
    """The outputs that are tensors of numbers. Files of scikit-learn also give classes as words, or a table of scores
    by class, which no comparison of numbers can be about."""
    kept = [node for node in outputs if node.type.startswith("tensor(") and node.type != "tensor(string)"]
    if not kept:
        kinds = ", ".join(f"{node.name} is {node.type}" for node in outputs)
        raise ModelError(
            f"{file} has no output of numbers: {kinds}.",
            hint="Export it with its scores as a tensor; in skl2onnx: options={'zipmap': False}.",
        )
    return kept


def _widened_value(value: Any) -> Tensor:
    if value.data_type() != "tensor(bfloat16)":
        answer: Tensor = value.numpy()
        return answer
    shape = tuple(value.shape())
    count = math.prod(shape)
    if not count:
        return np.zeros(shape, np.float32)
    bits = np.ctypeslib.as_array((ctypes.c_uint16 * count).from_address(value.data_ptr()))
    return widened(bits).reshape(shape)


def _spec(node: Any) -> TensorSpec:
    shape = tuple(extent if isinstance(extent, int) else None for extent in node.shape)
    kind = node.type.removeprefix("tensor(").removesuffix(")")
    return TensorSpec(node.name, shape, _DTYPES.get(kind, kind))


def _output_spec(node: Any) -> TensorSpec:
    """bfloat16 is answered as float32."""
    spec = _spec(node)
    return replace(spec, dtype="float32") if spec.dtype == BFLOAT16 else spec
