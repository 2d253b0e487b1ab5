"""A model behind a server of the Open Inference Protocol V2: Triton, MLServer, KServe or `zoolens serve`.

It is named with its address, as `remote:http://host:8000/v2/models/NAME`. The manifest says how inputs are prepared and
what outputs mean; the server says what its model takes and gives. Where the two contradict each other the model is not
run. Whether the server's weights are those of the manifest cannot be seen from here, so that its runs are those of a
model of their own, which shares only the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.protocol.address import Address, parse_address
from zoolens.base.protocol.client import locate_model, open_client
from zoolens.base.protocol.client_base import Client
from zoolens.base.protocol.datatypes import numpy_type
from zoolens.base.protocol.documents import model_to_data
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse, ModelMetadata, ServerMetadata, TensorMetadata
from zoolens.base.safety.untrusted import parse_json
from zoolens.inventory.runtimes.endpoint_file import check_described, endpoint_file
from zoolens.inventory.runtimes.model_files.model_reading import model_text
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
    shape_text,
)

if TYPE_CHECKING:
    from zoolens.inventory.manifests.schema import Asset, Manifest

ENDPOINT: Final = "v2-endpoint"
OUTPUT, PROBABILITIES = "zoolens_output", "probabilities"  # a parameter of the configuration, and what it says
ANSWERED_BY: Final = "zoolens_model"  # the response parameter in which a service says which of its models answered
_PROBES: Final = 4  # rows of noise
_FREE: Final = 16  # extent of dimensions that the server leaves open
_MOST_VALUES: Final = 1 << 22  # of a row of noise
_UNSEEN: Final = "a server answers, and which weights and hardware are behind it cannot be seen from here"


class Remote(Runtime):
    name = "remote"
    summary = "A model behind a server of the Open Inference Protocol V2"
    formats = (ENDPOINT,)
    plain = "the model runs in a server; what comes from there are tensors, which our own reader checks"
    addressed = "http://host:port[/v2/models/NAME] or grpc://host:port[/v2/models/NAME]"
    cannot: ClassVar[Mapping[str, str]] = {
        "dynamic_batch": "the server's model decides which batch sizes it takes",
        "set_threads": "the server decides",
        "force_precision": "the server decides",
        "report_precision": "the protocol does not report it",
        "count_parameters": "the protocol does not report it",
        "compile_mode": "the server decides",
        "run_here": f"{_UNSEEN}; latencies include the network and the server's queue",
        "profile": "the protocol carries inputs and outputs only",
        "kernels": "the protocol carries inputs and outputs only",
        "capture": "the protocol carries inputs and outputs only",
        "extend": "the protocol carries whole inputs, and no state between two of them",
    }

    def __init__(self, address: str = "") -> None:
        super().__init__(str(parse_address(address)) if address else "")

    def load_library(self) -> Any:
        # HTTP is in Python's own library; a gRPC address says what it needs when it is used.
        return None

    def version(self) -> str | None:
        if not self.address:
            return "built-in"
        server, _ = self._described
        return f"{server.name} {server.version}".strip()

    def asset_of(self, manifest: Manifest) -> Asset | None:
        from zoolens.inventory.manifests.schema import Asset

        return Asset(format=ENDPOINT, files=(endpoint_file(self._document()),)) if self.address else None

    def identity(self) -> Mapping[str, Any]:
        server, model = self._described
        return {
            "address": self.address,
            "server": {"name": server.name, "version": server.version, "extensions": sorted(server.extensions)},
            "served_model": {"name": model.name, "versions": list(model.versions), "platform": model.platform},
        }

    def _document(self) -> dict[str, Any]:
        _, model = self._described
        return {"address": str(self._located), **model_to_data(model), "answers": self._probed}

    @cached_property
    def _probed(self) -> dict[str, Any] | None:
        """What the model answers to noise: metadata stay the same when a server gets other weights."""
        server, model = self._described
        with open_client(self._located) as client:
            # A server that is given another file under the same name says the same of itself, and answers otherwise.
            return probe(RemoteSession(client, server, model))

    def load(self, model: ModelFiles, options: Options) -> Any:
        """Check that the server has what it had when the file was written."""
        try:
            document = parse_json(model_text(model.path()))
        except ValueError as error:
            raise ModelError(f"{model.path().name} does not describe a model behind a server: {error}.") from error
        # Asked again: ours may be old.
        check_described(model.path(), document, Remote(self.address)._document(), self.address)
        return document

    def compile(self, loaded: Any, model: ModelFiles, options: Options) -> Session:
        server, metadata = self._described
        session = RemoteSession(open_client(self._located), server, metadata)
        try:
            _check_inputs(self.address, model.inputs, session.inputs)
        except BaseException:
            session.close()
            raise
        return session

    @cached_property
    def _described(self) -> tuple[ServerMetadata, ModelMetadata]:
        with open_client(parse_address(self.address)) as client:
            try:
                return client.server(), client.model(self._located.model, self._located.version)
            except ServingError as error:
                raise _failed(self.address, error) from error

    @cached_property
    def _located(self) -> Address:
        with open_client(parse_address(self.address)) as client:
            return locate_model(client)


class RemoteSession(Session):
    """One connection to a server. All its answers must come from one model: a service that switches between models is
    measured with `zoolens load`, which says who answered what."""

    def __init__(self, client: Client, server: ServerMetadata, model: ModelMetadata) -> None:
        self._client, self._server, self._model = client, server, model
        config = _config(client, model)
        self.postprocessed = _answers_probabilities(config)
        self.largest_batch = _largest_batch(config)
        self._answered_by: tuple[str, str] | None = None
        self.inputs = tuple(map(_spec, model.inputs))
        self.outputs = tuple(map(_spec, model.outputs))

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        check_feeds(self.inputs, feeds)
        address = self._client.address
        try:
            request = InferRequest(address.model, dict(feeds), address.version, traceparent=self.traceparent)
            response = self._client.infer(request)
        except ServingError as error:
            raise _failed(str(address), error) from error
        self._check_model(response)
        return {spec.name: _checked(spec, response, str(address)) for spec in self.outputs}

    def _check_model(self, response: InferResponse) -> None:
        answered_by = (str(response.parameters.get(ANSWERED_BY) or response.model), response.version)
        if self._answered_by not in (None, answered_by):
            before, now = (" version ".join(part for part in who if part) for who in (self._answered_by, answered_by))
            raise ModelError(
                f"{self._client.address} answered with {before} and then with {now}.",
                hint="Figures of one model must come from one: name it in the address, or use `zoolens load`.",
            )
        self._answered_by = answered_by

    def effective(self) -> Effective:
        platform = f" ({self._model.platform})" if self._model.platform else ""
        return Effective(
            provider=f"{self._server.name} {self._server.version}{platform}",
            details={
                "address": str(self._client.address),
                "versions": ", ".join(self._model.versions),
                "latency": "includes the network and the server's queue",
            },
        )

    @property
    def answered_by(self) -> str:
        """Which model gave the last answer, as the server says."""
        return " version ".join(part for part in self._answered_by or () if part)

    def close(self) -> None:
        self._client.close()


def probe(session: RemoteSession) -> dict[str, Any] | None:
    """Returns who answers noise, and the places of the largest and the smallest value of each row: enough to tell other
    weights apart, and not changed by rounding. None where the model does not take noise of its shapes."""
    random = np.random.default_rng(0)
    free = all(spec.shape and spec.shape[0] is None for spec in session.inputs)
    try:
        answers = [
            session.predict({spec.name: _noise(spec, random) for spec in session.inputs})
            for _ in range(1 if free else _PROBES)
        ]
    except ZoolensError:
        # A server that stumbles over noise may still answer what it is made for.
        return None
    places = {}
    for spec in session.outputs:
        rows = [answer[spec.name].reshape(len(answer[spec.name]), -1) for answer in answers if answer[spec.name].ndim]
        if rows and spec.dtype != "string" and all(part.size for part in rows):
            places[spec.name] = [[int(row.argmax()), int(row.argmin())] for part in rows for row in part]
    return {"by": session.answered_by, "places": places}


def _noise(spec: TensorSpec, random: np.random.Generator) -> Tensor:
    if spec.dtype == "string" or prod(extent or 1 for extent in spec.shape) > _MOST_VALUES:
        raise ModelError(f"The input {spec.name!r} takes no noise.")
    shape = [extent or (_PROBES if place == 0 else _FREE) for place, extent in enumerate(spec.shape)]
    if np.dtype(spec.dtype).kind in "iu":
        return random.integers(0, 100, shape).astype(spec.dtype)
    return random.random(shape).astype(spec.dtype)


def _config(client: Client, model: ModelMetadata) -> Mapping[str, Any]:
    """Triton's configuration of a model, or nothing: other servers have none."""
    try:
        return client.config(model.name, client.address.version)
    except (ServingError, KeyError):
        return {}


