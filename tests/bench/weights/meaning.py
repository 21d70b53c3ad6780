"""What is fitted to pairs of notes read together: the last layers of the cross-encoder, with JAX.

Its layers up to the one whose states memory reads are left as they are; the others begin as they are in its
file, and learn from the pairs of bench-claims whether the later note changes what the earlier one says.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import numpy_helper

from services.memory.classifier import Classifier, Description
from services.memory.retrieval.deep_search import MODEL, RERANKER, STATES, Reranker
from shared.settings import load
from tests.bench.claims.samples import Sample, read_meanings
from tests.bench.weights import fingerprint
from tests.bench.weights.graphs import Graph, Matrix, share

HEADS, EPSILON, STEPPED = 12, 1e-12, 8
"""Heads of attention, what LayerNorm adds, and to a multiple of how many tokens texts are filled up."""
EPOCHS, BATCH, RATE, DECAY, DROPPED, WARM = 1.5, 32, 2e-4, 0.01, 0.05, 0.1
"""Rounds over all pairs, pairs of a step, the highest rate and how it begins, the decay of weights, and the
share of states that are dropped while it learns."""
SOFT = 0.02
"""How far from certain the labels are: some of the pairs can be argued about."""
Weights = dict[str, Any]


def read_layers(path: Path) -> tuple[list[Weights], Weights]:
    """The weights of the layers behind STATES, and of the pooler, as whole numbers times their scale."""
    graph = onnx.load(path).graph
    held = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    makes = {name: node for node in graph.node for name in node.output}
    found = {name: value for name, value in held.items() if value.dtype == np.float32 and value.ndim}
    for node in graph.node:
        bias = next((name for name in node.input if name.endswith("dense.bias") or _is_bias(name)), "")
        if node.op_type == "Add" and bias in held:
            found[bias.removesuffix("bias") + "weight"] = _read_weights(node, held, makes)
    first = int(STATES.split("layer.")[1].split("/")[0]) + 1
    count = 1 + max(int(name.split("layer.")[1].split(".")[0]) for name in found if "layer." in name)
    layers = [_under(found, f"bert.encoder.layer.{place}.") for place in range(first, count)]
    return layers, _under(found, "bert.pooler.dense.")


def _is_bias(name: str) -> bool:
    return name.endswith((".query.bias", ".key.bias", ".value.bias"))


def _read_weights(node: Any, held: dict[str, Matrix], makes: dict[str, Any]) -> Matrix:
    """The weights of the product to which a step adds a bias: those of the nearest product before it."""
    waiting = [node]
    while True:
        node = waiting.pop(0)
        if node.op_type == "MatMulInteger":
            name = next(each for each in node.input if each in held and each.endswith("_quantized"))
            name = name.removesuffix("_quantized")
            whole = held[f"{name}_quantized"].astype(np.float32) - held[f"{name}_zero_point"]
            return (whole * held[f"{name}_scale"]).astype(np.float32)
        waiting += [makes[name] for name in node.input if name in makes]


def _under(found: dict[str, Matrix], prefix: str) -> Weights:
    return {
        name.removeprefix(prefix): jnp.asarray(value)
        for name, value in found.items()
        if name.startswith(prefix)
    }


def score(weights: Weights, states: Any, mask: Any, key: Any = None) -> Any:
    """The log-odds of each pair; with a ``key`` as it learns, with some states dropped."""
    hidden, hides = states.astype(jnp.float32), (1 - mask)[:, None, None, :] * -1e4
    for layer in weights["layers"]:
        asked = 1 if layer is weights["layers"][-1] else None  # of the last one only its first row is read
        hidden = _pass(layer, hidden, hides, asked)
        if key is not None:
            key, mine = jax.random.split(key)
            hidden = hidden * jax.random.bernoulli(mine, 1 - DROPPED, hidden.shape) / (1 - DROPPED)
    pooled = jnp.tanh(_weigh(weights["pooler"], "", hidden[:, 0]))
    return pooled @ weights["last"] + weights["bias"]


def _weigh(weights: Weights, name: str, rows: Any) -> Any:
    return rows @ weights[f"{name}weight"] + weights[f"{name}bias"]


def _pass(layer: Weights, rows: Any, hides: Any, asked: int | None = None) -> Any:
    """What a layer makes of rows: of so many of the first of them, or of all."""
    count, _, wide = rows.shape
    given = {"query": rows[:, :asked], "key": rows, "value": rows}
    heads = [
        _weigh(layer, f"attention.self.{name}.", each)
        .reshape(count, -1, HEADS, wide // HEADS)
        .transpose(0, 2, 1, 3)
        for name, each in given.items()
    ]
    rows = rows[:, :asked]
    near = jax.nn.softmax(heads[0] @ heads[1].swapaxes(2, 3) / np.sqrt(wide // HEADS) + hides)
    seen = (near @ heads[2]).transpose(0, 2, 1, 3).reshape(count, -1, wide)
    rows = _norm(layer, "attention.output.", rows + _weigh(layer, "attention.output.dense.", seen))
    more = jax.nn.gelu(_weigh(layer, "intermediate.dense.", rows), approximate=False)
    return _norm(layer, "output.", rows + _weigh(layer, "output.dense.", more))


def _norm(layer: Weights, name: str, rows: Any) -> Any:
    rows = rows - rows.mean(-1, keepdims=True)
    rows = rows / jnp.sqrt((rows**2).mean(-1, keepdims=True) + EPSILON)
    return rows * layer[f"{name}LayerNorm.weight"] + layer[f"{name}LayerNorm.bias"]


def read_states(samples: Sequence[Sample]) -> list[Matrix]:
    """What memory's model makes of each pair, a row a token."""
    reranker = Reranker(load().models)
    return [reranker.states(sample.older, sample.newer).astype(np.float16) for sample in samples]


