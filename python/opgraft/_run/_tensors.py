"""Exchanges tensors of types that onnxruntime's Python package cannot exchange with NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from opgraft import _pyop
from opgraft._base._errors import Error, UnavailableError
from opgraft._base._needed import find_dtype
from opgraft._run._frames import as_feed, has_frames

# For each of onnxruntime's names: ONNX's number, and the type of ml_dtypes.
TYPES = {
    one.onnx_name: (one.number, one.name)
    for one in _pyop.ELEMENT_TYPES
    if one.is_carried and not one.is_numpys
}
_PACKED = {one.onnx_name for one in _pyop.ELEMENT_TYPES if one.is_packed}
_STRING = 8

Run = Callable[..., Any]


class Exchange:
    """The inputs and outputs of a session that need conversion, found once when it is made."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        inputs, outputs = session.get_inputs(), session.get_outputs()
        self._types = {a.name: _type_name(a) for a in inputs if _type_name(a) in TYPES}
        self._texts = {a.name for a in inputs if _type_name(a) == "string"}
        self._outputs = [a.name for a in outputs]
        self._helped_outputs = {a.name for a in outputs if _type_name(a) in TYPES}

    @property
    def is_needed(self) -> bool:
        """Whether a run needs conversion even if all arrays are plain."""
        return bool(self._types or self._helped_outputs or self._texts)

    def run(
        self,
        session: onnxruntime.InferenceSession,
        output_names: Sequence[str] | None,
        feed: dict[str, Any],
        run_options: Any,
    ) -> Any:
        """Like onnxruntime's run, but also converts inputs and outputs that it does not support."""
        if has_frames(feed):
            metadata = session.get_modelmeta().custom_metadata_map
            feed = as_feed(feed, session.get_inputs(), metadata)
        if not isinstance(feed, Mapping):
            names = ", ".join(one.name for one in session.get_inputs())
            raise TypeError(
                f"run takes a dictionary of the model's inputs ({names}), or a DataFrame, not a "
                f"{type(feed).__name__}. Fix: {{name: array, ...}}; for one row of a frame, "
                "frame.iloc[[0]]"
            )
        if _has_torch_tensors(feed):
            arrays = {name: _from_torch(name, value) for name, value in feed.items()}
            return list(map(_to_torch, self.run(session, output_names, arrays, run_options)))
        names = list(output_names) if output_names else self._outputs
        values = {name: self._to_runtime(name, value) for name, value in feed.items()}
        if self._helped_outputs.isdisjoint(names):
            # onnxruntime's run takes OrtValues among its inputs.
            return onnxruntime.InferenceSession.run(session, names, values, run_options)
        for name, value in values.items():
            if not isinstance(value, onnxruntime.OrtValue):
                values[name] = _as_ort_value(name, value, name in self._texts)
        results = onnxruntime.InferenceSession.run_with_ort_values(
            session, names, values, run_options
        )
        return [_from_runtime(name, value) for name, value in zip(names, results, strict=True)]

    def _to_runtime(self, name: str, value: Any) -> Any:
        kind = self._types.get(name)
        if kind is None:
            return native(value)
        if isinstance(value, onnxruntime.OrtValue):
            return value
        number, dtype_name = TYPES[kind]
        dtype = find_dtype(dtype_name)
        array = native(value)
        if not isinstance(array, (np.ndarray, np.generic)) or array.dtype != dtype:
            given = getattr(array, "dtype", type(array).__name__)
            raise Error(
                f"input '{name}': expected an array of ml_dtypes.{dtype_name}, not of {given}. "
                f"Fix: numpy.asarray(value).astype(ml_dtypes.{dtype_name})"
            )
        array = np.asarray(array, order="C")
        make = getattr(onnxruntime.OrtValue, "ortvalue_from_numpy_with_onnx_type", None)
        if make is None:
            from opgraft._run._carrier import carry

            return carry(array, number)
        if kind in _PACKED:
            array = _pack(array)
        return make(array.view(f"u{array.dtype.itemsize}"), number)


