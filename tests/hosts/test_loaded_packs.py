"""opgraft.load: sessions find the operators of packs, even if others share the domain."""

from __future__ import annotations

import doctest
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import opgraft
from conftest import graph_model, run_model
from packs import build_c_library, build_once, operator_source

X = np.float32([1, 2])


def model(*operators: str, domain: str = "test.packs", version: int = 5) -> onnx.ModelProto:
    """Returns a model that applies the operators in turn to a float vector x."""
    values = ["x", *(f"v{i}" for i in range(len(operators) - 1)), "z"]
    nodes = " ".join(
        f"{values[i + 1]} = {name if '.' in name else f'{domain}.{name}'} ({values[i]})"
        for i, name in enumerate(operators)
    )
    imports = f', "{domain}": {version}' if version else ""
    return graph_model(f"(float[n] x) => (float[n] z) {{ {nodes} }}", more=imports)


def small_pack(name: str, operator: str, domain: str = "test.packs", step: int = 1) -> Path:
    """Builds a pack with one operator, y = x + step."""
    return build_once(name, operator_source(operator, f"x[i] + {step}", domain))


@pytest.fixture(scope="module")
def second_pack() -> opgraft.Pack:
    """Another pack with operators in the domain of the first."""
    return opgraft.load(small_pack("second", "Second", step=10))


def test_what_a_pack_has(first_library: Path, first_pack: opgraft.Pack) -> None:
    assert first_pack.path == os.path.realpath(first_library)
    names = "Scale Shout Shift Repeat Fail Step Late".split()
    assert first_pack.operators == tuple(f"test.packs::{name}" for name in names)


def test_the_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    library = build_once("my_op", operator_source("Scale", "x[i] * 2", "my.domain"))
    (tmp_path / "libmy_op.so").symlink_to(library)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for documented in (opgraft.load, opgraft.Pack):
        for example in doctest.DocTestFinder().find(documented, globs={"opgraft": opgraft}):
            runner.run(example)
    assert runner.summarize(verbose=False) == (0, 2)


@pytest.mark.usefixtures("first_pack")
def test_sessions_find_its_operators() -> None:
    (z,) = run_model(model("Scale", "Step"), X)
    np.testing.assert_array_equal(z, [7, 9])


@pytest.mark.usefixtures("first_pack", "second_pack")
def test_packs_and_python_in_one_domain() -> None:
    @opgraft.op("test.packs::FromPython", shape=lambda x: x)
    def from_python(x: np.ndarray) -> np.ndarray:
        return -x

    given = model("Scale", "FromPython", "Second", "Neg")
    given.graph.node[3].domain = ""
    (z,) = run_model(given, X)
    np.testing.assert_array_equal(z, [-8, -6])


@pytest.mark.usefixtures("first_pack", "second_pack")
@pytest.mark.parametrize("names", [["Late", "Second"], ["Second", "Late"]])
def test_the_import_that_is_added_serves_all_packs(names: list[str]) -> None:
    """One pack has version 4 of the domain, the other version 1."""
    (z,) = run_model(model(*names, version=0), X)
    np.testing.assert_array_equal(z, X + 50)


def test_plain_libraries_own_their_domains(first_library: Path) -> None:
    """As docs/loading.md says."""
    options = onnxruntime.SessionOptions()
    for library in (first_library, small_pack("second", "Second", step=10)):
        options.register_custom_ops_library(str(library))
    with pytest.raises(Exception, match="Domain already set in registry"):
        onnxruntime.InferenceSession(model("Scale").SerializeToString(), options)


@pytest.mark.usefixtures("first_pack", "second_pack")
def test_the_report_names_the_packs(first_pack: opgraft.Pack, second_pack: opgraft.Pack) -> None:
    prepared = opgraft.prepare(model("Scale", "Second"))
    expected = {"test.packs::Scale": first_pack.path, "test.packs::Second": second_pack.path}
    assert prepared.packs == expected
    again = opgraft.prepare(prepared.bytes)
    assert (again.packs, again.bytes) == (expected, prepared.bytes)


