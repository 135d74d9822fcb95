"""Operators that fail in every way: each is an error, and the session is usable afterwards."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import ENDLESS, Write, floats, pyop_model

# What the operator does for x[0] == 1, the error it makes, and its cause. For any other x it works.
MISDEEDS = {
    "raises": ('raise ValueError("bad value")', "raised ValueError: bad value", ValueError),
    "raises what cannot be printed": ("raise Unprintable", "raised .*Unprintable", Exception),
    "raises a group": (
        "raise ExceptionGroup('many', [ValueError('one')])"
        if sys.version_info >= (3, 11)
        else "raise ValueError('one')",
        "one",
        Exception,
    ),
    "raises a text that is no UTF-8": (r"raise ValueError('\udc80 \0 end')", "end", ValueError),
    "raises a long text": ("raise ValueError('x' * 10_000_000)", "raised ValueError", ValueError),
    "raises with its input": ("raise ValueError(x, x[:1])", "raised ValueError", ValueError),
    "raises in a chain": (
        "\n".join(["try: 1 / 0", "except ZeroDivisionError as e: raise KeyError('k') from e"]),
        "ZeroDivisionError",
        KeyError,
    ),
    "recurses without end": ("return self.compute(x)", "RecursionError", RecursionError),
    "exits": ("sys.exit(3)", "raised SystemExit: 3", SystemExit),
    "stops iterating": ("raise StopIteration", "raised StopIteration", StopIteration),
    "writes to its input": ("x += 1", "read-only.*copy_inputs = True", ValueError),
    "looks up what an array lacks": ("return x.foo", "AttributeError", AttributeError),
    "raises with its input in an attribute": (
        "error = OSError('bad'); error.array = x[1:]; raise error",
        "OSError: bad",
        OSError,
    ),
    "divides by zero": ("1 / 0", "ZeroDivisionError", ZeroDivisionError),
    "runs out of memory": ("np.empty(10**18, np.int8)", "MemoryError", MemoryError),
    "returns None": ("return None", "returned None. Fix: .*return statement", None),
    "returns nothing in a tuple": ("return ()", "returned a tuple of length 0", None),
    "returns too many outputs": ("return x, x", "returned a tuple of length 2", None),
    "returns None in a tuple": ("return (None,)", "returned None", None),
    "returns a number": ("return 1.0", "returned a float", None),
    "returns a ragged list": ("return [[1], [1, 2]]", "returned a list of length 2", None),
    "returns a list of one": ("return [x]", "a list of length 1.*return the array itself", None),
    "returns a dictionary": ("return {'y': x}", "returned a dict.", None),
    "returns an array of objects": (
        "return np.array([[1], [1, 2]], dtype=object)",
        "returned an object array",
        None,
    ),
    "returns strings": ("return np.array(['a'])", r"returned a <U1 array of shape \(1,\)", None),
    "returns float64": (
        "return x.astype(np.float64)",
        r"returned a float64 array of shape \(2, 2\)\. Fix: return value\.astype\(nump",
        None,
    ),
    "returns integers": ("return x.astype(np.int32)", "returned an int32 array", None),
    "returns the wrong rank": (
        "return x[0]",
        r"expected an array of shape \(\?, 2\), as the model declares, .* of shape \(2,\)",
        None,
    ),
    "returns the wrong size": ("return x[:, :1]", r"of shape \(2, 1\)", None),
    "lies about its memory": ("return Liar()", r"returned an? [\w.]*Liar", None),
    "lies as an array": ("return x.view(LyingArray).astype(np.float64)", "float64", None),
    "returns a type that NumPy has no number for": (
        "return x.astype(np.float64).view(sfloat(1.0))",
        "returned an? .*array",
        None,
    ),
    "returns a masked array": ("return np.ma.masked_less(x, 1)", "MaskedArray.*filled", None),
    "returns a memoryview": ("return memoryview(x)", "returned a memoryview", None),
    "returns a generator": ("return (x for _ in range(1))", "returned a generator", None),
    "raises what cannot be inspected": ("raise Shy", "raised .*Shy", Exception),
}

SOURCE = """
    import sys
    core = np._core if hasattr(np, "_core") else np.core  # NumPy 2 and 1
    sfloat = core._multiarray_umath._get_sfloat_dtype()

    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError("no text")
        __repr__ = __str__

    class Shy(Exception):
        args = property(lambda self: 1 / 0)
        __cause__ = __context__ = exceptions = args

    class Liar:
        __array_interface__ = {
            "shape": (1_000_000_000,), "typestr": "<f4", "data": (8, False), "version": 3
        }
        __array_struct__ = property(lambda self: 1 / 0)
        def __array__(self, *args, **kwargs):
            sys.exit(7)

    class LyingArray(np.ndarray):
        __array_interface__ = Liar.__array_interface__

    class Op:
        def compute(self, x):
            if x[0, 0] == 1:
                MISDEED
            return x + 1
