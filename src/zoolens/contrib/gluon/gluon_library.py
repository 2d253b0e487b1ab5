"""MXNet's gluon model zoo, in an environment of its own: MXNet's last release needs an old numpy.

A block that is called with a symbol answers with the symbol of the whole network; MXNet infers every shape from the
input's without making a single weight.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.contrib.gluon.symbols import graph_of_symbol
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.model import Array, Graph, Shape
from zoolens.inventory.runtimes.model_files.constructor_arguments import plain_arguments

_SEED: Final = 0
_SIZES: Final = {"inceptionv3": (299, 299)}
_USUAL: Final = (224, 224)
_NEVER: Final = {"pretrained": False}  # structure needs no weights, and nothing is fetched behind the user's back


def load(request: Request) -> Graph:
    mx = _mxnet()
    name = request.subject
    net = _built(name, request.arguments)
    height, width = request.size or _SIZES.get(name, _USUAL)
    with mx.name.NameManager():  # counts anew, so that the same network always has the same names
        symbol = net(mx.sym.var("data"))
    shapes = _shapes(symbol, (1, 3, height, width), name)
    learned = {key for key, parameter in net.collect_params().items() if parameter.grad_req != "null"}
    variables = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    return graph_of_symbol(
        json.loads(symbol.tojson()),
        shapes,
        name,
        prefix=net.prefix,
        learned=learned,
        values=_seeded(variables, shapes, learned) if request.weights else None,
        facts={"library": "gluon", "name": name, "version": mx.__version__},
    )


def _mxnet() -> Any:
    vars(np).setdefault("bool", bool)  # an alias that numpy 1.24 dropped and MXNet 1.9.1 reads when imported
    try:
        import mxnet
    except ImportError as error:
        raise ModelError(f"MXNet cannot be imported: {str(error).splitlines()[0]}.") from error
    return mxnet


def _built(name: str, arguments: Mapping[str, Any]) -> Any:
    from mxnet.gluon.model_zoo import vision

    try:
        return vision.get_model(name, **{**plain_arguments(arguments), **_NEVER})
    except ValueError as error:  # its message lists the models, one a line
        known = [line.strip() for line in str(error).splitlines()[1:]]
        if not known:
            raise ModelError(f"The gluon zoo cannot build {name}: {error}.") from error
        close = difflib.get_close_matches(name, known, n=3) or known[:6]
        raise ModelError(f"The gluon zoo has no model {name!r}.", hint=f"It has {', '.join(close)}.") from error
    except (TypeError, AssertionError) as error:
        raise ModelError(f"The gluon zoo cannot build {name} with {dict(arguments)}: {error}.") from error


def _shapes(symbol: Any, image: Shape, name: str) -> dict[str, Shape]:
    """The shape of every value and variable, by MXNet's names for them."""
    inside = symbol.get_internals()
    try:
        _, shapes, _ = inside.infer_shape(data=image)
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if "Error" in line), str(error)[:200]).strip()
        raise ModelError(f"{name} does not take an image of {image[2]}×{image[3]}: {reason[:200]}") from error
    return {key: tuple(shape) for key, shape in zip(inside.list_outputs(), shapes, strict=True)}


def _seeded(variables: Iterable[str], shapes: Mapping[str, Shape], learned: set[str]) -> dict[str, Array]:
    """Values that keep activations in range and make every parameter count, so that a wrong use of one shows."""
    random = np.random.default_rng(_SEED)
    return {key: _drawn(random, key, shapes[key], key in learned) for key in variables if key != "data"}


def _drawn(random: np.random.Generator, key: str, shape: Shape, learned: bool) -> Array:
    if key.endswith(("_running_var", "_gamma")):
        values = random.uniform(0.5, 1.5, shape) if learned or key.endswith("var") else np.ones(shape)
    elif key.endswith("_running_mean") or (learned and len(shape) == 1):
        values = random.normal(0, 0.1, shape)
    elif learned:
        values = random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
    else:
        values = np.zeros(shape)
    return values.astype(np.float32)


GLUON: Final = Importer(load, ("mxnet",), environment=("mxnet==1.9.1", "numpy<1.24"))
