"""The README: short, all its pictures there, its operator in C++; and the tour of the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from packs import CACHE, REPOSITORY, command, needs_gtest

README = (REPOSITORY / "README.md").read_text()


TOUR = (REPOSITORY / "docs" / "start" / "command.md").read_text()


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.S)


def test_it_is_short() -> None:
    assert len(README.split()) <= 900


def test_its_pictures_are_small_and_for_light_and_dark_pages() -> None:
    pictures = re.findall(r'(?:srcset|src)="(docs/[^"]+)"', README)
    assert len(pictures) == 8 and len(set(pictures)) == 8
    for picture in pictures:
        assert (REPOSITORY / picture).stat().st_size < 60_000, picture
        other = {"dark": "light", "light": "dark"}
        name, theme = picture.removesuffix(".svg").rsplit("-", 1)
        assert f"{name}-{other[theme]}.svg" in pictures


def test_each_python_block_is_run_by_a_test() -> None:
    """The first by test_documentation.py, the others by the guides' tests of torch and sklearn."""
    first, *others = blocks("python")
    assert "my::Median" in first
    assert ["opgraft.torch" in others[0], "opgraft.sklearn" in others[1]] == [True, True]
    assert len(others) == 2


@needs_gtest
def test_the_commands(tmp_path: Path) -> None:
    """All except the one for a GPU."""
    (script,) = (block for block in blocks("sh", TOUR) if "opgraft new" in block)
    script = "".join(line for line in script.splitlines(True) if "--gpu" not in line)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "XDG_CACHE_HOME": str(CACHE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("y float32 (2)\n2 4") == 2
    assert (tmp_path / "prepared.onnx").exists()


def test_the_operator_in_cpp(tmp_path: Path) -> None:
    """Built as the page says, it runs with Opgraft and in a plain session."""
    (source,) = blocks("cpp")
    assert "`opgraft build median.cc` makes `libmedian.so`" in README
    (tmp_path / "median.cc").write_text(source)
    done = command("build", "median.cc", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "example.py").write_text("""
import numpy as np, onnx.parser, onnxruntime, opgraft
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21, "my": 1]>
    graph (float[n, m] x) => (float[n] y) { y = my.Median (x) }''')
feed = {"x": np.float32([[3, 1, 2], [6, 5, 4]])}
options = onnxruntime.SessionOptions()
options.register_custom_ops_library("./libmedian.so")
print(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed))
opgraft.load("libmedian.so")
print(opgraft.InferenceSession(model).run(None, feed))
""")
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    expected = "[array([2., 5.], dtype=float32)]"
    assert done.stdout.splitlines() == [expected, expected], done.stderr