"""


def session_for(write: Write, misdeed: str, kind: str) -> onnxruntime.InferenceSession:
    indented = textwrap.indent(misdeed, " " * 12).strip()
    module = write(textwrap.dedent(SOURCE).replace("MISDEED", indented))
    model = pyop_model(module, shape=["n", 2])
    if kind == "opgraft":
        return opgraft.InferenceSession(model, allow=[module])
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    return onnxruntime.InferenceSession(opgraft.prepare(model).bytes, options)


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_misdeeds(write_module: Write, misdeed: str) -> None:
    code, message, cause = MISDEEDS[misdeed]
    session = session_for(write_module, code, "opgraft")
    good, bad = floats(2, 2), floats(2, 2) + 1
    for _ in range(3):
        with pytest.raises(opgraft.PyOpError, match=f"(?s)node 'node', operator .*{message}") as e:
            session.run(None, {"x": bad})
        assert isinstance(e.value.__cause__, cause or type(None))
        assert "[ONNXRuntimeError]" not in str(e.value)
        np.testing.assert_array_equal(session.run(None, {"x": good})[0], good + 1)


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_misdeeds_in_a_plain_session(write_module: Write, misdeed: str) -> None:
    code, message, _ = MISDEEDS[misdeed]
    session = session_for(write_module, code, "plain")
    good, bad = floats(2, 2), floats(2, 2) + 1
    with pytest.raises(Exception, match=f"(?s)opgraft.PyOpError: .*node 'node'.*{message}"):
        session.run(None, {"x": bad})
    np.testing.assert_array_equal(session.run(None, {"x": good})[0], good + 1)


def test_the_text_has_the_traceback(write_module: Write) -> None:
    session = session_for(write_module, "raise ValueError('bad value')", "opgraft")
    with pytest.raises(opgraft.PyOpError, match=r"Traceback[^$]*in compute\n\s+raise ValueError"):
        session.run(None, {"x": floats(2, 2) + 1})


def test_an_exception_keeps_nothing_of_the_runtimes_memory(write_module: Write) -> None:
    session = session_for(write_module, "row = x[1:]; raise ValueError(x)", "opgraft")
    x = floats(2, 2) + 1
    with pytest.raises(opgraft.PyOpError) as raised:
        session.run(None, {"x": x})
    cause = raised.value.__cause__
    assert cause is not None
    expected = x.copy()
    x[:] = -1
    np.testing.assert_array_equal(cause.args[0], expected)
    traceback = cause.__traceback__
    while traceback is not None:
        assert not traceback.tb_frame.f_locals
        traceback = traceback.tb_next


def test_exceptions_in_plain_sessions_do_not_pile_up(write_module: Write) -> None:
    from opgraft._base import _failure

    session = session_for(write_module, "raise ValueError", "plain")
    for _ in range(200):
        with pytest.raises(Exception, match="ValueError"):
            session.run(None, {"x": floats(2, 2) + 1})
    assert len(_failure._kept) <= 64


def test_causes_are_not_mixed_up_between_threads(write_module: Write) -> None:
    session = session_for(write_module, "raise ValueError(int(x[0, 1]))", "opgraft")
    wrong: list[object] = []

    def work(number: int) -> None:
        for _ in range(100):
            try:
                session.run(None, {"x": np.array([[1, number]], np.float32)})
            except opgraft.PyOpError as error:
                if error.__cause__ is None or error.__cause__.args != (number,):
                    wrong.append(error.__cause__)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_keyboard_interrupt_stays_one(write_module: Write) -> None:
    session = session_for(write_module, "raise KeyboardInterrupt", "opgraft")
    with pytest.raises(KeyboardInterrupt):
        session.run(None, {"x": floats(2, 2) + 1})
    np.testing.assert_array_equal(session.run(None, {"x": floats(2, 2)})[0], floats(2, 2) + 1)


def test_control_c(write_module: Write, module_folder: Path) -> None:
    """A real one, from outside, while the operator runs."""
    write_module(ENDLESS, name="endless")
    program = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell ignores it
        sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(module_folder)!r}]
        from conftest import ENDLESS, floats, pyop_model
        import opgraft
        session = opgraft.InferenceSession(pyop_model("endless"), allow=["endless"])
        try:
            session.run(None, {{"x": floats(1)}})
        except KeyboardInterrupt:
            print("interrupted")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            assert process.communicate(timeout=60)[0] == "interrupted\n"
        finally:
            process.kill()
    assert process.returncode == 0


# What is wrong with the module, and the error that the session is refused with.
BAD_MODULES = {
    "is missing": (None, r"import of '.*' raised ModuleNotFoundError.*sys\.path", ImportError),
    "lacks a module": ("import no_such_thing", r"no_such_thing'[^$]*not installed", ImportError),
    "fails at import": ("1 / 0", "import of '.*' raised ZeroDivisionError", ZeroDivisionError),
    "exits at import": ("import sys; sys.exit(1)", "raised SystemExit", SystemExit),
    "is no Python": ("class", "raised SyntaxError", SyntaxError),
    "has no such class": ("other = 1", "look-up of class 'Op' raised", AttributeError),
    "has another class": ("class Opp: pass", "The module has the classes: Opp", AttributeError),
    "has no class of that name": ("def Op(): pass", "expected 'Op' to be a class", None),
    "needs an argument": (
        "class Op:\n    def __init__(self, scale): pass\n    def compute(self, x): return x",
        "its __init__ raised TypeError: .*missing 1 required positional argument: 'scale'",
        TypeError,
    ),
    "raises in its __init__": (
        "class Op:\n    def __init__(self): raise OSError('no file')",
        "its __init__ raised OSError: no file",
        OSError,
    ),
    "raises what reads like a broken model": (
        "class Op:\n    def __init__(self): raise OSError('Failed to load model weights')",
        "its __init__ raised OSError",
        OSError,
    ),
    "has no compute": ("class Op: pass", "raised.*attribute 'compute'", AttributeError),
    "has a compute that is no method": ("class Op: compute = 3", "to be a method", None),
}


@pytest.mark.parametrize("fault", BAD_MODULES)
def test_bad_modules(write_module: Write, fault: str) -> None:
    source, message, cause = BAD_MODULES[fault]
    module = write_module(source) if source is not None else "a_module_that_is_not_there"
    for _ in range(2):
        expected = f"(?s)node 'node', operator {module}.Op: .*{message}"
        with pytest.raises(opgraft.PyOpError, match=expected) as error:
            opgraft.InferenceSession(pyop_model(module), allow=[module])
        if cause is not None:
            assert isinstance(error.value.__cause__, cause)


def test_an_attribute_that_init_does_not_take(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x")
    with pytest.raises(
        opgraft.PyOpError, match="(?s)__init__ raised TypeError.*attributes: unknown"
    ):
        opgraft.InferenceSession(pyop_model(module, unknown="1"), allow=[module])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"output_types": None}, "attribute 'output_types' is missing; expected 1 types"),
        ({"output_types": [1, 1]}, "'output_types' names 2 types, expected 1"),
        ({"output_types": [99]}, "'output_types' holds 99, which is not an ONNX type"),
        ({"output_types": [0]}, "'output_types' holds 0, which is not an ONNX type"),
        ({"output_types": [-1]}, "'output_types' holds -1, which is not an ONNX type"),
        (
            {"output_types": ["a"]},
            "'output_types' is of ONNX's kind STRINGS, expected a list of integers",
        ),
        ({"output_types": [TensorProto.COMPLEX64]}, "asks for complex64"),
        ({"output_types": [TensorProto.INT32]}, "is int32 in 'output_types', but .* float32"),
        ({"input_types": [1, 1]}, "'input_types' names 2 types, expected 1"),
        ({"compute": 3}, "attribute 'compute' is of ONNX's kind INT, expected a string"),
    ],
)
def test_bad_attributes(write_module: Write, attributes: dict[str, object], message: str) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x")
    with pytest.raises(opgraft.ModelError, match=f"node 'node'.*{message}"):
        opgraft.InferenceSession(pyop_model(module, **attributes), allow=[module])


def test_an_input_of_another_type_than_declared(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x.astype(np.float32)")
    model = pyop_model(module, input_types=[TensorProto.INT64])
    with pytest.raises(opgraft.ModelError, match="'x' is int64 in 'input_types', but .* float32"):
        opgraft.prepare(model)
    model = pyop_model(module, inputs=("s",), input_types=[TensorProto.INT64])
    model.graph.input[0].name = "x"
    model.graph.node.insert(0, helper.make_node("Neg", ["x"], ["s"]))
    session = opgraft.InferenceSession(model, allow=[module])
    with pytest.raises(opgraft.ModelError, match="input 0 is float32, but 'input_types' says"):
        session.run(None, {"x": floats(1)})


def test_a_thread_that_drops_its_argument_late_is_no_misdeed(write_module: Write) -> None:
    module = write_module(
        """
        import gc, threading, time
        gc.collect = lambda: 0  # a real one takes long enough for the thread to be gone
        class Op:
            def compute(self, x):
                def hold(view):
                    time.sleep(0.003)
                threading.Thread(target=hold, args=(x[:1],)).start()
                return x + 1
        """
    )
    collect = gc.collect
    try:
        session = opgraft.InferenceSession(pyop_model(module), allow=[module])
        np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [1, 2])
    finally:
        gc.collect = collect  # type: ignore[assignment]


@pytest.mark.parametrize("collector", ["on", "off"])
def test_a_cycle_that_holds_an_argument_is_no_misdeed(write_module: Write, collector: str) -> None:
    module = write_module(
        """
        class Op:
            def compute(self, x):
                cycle = [x]
                cycle.append(cycle)
                return x + 1
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    if collector == "off":
        gc.disable()
    try:
        np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [1, 2])
    finally:
        gc.enable()


