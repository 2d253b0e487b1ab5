"""Recurrent layers and attention: faithful ports, of which none is accused, and ports with one mistake each."""

from __future__ import annotations

import pytest

from zoolens.base.verdicts import Outcome
from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_lines

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
jax = pytest.importorskip("jax")
linen = pytest.importorskip("flax.linen")
nnx = pytest.importorskip("flax.nnx")
nn, kl, ops, jnp = torch.nn, keras.layers, keras.ops, jax.numpy
pytestmark = pytest.mark.slow

STEPS, WIDTH, HIDDEN, WORDS = 5, 3, 4, 11
SEQUENCE = (STEPS, WIDTH)
INPUT, TOKENS = f"{STEPS}x{WIDTH}", "int:7"


class Uses(nn.Module):
    """Modules, and how they are used."""

    def __init__(self, use, **modules):
        super().__init__()
        self.used = nn.ModuleDict(modules)
        self.use = use

    def forward(self, *given):
        return self.use(*given, **self.used)


def states(module):
    """All states of a recurrent module."""
    return Uses(lambda x, layer: layer(x)[0], layer=module)


def last(module):
    """The state after the last step, of the last layer."""
    return Uses(lambda x, layer: _hidden(layer(x)[1])[-1], layer=module)


def _hidden(final):
    return final[0] if isinstance(final, tuple) else final


def both_ends(module):
    """The last states of both directions."""
    return Uses(lambda x, layer: torch.cat(list(_hidden(layer(x)[1])[-2:]), 1), layer=module)


def lstm(**options):
    return nn.LSTM(WIDTH, HIDDEN, batch_first=True, **options)


def gru(**options):
    return nn.GRU(WIDTH, HIDDEN, batch_first=True, **options)


def rnn(**options):
    return nn.RNN(WIDTH, HIDDEN, batch_first=True, **options)


def port(*layers, shape=SEQUENCE, dtype=None):
    return keras.Sequential([keras.Input(shape, dtype=dtype), *layers])


def functional(use, *shapes, dtype=None):
    given = [keras.Input(shape, dtype=dtype) for shape in shapes or (SEQUENCE,)]
    return keras.Model(given if len(given) > 1 else given[0], use(*given))


def flax(module, shape=SEQUENCE):
    return module, module.init(jax.random.key(0), jnp.zeros((1, *shape)))


def attends(width=8, heads=2, **options):
    """Self-attention of torch, without its weights."""
    mask = options.pop("mask", None)
    layer = nn.MultiheadAttention(width, heads, batch_first=True, **options)
    hidden = None if mask is None else torch.triu(torch.ones(STEPS, STEPS, dtype=torch.bool), mask)
    return Uses(lambda x, layer: layer(x, x, x, need_weights=False, attn_mask=hidden)[0], layer=layer)