def fit_meaning(path: Path) -> None:
    """Let the last layers learn from all pairs, and write them."""
    samples = read_meanings()
    states = read_states(samples)
    layers, pooler = read_layers(load().models / RERANKER / MODEL)
    wide = len(pooler["bias"])
    weights = {"layers": layers, "pooler": pooler, "last": jnp.zeros(wide), "bias": jnp.zeros(())}
    labels = np.array([sample.label == "replaces" for sample in samples], np.float32)
    shares = np.array([sample.weight for sample in samples], np.float32)
    steps = int(EPOCHS * (len(samples) // BATCH))
    moments = [jax.tree.map(jnp.zeros_like, weights) for _ in range(2)]
    keys = jax.random.split(jax.random.PRNGKey(0), steps)
    for step, batch in zip(range(steps), _batch(states), strict=False):
        rows, mask = _fill([states[place] for place in batch])
        given = rows, mask, labels[batch], shares[batch], keys[step]
        weights, moments = _step(weights, moments, _rate(step, steps), step + 1.0, given)
    _write(path, jax.tree.map(np.asarray, weights))


def _rate(step: int, steps: int) -> float:
    """It rises at the beginning and falls as half a cosine."""
    rise = WARM * steps
    return RATE * min(step / rise, 0.5 + 0.5 * np.cos(np.pi * max(0.0, step - rise) / (steps - rise)))


def _batch(states: Sequence[Matrix]) -> Iterator[Matrix]:
    """The places of the pairs of each step, of like length, in another order each time."""
    random, lengths = np.random.default_rng(0), np.array([len(each) for each in states])
    while True:
        order = random.permutation(len(states))
        parts = [part[np.argsort(lengths[part])] for part in np.array_split(order, 1 + len(order) // 320)]
        batches = [part[at : at + BATCH] for part in parts for at in range(0, len(part) - BATCH + 1, BATCH)]
        for place in random.permutation(len(batches)):
            yield batches[place]


def _fill(states: Sequence[Matrix]) -> tuple[Matrix, Matrix]:
    tokens = -(-max(map(len, states)) // STEPPED) * STEPPED
    rows = np.zeros((len(states), tokens, states[0].shape[1]), np.float16)
    mask = np.zeros((len(states), tokens), np.float32)
    for place, each in enumerate(states):
        rows[place, : len(each)], mask[place, : len(each)] = each, 1
    return rows, mask


@jax.jit
def _step(weights: Weights, moments: Any, rate: Any, number: Any, given: Any) -> Any:
    """A step of AdamW."""
    slopes = jax.grad(_loss)(weights, *given)
    first = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moments[0], slopes)
    second = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, moments[1], slopes)

    def move(held: Any, one: Any, two: Any) -> Any:
        one, two = one / (1 - 0.9**number), two / (1 - 0.999**number)
        return held - rate * (one / (jnp.sqrt(two) + 1e-8) + DECAY * held)

    return jax.tree.map(move, weights, first, second), [first, second]


def _loss(weights: Weights, states: Any, mask: Any, labels: Any, shares: Any, key: Any) -> Any:
    odds, wanted = score(weights, states, mask, key), labels * (1 - 2 * SOFT) + SOFT
    return (shares * (jnp.logaddexp(0, odds) - odds * wanted)).sum() / shares.sum()


def _write(path: Path, weights: Weights) -> None:
    wide = len(weights["last"])
    graph = Graph(states=wide)
    rows = "states"
    for layer in weights["layers"]:
        rows = _write_layer(graph, layer, rows, first_only=layer is weights["layers"][-1])
    first = graph.add("Reshape", rows, graph.hold(np.array([-1, wide])))
    pooler = weights["pooler"]
    pooled = graph.add("Tanh", graph.weigh_small(first, pooler["weight"], pooler["bias"]))
    odds = graph.weigh(pooled, graph.hold(weights["last"][:, None]), weights["bias"][None])
    graph.write(path, odds, Description(labels=("log_odds",), fitted_to=fingerprint("meaning")))


def _write_layer(graph: Graph, layer: Weights, rows: str, *, first_only: bool) -> str:
    """What ``_pass`` does, of all rows or only of the first."""
    wide = len(layer["output.dense.bias"])
    split = graph.hold(np.array([0, -1, HEADS, wide // HEADS]))
    whole, narrow = graph.hold(np.array([0, -1, wide])), graph.hold(np.float32(np.sqrt(wide // HEADS)))

    def weigh(name: str, given: str) -> str:
        return graph.weigh_small(given, layer[f"{name}weight"], layer[f"{name}bias"])

    def norm(name: str, given: str, more: str) -> str:
        scale, bias = (graph.hold(layer[f"{name}LayerNorm.{each}"]) for each in ("weight", "bias"))
        added = graph.add("Add", given, more)
        return graph.add("LayerNormalization", added, scale, bias, axis=-1, epsilon=EPSILON)

    asking = graph.add("Gather", rows, graph.hold(np.array([0])), axis=1) if first_only else rows
    given = {"query": asking, "key": rows, "value": rows}
    heads = [
        graph.add("Reshape", weigh(f"attention.self.{name}.", each), split) for name, each in given.items()
    ]
    turns = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    asks, tells, means = (
        graph.add("Transpose", head, perm=turn) for head, turn in zip(heads, turns, strict=True)
    )
    near = graph.add("Softmax", graph.add("Div", graph.add("MatMul", asks, tells), narrow), axis=-1)
    seen = graph.add("Transpose", graph.add("MatMul", near, means), perm=[0, 2, 1, 3])
    seen = weigh("attention.output.dense.", graph.add("Reshape", seen, whole))
    rows = norm("attention.output.", asking, seen)
    more = graph.add("Gelu", weigh("intermediate.dense.", rows))
    return norm("output.", rows, weigh("output.dense.", more))


def judge_meaning(classifier: Classifier) -> dict[str, float]:
    """How many held-back pairs have the right side of even odds, in percent."""
    held = read_meanings("held")
    told = [
        float(classifier.score(states=rows[None].astype(np.float32))[0, 0]) > 0 for rows in read_states(held)
    ]
    pairs = [(sample.label == "replaces", one) for sample, one in zip(held, told, strict=True)]
    return {
        "held changes": share([one for wanted, one in pairs if wanted]),
        "held apart": share([not one for wanted, one in pairs if not wanted]),
    }
