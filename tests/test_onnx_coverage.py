"""ONNX's own backend tests: the list of those that do not run rightly only shrinks."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "onnx_refusals.txt"
# What the list was made with; other versions have other tests, or other refusals.
MADE_WITH = ("1.23", "1.31")
EVERY = 40  # the sample of make test
FIX = "Fix: python bench/onnx_coverage.py --list tests/onnx_refusals.txt, and read what changed"


def coverage() -> Any:
    spec = importlib.util.spec_from_file_location("onnx_coverage", ROOT / "bench/onnx_coverage.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnx_coverage"] = module
    spec.loader.exec_module(module)
    return module


def listed() -> dict[str, str]:
    return dict(line.split(": ", 1) for line in LIST.read_text().splitlines())


def check(every: int) -> None:
    if (onnx.__version__[:4], onnxruntime.__version__[:4]) != MADE_WITH:
        pytest.skip("the list is for onnx {}.x and ONNX Runtime {}.x".format(*MADE_WITH))
    bench, known = coverage(), listed()
    cases = bench.cases()
    assert set(known) <= {case.name for case in cases}, FIX
    # The sample has what was listed and what was not.
    refused = [case for case in cases if case.name in known][::every]
    right = [case for case in cases if case.name not in known][::every]
    found = dict(bench.results([*refused, *right], "python"))
    lost = {case.name: found[case.name] for case in right if found[case.name] != bench.RIGHT}
    assert not lost
    won = [case.name for case in refused if found[case.name] == bench.RIGHT]
    assert not won, FIX


def test_a_sample_of_the_tests_of_onnx() -> None:
    check(EVERY)


@pytest.mark.exhaustive
def test_all_tests_of_onnx() -> None:
    check(1)


def test_the_bench_tells_wrong_from_right() -> None:
    """Results that differ from the expected ones in number, type, shape or order are not right."""
    bench = coverage()
    case = next(case for case in bench.cases(["node"]) if case.name == "test_abs")
    ((_, (right,)),) = case.data
    assert bench.judge(case, lambda model, inputs: [right]) == bench.RIGHT
    for wrong in (right + 1, right.astype("float64"), right[0], right.T):
        assert bench.judge(case, lambda model, inputs, it=wrong: [it]).startswith("wrong")
    assert bench.judge(case, lambda model, inputs: []) != bench.RIGHT

    def crash(model: bytes, inputs: list[Any]) -> list[Any]:
        os.kill(os.getpid(), signal.SIGKILL)

    bench.HOSTS["crash"] = crash
    ((name, said),) = bench.results([case], "crash")
    assert name == "test_abs"
    assert "the process ended with -9" in said