def _answers_probabilities(config: Mapping[str, Any]) -> bool:
    """Whether the server says that its answers are final, as services of zoolens do."""
    try:
        return bool(config["parameters"][OUTPUT]["string_value"] == PROBABILITIES)
    except (KeyError, TypeError):
        return False


def _largest_batch(config: Mapping[str, Any]) -> int | None:
    largest = config.get("max_batch_size")
    return largest if isinstance(largest, int) and largest > 0 else None


def _spec(tensor: TensorMetadata) -> TensorSpec:
    dtype = "string" if tensor.datatype == "BYTES" else numpy_type(tensor.datatype).name
    return TensorSpec(tensor.name, tuple(None if extent < 0 else extent for extent in tensor.shape), dtype)


def _check_inputs(address: str, declared: Sequence[TensorSpec], served: Sequence[TensorSpec]) -> None:
    """Refuse a server whose model cannot be the one that the manifest prepares inputs for."""
    if not served:
        raise ModelError(
            f"{address} does not say which inputs its model takes.",
            hint="Declare inputs and outputs in the server's settings of the model.",
        )
    if len(declared) != len(served):
        raise _contradiction(address, f"takes {len(served)} inputs, but the manifest declares {len(declared)}")
    by_name = {spec.name: spec for spec in served}
    for place, wanted in enumerate(declared):
        spec = by_name.get(wanted.name, served[place])
        same = len(spec.shape) == len(wanted.shape) and all(
            None in pair or pair[0] == pair[1] for pair in zip(spec.shape[1:], wanted.shape[1:], strict=True)
        )
        if not same:
            shapes = f"{shape_text(spec.shape)}, but the manifest declares {shape_text(wanted.shape)}"
            raise _contradiction(address, f"wants {spec.name!r} as {shapes}")
        if spec.dtype != wanted.dtype:
            raise _contradiction(
                address, f"wants {spec.name!r} as {spec.dtype}, but the manifest declares {wanted.dtype}"
            )


