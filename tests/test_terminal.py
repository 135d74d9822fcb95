"""The command and reports on a real terminal: widths, words, colours, bars; and plain in pipes."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pyte
import pytest
from onnx import helper

import opgraft
from conftest import floats, pyop_model
from opgraft._terminal import _bar, _document, _screen

WIDTHS = [40, 80, 120]
#: Ends its line, colours what follows, and would be markup and an emoji of rich's.
HOSTILE = "n\n[red]\x1b[31m\x9b31m:boom:[/]\u202e\r"


def on_terminal(
    command: list[str], width: int, folder: Path, **environment: str
) -> tuple[int, str]:
    """Runs a program in a pseudo-terminal; returns its status and all that it wrote there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    given = {name: value for name, value in os.environ.items()
             if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "LINES")}  # fmt: skip
    given |= {"TERM": "xterm-256color", **environment}
    process = subprocess.Popen(
        command, cwd=folder, env=given, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # at its end
        while part := os.read(ours, 65536):
            written += part
    os.close(ours)
    return process.wait(), written.decode()


def screen(text: str, width: int) -> list[str]:
    """What a terminal shows of it, with what has moved out at the top."""
    shown = pyte.HistoryScreen(width, 50, history=10000)
    pyte.Stream(shown).feed(text)
    above = ["".join(line[x].data for x in range(width)) for line in shown.history.top]
    return [line.rstrip() for line in [*above, *shown.display]]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "opgraft", *arguments]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "far": 1]>
        graph (float[n] x) => (float[n] z) {
            y = far.Mystery <k = 2> (x)
            z = far.PyOp <module = "mymodule", class_name = "Op", output_types = [1]> (y)
        }""")
    onnx.save(model, tmp_path / "model.onnx")
    onnx.save(pyop_model("mymodule"), tmp_path / "runs.onnx")
    (tmp_path / "mymodule.py").write_text("class Op:\n    def compute(self, x): return x + x\n")
    np.save(tmp_path / "x.npy", floats(60))
    return tmp_path


def prose(text: str) -> list[str]:
    """The words of a report, without the code in it, however they are laid out."""
    return [word for line in text.splitlines() if not line.startswith("    ")
            for word in line.split()]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_the_doctor_wraps_at_words(folder: Path, width: int) -> None:
    asked = command("doctor", "model.onnx")
    plain = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    status, written = on_terminal(asked, width, folder)
    assert status == plain.returncode == 1
    assert "\x1b[" in written
    # As written: a terminal itself would break code that is too long for it, which stays whole.
    bare = re.split(r"[\r\n]+", re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written))
    lines = [line for line in bare if not line.startswith("    ") and "%" not in line]
    assert all(len(line) <= width for line in lines), lines
    words = set(prose(plain.stdout))
    labels = {"nodes:", "run", "by:", "module:", "state:"}  # of a table that is too wide
    long = [word for word in words if len(word) > width - 4]
    for word in " ".join(lines).split():
        assert word in words | labels or any(word in one for one in long), word
    assert "    def mystery(x: npt.NDArray[np.float32], *, k: int)" in "\n".join(bare)


@pytest.mark.parametrize("width", WIDTHS)
def test_colours_are_for_terminals(folder: Path, width: int) -> None:
    """NO_COLOR leaves no escape sequence but those of the bar, which stderr does not get here."""
    asked = ["sh", "-c", f"{sys.executable} -m opgraft doctor model.onnx 2> errors"]
    assert "\x1b[33m" in on_terminal(asked, width, folder)[1]
    status, written = on_terminal(asked, width, folder, NO_COLOR="1")
    assert status == 1 and "\x1b" not in written
    asked = ["sh", "-c", f"{sys.executable} -m opgraft doctor model.onnx > report 2> errors"]
    on_terminal(asked, width, folder, FORCE_COLOR="1")
    report = (folder / "report").read_text()
    assert "\x1b" not in report + (folder / "errors").read_text()
    assert "Allowed code runs with all your permissions, on arguments that the model" in report


@pytest.mark.parametrize("width", WIDTHS)
def test_run_prepare_and_errors(folder: Path, width: int) -> None:
    allowed = ["runs.onnx", "--allow", "mymodule"]
    status, written = on_terminal(command("run", *allowed, "--input", "x=x.npy"), width, folder)
    lines = [line for line in screen(written, width) if line]
    assert status == 0 and lines[0] == "y float32 (60)"
    assert " ".join(lines[1:]).split() == [str(2 * one) for one in range(60)]
    status, written = on_terminal(command("prepare", "runs.onnx", "out.onnx"), width, folder)
    assert status == 0 and "node 'node' runs mymodule.Op" in written
    status, written = on_terminal(command("run", "runs.onnx", "--input", "x=x.npy"), width, folder)
    lines = screen(written, width)
    assert status == 1 and lines[0].startswith("opgraft: PolicyError: ")
    asked = command("run", "runs.onnx", "--input", "x=x.npy")
    plain = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False).stderr
    assert " ".join(lines).split() == plain.split()
    # The runtime's log does not say it again.
    assert plain.count("PolicyError") == 1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("action", ["doctor", "run"])
def test_hostile_names_on_a_terminal(folder: Path, width: int, action: str) -> None:
    model = pyop_model("mymodule")
    model.graph.node[0].name = model.graph.node[0].output[0] = HOSTILE
    model.graph.output[0].name = HOSTILE
    model.graph.node[0].attribute.append(helper.make_attribute("note", HOSTILE))
    onnx.save(model, folder / "hostile.onnx")
    asked = command(action, "hostile.onnx")
    if action == "run":
        (folder / "mymodule.py").write_text(
            "class Op:\n    def __init__(self, note): pass\n    def compute(self, x): return x\n"
        )
        asked += ["--input", "x=x.npy", "--allow", "mymodule"]
    status, written = on_terminal(asked, width, folder, NO_COLOR="1")
    assert status == (0 if action == "run" else 1), written
    assert "\x1b[31m" not in written and "\x9b" not in written and "\u202e" not in written
    assert "[red]" in written.replace("\r\n", "") and ":boom:" in written.replace("\r\n", "")
    piped = subprocess.run(asked, cwd=folder, capture_output=True, check=False)
    for text in (piped.stdout.decode(), piped.stderr.decode()):
        assert not any(sign in text for sign in "\x1b\x9b\u202e\r"), text
        assert not any(line.startswith("[red]") for line in text.splitlines())


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
@pytest.mark.parametrize("width", WIDTHS)
def test_a_bar_for_a_build(width: int, tmp_path: Path) -> None:
    (tmp_path / "slow.cc").write_text("#error stopped here, after a while\n")
    status, written = on_terminal(command("build", "slow.cc"), width, tmp_path)
    assert status == 1
    assert "compile slow.cc"[: max(4, width // 8)] in written and "0:0" in written
    lines = screen(written, width)
    assert not any("0:0" in line for line in lines), lines  # nothing is left of the bar
    assert "stopped here" in " ".join(lines)
    piped = subprocess.run(
        command("build", "slow.cc"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "\x1b" not in piped.stderr and "0:0" not in piped.stderr


@pytest.mark.parametrize("width", WIDTHS)
def test_a_bar_is_one_line(width: int, tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import sys, time
        from opgraft._terminal._bar import Bar
        with Bar("a model with a long name [red]" * 3, sys.stderr) as bar:
            bar._begin -= 100
            for number in range(5):
                bar.update(number / 5, "verify", "operator " * 30)
                time.sleep(0.3)
            print("here")
            time.sleep(0.3)
    """)
    status, written = on_terminal([sys.executable, "-c", program], width, tmp_path)
    assert status == 0
    bare = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written)
    lines = re.split(r"[\r\n]+", bare)
    assert all(len(line.removesuffix("here")) <= width for line in lines), lines
    assert all("━" in line for line in lines if "%" in line), lines
    assert re.search(r"1:[45]\d", bare) and "verify" in bare and "80%" in bare
    if width > 40:
        assert "left" in bare
    assert "?25l" not in written.rpartition("?25h")[2]  # the cursor is there
    # A thread keeps the time going.
    assert "1:41" in bare


