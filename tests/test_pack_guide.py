"""Compiles the C++ of docs/packs.md block by block, links it to one pack, and runs it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from pack_building import REPOSITORY, build_pack
from pack_models import open_session

from packs import command, needs_nvcc, run_plainly

GUIDE = REPOSITORY / "docs" / "packs.md"


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each block is a separate source."""
    folder = tmp_path_factory.mktemp("guide")
    sources = []
    for number, block in enumerate(re.findall(r"```cpp\n(.*?)```", GUIDE.read_text(), re.S)):
        sources.append(folder / f"block_{number}.cc")
        sources[-1].write_text(block)
    return build_pack(sources)


@needs_nvcc
def test_the_kernel_for_cuda(tmp_path: Path) -> None:
    """It compiles, and the parts that are not for the GPU run."""
    (block,) = re.findall(r"```cuda\n(.*?)```", GUIDE.read_text(), re.S)
    (tmp_path / "scale.cu").write_text(block)
    warnings = ["--cuda-flag=-Werror=all-warnings", "--flag=-Wextra", "--flag=-Werror"]
    done = command("build", "scale.cu", "--cuda-arch", "90", *warnings, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "libscale.so\n"), done.stderr
    library = tmp_path / "libscale.so"
    assert run_plainly(library, "ScaleAnywhere", domain="my.domain") == [2, 4]


FLOATS = np.float32([3, 1, 2, 3])


@pytest.mark.parametrize(
    ("graph", "inputs", "expected"),
    [
        ("(float[n] x) => (float[n] y) { y = my.domain.Scale<factor = 3.0>(x) }", [FLOATS],
         [9, 3, 6, 9]),
        ("(float[n] x) => (float[m] y) { y = my.domain.Distinct(x) }", [FLOATS], [1, 2, 3]),
        ("(float[n] x, float[m] t) => (bool[n] y) { y = my.domain.Lookup(x, t) }",
         [FLOATS, FLOATS[:1]], [True, False, False, True]),
        ("(float[n] a, float[m] b) => (float[n, m] y) { y = my.domain.PairwiseSums(a, b) }",
         [FLOATS[:2], FLOATS[1:3]], [[4, 5], [2, 3]]),
        ("(float[n] x) => (float[k, 3] y) { y = my.domain.Windows<width = 3>(x) }", [FLOATS],
         [[3, 1, 2], [1, 2, 3]]),
        ("(float[2, 2] x) => (float[2, 2] y) { y = my.domain.Accumulate(x) }",
         [FLOATS.reshape(2, 2)], [[3, 4], [2, 5]]),
    ],
)  # fmt: skip
def test_what_the_guide_shows(
    graph: str, inputs: list[np.ndarray], expected: list[object], guide: Path
) -> None:
    head = '<ir_version: 10, opset_import: ["": 21, "my.domain": 1]>'
    session = open_session(onnx.parser.parse_model(f"{head} graph {graph}"), libraries=[guide])
    names = [value.name for value in session.get_inputs()]
    (y,) = session.run(None, dict(zip(names, inputs, strict=True)))
    assert y.tolist() == expected


def test_every_verb_of_the_sentence_is_in_the_guide() -> None:
    header = (REPOSITORY / "include" / "opgraft" / "op.h").read_text()
    verbs = set(re.findall(r"^  auto ([A-Z]\w+)\(.*\) && \{|^  auto ([A-Z]\w+)\(", header, re.M))
    guide = GUIDE.read_text()
    for verb in {name for pair in verbs for name in pair if name}:
        if not verb.startswith("Add") and verb != "With":
            assert f".{verb}" in guide, verb