def test_calls_that_overlap_while_kept_inputs_are_let_go(write_module: Write) -> None:
    """A weak reference's callback runs Python while the list of kept inputs is put in order."""
    module = write_module(
        """
        import time, weakref
        kept, references = [], []
        class Op:
            def compute(self, x):
                if x[0] == 0:
                    kept.append(x)
                    references.append(weakref.ref(x, lambda _: time.sleep(0.0005)))
                return x + 1
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    operators = sys.modules[module]
    zero, one = floats(1), floats(1) + 1

    def keep_and_let_go() -> None:
        for _ in range(5):  # each looks through all objects of the process for who keeps an input
            for x in (zero, one):
                try:
                    session.run(None, {"x": x})
                except opgraft.PyOpError:
                    operators.kept.clear()

    threads = [threading.Thread(target=keep_and_let_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    operators.kept.clear()
    np.testing.assert_array_equal(session.run(None, {"x": one})[0], [2])


def test_an_array_that_overlapping_calls_resize_while_it_is_copied(write_module: Write) -> None:
    """The result is the array as it was at some time: of another call's size maybe, but whole."""
    module = write_module(
        """
        shared = np.zeros(200_000, np.float32)
        class Op:
            def compute(self, x):
                shared.resize(int(x[0]), refcheck=False)
                return shared
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])

    def work(number: int) -> None:
        for step in range(300):
            size = 200_000 if (step + number) % 2 else 3_000_000
            (result,) = session.run(None, {"x": np.array([size], np.float32)})
            assert result.shape in [(200_000,), (3_000_000,)]
            assert not result.any()  # memory that was let go has other contents

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))  # raises what they raise
