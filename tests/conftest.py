"""Shared by the tests: modules with operators on Python's path, and small models."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from itertools import count
from pathlib import Path
from typing import Any

import fake_gpu as fake
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from packs import build_once

# Folders of operators for test_operator_folder.py, which runs their tests in copies.
collect_ignore = ["operator_folders"]
FLOAT = TensorProto.FLOAT
VERSION = tuple(map(int, onnxruntime.__version__.split(".")[:2]))  # of ONNX Runtime
DTYPES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64".split()
# The Python that C++ programs use; make test-matrix sets another one than that of the tests.
HOST_PYTHON = os.environ.get("OPGRAFT_TEST_PYTHON", sys.executable)
SEEDS = Path(__file__).resolve().parents[2] / "shared" / "seeds"

SPECIAL_FUNCTIONS = "airy bessel distances gaussian modified_bessel polygamma".split()

tells_the_folder = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:3])) < (1, 21, 1),
    reason="this ONNX Runtime has no option for the folder of external data",
)

takes_nibbles = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 21),
    reason="custom operators of this ONNX Runtime have no 4-bit integers",
)
takes_float4 = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24),
    reason="custom operators of this ONNX Runtime have no 4-bit floats",
)

Write = Callable[..., str]  # the type of the fixture write_module


class _FilesAlone(FileFinder):
    """Finds the modules of a folder, but not its folders, since tests/torch is not torch."""

    def find_spec(self, name: str, target: Any = None) -> Any:
        found = super().find_spec(name, target)
        return None if found is None or found.loader is None else found


HERE = str(Path(__file__).parent)
sys.path_importer_cache[HERE] = _FilesAlone(HERE, (SourceFileLoader, SOURCE_SUFFIXES))

DOUBLE = """
    class Op:
        def compute(self, x):
            return x + x
"""

ENDLESS = """
    import signal, time
    class Op:
        def compute(self, x):
            print("running", flush=True)
            while True:
                time.sleep(0.01)
"""

_PACKS = Path(__file__).parent / "hosts" / "pack_sources"
_numbers = count(1)


#: What takes longest, in this order, by the folder or the file. The rest follows, the scopes with
#: most tests first.
_LONGEST = (
    *("tests/torch", "tests/hosts", "tests/sklearn", "tests/attacks", "tests/cuda", "cmake"),
    *("tests/test_new.py", "tests/test_contrib_layer.py", "tests/test_operator_folder.py"),
    *("tests/testing", "tests/test_build_cuda.py", "tests/test_cuda_kernels.py"),
    *("tests/seeds", "tests/test_opset_table.py", "tests/test_build.py"),
)


def _scope(nodeid: str) -> str:
    """The folder of a test, which one process runs as a whole and in the same order each time, or
    the file, for those that are in tests/ itself."""
    path = Path(nodeid.partition("::")[0])
    if path.name in ("test_cmake.py", "test_custom_op_library.py"):
        return "cmake"  # one build for both
    return str(path if path.parent.name == "tests" else path.parent)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`make test` runs in two processes. Each takes a scope at a time, what takes longest first, so
    that both are done at about the same time."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    config.option.loadscopereorder = False  # takes the tests as they are ordered below
    return ByFolder(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the scopes where tests run in several processes; each keeps its own order."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    sizes = Counter(_scope(item.nodeid) for item in items)

    def place(item: pytest.Item) -> tuple[int, int]:
        scope = _scope(item.nodeid)
        return (_LONGEST.index(scope) if scope in _LONGEST else len(_LONGEST)), -sizes[scope]

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Excludes what the tests have imported, mainly torch, from garbage collection.

    It is not garbage and holds no operator's inputs. Searching it for either is slow; some tests
    would do little else.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_allowance_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPGRAFT_ALLOW", raising=False)


@contextmanager
def importable(folder: Path) -> Iterator[Path]:
    """Puts the folder on Python's path, and forgets its modules afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def module_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on Python's path for modules of the test."""
    (tmp_path / "modules").mkdir()
    with importable(tmp_path / "modules") as folder:
        yield folder


@pytest.fixture
def pyop_example() -> Iterator[Path]:
    """The folder of the example, with its modules demo and mymodule, on Python's path."""
    with importable(Path(__file__).resolve().parents[1] / "examples" / "pyop") as folder:
        yield folder


@pytest.fixture
def write_module(module_folder: Path) -> Write:
    """Writes a module that can be imported; returns its name, which is unique by default."""

    def write(source: str, name: str | None = None) -> str:
        name = name or f"operators_{next(_numbers)}"
        path = module_folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import numpy as np\n" + textwrap.dedent(source))
        return name

    return write


@pytest.fixture(scope="session")
def first_library() -> Path:
    """A pack with operators of the domain test.packs."""
    return build_once("first", (_PACKS / "first.cc").read_text())


@pytest.fixture(scope="session")
def runtimes_library() -> Path:
    """A pack with operators of ONNX Runtime's own domains."""
    return build_once("runtimes", (_PACKS / "runtimes.cc").read_text())


@pytest.fixture(scope="session")
def first_pack(first_library: Path) -> opgraft.Pack:
    return opgraft.load(first_library)


