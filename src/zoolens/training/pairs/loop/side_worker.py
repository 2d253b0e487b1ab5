"""The process that runs the user's code: it calls their function once, and answers what is asked about the network.

{"do": "open"} calls the function; in the fork of a process that imported its framework before, the answer may be
that the code needs a process of its own. The other requests are about what it returned. Tensors lie in the shared
memory.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoolens.base.engine.fork_host import Preloading
from zoolens.base.engine.service import Message, Service
from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.serialisation import pack
from zoolens.training.pairs.live.live_training import TrainableNetwork
from zoolens.training.pairs.live.seeding import forget_names, seed_generators
from zoolens.training.pairs.loop.trainable_recognition import trainable
from zoolens.training.pairs.loop.training_requests import TrainingRequests
from zoolens.training.pairs.mapping.comparable_graph import comparable
from zoolens.training.pairs.mapping.origins import (
    graph_and_origins,
    opaque_answers,
    output_axes,
    packed_origins,
    run_with_channels_first,
)
from zoolens.training.pairs.networks.framework import LiveNetwork
from zoolens.training.pairs.networks.recognition import recognised
from zoolens.training.pairs.sides.user_code import call_user_function, digest_of_user_code, user_errors


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    side = _Side(Service(settings, began_ns), settings.get("preloading"))
    side.service.serve(side.answer, doing)


def doing(request: Mapping[str, Any]) -> str:
    """The function's name for the request that opens a side, else what is done with its network."""
    if request.get("do") == "open":
        return f"Calling {Path(str(request.get('code'))).name}:{request.get('function')}"
    return f"The request {request.get('do')!r} to the network"


class _Side:
    def __init__(self, service: Service, preloading: Preloading | None = None) -> None:
        self.service = service
        self._preloading = preloading
        self._code = ""
        self._request: Message = {}
        self._made: Any = None
        self._network: LiveNetwork | None = None
        self._axes: list[str] | None = None
        self._answers: dict[str, Callable[[Message], Any]] = {
            "open": self._open,
            "graph": self._graph,
            "tensors": self._tensors,
            "assign": self._assign,
            "run": self._run,
            "opaque": self._opaque,
            "decisions": self._decisions,
            "axes": self._output_axes,
            "draws": self._draws,
            "values": self._values,
            "save": self._save,
            "load": self._load,
            "source": self._source,
            "close": lambda _: {},
        }
        training = TrainingRequests(self._trainable, self._renew, self._sent, self._written)
        self._answers |= {**training.answers, "train_code": self._digest}

    def answer(self, request: Message) -> Any:
        if request["do"].startswith("train_"):
            with user_errors(self._code):
                return self._answers[request["do"]](request)
        return self._answers[request["do"]](request)

    @property
    def network(self) -> LiveNetwork:
        if self._network is None:
            raise ModelError("No network is open in this process.")
        return self._network

    def _open(self, request: Message) -> Any:
        self._code, self._request = str(request["code"]), request
        self._make()
        with user_errors(self._code):
            facts = self.network.facts()
        mismatch = None if self._preloading is None else self._preloading.mismatch()
        if mismatch is not None:
            return {"unfit": mismatch}
        return {
            "framework": self.network.framework,
            "dtype": self.network.dtype(),
            "facts": facts.model_dump(mode="json"),
            "learned": self.network.learned(),
            "notes": self.network.notes(),
        }

    def _make(self, seed: int | None = None) -> None:
        """Call the user's function, and recognise the network in what it returned."""
        request = self._request
        self._made = call_user_function(self._code, str(request["function"]), seed)
        shapes = [tuple(int(extent) for extent in shape) for shape in request["shapes"]]
        with user_errors(self._code):
            self._network = recognised(self._made, shapes, list(request["kinds"]), str(request["name"]))
            if request["device"] == "gpu":
                self._network.move_to_gpu()

    def _renew(self, seed: int) -> None:
        before = {name: array.shape for name, array in self.network.tensors().items()}
        forget_names()
        seed_generators(seed)
        self._make(seed)
        if before != {name: array.shape for name, array in self.network.tensors().items()}:
            raise ModelError(
                f"{self._request['name']} returns a network with other tensors when it is called again.",
                hint="Let it return the same network each time, with new weights.",
            )

    def _digest(self, _: Message) -> Any:
        return {"code": digest_of_user_code(str(self._request["function"]))}

    def _trainable(self) -> TrainableNetwork:
        return trainable(self._made, self.network)

    def _graph(self, _: Message) -> Any:
        with user_errors(self._code):
            graph, origins = graph_and_origins(self.network)
        rows, indices = packed_origins(origins)
        return {"graph": base64.b64encode(pack(graph)).decode(), "origins": rows, "tensors": self._written(indices)}

    def _values(self, _: Message) -> Any:
        """The canonical graph's own tensors, with the network's current values."""
        with user_errors(self._code):
            graph = comparable(self.network.graph())
        return {"graph": base64.b64encode(pack(graph)).decode(), "tensors": self._written(graph.weights)}

    def _source(self, _: Message) -> Any:
        """The graph as the network's own code has it, and the classes of its modules."""
        with user_errors(self._code):
            raw, classes = self.network.graph(), self.network.module_classes()
        return {"graph": base64.b64encode(pack(raw)).decode(), "classes": classes}

    def _tensors(self, _: Message) -> Any:
        return {"tensors": self._written(self.network.tensors())}

    def _assign(self, request: Message) -> Any:
        self.network.assign(self._sent(request))
        return {}

    def _run(self, request: Message) -> Any:
        fed = list(self._sent(request).values())
        with user_errors(self._code):
            answers = run_with_channels_first(self.network, fed, self._known_axes())
        return {"tensors": self._written({f"output{number}": answer for number, answer in enumerate(answers)})}

    def _output_axes(self, _: Message) -> Any:
        with user_errors(self._code):
            return {"axes": self._known_axes()}

    def _known_axes(self) -> list[str]:
        if self._axes is None:
            self._axes = output_axes(self.network)
        return self._axes

    def _draws(self, request: Message) -> Any:
        with user_errors(self._code):
            return {"draws": self.network.draws(list(self._sent(request).values()))}

    def _decisions(self, request: Message) -> Any:
        with user_errors(self._code):
            return {"decisions": self.network.decisions(list(self._sent(request).values()))}

    def _opaque(self, request: Message) -> Any:
        with user_errors(self._code):
            answers = opaque_answers(self.network, list(self._sent(request).values()))
        return {"tensors": self._written(answers)}

    def _save(self, request: Message) -> Any:
        self.network.save(Path(str(request["path"])))
        return {}

    def _load(self, request: Message) -> Any:
        self.network.load(Path(str(request["path"])))
        return {}

    def _sent(self, request: Message) -> dict[str, Any]:
        """Copies: JAX computes with the memory of the arrays it is given, and this one is written again."""
        return {name: view.copy() for name, view in self.service.inputs.read(request["tensors"]).items()}

    def _written(self, tensors: Mapping[str, Any]) -> Any:
        return self.service.outputs.write(tensors)
