"""Python operators in C++ programs: opgraft-run, the example, and eight threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import (
    DTYPES,
    ENDLESS,
    FLOAT,
    HOST_PYTHON,
    Write,
    floats,
    pyop_model,
    save_with_external_weight,
    takes_float4,
    takes_nibbles,
    tells_the_folder,
)
from opgraft._base._library import runner_path, runtime_library

REPOSITORY = Path(__file__).resolve().parents[2]


def run_cpp(
    model: onnx.ModelProto,
    folder: Path,
    *allow: str,
    modules: Path,
    inputs: dict[str, np.ndarray] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Runs the model with opgraft-run; a variable given as "" is removed."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    command = [runner_path(), "--onnxruntime", runtime_library()]
    for module in allow:
        command += ["--allow", module]
    for name, value in (inputs if inputs is not None else {"x": floats(3)}).items():
        np.save(folder / f"{name}.npy", value)
        command += ["--input", f"{name}={folder}/{name}.npy"]
    command += ["--output", f"y={folder}/y.npy", str(path)]
    variables = {
        **os.environ,
        "PYTHONPATH": str(modules),
        "OPGRAFT_PYTHON": HOST_PYTHON,
        **environment,
    }
    variables = {name: value for name, value in variables.items() if value}
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False)


@pytest.fixture
def double(write_module: Write) -> str:
    return write_module("class Op:\n    def compute(self, x): return x + x")


def test_runs(double: str, tmp_path: Path, module_folder: Path) -> None:
    done = run_cpp(pyop_model(double), tmp_path, double, modules=module_folder)
    assert done.stdout == "y float32 (3)\n0 2 4\n", done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [0, 2, 4])


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_hosts_print_the_same(
    write_module: Write, tmp_path: Path, module_folder: Path, dtype: str
) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x.T")
    model = pyop_model(module, type=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    onnx.save(model, tmp_path / "model.onnx")
    x = np.array([[1, 0, 3], [1 / 3, 5, 100]]).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    printed = {}
    for host in ("python", "cpp"):
        command = [sys.executable, "-m", "opgraft", "run", "model.onnx", "--host", host]
        command += ["--allow", module, "--input", "x=x.npy", "--output", f"y={host}.npy"]
        environment = dict(os.environ, PYTHONPATH=str(module_folder))
        printed[host] = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout
        np.testing.assert_array_equal(np.load(tmp_path / f"{host}.npy"), x.T)
    assert printed["python"] == printed["cpp"]
    assert printed["cpp"].startswith(f"y {dtype} (3, 2)\n")


ML_DTYPES = "bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz".split()
TYPED = ML_DTYPES + [pytest.param(name, marks=takes_nibbles) for name in ("int4", "uint4")]
TYPED += [pytest.param("float4_e2m1fn", marks=takes_float4), "string"]


@pytest.mark.parametrize("kind", TYPED)
def test_both_hosts_know_types_that_numpy_lacks(
    write_module: Write, tmp_path: Path, module_folder: Path, kind: str
) -> None:
    """In NumPy's files they are bytes without a type; the model says which type they have."""
    module = write_module("class Op:\n    def compute(self, x): return x[::-1]")
    if kind == "string":
        x = np.array(["a b", "", 'Grüße "\\\n', "\x01", "\U0001f600"])
        number, saved = TensorProto.STRING, x
    else:
        dtype = getattr(ml_dtypes, kind)
        bits = 4 if "4" in kind.split("_")[0] else np.dtype(dtype).itemsize * 8
        x = np.arange(0, 2**bits, 1 + 2**bits // 60)
        x = x.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
        number = helper.np_dtype_to_tensor_dtype(x.dtype)
        saved = x.view(f"V{x.dtype.itemsize}")
    onnx.save(pyop_model(module, type=number), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", saved)
    printed = {}
    for host in ("python", "cpp"):
        command = [sys.executable, "-m", "opgraft", "run", "model.onnx", "--host", host]
        command += ["--allow", module, "--input", "x=x.npy", "--output", f"y={host}.npy"]
        environment = dict(os.environ, PYTHONPATH=str(module_folder), PYTHONUTF8="1")
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        printed[host] = done.stdout + done.stderr
        result = np.load(tmp_path / f"{host}.npy")
        assert result.tolist() == saved[::-1].tolist(), printed
    assert printed["python"] == printed["cpp"]
    assert printed["cpp"].startswith(f"y {kind} ({x.size})\n")
    if kind != "string":
        numbers = [float(word) for word in printed["cpp"].split("\n")[1].split()]
        expected = x[::-1][: len(numbers)].astype(float)
        np.testing.assert_array_equal(np.array(numbers).astype(x.dtype).astype(float), expected)


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_a_file_without_a_type_for_a_type_that_numpy_has(
    double: str, tmp_path: Path, module_folder: Path, host: str
) -> None:
    onnx.save(pyop_model(double), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", floats(3).view("V4"))
    command = [sys.executable, "-m", "opgraft", "run", "model.onnx", "--host", host]
    command += ["--allow", double, "--input", "x=x.npy"]
    environment = dict(os.environ, PYTHONPATH=str(module_folder))
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "input 'x'" in done.stderr
    assert "but the model takes float32" in done.stderr


def test_values_and_types_in_a_program_that_is_not_python(
    write_module: Write, tmp_path: Path, module_folder: Path
) -> None:
    """None for an absent input, no value for an unwanted output, numbers, attributes."""
    module = write_module(
        """
        import ml_dtypes
        class Make:
            def __init__(self, table):
                self.table = table
            def compute(self, first, middle, last):
                assert middle is None
                assert first.shape == (0,)
                assert last.shape == ()
                return self.table + last, None, [1.5, 2], ["a", "b"], 7
        class Empty:
            def compute(self, half, text, scalar):
                assert (half.dtype, text.tolist()) == (ml_dtypes.bfloat16, ["a", "b"])
                return half.astype(np.float32) + np.float32(scalar)
        """
    )
    bfloat16, string = TensorProto.BFLOAT16, TensorProto.STRING
    make = pyop_model(
        module,
        "Make",
        inputs=("x", "", "z"),
        outputs=("a", "", "half", "text", "scalar"),
        input_types=[FLOAT] * 3,
        output_types=[FLOAT, FLOAT, bfloat16, string, TensorProto.INT64],
        table=helper.make_tensor("t", FLOAT, [2], [10, 20]),
    )
    last = pyop_model(
        module,
        "Empty",
        inputs=("half", "text", "scalar"),
        input_types=[bfloat16, string, TensorProto.INT64],
    )
    del make.graph.output[1:]
    make.graph.output[0].name = "y"
    make.graph.node[0].name = "first"
    make.graph.node.append(last.graph.node[0])
    make.graph.node[1].output[0] = "s"
    make.graph.node.append(helper.make_node("Add", ["a", "s"], ["y"]))
    make.opset_import[0].version = 21
    inputs = {"x": floats(0), "z": np.array(1, np.float32)}
    done = run_cpp(make, tmp_path, module, modules=module_folder, inputs=inputs)
    assert done.stdout == "y float32 (2)\n19.5 30\n", done.stderr


def test_no_binary_needs_python() -> None:
    for binary in (opgraft.library_path(), runner_path()):
        needed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
        assert "libc.so" in needed
        assert "libpython" not in needed


def test_an_exception_is_an_error(write_module: Write, tmp_path: Path, module_folder: Path) -> None:
    module = write_module("class Op:\n    def compute(self, x): raise ValueError('bad value')")
    done = run_cpp(pyop_model(module), tmp_path, module, modules=module_folder)
    assert done.returncode == 1
    message = f"opgraft-run: PyOpError: node 'node', operator {module}.Op: compute raised"
    assert message in done.stderr
    assert "Traceback (most recent call last)" in done.stderr


@pytest.mark.parametrize("misdeed", ["sys.exit(3)", "return self.compute(x)", "return None"])
def test_misdeeds(write_module: Write, tmp_path: Path, module_folder: Path, misdeed: str) -> None:
    module = write_module(f"import sys\nclass Op:\n    def compute(self, x): {misdeed}")
    done = run_cpp(pyop_model(module), tmp_path, module, modules=module_folder)
    assert (done.returncode, "opgraft-run: PyOpError" in done.stderr) == (1, True), done.stderr


def test_the_policy_is_asked_before_python_is_started(
    double: str, tmp_path: Path, module_folder: Path
) -> None:
    done = run_cpp(
        pyop_model(double), tmp_path, modules=module_folder, OPGRAFT_PYTHON="/no/such/python"
    )
    assert done.returncode == 1
    assert "PolicyError" in done.stderr
    assert "/no/such/python" not in done.stderr


def test_no_python(double: str, tmp_path: Path, module_folder: Path) -> None:
    done = run_cpp(
        pyop_model(double), tmp_path, double, modules=module_folder, OPGRAFT_PYTHON="/no/python"
    )
    assert done.returncode == 1
    assert "UnavailableError: node 'node'" in done.stderr
    assert "cannot run '/no/python'" in done.stderr
    assert "set OPGRAFT_PYTHON" in done.stderr


def test_a_python_without_opgraft(double: str, tmp_path: Path, module_folder: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    done = run_cpp(
        pyop_model(double), tmp_path, double, modules=module_folder, OPGRAFT_PYTHON=python
    )
    assert done.returncode == 1
    assert "UnavailableError" in done.stderr
    assert f"has no package opgraft; install its wheel there ({python} -m pip" in done.stderr


def test_a_python_without_numpy(double: str, tmp_path: Path, module_folder: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "opgraft").symlink_to(Path(opgraft.library_path()).parents[1])
    done = run_cpp(
        pyop_model(double),
        tmp_path,
        double,
        modules=module_folder,
        OPGRAFT_PYTHON=python,
        PYTHONPATH=f"{module_folder}:{tmp_path / 'packages'}",
    )
    assert done.returncode == 1
    assert "has no NumPy" in done.stderr
    assert f"{python} -m pip install numpy" in done.stderr


def test_a_python_without_a_shared_library(
    double: str, tmp_path: Path, module_folder: Path
) -> None:
    """A Python that was built as a program only; here its configuration pretends so."""
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "sitecustomize.py").write_text(
        "import sysconfig\n"
        "real = sysconfig.get_config_var\n"
        "sysconfig.get_config_var = lambda n: 'libpython.a' if n == 'INSTSONAME' else real(n)\n"
    )
    done = run_cpp(
        pyop_model(double),
        tmp_path,
        double,
        modules=module_folder,
        PYTHONPATH=f"{module_folder}:{tmp_path / 'static'}",
    )
    assert done.returncode == 1
    assert "UnavailableError: node 'node'" in done.stderr
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"{sys.executable} has no shared library that a program could load" in done.stderr
    assert f"apt-get install libpython{version}" in done.stderr


def test_python3_on_the_path_is_the_default(
    write_module: Write, tmp_path: Path, module_folder: Path
) -> None:
    """And its virtual environment is respected."""
    module = write_module(
        """
        import sys
        class Op:
            def compute(self, x):
                print("prefix", sys.prefix)
                return x
        """
    )
    (tmp_path / "path").mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run_cpp(
        pyop_model(module), tmp_path, module, modules=module_folder, OPGRAFT_PYTHON="", PATH=path
    )
    assert done.returncode == 0, done.stderr
    assert f"prefix {sys.prefix}\n" in done.stdout


def test_what_an_operator_prints_and_leaves_to_the_end(
    write_module: Write, tmp_path: Path, module_folder: Path
) -> None:
    module = write_module(
        """
        import atexit
        class Op:
            def compute(self, x):
                print("computing")
                atexit.register(print, "at exit")
                return x
        """
    )
    done = run_cpp(pyop_model(module), tmp_path, module, modules=module_folder)
    assert done.returncode == 0
    assert "computing\n" in done.stdout
    assert "at exit\n" in done.stdout


def test_an_operator_that_takes_the_streams_away(
    write_module: Write, tmp_path: Path, module_folder: Path
) -> None:
    module = write_module(
        """
        import sys
        class Op:
            def compute(self, x):
                del sys.stdout
                return x
        """
    )
    done = run_cpp(pyop_model(module), tmp_path, module, modules=module_folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["opgraft/__init__.py", "sysconfig.py", "sitecustomize.py"])
def test_nothing_of_the_current_folder_is_run(
    double: str, tmp_path: Path, module_folder: Path, name: str
) -> None:
    folder = tmp_path / "current"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(f"open({str(tmp_path / 'proof')!r}, 'w')\nraise SystemExit(3)")
    onnx.save(pyop_model(double), folder / "model.onnx")
    np.save(folder / "x.npy", floats(3))
    command = [Path(sys.executable).with_name("opgraft"), "run", "model.onnx", "--host", "cpp"]
    done = subprocess.run(
        [*command, "--allow", double, "--input", "x=x.npy"],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(module_folder)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "y float32 (3)\n0 2 4\n", done.stderr
    assert not (tmp_path / "proof").exists()


def test_onnxruntimes_python_package_is_not_imported(
    write_module: Write, tmp_path: Path, module_folder: Path
) -> None:
    module = write_module(
        """
        import sys
        class Op:
            def compute(self, x):
                return x + ("onnxruntime" in sys.modules)
        """
    )
    done = run_cpp(pyop_model(module), tmp_path, module, modules=module_folder)
    assert "\n0 1 2\n" in done.stdout


def test_control_c_ends_the_program_as_ever(
    write_module: Write, tmp_path: Path, module_folder: Path
) -> None:
    """Python would install its own handler once an operator imports the module signal."""
    write_module(ENDLESS, name="endless")
    onnx.save(pyop_model("endless"), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", floats(1))
    command = [runner_path(), "--onnxruntime", runtime_library(), "--allow", "endless"]
    command += ["--input", f"x={tmp_path}/x.npy", str(tmp_path / "model.onnx")]
    with subprocess.Popen(
        command,
        env=dict(os.environ, OPGRAFT_PYTHON=HOST_PYTHON, PYTHONPATH=str(module_folder)),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == -signal.SIGINT
        finally:
            process.kill()


@tells_the_folder
def test_external_data_is_found_from_anywhere(
    double: str, tmp_path: Path, module_folder: Path
) -> None:
    """The model must be prepared, so the runtime gets bytes rather than its path."""
    path = save_with_external_weight(pyop_model(double, inputs=("weight",)), tmp_path, 1)
    done = subprocess.run(
        [runner_path(), "--onnxruntime", runtime_library(), "--allow", double, str(path)],
        env=dict(os.environ, OPGRAFT_PYTHON=HOST_PYTHON, PYTHONPATH=str(module_folder)),
        cwd=module_folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("y float32 (1000)\n2 2 2 "), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: opgraft-run"),
        (["--onnxruntime", "/no/runtime.so", "m.onnx"], "cannot load /no/runtime.so"),
        (["--onnxruntime", "libc.so.6", "m.onnx"], "libc.so.6 is not ONNX Runtime"),
        (["--unknown", "x", "m.onnx"], "unknown option --unknown"),
        (["m.onnx", "--input"], "--input needs a value"),
        (["--onnxruntime", "RUNTIME", "/no/m.onnx"], "ModelError: cannot read '/no/m.onnx'"),
        (["--onnxruntime", "RUNTIME", "--input", "x", "m.onnx"], "expected NAME=FILE.npy"),
        (["--onnxruntime", "RUNTIME", "--input", "x=/no/x.npy", "m.onnx"], "/no/x.npy"),
    ],
)
def test_wrong_use(arguments: list[str], message: str) -> None:
    command = [runner_path(), *(a.replace("RUNTIME", runtime_library()) for a in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_missing_input_is_named(double: str, tmp_path: Path, module_folder: Path) -> None:
    done = run_cpp(pyop_model(double), tmp_path, double, modules=module_folder, inputs={})
    assert "the model's input 'x' is missing: --input x=FILE.npy" in done.stderr


def test_a_broken_model(tmp_path: Path, module_folder: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"nothing of the sort")
    command = [runner_path(), "--onnxruntime", runtime_library(), str(tmp_path / "broken.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ModelError: " in done.stderr
    assert "is not an ONNX model" in done.stderr


def build(target: str, *arguments: str, cwd: Path) -> None:
    subprocess.run([target, *arguments], cwd=cwd, check=True, capture_output=True)


def test_the_example(tmp_path: Path, pyop_example: Path) -> None:
    """examples/cpp_host, built by CMake against the installed package."""
    from demo import make_model

    source = str(REPOSITORY / "examples" / "cpp_host")
    build("cmake", "-S", source, "-B", ".", f"-Dopgraft_DIR={opgraft.cmake_dir()}", cwd=tmp_path)
    build("cmake", "--build", ".", cwd=tmp_path)
    onnx.save(make_model(), tmp_path / "model.onnx")
    environment = dict(os.environ, OPGRAFT_PYTHON=HOST_PYTHON, PYTHONPATH=str(pyop_example))
    done = subprocess.run(
        [tmp_path / "cpp_host", runtime_library(), "model.onnx", "mymodule"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "22 37 56 79 106 137 \n", done.stderr


def test_eight_threads(write_module: Write, tmp_path: Path, module_folder: Path) -> None:
    module = write_module(
        """
        class Op:
            def compute(self, x):
                if x[0] < 0:
                    raise ValueError("negative")
                return x + x
        """
    )
    onnx.save(pyop_model(module), tmp_path / "model.onnx")
    package = Path(opgraft.library_path()).parent
    source = str(Path(__file__).with_name("threads.cc"))
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{opgraft.get_include()}"]
    links = [f"-L{package}", "-lopgraft", f"-Wl,-rpath,{package}", "-ldl", "-pthread"]
    build("g++", *flags, source, "-o", "threads", *links, cwd=tmp_path)
    environment = dict(os.environ, OPGRAFT_PYTHON=HOST_PYTHON, PYTHONPATH=str(module_folder))
    done = subprocess.run(
        [tmp_path / "threads", runtime_library(), "model.onnx", module, "1000"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "0 wrong of 8000\n", done.stdout + done.stderr
    assert done.returncode == 0


def test_a_bridge_of_another_version(double: str) -> None:
    """A package opgraft that is newer than the library is refused, naming both versions."""
    model = opgraft.prepare(pyop_model(double)).bytes
    program = f"""
import ctypes, sys, types, onnxruntime
table = (ctypes.c_uint32 * 16)(999)
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule = new(ctypes.addressof(table), b"opgraft._pyop.bridge", None)
sys.modules["opgraft"] = types.ModuleType("opgraft")
sys.modules["opgraft._pyop"] = types.SimpleNamespace(bridge=capsule)
options = onnxruntime.SessionOptions()
options.add_session_config_entry("opgraft.allow", {double!r})
options.register_custom_ops_library({opgraft.library_path()!r})
try:
    onnxruntime.InferenceSession({model!r}, options)
except Exception as error:
    print(error)
"""
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert "opgraft.UnavailableError" in output
    assert "of the bridge, the package opgraft of this process" in output
    assert "version 999" in output