@pytest.fixture(scope="session")
def runtimes_pack(runtimes_library: Path) -> opgraft.Pack:
    return opgraft.load(runtimes_library)


def pyop_model(
    module: str,
    class_name: str = "Op",
    *,
    inputs: tuple[str, ...] = ("x",),
    outputs: tuple[str, ...] = ("y",),
    shape: list[Any] | None = None,
    type: int = FLOAT,
    **attributes: Any,
) -> onnx.ModelProto:
    """Returns a model of one PyOp node 'node' with float tensors, in the form of the documents."""
    given = {
        "input_types": [type for name in inputs if name],
        "output_types": [type] * len(outputs),
        **attributes,
    }
    node = helper.make_node(
        "PyOp",
        list(inputs),
        list(outputs),
        name="node",
        domain="test.pyop",
        module=module,
        class_name=class_name,
        **{name: value for name, value in given.items() if value not in (None, [])},
    )
    names = [name for name in inputs if name]
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(name, type, shape) for name in dict.fromkeys(names)],
        [helper.make_tensor_value_info(name, type, shape) for name in outputs if name],
    )
    return helper.make_model(graph)


def floats(*shape: int) -> np.ndarray:
    """Returns an array of this shape with the numbers 0, 1, 2 and so on."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def save_with_external_weight(model: onnx.ModelProto, folder: Path, value: float) -> Path:
    """Saves the model; its only input becomes 1,000 floats of that value in a separate file."""
    del model.graph.input[:]
    weight = np.full(1000, value, np.float32).tobytes()
    model.graph.initializer.append(helper.make_tensor("weight", FLOAT, [1000], weight, raw=True))
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin")
    assert (folder / "weights.bin").stat().st_size == len(weight)
    return path


def graph_model(graph: str, opset: int = 21, more: str = "") -> onnx.ModelProto:
    """Returns the model of a graph in ONNX's text form; the types of outputs may be left out."""
    head = f'<ir_version: 10, opset_import: ["": {opset}, "test": 1{more}]>'
    return onnx.parser.parse_model(f"{head} graph {graph}")


def run_model(given: onnx.ModelProto, *inputs: Any, **options: Any) -> list[np.ndarray]:
    session = opgraft.InferenceSession(given, **options)
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, inputs), strict=True)))


@pytest.fixture(scope="session")
def cmake_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of a CMake project, a C++17 program with strict warnings, in a folder with a space
    in its name. It has the example's pack, that of `opgraft new --cuda`, which also builds without
    nvcc, and one of its own."""
    from packs import EXAMPLE, command, operator_source

    folder = tmp_path_factory.mktemp("a project")
    done = command("new", "my.domain::TimesFactor", "--cuda", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "own.cc").write_text(operator_source("AddOne", "x[i] + 1"))
    (folder / "more.cc").write_text(operator_source("Twice", "x[i] * 2"))
    (folder / "program.cc").write_text(
        'static_assert(__cplusplus == 201703L, "as it was");\nint main() {}\n'
    )
    (folder / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.22)
        project(all_of_them LANGUAGES CXX)
        set(CMAKE_CXX_STANDARD 17)
        set(CMAKE_CXX_EXTENSIONS OFF)
        set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
        add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${{warnings}}>")
        find_package(opgraft REQUIRED)
        opgraft_add_pack(own own.cc more.cc)
        enable_testing()
        add_subdirectory("{EXAMPLE}" example)
        add_subdirectory(times_factor)
        add_executable(program program.cc)
        """
    )
    build = folder / "build"
    configure = ["cmake", "-S", folder, "-B", build, f"-Dopgraft_DIR={opgraft.cmake_dir()}"]
    make = ["cmake", "--build", build, "-j2", "--verbose"]
    configure += ["-DCMAKE_CXX_FLAGS=-O0", "-DCMAKE_CUDA_ARCHITECTURES=90"]
    for step in (configure, make):
        done = subprocess.run(list(map(str, step)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (build / "said.txt").write_text(done.stdout)
    return build


@pytest.fixture(autouse=True)
def no_fake_gpu() -> Iterator[None]:
    """Hides the fake driver, which stays in the process, from programs that other tests start."""
    yield
    for name in fake.VARIABLES:
        os.environ.pop(name, None)


@pytest.fixture
def fake_gpu() -> Iterator[fake.FakeGpu]:
    """The fake CUDA driver in this process. Checks that the test frees all memory it allocates."""
    gpu = fake.start()
    before = gpu.used()
    yield gpu
    gc.collect()
    assert gpu.used() == before


@pytest.fixture
def without_special_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes our functions of erfcx, airy_ai and the like away. They are what tests of translations
    that are wrong, and of ATen nodes, take as examples."""
    functions = pytest.importorskip("opgraft.torch._rungs._functions")
    homes = {f"{functions.__name__}.{name}" for name in SPECIAL_FUNCTIONS}
    left = {
        name: (one, when)
        for name, (one, when) in functions._known().items()
        if one.__module__ not in homes
    }
    kept = {name: one for name, one in functions._kept.items() if name in left}
    monkeypatch.setattr(functions, "_known", lambda: left)
    monkeypatch.setattr(functions, "_kept", kept)