def attention(width=8, heads=2, use=None, **options):
    options = {"num_heads": heads, "key_dim": width // heads, **options}
    call = use or (lambda layer, x: layer(x, x))
    return functional(lambda x: call(kl.MultiHeadAttention(**options), x), (STEPS, width))


WIDE = f"{STEPS}x8"


class Tied(keras.Model):
    """An embedding whose table also makes the scores."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.table, self.dense, self.factor = kl.Embedding(WORDS, 5), kl.Dense(5), factor

    def call(self, x):
        return ops.matmul(self.dense(self.table(x)), ops.transpose(self.table.embeddings)) * self.factor


def tied():
    modules = {"table": nn.Embedding(WORDS, 5), "dense": nn.Linear(5, 5)}
    return Uses(lambda x, table, dense: dense(table(x)) @ table.weight.T, **modules)


def translates():
    """An encoder, and a decoder that begins with its state."""

    def use(x, encoder, decoder):
        _, final = encoder(x)
        return decoder(x, final)[0]

    return Uses(use, encoder=lstm(), decoder=lstm())


def translated(x, swap=False, give=True):
    _, state, cell = kl.LSTM(HIDDEN, return_state=True)(x)
    first = [cell, state] if swap else [state, cell]
    return kl.LSTM(HIDDEN, return_sequences=True)(x, initial_state=first if give else None)


def encoder_layer():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


def encoded(x, *, before=False, epsilon=1e-5, activation="relu", shortcut=True):
    attended = kl.MultiHeadAttention(2, 4)
    norms = [kl.LayerNormalization(epsilon=epsilon) for _ in range(2)]
    wide, narrow = kl.Dense(16, activation=activation), kl.Dense(8)
    if before:
        y = norms[0](x)
        x = x + attended(y, y)
        return x + narrow(wide(norms[1](x)))
    x = norms[0](x + attended(x, x) if shortcut else attended(x, x))
    return norms[1](x + narrow(wide(x)))


def causal(layer, x):
    return layer(x, x, use_causal_mask=True)


def crosses():
    layer = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
    return Uses(lambda x, y, layer: layer(x, y, y, need_weights=False)[0], layer=layer)


def masked_keys(embeds):
    """Attention that hides padding, and the mean over the rest."""
    modules = {"table": nn.Embedding(WORDS, 8), "layer": nn.MultiheadAttention(8, 2, batch_first=True)}

    def use(tokens, table, layer):
        x = table(tokens)
        padding = tokens == 0
        y = layer(x, x, x, key_padding_mask=padding if embeds else None, need_weights=False)[0]
        kept = (~padding).unsqueeze(-1).to(y.dtype)
        return (y * kept).sum(1) / kept.sum(1)

    return Uses(use, **modules)


def masked_port(tokens, hides=True, implicit=False):
    x = kl.Embedding(WORDS, 8, mask_zero=implicit)(tokens)
    seen = tokens != 0
    mask = ops.expand_dims(seen, 1) if hides and not implicit else None
    y = kl.MultiHeadAttention(2, 4)(x, x, attention_mask=mask)
    kept = ops.expand_dims(ops.cast(seen, "float32"), -1)
    return ops.sum(y * kept, axis=1) / ops.sum(kept, axis=1)


# name -> inputs, A, B
FAITHFUL = {
    "LSTM, states": ([INPUT], lambda: states(lstm()), lambda: port(kl.LSTM(HIDDEN, return_sequences=True))),
    "LSTM, last state": ([INPUT], lambda: last(lstm()), lambda: port(kl.LSTM(HIDDEN))),
    "LSTM without biases": ([INPUT], lambda: last(lstm(bias=False)), lambda: port(kl.LSTM(HIDDEN, use_bias=False))),
    "LSTM from Keras": ([INPUT], lambda: port(kl.LSTM(HIDDEN)), lambda: last(lstm())),
    "LSTM, steps first": (
        [INPUT],
        lambda: Uses(lambda x, layer: layer(x.transpose(0, 1))[0][-1], layer=nn.LSTM(WIDTH, HIDDEN)),
        lambda: port(kl.LSTM(HIDDEN)),
    ),
    "GRU": ([INPUT], lambda: states(gru()), lambda: port(kl.GRU(HIDDEN, return_sequences=True))),
    "GRU from Keras": ([INPUT], lambda: port(kl.GRU(HIDDEN)), lambda: last(gru())),
    "RNN": ([INPUT], lambda: states(rnn()), lambda: port(kl.SimpleRNN(HIDDEN, return_sequences=True))),
    "RNN with ReLU": (
        [INPUT], lambda: last(rnn(nonlinearity="relu")), lambda: port(kl.SimpleRNN(HIDDEN, activation="relu")),
    ),
    "two LSTMs": (
        [INPUT],
        lambda: last(lstm(num_layers=2)),
        lambda: port(kl.LSTM(HIDDEN, return_sequences=True), kl.LSTM(HIDDEN)),
    ),
    "stacked cells": (
        [INPUT],
        lambda: states(gru(num_layers=2)),
        lambda: port(kl.RNN([kl.GRUCell(HIDDEN), kl.GRUCell(HIDDEN)], return_sequences=True)),
    ),
    "bidirectional LSTM": (
        [INPUT],
        lambda: states(lstm(bidirectional=True)),
        lambda: port(kl.Bidirectional(kl.LSTM(HIDDEN, return_sequences=True))),
    ),
    "bidirectional LSTM, last states": (
        [INPUT], lambda: both_ends(lstm(bidirectional=True)), lambda: port(kl.Bidirectional(kl.LSTM(HIDDEN))),
    ),
    "two bidirectional GRUs": (
        [INPUT],
        lambda: states(gru(num_layers=2, bidirectional=True)),
        lambda: port(*(kl.Bidirectional(kl.GRU(HIDDEN, return_sequences=True)) for _ in range(2))),
    ),
    "from the end": (
        [INPUT],
        lambda: Uses(lambda x, layer: layer(x.flip(1))[0], layer=gru()),
        lambda: port(kl.GRU(HIDDEN, go_backwards=True, return_sequences=True)),
    ),
    "encoder and decoder": ([INPUT], translates, lambda: functional(translated)),
    "tagger": (
        [TOKENS],
        lambda: Uses(
            lambda x, table, layer, head: head(layer(table(x))[0]),
            table=nn.Embedding(WORDS, WIDTH), layer=lstm(bidirectional=True), head=nn.Linear(2 * HIDDEN, 3),
        ),
        lambda: port(
            kl.Embedding(WORDS, WIDTH), kl.Bidirectional(kl.LSTM(HIDDEN, return_sequences=True)),
            kl.TimeDistributed(kl.Dense(3)), shape=(7,), dtype="int32",
        ),
    ),
    "LSTM in Flax": ([INPUT], lambda: states(lstm()), lambda: flax(linen.RNN(linen.LSTMCell(HIDDEN)))),
    "LSTM in Flax, packed": (
        [INPUT], lambda: states(lstm()), lambda: flax(linen.RNN(linen.OptimizedLSTMCell(HIDDEN))),
    ),
    "GRU in Flax": ([INPUT], lambda: states(gru()), lambda: flax(linen.RNN(linen.GRUCell(HIDDEN)))),
    "GRU of Flax in torch": ([INPUT], lambda: flax(linen.RNN(linen.GRUCell(HIDDEN))), lambda: states(gru())),
    "RNN in Flax": ([INPUT], lambda: states(rnn()), lambda: flax(linen.RNN(linen.SimpleCell(HIDDEN)))),
    "bidirectional LSTM in Flax": (
        [INPUT],
        lambda: states(lstm(bidirectional=True)),
        lambda: flax(linen.Bidirectional(linen.RNN(linen.LSTMCell(HIDDEN)), linen.RNN(linen.LSTMCell(HIDDEN)))),
    ),
    "LSTM in nnx": (
        [INPUT], lambda: states(lstm()), lambda: nnx.RNN(nnx.LSTMCell(WIDTH, HIDDEN, rngs=nnx.Rngs(0))),
    ),
    "LSTM of Keras in nnx": (
        [INPUT],
        lambda: port(kl.LSTM(HIDDEN, return_sequences=True)),
        lambda: nnx.RNN(nnx.OptimizedLSTMCell(WIDTH, HIDDEN, rngs=nnx.Rngs(0))),
    ),
    "self-attention": ([WIDE], attends, attention),
    "self-attention from Keras": ([WIDE], attention, attends),
    "causal attention": ([WIDE], lambda: attends(mask=1), lambda: attention(use=causal)),
    "attention without biases": ([WIDE], lambda: attends(bias=False), lambda: attention(use_bias=False)),
    "cross attention": (
        [WIDE, "4x6"],
        crosses,
        lambda: functional(lambda x, y: kl.MultiHeadAttention(2, 4)(x, y), (STEPS, 8), (4, 6)),
    ),
    "hidden padding": (
        [TOKENS], lambda: masked_keys(True), lambda: functional(masked_port, (7,), dtype="int32"),
    ),
    "encoder layer": ([WIDE], encoder_layer, lambda: functional(encoded, (STEPS, 8))),
    "grouped queries": (
        [WIDE], lambda: Grouped(), lambda: functional(lambda x: kl.GroupQueryAttention(4, 4, 2)(x, x), (STEPS, 8)),
    ),
    "attention in Flax": (
        [WIDE],
        attends,
        lambda: flax(linen.MultiHeadDotProductAttention(2, qkv_features=8), (STEPS, 8)),
    ),
    "tied embedding": ([TOKENS], tied, Tied),
    "gated unit by a split": (
        [INPUT],
        lambda: Uses(lambda x, layer: nn.functional.glu(layer(x)), layer=nn.Linear(WIDTH, 8)),
        lambda: functional(lambda x: gated(*ops.split(kl.Dense(8)(x), 2, axis=-1))),
    ),
    "convolution over steps": (
        ["3x9"],
        lambda: nn.Sequential(
            nn.Conv1d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool1d(3), nn.Flatten(), nn.Linear(12, 2)
        ),
        lambda: port(kl.Conv1D(4, 3, padding="same", activation="relu"), kl.MaxPooling1D(3), kl.Flatten(), kl.Dense(2),
                     shape=(9, 3)),
    ),
    "causal convolution": (
        ["3x9"],
        lambda: nn.Sequential(nn.ConstantPad1d((4, 0), 0.0), nn.Conv1d(3, 4, 3, dilation=2)),
        lambda: port(kl.Conv1D(4, 3, dilation_rate=2, padding="causal"), shape=(9, 3)),
    ),
}  # fmt: skip


class Grouped(nn.Module):
    """Four heads of queries that share two of keys and values."""

    def __init__(self, interleaved=False):
        super().__init__()
        self.query, self.key, self.value, self.out = (
            nn.Linear(8, 16),
            nn.Linear(8, 8),
            nn.Linear(8, 8),
            nn.Linear(16, 8),
        )
        self.interleaved = interleaved

    def forward(self, x):
        count, steps, _ = x.shape
        q = self.query(x).view(count, steps, 4, 4).transpose(1, 2)
        k, v = (each(x).view(count, steps, 2, 4).transpose(1, 2) for each in (self.key, self.value))
        k, v = (each.repeat(1, 2, 1, 1) if self.interleaved else each.repeat_interleave(2, 1) for each in (k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(count, steps, 16))


def gated(a, b):
    return a * ops.sigmoid(b)


def test_a_mask_that_is_made_in_another_way_is_not_known():
    """Keras also hides the rows of padding, which the mean leaves out: the answers agree, the masks do not."""
    b = functional(lambda x: masked_port(x, implicit=True), (7,), dtype="int32")
    found = check(masked_keys(True), b, [TOKENS])
    assert found.agreement.agree is True
    assert found.verdict.outcome is Outcome.NOT_KNOWN


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_faithful_port_is_not_accused(name):
    inputs, a, b = FAITHFUL[name]
    found = check(a(), b(), inputs)
    assert found.same, "\n".join(check_lines(found))


def lstm_port(**options):
    return port(kl.LSTM(HIDDEN, return_sequences=True, **options))


def gru_port(**options):
    return port(kl.GRU(HIDDEN, return_sequences=True, **options))


def both_ways(layer=None, **options):
    return port(kl.Bidirectional(layer or kl.LSTM(HIDDEN, return_sequences=True), **options))


def embedded(recurrent, **options):
    return port(kl.Embedding(WORDS, WIDTH, **options), recurrent, shape=(7,), dtype="int32")


def embeds(module):
    return Uses(lambda x, table, layer: _hidden(layer(table(x))[1])[-1], table=nn.Embedding(WORDS, WIDTH), layer=module)


def scanned(cell):
    """A recurrent layer of JAX that is written by hand."""

    class Scanned(linen.Module):
        @linen.compact
        def __call__(self, x):
            draw = linen.initializers.normal(0.5)
            width = 4 if cell is not plain_cell else 1
            kernels = [self.param(name, draw, (rows, width * HIDDEN)) for name, rows in (("w", WIDTH), ("u", HIDDEN))]
            bias = self.param("b", draw, (width * HIDDEN,))

            def step(carry, given):
                return cell(carry, given @ kernels[0] + carry[-1] @ kernels[1] + bias)

            start = tuple(jnp.zeros((x.shape[0], HIDDEN)) for _ in range(2 if cell is not plain_cell else 1))
            _, made = jax.lax.scan(step, start, x.transpose(1, 0, 2))
            return made.transpose(1, 0, 2)

    return flax(Scanned())


def plain_cell(carry, total):
    state = jnp.tanh(total)
    return (state,), state


def lstm_cell(carry, total, gate=jax.nn.sigmoid, shown=jnp.tanh, candidate=jnp.tanh):
    given, kept, new, output = jnp.split(total, 4, axis=-1)
    cell = gate(kept) * carry[0] + gate(given) * candidate(new)
    state = gate(output) * shown(cell)
    return (cell, state), state


# name -> inputs, A, B, what the check says
MISTAKES = {
    "GRU reset before its product": ([INPUT], lambda: states(gru()), lambda: gru_port(reset_after=False), "reset"),
    "other activation of the gates": (
        [INPUT], lambda: states(lstm()), lambda: lstm_port(recurrent_activation="hard_sigmoid"), "hard_sigmoid",
    ),
    "other activation of a GRU's gates": (
        [INPUT], lambda: states(gru()), lambda: gru_port(recurrent_activation="hard_sigmoid"), "hard_sigmoid",
    ),
    "ReLU for tanh": ([INPUT], lambda: states(lstm()), lambda: lstm_port(activation="relu"), "activation relu"),
    "tanh for ReLU": (
        [INPUT],
        lambda: states(rnn(nonlinearity="relu")),
        lambda: port(kl.SimpleRNN(HIDDEN, return_sequences=True)),
        "activation tanh",
    ),
    "GRU for LSTM": ([INPUT], lambda: states(lstm()), lambda: gru_port(), "kind gru"),
    "RNN for GRU": (
        [INPUT], lambda: states(gru()), lambda: port(kl.SimpleRNN(HIDDEN, return_sequences=True)), "kind rnn",
    ),
    "biases missing": ([INPUT], lambda: states(lstm()), lambda: lstm_port(use_bias=False), "bias"),
    "biases added": ([INPUT], lambda: states(lstm(bias=False)), lambda: lstm_port(), "bias"),
    "bias of the new gate missing, in nnx": (
        [INPUT],
        lambda: states(gru()),
        lambda: nnx.RNN(nnx.GRUCell(WIDTH, HIDDEN, rngs=nnx.Rngs(0))),
        "bias",
    ),
    "one layer too few": (
        [INPUT], lambda: states(lstm(num_layers=2)), lambda: lstm_port(), "recurrent layer only in",
    ),
    "one layer too many": (
        [INPUT],
        lambda: states(gru()),
        lambda: port(*(kl.GRU(HIDDEN, return_sequences=True) for _ in range(2))),
        "recurrent layer only in",
    ),
    "wider state": ([INPUT], lambda: last(lstm()), lambda: port(kl.LSTM(6)), "width"),
    "from the end": ([INPUT], lambda: last(lstm()), lambda: port(kl.LSTM(HIDDEN, go_backwards=True)), "reverse True"),
    "one direction only": (
        [INPUT],
        lambda: states(lstm(bidirectional=True)),
        lambda: port(kl.LSTM(2 * HIDDEN, return_sequences=True)),
        "recurrent layer",
    ),
    "directions added up": (
        [INPUT], lambda: states(lstm(bidirectional=True)), lambda: both_ways(merge_mode="sum"), "add",
    ),
    "directions averaged": (
        [INPUT], lambda: states(lstm(bidirectional=True)), lambda: both_ways(merge_mode="ave"), "concat",
    ),
    "way back not turned round": (
        [INPUT],
        lambda: states(gru(bidirectional=True)),
        lambda: functional(lambda x: ops.concatenate([
            kl.GRU(HIDDEN, return_sequences=True)(x), kl.GRU(HIDDEN, return_sequences=True, go_backwards=True)(x),
        ], axis=-1)),
        "gather",
    ),
    "last place for the last state": (
        [INPUT],
        lambda: both_ends(lstm(bidirectional=True)),
        lambda: functional(lambda x: kl.Bidirectional(kl.LSTM(HIDDEN, return_sequences=True))(x)[:, -1]),
        "slice",
    ),
    "first state for the last": (
        [INPUT], lambda: last(lstm()), lambda: functional(
            lambda x: kl.LSTM(HIDDEN, return_sequences=True)(x)[:, 0]), "slice start 0",
    ),
    "all states for the last": ([INPUT], lambda: last(gru()), lambda: gru_port(), "other shapes"),
    "cell for the state": (
        [INPUT], lambda: last(lstm()), lambda: functional(lambda x: kl.LSTM(HIDDEN, return_state=True)(x)[2]),
        "gives cell",
    ),
    "state and cell exchanged": (
        [INPUT], translates, lambda: functional(lambda x: translated(x, swap=True)), "part first at used.decoder",
    ),
    "decoder without its first state": (
        [INPUT], translates, lambda: functional(lambda x: translated(x, give=False)), "given nothing",
    ),
    "padding hidden": (
        [TOKENS], lambda: embeds(lstm()), lambda: embedded(kl.LSTM(HIDDEN), mask_zero=True), "given a mask",
    ),
    "padding of a GRU hidden": (
        [TOKENS], lambda: embeds(gru()), lambda: embedded(kl.GRU(HIDDEN), mask_zero=True), "given a mask",
    ),
    "dropout of states": (
        [INPUT], lambda: states(lstm()), lambda: lstm_port(recurrent_dropout=0.2), "states of a recurrent layer",
    ),
    "dropout between layers forgotten": (
        [INPUT],
        lambda: states(lstm(num_layers=2, dropout=0.3)),
        lambda: port(*(kl.LSTM(HIDDEN, return_sequences=True) for _ in range(2))),
        "dropout layers: A 1 layer, rate 0.3",
    ),
    "ReLU for the gates, in JAX": (
        [INPUT],
        lambda: states(lstm()),
        lambda: scanned(lambda c, t: lstm_cell(c, t, gate=jax.nn.relu)),
        "recurrent activation relu",
    ),
    "ReLU for tanh, in JAX": (
        [INPUT],
        lambda: states(lstm()),
        lambda: scanned(lambda c, t: lstm_cell(c, t, shown=jax.nn.relu, candidate=jax.nn.relu)),
        "activation relu",
    ),
    "causal mask missing": ([WIDE], lambda: attends(mask=1), attention, "causal False"),
    "causal mask added": ([WIDE], attends, lambda: attention(use=causal), "causal True"),
    "mask one place off": ([WIDE], lambda: attends(mask=2), lambda: attention(use=causal), "causal True"),
    "padding not hidden": (
        [TOKENS],
        lambda: masked_keys(True),
        lambda: functional(lambda x: masked_port(x, hides=False), (7,), dtype="int32"),
        "masked False",
    ),
    "other number of heads": ([WIDE], attends, lambda: attention(heads=4), "heads 4"),
    "other scale": (
        [WIDE], attends, lambda: functional(lambda x: Scaled()(x), (STEPS, 8)), "scale",
    ),
    "biases of attention missing": ([WIDE], attends, lambda: attention(use_bias=False), "bias"),
    "keys and values exchanged": (
        [WIDE, "5x8"],
        lambda: Uses(lambda x, y, layer: layer(x, x, y, need_weights=False)[0],
                     layer=nn.MultiheadAttention(8, 2, batch_first=True)),
        lambda: functional(lambda x, y: kl.MultiHeadAttention(2, 4)(x, x, y), (STEPS, 8), (STEPS, 8)),
        "(attention)",
    ),
    "groups of heads interleaved": (
        [WIDE],
        lambda: Grouped(interleaved=True),
        lambda: functional(lambda x: kl.GroupQueryAttention(4, 4, 2)(x, x), (STEPS, 8)),
        "(attention)",
    ),
    "norm before attention": (
        [WIDE], encoder_layer, lambda: functional(lambda x: encoded(x, before=True), (STEPS, 8)), "the outputs differ",
    ),
    "epsilon of an encoder's norms": (
        [WIDE], encoder_layer, lambda: functional(lambda x: encoded(x, epsilon=1e-3), (STEPS, 8)), "epsilon",
    ),
    "GELU in an encoder": (
        [WIDE], encoder_layer, lambda: functional(lambda x: encoded(x, activation="gelu"), (STEPS, 8)), "gelu",
    ),
    "shortcut of an encoder missing": (
        [WIDE], encoder_layer, lambda: functional(lambda x: encoded(x, shortcut=False), (STEPS, 8)), "shortcut",
    ),
    "scores of a tied embedding scaled": ([TOKENS], tied, lambda: Tied(factor=0.5), "mul"),
    "causal padding for both sides": (
        ["3x9"],
        lambda: nn.Conv1d(3, 4, 3, padding=1),
        lambda: port(kl.Conv1D(4, 3, padding="causal"), shape=(9, 3)),
        "padding",
    ),
}  # fmt: skip


class Scaled(keras.layers.Layer):
    """Attention that divides by the width of all heads."""

    def build(self, shape):
        self.query, self.key, self.value, self.out = (kl.Dense(8) for _ in range(4))

    def call(self, x):
        q, k, v = (
            ops.transpose(ops.reshape(layer(x), (-1, STEPS, 2, 4)), (0, 2, 1, 3))
            for layer in (self.query, self.key, self.value)
        )
        scores = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / 8**0.5)
        return self.out(ops.reshape(ops.transpose(ops.matmul(scores, v), (0, 2, 1, 3)), (-1, STEPS, 8)))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    inputs, a, b, words = MISTAKES[name]
    found = check(a(), b(), inputs)
    told = "\n".join(check_lines(found))
    assert words in told, told
    assert found.verdict.outcome is Outcome.DIFFERENT or found.training, told
