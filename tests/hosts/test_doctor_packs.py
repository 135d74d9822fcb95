"""`opgraft doctor`, `run` and `prepare` with packs: what runs operators, and what is missing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import opgraft
from packs import build_c_library, build_once, command, operator_source

Doctor = Callable[..., dict[str, Any]]
VERSION = tuple(map(int, onnxruntime.__version__.split(".")[:2]))


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """Examines a model in a process without packs; returns the report for programs."""

    def examine(model: onnx.ModelProto, *options: str | Path) -> dict[str, Any]:
        onnx.save(model, tmp_path / "model.onnx")
        done = command("doctor", "model.onnx", "--json", *options, cwd=tmp_path)
        report: dict[str, Any] = json.loads(done.stdout)
        assert report["schema"] == 1
        assert done.returncode == {"ok": 0, "missing": 1, "bad": 2}[report["status"]]
        return report

    return examine


def parse(node: str, imports: str = '"test.packs": 5') -> onnx.ModelProto:
    head = f'<ir_version: 10, opset_import: ["": 21, {imports}]>'
    return onnx.parser.parse_model(f"{head} graph (float[n] x) => (float[n] y) {{ y = {node} }}")


SCALE = parse("test.packs.Scale (x)")
QUICK_GELU = parse("com.microsoft.QuickGelu <alpha = 1.0> (x)", '"com.microsoft": 1')


def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["operator"]: one for one in report["operators"]}


# The doctor.


def test_what_a_pack_runs(doctor: Doctor, first_library: Path) -> None:
    report = doctor(SCALE, "--pack", first_library)
    assert report["status"] == "ok"
    (operator,) = report["operators"]
    assert operator["run_by"] == "the pack libfirst.so"
    assert operator["pack"] == os.path.realpath(first_library)
    assert operator["problem"] is operator["module"] is operator["file"] is None
    assert report["trial"]["loaded"]
    assert report["hints"] == report["problems"] == []


@pytest.mark.usefixtures("first_pack")
def test_a_prepared_model(doctor: Doctor, first_library: Path) -> None:
    prepared = opgraft.prepare(parse("test.packs.Step (x)", '"test.packs": 1'))
    report = doctor(onnx.load_from_string(prepared.bytes), "--pack", first_library)
    assert report["status"] == "ok"
    assert by_name(report)["test.packs::Step@1"]["run_by"] == "the pack libfirst.so"


def test_what_nobody_runs(doctor: Doctor, first_library: Path) -> None:
    (operator,) = doctor(SCALE)["operators"]
    assert (operator["run_by"], operator["pack"]) == ("nobody", None)
    assert "here --pack FILE" in operator["remedy"]
    assert operator["remedy"].endswith("or write it in C++: opgraft new test.packs::Scale")
    report = doctor(parse("test.packs.Unheard (x)"), "--pack", first_library)
    assert by_name(report)["test.packs::Unheard"]["problem"] == "the operator is not defined"


def test_packs_that_cannot_be_loaded(doctor: Doctor, first_library: Path, tmp_path: Path) -> None:
    plain = build_c_library(tmp_path, "int nothing;")
    (tmp_path / "text.so").write_text("no library")
    packs = [plain, tmp_path / "text.so", "missing.so", first_library]
    report = doctor(SCALE, *(word for pack in packs for word in ("--pack", pack)))
    assert report["status"] == "missing"
    first, second, third = report["problems"]
    assert first.startswith(f"--pack {plain}: '{plain}' is not a pack")
    assert second.startswith(f"--pack {tmp_path}/text.so: the pack ")
    assert third.startswith("--pack missing.so: there is no pack ")
    assert not report["trial"]["done"]


def test_packs_that_claim_the_same(doctor: Doctor, first_library: Path, tmp_path: Path) -> None:
    copy = shutil.copy(first_library, tmp_path / "libcopy.so")
    report = doctor(SCALE, "--pack", first_library, "--pack", copy)
    (problem,) = report["problems"]
    assert problem.startswith(f"--pack {copy}: test.packs::Scale is declared by the pack ")
    assert str(first_library) in problem


def test_a_pack_and_python_that_claim_the_same(
    doctor: Doctor, first_library: Path, tmp_path: Path
) -> None:
    (tmp_path / "claims.py").write_text(
        "import numpy as np\nimport opgraft\n@opgraft.op('test.packs::Scale')\n"
        "def scale(x: np.ndarray) -> np.ndarray: return x\n"
    )
    report = doctor(SCALE, "--pack", first_library, "--import", "claims")
    (problem,) = report["problems"]
    assert "declared by the Python module 'claims' and by the pack" in problem


def test_a_pack_that_ends_the_process(doctor: Doctor, tmp_path: Path) -> None:
    source = (
        "#include <stdlib.h>\n__attribute__((constructor)) static void at_start(void) { abort(); }"
    )
    pack = build_c_library(tmp_path, source)
    (problem,) = doctor(SCALE, "--pack", pack)["problems"]
    assert (
        problem == f"the process that tried it was ended by SIGABRT while loading the pack '{pack}'"
    )


def test_what_a_pack_could_run(doctor: Doctor, runtimes_library: Path) -> None:
    report = doctor(QUICK_GELU, "--pack", runtimes_library)
    assert (report["status"], report["operators"]) == ("ok", [])
    assert report["hints"] == [
        "com.microsoft::QuickGelu is ONNX Runtime's own; the pack libruntimes.so has it too: "
        '--prefer com.microsoft::QuickGelu (in a program prefer=["com.microsoft::QuickGelu"])'
    ]
    report = doctor(QUICK_GELU, "--pack", runtimes_library, "--prefer", "com.microsoft::QuickGelu")
    assert by_name(report)["com.microsoft::QuickGelu"]["run_by"] == "the pack libruntimes.so"
    assert (report["status"], report["hints"]) == ("ok", [])


def test_what_only_a_pack_can_run(doctor: Doctor, runtimes_library: Path) -> None:
    model = parse("com.microsoft.OnlyOurs (x)", '"com.microsoft": 1')
    report = doctor(model, "--pack", runtimes_library)
    assert by_name(report)["com.microsoft::OnlyOurs"]["run_by"] == "the pack libruntimes.so"
    assert doctor(model)["status"] == "missing"


def test_an_operator_of_onnx_that_the_runtime_lacks(doctor: Doctor) -> None:
    """A pack that has it can run it, if it is preferred."""
    pack = build_once("missing", operator_source("NotYet", "x[i]", "ai.onnx"))
    model = parse("NotYet (x)", '"test": 1')
    (operator,) = doctor(model, "--pack", pack)["operators"]
    assert operator["remedy"] == (
        "the pack libmissing.so has it too: --prefer ai.onnx::NotYet "
        '(in a program prefer=["ai.onnx::NotYet"])'
    )
    assert doctor(model, "--pack", pack, "--prefer", "ai.onnx::NotYet")["status"] == "ok"


def test_a_preference_for_something_unknown(doctor: Doctor, first_library: Path) -> None:
    (problem,) = doctor(SCALE, "--pack", first_library, "--prefer", "com.microsoft::Nothing")[
        "problems"
    ]
    assert problem.startswith("prefer: no loaded pack has 'com.microsoft::Nothing'")


def test_the_report_for_people(runtimes_library: Path, first_library: Path, tmp_path: Path) -> None:
    onnx.save(SCALE, tmp_path / "model.onnx")
    done = command("doctor", "model.onnx", "--pack", first_library, cwd=tmp_path)
    assert "test.packs::Scale  1      the pack libfirst.so  -       ok" in done.stdout
    onnx.save(QUICK_GELU, tmp_path / "model.onnx")
    done = command("doctor", "model.onnx", "--pack", runtimes_library, cwd=tmp_path)
    assert done.stdout.rstrip().endswith('prefer=["com.microsoft::QuickGelu"])')


# Running and preparing.


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_run(host: str, first_library: Path, runtimes_library: Path, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "test.packs": 3]>
        graph (float[n] x) => (float[n] y) {
            a = test.packs.Step (x)  y = com.microsoft.QuickGelu <alpha = 1.0> (a) }"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", np.float32([1, 2]))
    packs = ["--pack", first_library, "--pack", runtimes_library]
    arguments = ["run", "model.onnx", "--host", host, "--input", "x=x.npy", *packs]
    done = command(*arguments, "--prefer", "com.microsoft", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("y float32 (2)\n104 105\n", "")
    done = command(*arguments, "--prefer", "nothing", cwd=tmp_path)
    assert done.returncode == 1
    assert "Error: prefer: no loaded pack has 'nothing'" in done.stderr
    done = command(*arguments, "--pack", "missing.so", cwd=tmp_path)
    assert done.returncode == 1
    assert "UnavailableError: there is no pack" in done.stderr


def test_prepare(first_library: Path, runtimes_library: Path, tmp_path: Path) -> None:
    onnx.save(
        parse(
            "test.packs.Step (x)  z = com.microsoft.QuickGelu <alpha = 1.0> (x)",
            '"com.microsoft": 1, "test.packs": 1',
        ),
        tmp_path / "model.onnx",
    )
    packs = ["--pack", first_library, "--pack", runtimes_library, "--prefer", "com.microsoft"]
    done = command("prepare", "model.onnx", "prepared.onnx", *packs, cwd=tmp_path)
    first, runtimes = sorted([str(first_library), str(runtimes_library)])
    assert (done.stdout, done.stderr) == (
        "the pack libruntimes.so runs com.microsoft::QuickGelu\n"
        "the pack libfirst.so runs test.packs::Step\n"
        f"to run it: opgraft.load('{first}'); opgraft.load('{runtimes}'); "
        "opgraft.register(sess_options)\n",
        "",
    )
    done = command("prepare", "model.onnx", "prepared.onnx", cwd=tmp_path)
    assert "not defined here: test.packs::Step" in done.stderr
    assert "if a pack has it, --pack FILE" in done.stderr
