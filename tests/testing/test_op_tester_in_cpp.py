"""OpTester in C++: programs of GoogleTest cases, right and wrong, and what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from pack_building import PACKAGE, compile_folder

import opgraft
from conftest import VERSION
from opgraft.testing import OpTester

FOLDER = Path(__file__).parent
COMPILER = [os.environ.get("CXX", "g++"), "-std=c++20", "-Wall", "-Wextra", "-Werror"]


def compile(target: Path, *arguments: str | Path) -> Path:
    command = [*COMPILER, f"-I{PACKAGE}/include", *map(str, arguments), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def adapter() -> list[Path]:
    """What a pack is built with, one that uses opgraft/contrib.h too."""
    folders = [*sorted(PACKAGE.glob("adapter/*")), PACKAGE / "contrib"]
    return [compile_folder(folder) for folder in folders]


@pytest.fixture(scope="module")
def testing() -> list[Path]:
    return [compile_folder(PACKAGE / "testing", is_sanitized=False)]


def compile_pack(target: Path, adapter: list[Path], *arguments: str | Path) -> Path:
    return compile(target, "-fvisibility=hidden", "-fPIC", "-shared", *arguments, *adapter)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, adapter: list[Path]) -> Path:
    target = tmp_path_factory.mktemp("pack") / "liboperators.so"
    return compile_pack(target, adapter, FOLDER / "operators.cc")


def compile_tests(target: Path, testing: list[Path], *sources: str | Path) -> Path:
    libraries = ["-lgtest_main", "-lgtest", "-ldl", "-pthread"]
    return compile(target, *sources, *testing, *libraries)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, testing: list[Path]) -> Path:
    target = tmp_path_factory.mktemp("program") / "tests"
    return compile_tests(target, testing, FOLDER / "right.cc", FOLDER / "wrong.cc")


def run(program: Path, tests: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = ("OPGRAFT_TEST_RUNTIME", "OPGRAFT_TEST_PACKS")
    variables = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [str(program), f"--gtest_filter={tests}"],
        env={**variables, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def run_here(program: Path, tests: str, pack: Path) -> subprocess.CompletedProcess[str]:
    runtime = opgraft.runtime_library()
    return run(program, tests, OPGRAFT_TEST_RUNTIME=runtime, OPGRAFT_TEST_PACKS=str(pack))


def test_right_cases_pass(program: Path, pack: Path) -> None:
    tests = "Right.*" if VERSION >= (1, 25) else "Right.*-*TextLists"
    done = run_here(program, tests, pack)
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"PASSED  \] (\d+)", done.stdout)[0]) >= 15
    assert done.stderr == ""  # the runtime does not log what is expected


ALL = f"in ONNX Runtime {onnxruntime.__version__}, in all 6 ways of running"
ALONE = f"in ONNX Runtime {onnxruntime.__version__}, only in these ways of running:"
FED = ["fixed", "symbolic", "ranks unknown", "odd addresses"]

REPORTS = {
    "Value": [
        "test.tester::Scale: output 'y'[1, 0]: expected 6.5, got 6, which is 0.5 away "
        "(tolerance 1e-05 + 1e-05 * |expected|); 1 of 4 elements differ",
        ALL,
    ],
    "TextValue": ['output \'y\'[0]: expected "aaa", got "aa"', ALL],
    "Tolerance": ["expected 2.25, got 2, which is 0.25 away (tolerance 0.125 + 0 *", ALL],
    "Shape": ["output 'y': expected the shape [4], got [2, 2]", ALL],
    "Type": ["output 'y': expected double, got float", ALL],
    "InferredShape": [
        "output 'y': the runtime inferred the shape [3], but it is [1]",
        "output 'y': the operator Shape after it returns [3], but its shape is [1]: ",
        "output 'y': the runtime inferred the shape [x_0], where x_0 is 3, but it is [1]",
        "output 'y': its shape rule says the shape [3], but it is [1]",
        "output 'y': its shape rule says the shape [x_0], where x_0 is 3, but it is [1]",
    ],
    "InferredSymbol": [
        "the runtime inferred the shape [x_0 + 1], where x_0 + 1 is 3, but it is [4]",
        f"its shape rule says the shape [x_0 + 1], where x_0 + 1 is 3, but it is [4]\n  {ALONE}\n"
        "    its shape rule by itself, dimensions symbolic\n",
    ],
    "Aligned": [
        "output 'y'[0]: expected 1, got 2, which is 1 away (tolerance 1e-05 + 1e-05 * |expected|); "
        f"1 of 2 elements differ\n  {ALONE}\n    inputs fed at odd addresses\n[",
    ],
    "OnlyFed": ["it failed: ", "it must be fed", f"{ALONE}\n    all inputs initializers\n["],
    "Counter": ["in a second run, output 'y'[0]: expected 1, got 2", ALL],
    "Vandal": [
        "Vandal: it changed its input 'x'",
        "in a second run, output 'y'[0]: expected 1, got 77",
        f"{ALONE}\n    all inputs initializers\n[",
    ],
    "OutOfPlace": [
        f"{ALONE}\n    between other nodes, whose memory may be reused\n[",
        "output 'y'[2]: expected 1, got 3",
    ],
    "NoFailure": ['expected a failure with "it must be fed", but it did not fail', *FED],
    "OtherText": [
        'expected a failure with "the matrix is empty", but the error is: ',
        "the matrix is singular",
        ALL,
    ],
    "ShapeRule": [
        "output 'c': expected the shape [m, n], got [n, m]\n  from its shape rule by itself",
        "output 'c': expected the shape [m, n], got [n, m]\n  inferred by ONNX Runtime",
    ],
    "ShapeRuleThatDoesNotFail": ['its shape rule to fail with "columns", but it did not fail'],
    "Case": [
        "the case is wrong: 'x' has the shape [2, 2] and 3 elements, not 4",
        "the case is wrong: a tolerance is set for 'z', but no such output",
        "the case is wrong: 'y' has no elements, which only InferShapes allows",
    ],
    "NoSuchOperator": ["test.tester::Nothing: it failed: ", "is not a registered function/op", ALL],
}


@pytest.mark.parametrize("name", REPORTS)
def test_wrong_cases_are_reported(name: str, program: Path, pack: Path) -> None:
    done = run_here(program, f"Wrong.{name}", pack)
    assert done.returncode == 1
    assert re.search(r"wrong\.cc:\d+: Failure", done.stdout)  # the line of the case
    for text in REPORTS[name]:
        assert text in done.stdout, done.stdout


def test_every_wrong_case_is_looked_at(program: Path) -> None:
    cases = re.findall(r"TEST\(Wrong, (\w+)\)", (FOLDER / "wrong.cc").read_text())
    assert sorted(cases) == sorted(REPORTS)


def test_a_crash_names_its_way(program: Path, pack: Path) -> None:
    done = run_here(program, "Crash.*", pack)
    assert done.returncode == -11
    assert done.stderr.endswith(
        f"OpTester: test.tester::Crash crashed in ONNX Runtime {onnxruntime.__version__}, "
        "inputs fed at odd addresses\n"
    )


def test_without_a_runtime_it_says_what_to_set(program: Path, pack: Path) -> None:
    done = run(program, "Right.Floats")
    assert done.returncode == 1
    assert "set OPGRAFT_TEST_RUNTIME to the path of its library" in done.stdout
    assert "OPGRAFT_TEST_PACKS to the packs" in done.stdout
    done = run(program, "Right.Floats", OPGRAFT_TEST_RUNTIME=str(pack))
    assert f"OPGRAFT_TEST_RUNTIME={pack} is not ONNX Runtime" in done.stdout
    done = run(program, "Right.Floats", OPGRAFT_TEST_RUNTIME="/nowhere.so")
    assert "OPGRAFT_TEST_RUNTIME=/nowhere.so: " in done.stdout


def test_without_a_pack_it_says_so(program: Path) -> None:
    runtime = opgraft.runtime_library()
    done = run(program, "Right.Floats", OPGRAFT_TEST_RUNTIME=runtime)
    assert "No pack is loaded. Fix: name the packs in OPGRAFT_TEST_PACKS" in done.stdout
    done = run(program, "Right.TheRuntimesOwn", OPGRAFT_TEST_RUNTIME=runtime)
    assert done.returncode == 0, done.stdout
    done = run(program, "Right.*", OPGRAFT_TEST_RUNTIME=runtime, OPGRAFT_TEST_PACKS="/nowhere.so")
    assert "OPGRAFT_TEST_PACKS: /nowhere.so" in done.stdout


# Of two by two numbers. The runtime has an Inverse too: that ours runs is shown by a wrong one.
INVERSE = """
#include <opgraft/op.h>

