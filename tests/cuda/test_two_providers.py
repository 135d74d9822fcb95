"""OpgraftCUDA beside a provider called CUDAExecutionProvider: nothing orders their streams, so
sessions with both are refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import onnx
import onnxruntime
import pytest
from fake_gpu import build_driver, build_operators, build_other_provider, needs_plugins
from fake_models import in_process, model
from pack_building import find_compiler

import opgraft
from opgraft._base._library import runtime_library

pytestmark = needs_plugins
REFUSAL = "OpgraftCUDA and CUDAExecutionProvider cannot share a session"
finds_by_name = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 26),
    reason="before 1.26 the runtime does not find plugin providers by name",
)


def with_both(code: str) -> str:
    """Returns what the code prints, in a process with both providers.

    `devices` are theirs, `options` makes session options for some of them, and `attempt` prints
    what becomes of a session.
    """
    begin = f"""
import onnxruntime
session()
onnxruntime.register_execution_provider_library(
    "CUDAExecutionProvider", {str(build_other_provider())!r})
devices = {{one.ep_name: one for one in onnxruntime.get_ep_devices()}}
NEG = onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 18, "test.cuda": 1]> '
    'g (float[n, m] x) => (float[n, m] y) {{ a = Neg(x) y = test.cuda.Twice(a) }}')
def options(*names):
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    for name in names:
        made.add_provider_for_devices([devices[name]], {{}})
    return made
def attempt(make):
    try:
        make()
        print("opened")
    except opgraft.Error as error:
        print(error)
"""
    done = in_process(begin + code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_session_with_both_is_refused() -> None:
    for names in (
        "'OpgraftCUDA', 'CUDAExecutionProvider'",
        "'CUDAExecutionProvider', 'OpgraftCUDA'",
    ):
        said = with_both(f"attempt(lambda: opgraft.InferenceSession(MODEL, options({names})))")
        assert REFUSAL in said and "Fix: providers=['OpgraftCUDA', 'CPUExecutionProvider']" in said


def test_each_alone_is_not() -> None:
    for name in ("OpgraftCUDA", "CUDAExecutionProvider"):
        code = f"attempt(lambda: opgraft.InferenceSession(MODEL, options('{name}')))"
        assert with_both(code) == "opened\n"


@finds_by_name
def test_by_name_and_set_later() -> None:
    both = "['CUDAExecutionProvider', 'OpgraftCUDA']"
    said = with_both(f"attempt(lambda: opgraft.InferenceSession(MODEL, providers={both}))")
    assert REFUSAL in said
    said = with_both(f"attempt(lambda: opgraft.InferenceSession(MODEL).set_providers({both}))")
    assert REFUSAL in said


@pytest.mark.skipif(
    not hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"),
    reason="this ONNX Runtime does not tell which provider runs a node",
)
def test_a_plain_session_runs_nothing_on_opgraft_cuda() -> None:
    """No session of ours looks at the names there; what the other provider has left runs on the
    CPU."""
    code = """
both = options("CUDAExecutionProvider", "OpgraftCUDA")
both.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
opgraft.register(both)
session = onnxruntime.InferenceSession(opgraft.prepare(NEG).bytes, both)
print(sorted(part.ep_name for part in session.get_provider_graph_assignment_info()))
"""
    assert with_both(code) == "['CPUExecutionProvider', 'CUDAExecutionProvider']\n"


def test_in_cpp(tmp_path: Path) -> None:
    """In both orders: the provider that comes first takes the nodes that it can."""
    program = tmp_path / "two_providers"
    library = Path(opgraft.library_path())
    command = [find_compiler("g++"), "-std=c++20", "-Wall", "-Wextra", "-Werror"]
    command += [str(Path(__file__).with_name("two_providers.cc")), "-o", str(program)]
    command += [f"-I{opgraft.get_include()}", str(library), f"-Wl,-rpath,{library.parent}", "-ldl"]
    subprocess.run(command, check=True)

    def run(body: str) -> dict[str, str]:
        onnx.save(model(body), tmp_path / "model.onnx")
        parts = [runtime_library(), build_other_provider(), build_operators()]
        done = subprocess.run(
            [program, *parts, tmp_path / "model.onnx"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OPGRAFT_CUDA_DRIVER": str(build_driver())},
        )
        assert (done.returncode, done.stderr) == (0, "")
        return dict(line.split(": ", 1) for line in done.stdout.splitlines())

    assert set(run("y = test.cuda.Twice(x)").values()) == {"opened"}
    opened = run("a = Neg(x) y = test.cuda.Twice(a)")
    assert opened["other"] == opened["ours"] == "opened"
    assert REFUSAL in opened["ours other"] and REFUSAL in opened["other ours"]
