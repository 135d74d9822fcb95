"""OpTester runs cases on the GPU too, where their operator has a kernel for it: on the fake one."""

from __future__ import annotations

import os
import subprocess
import unittest
from pathlib import Path

import numpy as np
import pytest
from fake_gpu import FakeGpu, build_driver, build_operators, needs_plugins
from tester_programs import compile_tests

import opgraft
from opgraft import testing
from opgraft._base._library import cuda_library_path
from opgraft.testing import OpTester

pytestmark = [needs_plugins, pytest.mark.usefixtures("fake_gpu")]
X = np.float32([[1, 2, 3], [4, 5, 6]])
WAYS = [
    "inputs fed, dimensions fixed",
    "inputs fed, dimensions symbolic",
    "inputs fed, ranks unknown",
    "all inputs initializers",
    "between other nodes, whose memory may be reused",
]


def case(operator: str, *, by: float = 2, more: float = 0, **named: object) -> OpTester:
    test = OpTester(f"test.cuda::{operator}", **named)  # type: ignore[arg-type]
    return test.add_input("x", X).add_output("y", X * np.float32(by) + np.float32(more))


def problems(test: OpTester) -> str:
    with pytest.raises(AssertionError) as raised:
        test.run()
    return str(raised.value)


@pytest.mark.parametrize("library", [False, True])
def test_both_kernels_are_run(fake_gpu: FakeGpu, library: bool) -> None:
    """Twice adds 1 on the CPU, and 0 on the GPU."""
    named = {"library": str(build_operators())} if library else {}
    before = fake_gpu.counts()["launches"]
    said = problems(case("Twice", **named))
    assert fake_gpu.counts()["launches"] == before + 2 * len(WAYS)
    assert "output 'y'[0, 0]: expected 2.0, got 3.0" in said
    assert all(f"    {way}\n" in said + "\n" for way in WAYS)
    assert "on the GPU" not in said
    said = problems(case("Twice", more=1, **named))
    assert "output 'y'[0, 0]: expected 3.0, got 2.0" in said
    places = said.partition("only in these ways of running:\n")[2].splitlines()
    assert [place.strip() for place in places] == [f"{way}, on the GPU" for way in WAYS]
    case("Twice", more=1, cuda=False, **named).run()


def test_an_operator_for_the_gpu_alone() -> None:
    case("Copy", by=1, cuda=True).run()
    case("Fail").expect_failure("no such luck")
    test = OpTester("test.cuda::AddNumber").add_input("x", X).add_input("number", np.int64([3]))
    test.add_output("y", X + 3).run()
    shapes = OpTester("test.cuda::Copy").add_input_shape("x", np.float32, ["n", 3])
    shapes.add_output_shape("y", np.float32, ["n", 3]).infer_shapes()


def test_wrong_results_there_are_found() -> None:
    said = problems(case("Copy", by=3))
    assert "output 'y'[0, 0]: expected 3.0, got 1.0" in said
    assert f"in all {len(WAYS)} ways of running" in said
    with pytest.raises(AssertionError, match="but it did not fail"):
        case("Copy").expect_failure("luck")


def test_types_without_a_kernel_for_the_gpu() -> None:
    test = OpTester("test.cuda::Twice", cuda=True).add_input("x", X.astype(np.float64))
    with pytest.raises(opgraft.Error, match="test.cuda::Twice has no kernel for CUDA that takes"):
        test.add_output("y", X.astype(np.float64)).run()


def test_without_a_gpu_the_result_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "why_no_gpu", lambda: "there is no driver")
    warning = "test.cuda::Twice has a kernel for CUDA, which is not tested here: there is no driver"
    with pytest.warns(UserWarning, match=warning) as warned:
        case("Twice", more=1).run()
    assert warned[0].filename == __file__
    with pytest.raises(unittest.SkipTest) as skipped:
        case("Copy").run()
    assert str(skipped.value) == (
        "test.cuda::Copy: it runs only on a GPU, which is not available: there is no driver"
    )
    with pytest.raises(unittest.SkipTest, match="cuda=False"):
        case("Copy", cuda=False).run()
    with pytest.raises(opgraft.UnavailableError, match="cannot be tested on the GPU: there is no"):
        case("Copy", cuda=True).run()
    shapes = OpTester("test.cuda::Copy").add_input_shape("x", np.float32, ["n"])
    shapes.add_output_shape("y", np.float32, ["n"]).infer_shapes()


def test_a_variable_leaves_the_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPGRAFT_TEST_CUDA", "0")
    with pytest.warns(UserWarning, match="the variable OPGRAFT_TEST_CUDA is 0"):
        case("Twice", more=1).run()


@pytest.fixture(scope="module")
def program() -> Path:
    return compile_tests("g++", Path(__file__).parent / "op_tester_cases.cc")


def run_program(program: Path, cases: str, **environment: str) -> tuple[int, str]:
    variables = {
        **os.environ,
        "OPGRAFT_TEST_RUNTIME": opgraft.runtime_library(),
        "OPGRAFT_TEST_PACKS": str(build_operators()),
        "OPGRAFT_TEST_CUDA": cuda_library_path(),
        "OPGRAFT_CUDA_DRIVER": str(build_driver()),
        **environment,
    }
    done = subprocess.run(
        [str(program), f"--gtest_filter={cases}"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_in_cpp(program: Path) -> None:
    status, said = run_program(program, "*-*CopyExcluded:*As*")
    assert status == 0, said
    assert "PASSED  ] 5 tests." in said
    assert "not tested here" not in said
    status, said = run_program(program, "*AsInTheRuntimesTree")
    assert status == 0, said
    status, said = run_program(program, "*AsOnTheGpu")
    assert status == 1
    assert "output 'y'[0]: expected 2, got 3" in said
    assert "on the GPU" not in said
    status, said = run_program(program, "*AsOnTheCpu")
    assert status == 1
    assert "output 'y'[0]: expected 3, got 2" in said
    places = said.partition("only in these ways of running:\n")[2].splitlines()[: len(WAYS)]
    assert [place.strip() for place in places] == [f"{way}, on the GPU" for way in WAYS]


def test_in_cpp_without_a_gpu(program: Path, tmp_path: Path) -> None:
    status, said = run_program(program, "*", OPGRAFT_TEST_CUDA="")
    assert status == 1  # TwiceAsOnTheGpu
    assert "PASSED  ] 4 tests." in said
    assert "SKIPPED ] 4 tests, listed below:" in said
    reason = "the variable OPGRAFT_TEST_CUDA does not name libopgraft_cuda.so"
    told = f"OpTester: test.cuda::Twice has a kernel for CUDA, which is not tested here: {reason}\n"
    assert said.count(told) == 1
    assert f"test.cuda::Copy: it runs only on a GPU, which is not available: {reason}" in said
    assert (
        "test.cuda::Copy: it runs only on a GPU, which is not available: the case excludes it"
        in said
    )
    _, said = run_program(program, "*AsOnTheCpu", OPGRAFT_TEST_CUDA=str(build_operators()))
    assert "is not OpgraftCUDA" in said
    _, said = run_program(program, "*AsOnTheCpu", OPGRAFT_TEST_CUDA="/nowhere.so")
    assert "OPGRAFT_TEST_CUDA: /nowhere.so" in said
    _, said = run_program(program, "*AsOnTheCpu", OPGRAFT_CUDA_DRIVER="/nowhere.so")
    assert "which is not tested here: " in said