OPGRAFT_OP("com.microsoft::Inverse")
    .Input<float>("X")
    .Output<float>("Y")
    .Shape(opgraft::SameAs("X"))
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> y) {
      const float determinant = x[0] * x[3] - x[1] * x[2];
      y[0] = x[3] / determinant;
      y[1] = -x[1] / determinant;
      y[2] = -x[2] / determinant;
      y[3] = x[0] / determinant + OFFSET;
    });
"""

# As document 003 has it, but for the includes.
CASE = """
#include <opgraft/contrib.h>
#include <opgraft/testing.h>

namespace onnxruntime {
namespace test {

TEST(InverseContribOpTest, two_by_two_float) {
  OpTester test("Inverse", 1, kMSDomain);
  test.AddInput<float>("X", {2, 2}, {4, 7, 2, 6});
  test.AddOutput<float>("Y", {2, 2}, {0.6f, -0.7f, -0.2f, 0.4f});
  test.Run();
}

}  // namespace test
}  // namespace onnxruntime
"""


def test_document_003s_case_with_the_operator_in_the_program(
    testing: list[Path], adapter: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "inverse_test.cc").write_text(INVERSE + CASE)
    for offset in "01":
        target = tmp_path / f"tests{offset}"
        sources = [tmp_path / "inverse_test.cc", *adapter]
        compile_tests(target, testing, f"-DOFFSET={offset}", *sources)
        done = run(target, "*", OPGRAFT_TEST_RUNTIME=opgraft.runtime_library())
        assert done.returncode == int(offset), done.stdout
    assert "com.microsoft::Inverse: output 'Y'[1, 1]: expected 0.4, got 1.4" in done.stdout


SCALE = """
#include <opgraft/op.h>