def native(value: Any) -> Any:
    """Returns the same elements in a form that onnxruntime reads correctly."""
    if isinstance(value, np.ndarray):
        if not value.dtype.isnative:  # onnxruntime ignores the byte order
            return value.astype(value.dtype.newbyteorder("="))
        if value.dtype.kind in "TU":  # it cuts texts of U off at a zero character
            return value.astype(object)
        if value.dtype.kind == "S" and any(b"\0" in one for one in value.flat):
            return np.array([_decoded(one) for one in value.flat], object).reshape(value.shape)
    return value


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise Error(
            f"an input has the text {text!r}, which is not valid UTF-8 and has a zero byte, where "
            "onnxruntime would cut it off. Fix: give an array of str"
        ) from error


def _has_torch_tensors(feed: Mapping[str, Any]) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(value, torch.Tensor) for value in feed.values())


def _from_torch(name: str, value: Any) -> Any:
    """Returns an array over the memory of a torch tensor on the CPU; other values unchanged."""
    if not isinstance(value, sys.modules["torch"].Tensor):
        return value
    if value.device.type != "cpu":
        asks = ", or a session with providers=['OpgraftCUDA', 'CPUExecutionProvider']"
        raise Error(
            f"input '{name}' is on the device {value.device}, which this session does not have. "
            f"Fix: value.cpu(){asks if value.device.type == 'cuda' else ''}"
        )
    from opgraft._run._torch_arrays import to_numpy

    try:
        return to_numpy(value)
    except (TypeError, RuntimeError, NotImplementedError) as error:
        raise Error(
            f"input '{name}', a torch tensor, cannot be converted to an array: {error}"
        ) from error


def _to_torch(value: Any) -> Any:
    """Converts an output to a torch tensor; returns it unchanged if torch lacks its type."""
    from opgraft._run._torch_arrays import from_array

    try:
        return from_array(value) if isinstance(value, np.ndarray) else value
    except TypeError:
        return value


def _type_name(argument: Any) -> str:
    return str(argument.type).removeprefix("tensor(").removesuffix(")")


def _as_ort_value(name: str, value: Any, is_text: bool) -> Any:
    if not is_text:
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(value))
    from opgraft._run._carrier import carry  # onnxruntime has no OrtValues of strings

    return carry(np.asarray(value, object), _STRING)


def _from_runtime(name: str, value: Any) -> Any:
    if not value.has_value():
        return None
    if not value.is_tensor():
        raise UnavailableError(
            f"output '{name}' is not a tensor, and another output has a type that onnxruntime's "
            "Python package does not support. Fix: request them in two runs"
        )
    kind = value.data_type().removeprefix("tensor(").removesuffix(")")
    if kind not in TYPES:
        return value.numpy()
    dtype = find_dtype(TYPES[kind][1])
    shape = tuple(value.shape())
    if 0 in shape:
        return np.empty(shape, dtype)
    if kind not in _PACKED:
        return np.asarray(_Memory(value, shape, f"<u{dtype.itemsize}")).view(dtype)
    elements = int(np.prod(shape))
    packed = np.asarray(_Memory(value, ((elements + 1) // 2,), "|u1"))
    both = np.stack([packed & 15, packed >> 4], axis=1)
    return both.reshape(-1)[:elements].reshape(shape).view(dtype)


class _Memory:
    """Lets NumPy make an array over an OrtValue, which the array then keeps alive."""

    def __init__(self, value: Any, shape: tuple[int, ...], typestr: str) -> None:
        self._value = value
        self.__array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (value.data_ptr(), False),
            "version": 3,
        }


def _pack(array: np.ndarray) -> np.ndarray:
    """Packs two elements into a byte. The result has the original shape; its end is unused."""
    nibbles = array.reshape(-1).view(np.uint8) & 15
    packed = np.zeros(array.shape, np.uint8)
    flat = packed.reshape(-1)
    low, high = nibbles[0::2], nibbles[1::2]
    flat[: low.size] = low
    flat[: high.size] |= high << 4
    return packed
