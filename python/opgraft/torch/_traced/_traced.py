"""The last way to export: torch traces the model (TorchScript), and its old exporter writes ONNX.

A trace records what the model does with the example. It handles sizes that depend on data, which
torch.export often does not; but a tensor that becomes a Python value is a constant in it. Each such
place is a guard.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from opgraft._base._errors import Error, ModelError, UnavailableError
from opgraft._pyop import RUNTIME_DOMAINS
from opgraft.torch import _private
from opgraft.torch._capture._arguments import (
    NO_TENSOR,
    bound_arguments,
    check_results,
    signature_of,
)
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._kept import Snapshot, keeping
from opgraft.torch._capture._open_sizes import OpenSizes
from opgraft.torch._capture._request import Request
from opgraft.torch._capture._traced_examples import name_of
from opgraft.torch._graphs._error_lines import titled_line
from opgraft.torch._graphs._noise import without_warnings_of_torch
from opgraft.torch._graphs._random import keeping_random_state
from opgraft.torch._legacy import _symbolic
from opgraft.torch._program._report import Row, sorted_rows
from opgraft.torch._traced._conversions import Watch
from opgraft.torch._traced._traced_grafts import Became, Translator
from opgraft.torch._traced._traced_libraries import corrected


@dataclass
class Trace:
    """A model in ONNX, as torch's old exporter wrote it."""

    model: ir.Model
    became: list[Became]
    #: What the trace assumes about the data, and about sizes.
    guards: list[Guard]
    size_guards: list[Guard]

    def rows(self) -> list[Row]:
        """One row for each operator and each thing that it became."""
        rows: dict[tuple[str, str, str], Row] = {}
        for one in self.became:
            names = [name for name in one.names if not name.startswith("prim::")]
            became = ", ".join(dict.fromkeys(name for name in names if name != "Constant"))
            advice = ""
            if one.graft is not None:
                became = became if one.kind == "function" else one.graft.became
                advice = one.graft.advice
            row = Row(one.operator, 0, one.kind, became, advice=advice, because=one.because)
            row.foreign = tuple(sorted(one.foreign | _foreign(names, one)))
            known = rows.setdefault((row.operator, row.kind, row.became), row)
            known.count += 1
        return sorted_rows(rows.values())


def _foreign(names: Sequence[str], became: Became) -> set[str]:
    """The operators that a symbolic function wrote and that ONNX Runtime does not have."""
    if became.is_stand_in:
        return set()
    return {one for one in names if "::" in one and one.split("::")[0] not in RUNTIME_DOMAINS}