OPGRAFT_OP("my.domain::Scale")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<float>("factor", 2)
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y, float factor) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * factor + OFFSET;
    });
"""


@pytest.fixture(scope="module")
def scale_packs(tmp_path_factory: pytest.TempPathFactory, adapter: list[Path]) -> dict[int, Path]:
    """The operator of docs/testing.md: right, and with 1 too much."""
    folder = tmp_path_factory.mktemp("scale")
    (folder / "scale.cc").write_text(SCALE + INVERSE)
    source = folder / "scale.cc"
    return {
        offset: compile_pack(folder / f"libscale{offset}.so", adapter, f"-DOFFSET={offset}", source)
        for offset in (0, 1)
    }


def guide(language: str) -> str:
    page = (FOLDER.parents[1] / "docs" / "testing.md").read_text()
    return "".join(re.findall(rf"```{language}\n(.*?)```", page, re.S))


def test_the_guides_cases_in_cpp(
    testing: list[Path], scale_packs: dict[int, Path], tmp_path: Path
) -> None:
    (tmp_path / "scale_test.cc").write_text(guide("cpp"))
    program = compile_tests(tmp_path / "tests", testing, tmp_path / "scale_test.cc")
    done = run_here(program, "*", scale_packs[0])
    assert done.returncode == 0, done.stdout
    assert "[  PASSED  ] 2 tests." in done.stdout
    done = run_here(program, "*", scale_packs[1])
    assert "output 'y'[0, 0]: expected 3, got 4" in done.stdout


def test_the_guides_cases_of_an_operator_and_its_twin(
    scale_packs: dict[int, Path], tmp_path: Path
) -> None:
    """One file of cases for both: the name of the twin is all that is added."""
    names = 'OPERATORS = ["my.python::Scale"]'
    code = guide("python")
    assert names in code
    code = code.replace(names, 'OPERATORS = ["my.python::Scale", "my.domain::Scale"]')
    assert "2 passed" in run_pytest(code, tmp_path, scale_packs[0])
    printed = run_pytest(code, tmp_path, scale_packs[1])
    assert "1 failed, 1 passed" in printed
    assert "my.domain::Scale: output 'y'[0, 0]: expected 3.0, got 4.0" in printed
    assert "my.python::Scale: " not in printed


def test_a_pack_is_tested_even_where_the_runtime_has_the_operator(
    scale_packs: dict[int, Path], tmp_path: Path
) -> None:
    code = """
import numpy as np
from opgraft.testing import OpTester

def test_inverse():
    test = OpTester("Inverse", 1, "com.microsoft").add_input("X", np.float32([[4, 7], [2, 6]]))
    test.add_output("Y", np.float32([[0.6, -0.7], [-0.2, 0.4]])).run()
"""
    assert "1 passed" in run_pytest(code, tmp_path, scale_packs[0])
    printed = run_pytest(code, tmp_path, scale_packs[1])
    assert "com.microsoft::Inverse: output 'Y'[1, 1]: expected 0.4, got 1.4" in printed


@pytest.mark.parametrize(
    "name, texts",
    [
        (
            "Liar",
            [
                "output 'y': the runtime inferred the shape [2], but it is [1]",
                "output 'y': the runtime inferred the shape [x_0], where x_0 is 2, but it is [1]",
                "output 'y': the operator Shape after it returns [2], but its shape is [1]",
            ],
        ),
        ("Aligned", [f"{ALONE}\n    inputs fed at odd addresses"]),
        ("OnlyFed", ["it must be fed", f"{ALONE}\n    all inputs initializers"]),
        ("Vandal", ["Vandal: it changed its input 'x'", "in a second run, output 'y'[0]"]),
        ("OutOfPlace", [f"{ALONE}\n    between other nodes, whose memory may be reused"]),
    ],
)
def test_the_same_faults_are_found_in_python(name: str, texts: list[str], pack: Path) -> None:
    test = OpTester(f"test.tester::{name}", library=str(pack)).add_input("x", np.float32([1, 2]))
    test.add_output("y", np.float32({"Liar": [1], "OutOfPlace": [2, 1]}.get(name, [1, 2])))
    with pytest.raises(AssertionError) as raised:
        test.run()
    for text in texts:
        assert text in str(raised.value)


def run_pytest(code: str, folder: Path, pack: Path) -> str:
    (folder / "test_cases.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cases.py"]
    variables = {**os.environ, "OPGRAFT_TEST_PACKS": str(pack)}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    return done.stdout
