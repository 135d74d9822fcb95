"""Ways round the policy: none runs what the host has not allowed, and nothing is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import opgraft
from conftest import Write, floats, pyop_model

TELLTALE = """
    import builtins
    builtins.telltale = True
    class Op:
        def compute(self, x):
            return x
"""


@pytest.fixture(autouse=True)
def _nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    monkeypatch.setattr(builtins, "telltale", False, raising=False)


def was_imported() -> bool:
    import builtins

    return bool(builtins.telltale)  # type: ignore[attr-defined]


def test_refused_before_the_import_with_the_line_that_allows(write_module: Write) -> None:
    module = write_module(TELLTALE)
    with pytest.raises(opgraft.PolicyError) as error:
        opgraft.InferenceSession(pyop_model(module))
    assert not was_imported()
    assert f'allow=["{module}"]' in str(error.value)
    assert f"OPGRAFT_ALLOW={module}" in str(error.value)
    assert f"node 'node', operator {module}.Op" in str(error.value)
    opgraft.InferenceSession(pyop_model(module), allow=[module])
    assert was_imported()


def test_allowed_by_the_environment(write_module: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    module = write_module(TELLTALE)
    monkeypatch.setenv("OPGRAFT_ALLOW", f"something_else,{module}")
    opgraft.InferenceSession(pyop_model(module))
    assert was_imported()


def test_allowed_by_a_pattern(write_module: Write) -> None:
    module = write_module(TELLTALE, name="guarded_package.inner")
    with pytest.raises(opgraft.PolicyError):
        opgraft.InferenceSession(pyop_model(module), allow=["guarded_package"])
    with pytest.raises(opgraft.PolicyError):
        opgraft.InferenceSession(pyop_model(module), allow=["guarded_packag.*", "guarded"])
    assert not was_imported()
    opgraft.InferenceSession(pyop_model(module), allow=["guarded_package.*"])
    assert was_imported()


def test_one_name_may_be_given_without_a_list(write_module: Write) -> None:
    module = write_module(TELLTALE)
    opgraft.InferenceSession(pyop_model(module), allow=module)  # type: ignore[arg-type]
    assert was_imported()


def test_no_module_of_the_standard_library_gets_a_line_to_paste() -> None:
    from opgraft import _pyop

    for name in sys.stdlib_module_names:
        assert _pyop.is_of_standard_library(name) and _pyop.is_of_standard_library(f"{name}.part")
    assert not _pyop.is_of_standard_library("osmosis")


@pytest.mark.parametrize("entry", ["*", "os*", "..", "a-b", "package.*.*", ".*", "os\n"])
def test_an_entry_that_could_never_match_is_an_error(entry: str) -> None:
    with pytest.raises(opgraft.Error, match="the name of a Python module"):
        opgraft.register(onnxruntime.SessionOptions(), allow=[entry])


@pytest.mark.parametrize(
    ("module", "class_name"),
    [("subprocess", "Popen"), ("os", "system"), ("builtins", "object"), ("pathlib", "Path")],
)
def test_the_standard_library_is_no_exception(module: str, class_name: str) -> None:
    with pytest.raises(opgraft.PolicyError, match=f"Python module '{module}'"):
        opgraft.InferenceSession(pyop_model(module, class_name), allow=["mymodule"])


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".MODULE", "MODULE.", "MODULE..x", " MODULE", "MODULE ", "MODULE\n",
     "MODULE\0", "MODULE\0x", "MODULE/x", "../MODULE", "MODULE:Op", "MODULE,os", "x;MODULE", "*"],
)  # fmt: skip
def test_odd_module_names(write_module: Write, name: str) -> None:
    module = write_module(TELLTALE)
    model = pyop_model(name.replace("MODULE", module))
    with pytest.raises((opgraft.ModelError, opgraft.PolicyError)):
        opgraft.InferenceSession(model, allow=[module])
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    hand_written = canonical_with_module(module, name.replace("MODULE", module).encode())
    with pytest.raises(Exception, match=r"opgraft\.(ModelError|PolicyError)"):
        onnxruntime.InferenceSession(hand_written, options)
    assert not was_imported()


@pytest.mark.parametrize(
    "lookalike", ["ｍｏｄｕｌｅ_x", "mоdule_x", "module_x\u200b", "module_x\u0301", "MODULE_X"]
)
def test_odd_unicode(write_module: Write, lookalike: str) -> None:
    """Names that look like an allowed one, or become it under normalisation, are others."""
    write_module(TELLTALE, name="module_x")
    write_module(TELLTALE, name=lookalike)
    with pytest.raises((opgraft.ModelError, opgraft.PolicyError)):
        opgraft.InferenceSession(pyop_model(lookalike), allow=["module_x"])
    assert not was_imported()


def test_a_name_that_is_no_utf8(write_module: Write) -> None:
    module = write_module(TELLTALE)
    model = canonical_with_module(module, b"\xff\xfe")
    with pytest.raises(opgraft.PolicyError):
        opgraft.InferenceSession(model, allow=[module])
    assert not was_imported()


@pytest.mark.parametrize(
    "class_name",
    ["__builtins__", "__loader__", "__class__", "Op.__class__", "Op.__base__", "Op.__init__", "",
     ".Op", "Op.", "Op..x", "Op()", "Op compute"],
)  # fmt: skip
def test_odd_class_names(write_module: Write, class_name: str) -> None:
    module = write_module(TELLTALE)
    with pytest.raises(opgraft.ModelError, match="attribute 'class_name' is"):
        opgraft.InferenceSession(pyop_model(module, class_name), allow=[module])
    assert not was_imported()


@pytest.mark.parametrize("compute", ["__class__", "__init__", "__reduce__", "", "a.b", "x y"])
def test_odd_methods(write_module: Write, compute: str) -> None:
    module = write_module(TELLTALE)
    model = pyop_model(module, compute=compute)
    with pytest.raises(opgraft.ModelError, match="attribute 'compute' is"):
        opgraft.InferenceSession(model, allow=[module])
    assert not was_imported()


@pytest.mark.parametrize(
    ("class_name", "error"),
    [
        ("Popen", opgraft.PolicyError),  # a class that the module imports
        ("subprocess.Popen", opgraft.PyOpError),  # one reached through a module that it imports
        ("subprocess", opgraft.PyOpError),
        ("run", opgraft.PyOpError),
        ("Op.held", opgraft.PolicyError),
        ("Op.Popen", opgraft.PolicyError),
    ],
)
def test_classes_that_an_allowed_module_imports(
    write_module: Write, class_name: str, error: type[Exception], tmp_path: Path
) -> None:
    module = write_module(
        """
        import subprocess
        from subprocess import Popen, run
        class Op:
            from subprocess import Popen
            held = Popen
            def compute(self, x):
                return x
        """
    )
    model = pyop_model(module, class_name, args=f"touch {tmp_path}/proof", compute="communicate")
    with pytest.raises(error):
        opgraft.InferenceSession(model, allow=[module])
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("compute", ["loads", "imported", "inherited", "held"])
def test_methods_that_an_allowed_class_has_from_elsewhere(
    write_module: Write, compute: str
) -> None:
    """The name of the method is the model's choice, so that it must lead to allowed code."""
    other = write_module("class Base:\n    def inherited(self, x): return x + 100")
    module = write_module(
        f"""
        import pickle
        from {other} import Base
        class Op(Base):
            from pickle import loads
            imported = staticmethod(pickle.loads)
            def __init__(self):
                self.held = pickle.loads
            def compute(self, x):
                return x
            def another(self, x):
                return x + 1
        """
    )
    with pytest.raises(opgraft.PolicyError, match="which this host does not allow"):
        opgraft.InferenceSession(pyop_model(module, compute=compute), allow=[module])
    session = opgraft.InferenceSession(pyop_model(module, compute="another"), allow=[module])
    np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [1, 2])
    if compute == "inherited":
        model = pyop_model(module, compute=compute)
        session = opgraft.InferenceSession(model, allow=[module, other])
        np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [100, 101])