def test_estimates() -> None:
    assert _bar.remaining(30, 0.25) == 90
    assert _bar.remaining(1, 0.5) is None and _bar.remaining(100, 0.01) is None
    assert [_bar.clock(one) for one in (7, 67.4, 3723)] == ["0:07", "1:07", "1:02:03"]


def test_wide_characters_and_narrow_tables() -> None:
    rows = [["漢字" * 8, "1", "a state of several words"]]
    table = _document.Table(["operator", "nodes", "state"], rows, ["green"])
    widths = _screen._widths([table.head, *rows], 50)
    assert widths is not None and sum(widths) + 4 <= 50 and widths[0] == 32
    assert _screen._widths([table.head, *rows], 40) is None


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_of_an_export(width: int, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
    program = textwrap.dedent("""
        from opgraft.torch._program._report import Report, Row
        became = "Cast, Mul, Add, Where, Less, Log"
        rows = [Row("aten::linalg_svdvals", 2, "aten", "ATen", advice="a translation, or a pack"),
                Row("aten::lgamma", 12, "function", became)]
        report = Report(rows, captured="non-strict", notes=["a note of many words " * 9])
        print(report)
        open("file", "w").write(str(report))
    """)
    status, written = on_terminal([sys.executable, "-c", program], width, tmp_path)
    assert status == 0 and "\x1b" not in written, written
    lines = written.replace("\r", "").split("\n")
    assert all(len(line) <= width for line in lines), lines
    piped = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    words = {word for line in lines for word in line.split()} - {"count:", "became:", "with:"}
    assert {one for one in words if one.strip("-")} <= set(piped.split())
    assert max(map(len, piped.splitlines())) > 120 and "\x1b" not in piped


@pytest.mark.parametrize("where", [["-v", "run"], ["run", "--verbose"]])
def test_verbose(folder: Path, where: list[str]) -> None:
    asked = command(*where, "runs.onnx", "--input", "x=x.npy", "--allow", "mymodule")
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("y float32")
    runtime = onnxruntime.__version__
    assert f"opgraft.prepare: preparing runs.onnx for ONNX Runtime {runtime}" in done.stderr
    assert "opgraft.session: opened 'runs.onnx'" in done.stderr
    asked.remove(where[0] if where[0] == "-v" else where[1])
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_doctor_tells_what_its_process_does(folder: Path) -> None:
    asked = command("doctor", "-v", "runs.onnx", "--allow", "mymodule")
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "opgraft.doctor: making a session" in done.stderr
    assert f"opgraft.session: opened '{folder}/runs.onnx'" in done.stderr


def test_the_loggers(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    opgraft.prepare(str(folder / "runs.onnx"))
    assert not caplog.records  # a program that asks for nothing gets nothing
    with caplog.at_level(logging.INFO, logger="opgraft"):
        opgraft.prepare(str(folder / "runs.onnx"))
    assert {one.name for one in caplog.records} == {"opgraft.prepare"}
    handlers = logging.getLogger("opgraft").handlers
    assert any(isinstance(one, logging.NullHandler) for one in handlers)


def test_an_export_tells_what_it_does(caplog: pytest.LogCaptureFixture) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    import opgraft.torch

    with caplog.at_level(logging.INFO, logger="opgraft"):
        opgraft.torch.export(torch.nn.ReLU(), (torch.ones(3),))
    said = [one.getMessage() for one in caplog.records if one.name == "opgraft.export"]
    beginnings = ["ReLU: capture", "capturing by torch.export, non-strict", "aten.relu.default",
                  "ReLU: verify", "comparing with torch: "]  # fmt: skip
    places = [next(i for i, one in enumerate(said) if one.startswith(text)) for text in beginnings]
    assert places == sorted(places)
    assert any(one.endswith("becomes: standard") for one in said)


def imported(code: str) -> set[str]:
    program = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_what_is_not_imported() -> None:
    assert not {"rich", "logging"} & imported("import opgraft")
    versions = imported("from opgraft._terminal import _versions\n_versions.installed()")
    assert not {"torch", "onnx", "onnxruntime", "numpy", "rich"} & versions
    assert "rich" not in imported(
        "from opgraft._terminal import _screen\n_screen.show([_screen.Line('text')])"
    )


Text = Callable[[str], str]


@pytest.mark.parametrize("made", [_document.harmless, _document.harmless_line])
def test_harmless(made: Text) -> None:
    assert made("plain, 漢字 é") == "plain, 漢字 é"
    assert made("\x1b[31m\x9b\u202e\u2028\udc80") == "\\x1b[31m\\x9b\\u202e\\u2028\\udc80"
    assert _document.harmless_line("a\nb") == "a\\nb"
