"""Packs in CMake projects: find_package(opgraft), opgraft_add_pack, opgraft_add_test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import opgraft
from opgraft._base import _library
from packs import (
    all_symbols,
    command,
    exported_symbols,
    linked_how,
    needed_libraries,
    needs_gtest,
    needs_nvcc,
    run_plainly,
)


def test_packs_of_a_project_share_the_adapter(cmake_build: Path) -> None:
    """And each exports only its two functions."""
    assert run_plainly(cmake_build / "libown.so", "AddOne", "Twice") == [4, 6]
    own = cmake_build / "times_factor" / "libtimes_factor.so"
    assert run_plainly(own, "TimesFactor", domain="my.domain") == [2, 4]
    for library in (own, *cmake_build.glob("lib*.so"), *cmake_build.glob("example/lib*.so")):
        assert exported_symbols(library) == {"RegisterCustomOps", "opgraft_pack"}
    said = (cmake_build / "said.txt").read_text().splitlines()
    compiled = [line for line in said if " -c " in line and "/opgraft_pack.dir/" in line]
    assert len(compiled) == len({line.split(" -c ")[1] for line in compiled}) > 0


def test_one_recipe_for_all_packs(cmake_build: Path, tmp_path: Path) -> None:
    """For our packs, those of projects, and those of `opgraft build`."""
    source = tmp_path / "recipe.cc"
    source.write_text("""#include <opgraft/op.h>
        OPGRAFT_OP("recipe::Op").Input<float>("x").Output<float>("y").Shape(opgraft::SameAs("x"))
            .Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float>) {});""")
    assert command("build", source, cwd=tmp_path).returncode == 0
    ours = [Path(path) for path in _library.shipped_packs()]
    for library in (*ours, cmake_build / "libown.so", tmp_path / "librecipe.so"):
        assert "NODELETE" in linked_how(library), library
        if (
            "contrib" not in library.name
        ):  # our pack of that name has kernels written for that layer
            assert not any("contrib_internal" in name for name in all_symbols(library)), library
        assert exported_symbols(library) == {"RegisterCustomOps", "opgraft_pack"}, library


@needs_gtest
def test_the_cases_are_known_to_ctest(cmake_build: Path) -> None:
    ctest = ["ctest", "--output-on-failure"]
    done = subprocess.run(ctest, cwd=cmake_build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "times_factor_test" in done.stdout
    assert "100% tests passed, 0 tests failed out of 1" in done.stdout


@needs_nvcc
def test_a_pack_with_a_kernel_for_cuda(cmake_build: Path) -> None:
    """It can be loaded without CUDA: the test above runs it."""
    library = cmake_build / "times_factor" / "libtimes_factor.so"
    assert b"Multiply" in library.read_bytes()
    assert not [name for name in needed_libraries(library) if "cuda" in name]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("opgraft_add_pack(t t.cu)", "opgraft_add_pack(t): t.cu needs the language CUDA"),
        ("opgraft_add_pack(empty)", "opgraft_add_pack(empty): no sources are given"),
        ("opgraft_add_test(empty PACKS x)", "opgraft_add_test(empty): no sources are given"),
        ("opgraft_add_test(t t.cc PACKS x)", "opgraft_add_test(t): there is no pack x"),
    ],
)
def test_used_wrongly(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(wrong LANGUAGES CXX)\n"
        f"find_package(opgraft REQUIRED)\n{line}\n"
    )
    (tmp_path / "t.cc").touch()
    configure = ["cmake", "-S", ".", "-B", "build", f"-Dopgraft_DIR={opgraft.cmake_dir()}"]
    done = subprocess.run(configure, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())