def test_a_class_without_a_home(write_module: Write) -> None:
    module = write_module("class Op:\n    __module__ = None\n    def compute(self, x): return x")
    with pytest.raises(opgraft.PolicyError, match="has no '__module__' that names its module"):
        opgraft.InferenceSession(pyop_model(module), allow=[module])


def test_a_class_from_elsewhere_is_fine_where_that_is_allowed(write_module: Write) -> None:
    inner = write_module("class Op:\n    def compute(self, x): return x + 1", name="home_of_op")
    outer = write_module(f"from {inner} import Op")
    with pytest.raises(opgraft.PolicyError, match=f'allow=\\["{inner}"\\]'):
        opgraft.InferenceSession(pyop_model(outer), allow=[outer])
    session = opgraft.InferenceSession(pyop_model(outer), allow=[outer, inner])
    np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [1, 2])


def canonical_with_module(module: str, name: bytes) -> bytes:
    """A model that was prepared for `module`, then changed by hand to run `name`."""
    model = onnx.ModelProto.FromString(opgraft.prepare(pyop_model(module)).bytes)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "module":
            attribute.s = name
    return model.SerializeToString()


def test_a_hand_written_canonical_node(write_module: Write) -> None:
    allowed, other = write_module("class Op: pass"), write_module(TELLTALE)
    model = canonical_with_module(allowed, other.encode())
    with pytest.raises(opgraft.PolicyError):
        opgraft.InferenceSession(model, allow=[allowed])
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[allowed])
    with pytest.raises(Exception, match="opgraft.PolicyError"):
        onnxruntime.InferenceSession(model, options)
    assert not was_imported()


def test_plain_registration_of_the_library_allows_nothing(write_module: Write) -> None:
    module = write_module(TELLTALE)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(opgraft.library_path())
    with pytest.raises(Exception, match="opgraft.PolicyError"):
        onnxruntime.InferenceSession(opgraft.prepare(pyop_model(module)).bytes, options)
    assert not was_imported()


def test_an_allowance_of_one_session_is_none_of_another(write_module: Write) -> None:
    module = write_module(TELLTALE)
    opgraft.InferenceSession(pyop_model(module), allow=[module])
    with pytest.raises(opgraft.PolicyError):
        opgraft.InferenceSession(pyop_model(module))
    with pytest.raises(opgraft.PolicyError):
        opgraft.InferenceSession(pyop_model(module), allow=["other"])


def test_no_session_means_no_import_of_the_bridge() -> None:
    """A refusal in a process that has only onnxruntime: not even our own package is imported."""
    model = opgraft.prepare(pyop_model("os", "system")).bytes
    program = f"""
import onnxruntime, sys
options = onnxruntime.SessionOptions()
options.register_custom_ops_library({opgraft.library_path()!r})
try:
    onnxruntime.InferenceSession({model!r}, options)
except Exception as error:
    print("opgraft.PolicyError" in str(error), "opgraft" in sys.modules)
"""
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert output == "True False\n"