class Tracer:
    """Traces one model with its arguments."""

    def __init__(self, request: Request, sizes: OpenSizes, registry: Callable[[int], Any]) -> None:
        self._model = request.module
        self._opset = request.opset
        self._kinds = request.kinds
        self._registry = registry
        self.leaves, self.tree = _private.flatten((request.args, dict(request.kwargs)))
        self._sizes = sizes
        self._names = names_of(self._model, request.args, request.kwargs)
        #: The name and value of each argument that is a constant in the trace; None for the others.
        self.fixed = [
            None if isinstance(one, torch.Tensor) else (name, one)
            for name, one in zip(self._names, self.leaves, strict=True)
        ]
        for size, _ in sizes.asked:
            if size.axis is None:
                raise UnavailableError(
                    f"argument '{size.parameter}' is a number, which is a constant in a trace; "
                    "dynamic_shapes cannot leave it open. Fix: pass a tensor"
                )
        if not any(isinstance(one, torch.Tensor) for one in self.leaves):
            raise UnavailableError(
                "a model that takes no tensor cannot be traced. Fix: pass it a tensor"
            )

    def trace(self, barred: Mapping[str, str]) -> Trace:
        """Traces the model. Operators in `barred`, which has the reasons, do not use torch's
        symbolic functions."""
        try:
            return self._trace(barred)
        except UnavailableError as error:
            if _IN_PAIRS not in str(error) or _PACKING.intersection(barred):
                raise
            # ONNX has no packed sequences. libtorch can pack, and run over packed sequences.
            packing = dict.fromkeys(_PACKING, f"torch: {_IN_PAIRS}")
            try:
                return self._trace({**barred, **packing})
            except Error:
                raise error from None

    def _trace(self, barred: Mapping[str, str]) -> Trace:
        lowest = _private.lowest_opset()  # that the translations of grafts support
        used = self._registry(lowest)
        for number in dict.fromkeys((min(self._opset, _private.default_opsets()[1]), lowest)):
            translator = Translator(used, self._kinds, lowest, _symbolic.registered(number), barred)
            watch = Watch()
            with _symbolic.lent_to_torch(number):
                model = self._export(number, translator, watch)
            if not translator.has_grafts:
                break
        translator.finish(model)
        guards = [one.guard for one in watch.conversions if one.source == "data"]
        sizes = [one.guard for one in watch.conversions if one.source == "sizes"]
        return Trace(model, translator.became, guards, sizes)

    def _export(self, opset: int, translator: Translator, watch: Watch) -> ir.Model:
        tensors = tuple(
            one.detach().clone() for one in self.leaves if isinstance(one, torch.Tensor)
        )
        axes: dict[str, dict[int, str]] = {}
        for size, _ in self._sizes.asked:
            assert size.axis is not None
            axes.setdefault(self._names[size.position], {})[size.axis] = name_of(size)
        flat = _Flat(self._model, self.leaves, self.tree, watch)
        names = [
            name
            for name, leaf in zip(self._names, self.leaves, strict=True)
            if isinstance(leaf, torch.Tensor)
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.onnx")
            try:
                with (
                    keeping(self._model),
                    corrected(),
                    without_warnings_of_torch(),
                    torch.no_grad(),
                    keeping_random_state(),
                    watch,
                ):
                    _private.trace_to_onnx(
                        flat,
                        tensors,
                        path,
                        opset_version=opset,
                        input_names=names,
                        dynamic_axes=axes,
                        translate=translator,
                    )
            except Error:
                raise
            except Exception as error:
                raise UnavailableError(
                    f"torch's tracing exporter: {titled_line(error)}. Fix: change the line of the "
                    "model that it fails at, or leave dynamo=False out"
                ) from error
            model = ir.load(path)
            ir.external_data.load_to_model(model)
        if len(model.graph.outputs) != len(flat.names):
            raise UnavailableError(
                f"torch's tracing exporter writes {len(model.graph.outputs)} outputs for the "
                f"{len(flat.names)} tensors that the model returns; quantised tensors are one "
                "cause. Fix: return plain tensors, such as x.dequantize()"
            )
        _keep_inputs(model, dict(zip(names, tensors, strict=True)), axes)
        taken = set(names)
        for output, name in zip(model.graph.outputs, flat.names, strict=True):
            if output.producer() is not None and name not in taken:
                output.name = name
                taken.add(name)
        for name, value in list(model.graph.initializers.items()):
            if name.startswith(_PREFIX):
                value.name = name.removeprefix(_PREFIX)
        return model


def _keep_inputs(
    model: ir.Model,
    given: Mapping[str, torch.Tensor],
    axes: Mapping[str, Mapping[int, str]],
) -> None:
    """Puts back the unused inputs that torch removed, since the caller passes them."""
    found = {one.name: one for one in model.graph.inputs}
    if list(found) == list(given):
        return
    for name, tensor in given.items():
        if name not in found:
            sizes = [axes.get(name, {}).get(axis, size) for axis, size in enumerate(tensor.shape)]
            kind = ir.TensorType(ir.DataType(_private.onnx_type(tensor.dtype)))
            found[name] = ir.Value(name=name, shape=ir.Shape(sizes), type=kind)
    model.graph.inputs.clear()
    model.graph.inputs.extend(found[name] for name in given)


_PREFIX = "model."
#: Torch's message about packed sequences that it cannot export.
_IN_PAIRS = "must occur in pairs"
#: The operators that make or take a packed sequence.
_PACKING = frozenset(
    f"aten::{name}" for name in ("_pack_padded_sequence", "gru", "lstm", "rnn_relu", "rnn_tanh")
)


class _Flat(torch.nn.Module):
    """A wrapper that takes and returns a flat sequence of tensors: TorchScript treats dictionaries,
    None and numbers in its own way."""

    def __init__(
        self, model: torch.nn.Module, leaves: Sequence[Any], tree: Any, watch: Watch
    ) -> None:
        super().__init__()
        self.training = model.training
        self.model = model
        self._leaves = [None if isinstance(one, torch.Tensor) else (one,) for one in leaves]
        self._tree = tree
        self._watch = watch
        #: The names of the outputs.
        self.names: list[str] = []

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        is_tracing = _private.is_tracing()
        if is_tracing:
            self._watch.begin(tensors, _kept(self.model))
            with _private.pausing_trace():
                before = Snapshot(self.model, has_parameters=False)
        left = iter(tensors)
        leaves = [next(left) if one is None else one[0] for one in self._leaves]
        args, kwargs = _private.unflatten(leaves, self._tree)
        given = self.model(*args, **kwargs)
        if is_tracing:
            self._watch.end()
            # Torch reads the model's tensors later, and would read what this call wrote.
            with _private.pausing_trace():
                before.restore()
        results = _private.flatten(given)[0]
        check_results(results)
        paths = zip(_private.paths(given), results, strict=True)
        self.names = [_output_name(path) for path, one in paths if isinstance(one, torch.Tensor)]
        found = tuple(one for one in results if isinstance(one, torch.Tensor))
        if not found:
            raise ModelError(NO_TENSOR)
        return found


def _kept(model: torch.nn.Module) -> list[torch.Tensor]:
    """The tensors of a model: parameters, buffers and plain attributes."""
    values = [leaf for one in model.modules() for leaf in _private.tree_leaves(vars(one))]
    return [one for one in values if isinstance(one, torch.Tensor)]


def _output_name(path: Sequence[str]) -> str:
    """The name of an output, such as "output" or "output_0"; for a dictionary, "boxes" or
    "boxes_0"."""
    words = [one for one in path if not one.isdecimal()] or ["output"]
    return "_".join([*words, *(one for one in path if one.isdecimal())])


def names_of(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """The names of the inputs, as torch.export chooses them: images, or images_0, images_1."""
    signature = signature_of(model.forward)
    bound = bound_arguments(model.forward, args, kwargs)
    for name, one in signature.parameters.items() if signature is not None else ():
        if one.kind is one.VAR_KEYWORD and name in bound:
            bound |= bound.pop(name)
    names = []
    for name, value in bound.items():
        for path in _private.paths(value):
            names.append("_".join([name, *path]))
    return names