@pytest.mark.usefixtures("first_pack")
@pytest.mark.parametrize("version", [1, 5])
def test_a_saved_model_in_a_plain_session(tmp_path: Path, version: int) -> None:
    prepared = opgraft.prepare(model("Step", "Scale", version=version))
    prepared.save(tmp_path / "prepared.onnx")
    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    session = onnxruntime.InferenceSession(str(tmp_path / "prepared.onnx"), options)
    expected = (X + version) * 2
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected)
    again = opgraft.InferenceSession(tmp_path / "prepared.onnx")  # prepares it again
    np.testing.assert_array_equal(again.run(None, {"x": X})[0], expected)


# Loading: again, late, and what is refused.


def test_loading_again_changes_nothing(first_pack: opgraft.Pack, tmp_path: Path) -> None:
    link = tmp_path / "liblink.so"
    link.symlink_to(first_pack.path)
    relative = os.path.relpath(first_pack.path)
    for path in (first_pack.path, link, relative, os.fsencode(first_pack.path)):
        assert opgraft.load(path) == first_pack  # type: ignore[arg-type]
    np.testing.assert_array_equal(run_model(model("Scale"), X)[0], [2, 4])


def refused(load: Callable[[], object], *texts: str) -> None:
    with pytest.raises(opgraft.Error) as raised:
        load()
    for text in texts:
        assert text in str(raised.value)
    assert type(raised.value) is opgraft.Error


def test_two_packs_with_one_operator(first_pack: opgraft.Pack) -> None:
    other = small_pack("other", "Scale")
    refused(
        lambda: opgraft.load(other),
        f"test.packs::Scale is declared by the pack '{first_pack.path}' and by the pack '{other}'; "
        "only one of them can have it",
    )
    np.testing.assert_array_equal(run_model(model("Scale"), X)[0], [2, 4])


def test_nothing_of_a_refused_pack_stays(first_pack: opgraft.Pack) -> None:
    source = operator_source("Fresh", "x[i]", "test.packs")
    source += operator_source("Scale", "x[i]", "test.packs").partition("\n")[2]
    both = build_once("both", source)
    refused(lambda: opgraft.load(both), first_pack.path, str(both))
    with pytest.raises(opgraft.ModelError, match="Fresh"):
        opgraft.InferenceSession(model("Fresh"))
    assert opgraft.load(small_pack("fresh", "Fresh")).operators == ("test.packs::Fresh",)


def test_a_pack_after_python() -> None:
    @opgraft.op("test.python_first::Claimed")
    def claimed(x: np.ndarray) -> np.ndarray:
        return -x

    library = small_pack("claims", "Claimed", "test.python_first")
    refused(
        lambda: opgraft.load(library),
        f"test.python_first::Claimed is declared by the Python module '{__name__}' and by the pack "
        f"'{library}'; only one of them can have it",
    )
    (z,) = run_model(model("Claimed", domain="test.python_first", version=1), X)
    np.testing.assert_array_equal(z, -X)


def test_python_after_a_pack() -> None:
    library = small_pack("early", "Claimed", "test.pack_first")
    opgraft.load(library)

    def declare() -> None:
        @opgraft.op("test.pack_first::Claimed")
        def claimed(x: np.ndarray) -> np.ndarray:
            return -x

    refused(
        declare,
        f"test.pack_first::Claimed is declared by the pack '{library}' and by the Python module "
        f"'{__name__}'; only one of them can have it",
    )
    given = model("Claimed", domain="test.pack_first", version=1)
    np.testing.assert_array_equal(run_model(given, X)[0], X + 1)
    reference = onnx.reference.ReferenceEvaluator(given)
    np.testing.assert_array_equal(reference.run(None, {"x": X})[0], X + 1)


@pytest.mark.usefixtures("first_pack")
def test_options_that_were_registered_before_the_pack_was_loaded() -> None:
    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    opgraft.load(small_pack("late", "Operator", "test.late"))
    given = model("Operator", domain="test.late", version=1)
    np.testing.assert_array_equal(run_model(given, X, sess_options=options)[0], X + 1)
    np.testing.assert_array_equal(run_model(model("Scale"), X, sess_options=options)[0], X * 2)
    more = small_pack("later", "Another", "test.late")
    opgraft.load(more)
    refused(
        lambda: opgraft.register(options),
        f"these session options were registered before the pack '{more}' was loaded, which has "
        "operators in 'test.late' too. Fix: load packs first, or make new session options",
    )
    given = model("Operator", "Another", domain="test.late", version=1)
    np.testing.assert_array_equal(run_model(given, X)[0], X + 2)  # with new options


