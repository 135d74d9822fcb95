"""Models whose stored estimator is tampered with, and a process that runs them under watch.

    python sklearn_attacks.py write FOLDER
    python sklearn_attacks.py run FOLDER {opgraft|plain}

The second prints a line for each model, of its name and what became of it, and then what the
process did that it must not: files it wrote, processes it started, modules it imported.
"""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROWS = np.array([[0.25, 1.5], [2.0, 0.5], [1.0, 3.0]], dtype=np.float32)
X = np.random.default_rng(0).random((30, 2)).astype(np.float32)
y = np.arange(30) % 3
WORDS = ["one two", "two three four", "a" * 60 + "!"]
TELLTALE = "opgraft_telltale"  #: a module that no attack may import

Attack = Callable[[], bytes | tuple[bytes, str]]
ATTACKS: dict[str, tuple[Attack, str, str]] = {}


def attack(expected: str, method: str = "predict", name: str = "") -> Callable[[Attack], Attack]:
    """Registers a function that gives a stored estimator. `expected`: what the error says, or
    nothing where the model runs as an honest one would."""

    def register(function: Attack) -> Attack:
        ATTACKS[name or function.__name__] = (function, method, expected)
        return function

    return register


def stored(estimator: Any, change: Callable[[Any], None] | None = None) -> bytes:
    """A skops file of the estimator, changed after holders stand for its compiled objects."""
    import skops.io

    from opgraft.sklearn._stored import _skops

    estimator = _skops._without_compiled(estimator)
    if change is not None:
        change(estimator)
    return bytes(skops.io.dumps(estimator, compression=zipfile.ZIP_DEFLATED))


def rewritten(data: bytes, change: Callable[[Any], None]) -> bytes:
    """The file with a changed tree of nodes."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            new.writestr(name, content)
    return result.getvalue()


def model(data: bytes, method: str) -> Any:
    """A model of one node, which calls a method of a stored estimator."""
    import sklearn
    from onnx import TensorProto, helper, numpy_helper

    is_text = method.startswith("text ")
    element = TensorProto.STRING if is_text else TensorProto.FLOAT
    node = helper.make_node(
        "PyOp", ["X"], ["Y"], name="tampered", domain="ai.opgraft.sklearn",
        module="opgraft.sklearn.operators", class_name="Estimator", input_types=[element],
        output_types=[TensorProto.FLOAT], methods=[method.removeprefix("text ")],
        dtypes=["float32"], ranks=[2], scikit_learn=sklearn.__version__,
        layout="list" if is_text else "rows",
        estimator=numpy_helper.from_array(np.frombuffer(data, np.uint8)),
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "graph",
        [helper.make_tensor_value_info("X", element, [None] if is_text else [None, 2])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [None, None])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.opgraft.sklearn", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def write(folder: Path) -> None:
    import warnings

    import onnx
    import sklearn_compiled  # noqa: F401  (registers the attacks)
    import sklearn_tampered  # noqa: F401  (registers the attacks)

    warnings.simplefilter("ignore")
    for name, (function, method, _) in ATTACKS.items():
        onnx.save(model(bytes(function()), method), folder / f"{name}.onnx")


def run(folder: Path, host: str) -> None:
    import onnxruntime
    import sklearn_compiled  # noqa: F401
    import sklearn_tampered  # noqa: F401
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    import opgraft
    import opgraft.sklearn.operators

    def make(path: Path) -> Any:
        # What is allowed stands in the environment.
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        if host == "opgraft":
            return opgraft.InferenceSession(path, options)
        opgraft.register(options)
        return onnxruntime.InferenceSession(opgraft.prepare(path).bytes, options)

    if os.environ["OPGRAFT_ALLOW"]:
        make(folder / "honest.onnx").run(None, {"X": ROWS})  # imports what any model does
    _openmp_effective_n_threads()  # asks for the number of cores, once
    did: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            mode, flags = arguments[1], arguments[2]
            if any(one in (mode or "") for one in "wax+") or (flags or 0) & 0o1103:
                did.append(f"opened {arguments[0]}")
        elif event.startswith(("subprocess.", "os.fork", "os.posix_spawn", "os.exec", "os.system",
                               "os.mkdir", "os.rename", "os.remove", "pickle.", "socket.",
                               "ctypes.dlopen")):  # fmt: skip
            did.append(f"{event} {arguments}")

    sys.addaudithook(watch)
    for name, (_, method, _) in ATTACKS.items():
        rows = np.array(WORDS, dtype=object) if method.startswith("text ") else ROWS
        print(name, "begins", sep="\t", flush=True)
        try:
            session = make(folder / f"{name}.onnx")
            result = session.run(None, {"X": rows})[0]
            outcome = f"ran: {result.shape}"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")
        print(name, outcome, sep="\t", flush=True)
    if TELLTALE in sys.modules:
        did.append(f"imported {TELLTALE}")
    print("did", "; ".join(did), sep="\t", flush=True)


if __name__ == "__main__":
    sys.modules["sklearn_attacks"] = sys.modules["__main__"]
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), sys.argv[3])
