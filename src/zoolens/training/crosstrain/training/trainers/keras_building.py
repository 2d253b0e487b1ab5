"""A network as a live Keras model: one built from our definition, or one that keras.applications ships.

Channels are last. A setting that is None is not passed on, so that Keras' own layer decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.network import Layer, Network
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import Semantics

Shape = tuple[int, int, int]
# What a Keras user does where our definition leaves the structure open.
HABITS: Final = Semantics(conv_bias=True, dropout=0.0, stride="1x1", padding="same")
_SHIPPED: Final = {"vgg16": "VGG16", "resnet50": "ResNet50", "densenet121": "DenseNet121"}


@dataclass(frozen=True)
class Built:
    """`layers` and `outputs` by our names: the live layers, and the symbolic tensor that each answers (the input too,
    where the network is ours)."""

    model: Any
    layers: Mapping[str, Any]
    outputs: Mapping[str, Any]

    @property
    def probe(self) -> Any:
        """Returns a model of these layers that outputs every layer's activation, the logits last."""
        import keras

        return keras.Model(self.model.inputs, list(self.outputs.values()))


def build_model(network: Network, *, blank: bool = False) -> Built:
    """`blank`: kernels are zeros until they are loaded, since drawing them costs JAX a compilation for every shape."""
    import keras

    channels, *extents = network.input_shape
    given = keras.Input((*extents, channels), name=network.layers[0].name)
    outputs: dict[str, Any] = {network.layers[0].name: given}
    layers: dict[str, Any] = {}
    for layer in network.layers[1:]:
        inputs = [outputs[name] for name in layer.inputs]
        drawn = {"kernel_initializer": "zeros"} if blank and layer.kind in ("conv", "dense") else {}
        live = _MAKERS[layer.kind](keras, layer, **drawn)
        source = inputs[0] if len(inputs) == 1 else inputs
        outputs[layer.name] = live(_padded(keras, layer, source))
        layers[layer.name] = live
    return Built(keras.Model(given, outputs[network.layers[-1].name]), layers, outputs)


def recipe_model(
    recipe: Recipe, semantics: Semantics, shape: Shape, classes: int, *, blank: bool
) -> tuple[Built, Network | None]:
    """The model that a recipe asks for, and its definition; None: it is that of keras.applications. `shape`: channels,
    height and width. `blank`: as in `build_model`."""
    if recipe.shipped:
        return shipped_model(recipe.architecture, shape, classes), None
    network = build(recipe.architecture, semantics.over(HABITS), shape, classes)
    return build_model(network, blank=blank), network


def shipped_model(architecture: str, shape: Shape, classes: int) -> Built:
    """Builds a network of keras.applications, without weights. It answers logits: the loss is taken from those in every
    mode."""
    import keras

    make = getattr(keras.applications, _SHIPPED[architecture])
    channels, *extents = shape
    model = make(weights=None, input_shape=(*extents, channels), classes=classes, classifier_activation=None)
    live = {layer.name: layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)}
    return Built(model, live, {name: layer.output for name, layer in live.items()})


def _padded(keras: Any, layer: Layer, source: Any) -> Any:
    """Symmetric padding, which Keras' layers do not have; a max pool must not see zeros at its border."""
    if layer.settings.get("padding") != "symmetric" or _same_is_symmetric(layer):
        return source
    border = layer.settings["kernel"] // 2
    if layer.kind == "max_pool":
        width = ((0, 0), (border, border), (border, border), (0, 0))
        return keras.ops.pad(source, width, mode="constant", constant_values=-math.inf)
    return keras.layers.ZeroPadding2D(border, name=f"{layer.name}_padding")(source)


def _same_is_symmetric(layer: Layer) -> bool:
    """Unstrided odd windows; an average pool differs all the same, in whether it counts the border."""
    return layer.settings["stride"] == 1 and layer.settings["kernel"] % 2 == 1 and layer.kind != "avg_pool"


def _padding(layer: Layer) -> str:
    wanted = str(layer.settings["padding"])
    if wanted != "symmetric":
        return wanted
    return "same" if _same_is_symmetric(layer) else "valid"


def _conv(keras: Any, layer: Layer, **drawn: str) -> Any:
    settings = layer.settings
    return keras.layers.Conv2D(
        settings["filters"],
        settings["kernel"],
        strides=settings["stride"],
        padding=_padding(layer),
        use_bias=settings["bias"],
        name=layer.name,
        **drawn,
    )


def _dense(keras: Any, layer: Layer, **drawn: str) -> Any:
    return keras.layers.Dense(layer.settings["units"], use_bias=layer.settings["bias"], name=layer.name, **drawn)


def _norm(keras: Any, layer: Layer) -> Any:
    settings = {key: layer.settings[key] for key in ("momentum", "epsilon") if layer.settings[key] is not None}
    return keras.layers.BatchNormalization(name=layer.name, **settings)


def _dropout(keras: Any, layer: Layer) -> Any:
    return keras.layers.Dropout(layer.settings["rate"], name=layer.name)


def _pool(kind: str) -> Callable[[Any, Layer], Any]:
    def make(keras: Any, layer: Layer) -> Any:
        settings = layer.settings
        pool = getattr(keras.layers, kind)
        return pool(settings["kernel"], strides=settings["stride"], padding=_padding(layer), name=layer.name)

    return make


def _plain(kind: str) -> Callable[[Any, Layer], Any]:
    return lambda keras, layer: getattr(keras.layers, kind)(name=layer.name)


_MAKERS: Final[Mapping[str, Callable[..., Any]]] = {
    "conv": _conv,
    "dense": _dense,
    "norm": _norm,
    "dropout": _dropout,
    "max_pool": _pool("MaxPooling2D"),
    "avg_pool": _pool("AveragePooling2D"),
    "relu": _plain("ReLU"),
    "global_avg_pool": _plain("GlobalAveragePooling2D"),
    "flatten": _plain("Flatten"),
    "add": _plain("Add"),
    "concat": _plain("Concatenate"),
}