@pytest.mark.usefixtures("first_pack", "second_pack")
def test_sessions_share_options() -> None:
    options = onnxruntime.SessionOptions()
    sessions = [
        opgraft.InferenceSession(model(*names), options)
        for names in (["Scale"], ["Second"], ["Step", "Scale"])
    ]
    results = [session.run(None, {"x": X})[0].tolist() for session in sessions]
    assert results == [[2, 4], [11, 12], [12, 14]]


def test_a_newer_contract(tmp_path: Path) -> None:
    source = """#include <opgraft/c_api.h>
        static const OpgraftPack pack = {OPGRAFT_PACK_VERSION + 1, "not to be read", 0, 77};
        const OpgraftPack* opgraft_pack(void) { return &pack; }"""
    library = build_c_library(tmp_path, source)
    with pytest.raises(opgraft.UnavailableError) as raised:
        opgraft.load(library)
    assert str(raised.value) == (
        f"the pack '{library}' has version 4 of the contract between packs and hosts, but this "
        "Opgraft supports up to version 3. Fix: install a newer Opgraft, or build the pack with "
        "this one"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "int nothing;",
            "is not a pack: it has no function opgraft_pack. Fix: register an ordinary",
        ),
        ("void* opgraft_pack(void) { return 0; }", "is not a pack: its function opgraft_pack"),
    ],
)
def test_a_library_that_is_no_pack(tmp_path: Path, source: str, text: str) -> None:
    library = build_c_library(tmp_path, source)
    with pytest.raises(opgraft.UnavailableError, match=f"'{library}' {text}"):
        opgraft.load(library)


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library" * 100)
    with pytest.raises(opgraft.UnavailableError, match=r"text\.so' cannot be loaded: .*ELF"):
        opgraft.load(tmp_path / "text.so")
    for path in (tmp_path / "missing.so", tmp_path, ""):
        with pytest.raises(opgraft.UnavailableError, match="there is no pack '.*'opgraft build'"):
            opgraft.load(path)
    with pytest.raises(TypeError):
        opgraft.load(None)  # type: ignore[arg-type]


def test_a_pack_with_a_problem(tmp_path: Path) -> None:
    """`opgraft build` would have refused it."""
    problem = "test.problem::Alike: it is declared twice at version 1"
    source = f"""#include <opgraft/c_api.h>
        static const OpgraftPack pack = {{OPGRAFT_PACK_VERSION, "{problem}", 0, 0}};
        const OpgraftPack* opgraft_pack(void) {{ return &pack; }}"""
    library = build_c_library(tmp_path, source)
    refused(lambda: opgraft.load(library), f"the pack '{library}': {problem}")


def test_a_copy_is_another_pack(first_pack: opgraft.Pack, tmp_path: Path) -> None:
    copy = shutil.copy(first_pack.path, tmp_path / "libcopy.so")
    refused(lambda: opgraft.load(copy), first_pack.path, str(copy))


# Threads.


@pytest.mark.usefixtures("first_pack", "second_pack")
def test_eight_threads() -> None:
    session = opgraft.InferenceSession(model("Scale", "Second", "Step"))

    def run(start: int) -> None:
        x = np.arange(start, start + 100, dtype=np.float32)
        for _ in range(50):
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], x * 2 + 15)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(run, range(8)))


@pytest.mark.usefixtures("first_pack")
def test_loading_while_sessions_are_made() -> None:
    libraries = [small_pack(f"parallel{i}", f"P{i}", "test.parallel") for i in range(3)]
    is_over = threading.Event()

    def make() -> int:
        made = 0
        while not is_over.is_set() or made == 0:
            np.testing.assert_array_equal(run_model(model("Scale"), X)[0], X * 2)
            made += 1
        return made

    with ThreadPoolExecutor(6) as threads:
        makers = [threads.submit(make) for _ in range(3)]
        loaded = list(threads.map(opgraft.load, libraries * 5))
        is_over.set()
        assert all(maker.result() for maker in makers)
    assert {pack.path for pack in loaded} == {str(library) for library in libraries}
    given = model("P0", "P1", "P2", domain="test.parallel", version=1)
    np.testing.assert_array_equal(run_model(given, X)[0], X + 3)
