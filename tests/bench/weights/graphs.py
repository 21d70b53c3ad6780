"""Fitted models as files of ONNX, which memory's classifier reads."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from services.memory.classifier import Description
from tests.bench.weights import fingerprint

Matrix = npt.NDArray[Any]
OPSET, ML_OPSET, IR_VERSION = 21, 5, 10  # what onnxruntime 1.20 and later read
LESS_OR_EQUAL = 0  # the mode of TreeEnsemble by which a value at a threshold goes to the left


class Graph:
    """A graph that is written from its inputs on; the result of a step is given by its name."""

    def __init__(self, *, features: int = 0, vectors: int = 0, states: int = 0) -> None:
        wide = {
            "features": ["rows", features],
            "vectors": ["rows", vectors],
            "states": ["rows", "tokens", states],
        }
        self._inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
            for name, sizes in wide.items()
            if sizes[-1]
        ]
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(
        self,
        operator: str,
        *inputs: str,
        domain: str = "",
        output: str = "",
        more: int = 0,
        **attributes: Any,
    ) -> str:
        """A step, by its operator of ONNX; returns the name of its result, the first of some if it has
        ``more`` of them: the others have ".1" and so on behind it.
        """
        output = output or f"{operator}{len(self._nodes)}"
        outputs = [output, *(f"{output}.{number + 1}" for number in range(more))]
        self._nodes.append(
            helper.make_node(operator, [*inputs], outputs, name=output, domain=domain, **attributes)
        )
        return output

    def hold(self, values: Matrix) -> str:
        """A constant; returns its name."""
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def hold_small(self, values: Matrix) -> str:
        """A constant of float numbers, a byte each."""
        scale = np.float32(np.abs(values).max() / 127 or 1)
        small = np.round(values / scale).astype(np.int8)
        return self.add("DequantizeLinear", self.hold(small), self.hold(scale))

    def weigh_small(self, rows: str, weights: Matrix, bias: Matrix) -> str:
        """Rows times weights, plus ``bias``, in whole numbers: a byte each, with a scale for each column."""
        scales = (np.abs(weights).max(0) / 127).astype(np.float32)
        held = self.hold(np.round(weights / np.where(scales, scales, 1)).astype(np.int8))
        small = self.add("DynamicQuantizeLinear", rows, more=2)
        product = self.add("MatMulInteger", small, held, f"{small}.2")
        scaled = self.add(
            "Mul",
            self.add("Cast", product, to=TensorProto.FLOAT),
            self.add("Mul", f"{small}.1", self.hold(scales)),
        )
        return self.add("Add", scaled, self.hold(bias.astype(np.float32)))

    def weigh(self, rows: str, weights: str, bias: Matrix | None = None) -> str:
        """Rows times weights, plus ``bias``."""
        product = self.add("MatMul", rows, weights)
        return product if bias is None else self.add("Add", product, self.hold(bias.astype(np.float32)))

    def write(self, path: Path, scores: str, description: Description) -> None:
        """Write the file, of which ``scores`` is the result."""
        self.add("Identity", scores, output="scores")
        output = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["rows", len(description.labels)])
        graph = helper.make_graph(self._nodes, path.stem, self._inputs, [output], self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="mailroom"
        )
        helper.set_model_props(model, {"description": msgspec.json.encode(description).decode()})
        onnx.checker.check_model(model)
        path.write_bytes(model.SerializeToString())


def add_trees(graph: Graph, trees: Sequence[Any], rate: float, start: float) -> str:
    """The sum of ``start`` and ``rate`` times the values of regression trees as scikit-learn has them."""
    roots, nodes, leaves = [], [], []
    for tree in trees:
        base, places = len(nodes), {}
        inner = [at for at in range(tree.node_count) if tree.children_left[at] >= 0]
        places = {at: base + place for place, at in enumerate(inner)}
        roots.append(base)
        for at in inner:
            row = [int(tree.feature[at]), _round_down(float(tree.threshold[at]))]
            for child in (int(tree.children_left[at]), int(tree.children_right[at])):
                if child in places:
                    row += [places[child], 0]
                else:
                    row += [len(leaves), 1]
                    leaves.append(rate * float(tree.value[child][0][0]))
            nodes.append(row)
    feature, threshold, left, left_ends, right, right_ends = zip(*nodes, strict=True)
    ensemble = graph.add(
        "TreeEnsemble",
        "features",
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function=1,
        post_transform=0,
        tree_roots=roots,
        nodes_featureids=feature,
        nodes_splits=numpy_helper.from_array(np.array(threshold, np.float32)),
        nodes_modes=numpy_helper.from_array(np.full(len(nodes), LESS_OR_EQUAL, np.uint8)),
        nodes_truenodeids=left,
        nodes_trueleafs=left_ends,
        nodes_falsenodeids=right,
        nodes_falseleafs=right_ends,
        leaf_targetids=[0] * len(leaves),
        leaf_weights=numpy_helper.from_array(np.array(leaves, np.float32)),
    )
    return graph.add("Add", ensemble, graph.hold(np.array([start], np.float32)))


def _round_down(threshold: float) -> float:
    """The greatest float32 that is no greater: the values compared with it are float32 too."""
    near = np.float32(threshold)
    return float(near if near <= threshold else np.nextafter(near, np.float32(-math.inf)))


def write_boosted(path: Path, models: Sequence[Any], names: Sequence[str]) -> None:
    """Write the mean of several GradientBoostingClassifier: the log-odds of the second of two classes."""
    graph = Graph(features=len(names))
    trees = [tree[0].tree_ for model in models for tree in model.estimators_]
    starts = [float(model.init_.class_prior_[1]) for model in models]
    start = sum(math.log(each / (1 - each)) for each in starts) / len(models)
    scores = add_trees(graph, trees, models[0].learning_rate / len(models), start)
    told = Description(labels=("log_odds",), features=tuple(names), fitted_to=fingerprint(path.stem))
    graph.write(path, scores, told)


def share(right: Sequence[bool]) -> float:
    """How many are, in percent."""
    return round(100 * sum(right) / len(right), 1)