def _contradiction(address: str, what: str) -> ModelError:
    return ModelError(f"The model at {address} {what}.", hint="Is it another model? Name the right one in the address.")


def _checked(spec: TensorSpec, response: InferResponse, address: str) -> Tensor:
    array = response.outputs.get(spec.name)
    if array is None:
        raise ModelError(f"The answer of {address} has no output {spec.name!r}.")
    array = _without_extents_of_one(array, spec)
    fits = len(spec.shape) == array.ndim and all(
        extent in (None, given) for extent, given in zip(spec.shape[1:], array.shape[1:], strict=True)
    )
    if not fits or spec.dtype not in (array.dtype.name, "string"):
        raise ModelError(
            f"{address} says that {spec.name!r} is {spec.dtype} of {shape_text(spec.shape)}, but answers with "
            f"{array.dtype} of {shape_text(array.shape)}."
        )
    return array


def _without_extents_of_one(array: Tensor, spec: TensorSpec) -> Tensor:
    """The array in the declared shape where only extents of 1 behind the rows are too many or too few: servers declare
    [n] and answer n×1, and the other way round. It is the same numbers in the same order."""
    if array.ndim == len(spec.shape) or not array.ndim or not spec.shape:
        return array
    given = [extent for extent in array.shape[1:] if extent != 1]
    declared = [extent for extent in spec.shape[1:] if extent != 1]
    if len(given) != len(declared) or any(w not in (None, h) for w, h in zip(declared, given, strict=True)):
        return array
    left = iter(given)
    return array.reshape(len(array), *(1 if extent == 1 else next(left) for extent in spec.shape[1:]))


def _failed(address: str, error: ServingError) -> ModelError:
    return ModelError(f"{address} answers: {error.message}")
