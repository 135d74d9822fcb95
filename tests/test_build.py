"""`opgraft build`: from C++ sources to a library that ONNX Runtime loads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pack_workshop import SYMBOLS, UNITS, Workshop, build

from opgraft._build._build import Settings, build_pack
from opgraft._build._compiler import Compiler
from packs import (
    command,
    exported_symbols,
    needed_libraries,
    needs_clang,
    operator_source,
    run_plainly,
)

# The libraries that a bare system with a C++ program has.
CPP_RUNTIME = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "libpthread.so.0"}
CPP_RUNTIME |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=needs_clang)])
def test_a_library_that_needs_the_cpp_runtime_alone(tmp_path: Path, compiler: str) -> None:
    (tmp_path / "add_one.cc").write_text(operator_source("AddOne", "x[i] + 1"))
    done = command("build", "add_one.cc", "--compiler", compiler, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "libadd_one.so\n"), done.stderr
    assert (
        not done.stderr or "compiling the common part of every pack, only this once" in done.stderr
    )
    library = tmp_path / "libadd_one.so"
    assert run_plainly(library, "AddOne", "AddOne") == [3, 4]
    assert needed_libraries(library) <= CPP_RUNTIME
    assert exported_symbols(library) == SYMBOLS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["add_one.cc", "libadd_one.so"]


def test_several_sources_and_strange_names(tmp_path: Path) -> None:
    folder = tmp_path / "Größe, in m²"
    folder.mkdir()
    declarations = "float Twice(float); float Minus(float);\n"
    source = operator_source("MinusTwice", "Minus(Twice(x[i]))")
    (folder / "ein Häkchen.cc").write_text(declarations + source)
    (folder / "@twice.cpp").write_text("float Twice(float x) { return 2 * x; }\n")
    (folder / "-minus.cc").write_text("float Minus(float x) { return -x; }\n")
    done = command("build", "ein Häkchen.cc", "@twice.cpp", "--", "-minus.cc", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "libein Häkchen.so\n"), done.stderr
    assert run_plainly(folder / "libein Häkchen.so", "MinusTwice") == [-2, -4]


def test_a_wrong_declaration_is_told(tmp_path: Path) -> None:
    """The declaration compiles; the pack itself detects the error."""
    twice = operator_source("AddOne", "x[i] + 1")
    (tmp_path / "add_one.cc").write_text(twice + twice)
    done = command("build", "add_one.cc", cwd=tmp_path)
    assert done.returncode == 1
    assert "opgraft: Error: libadd_one.so: " in done.stderr
    assert "test.build::AddOne" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["add_one.cc"]


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=needs_clang)])
def test_what_is_wrong_is_said_last(tmp_path: Path, compiler: str) -> None:
    """After the compiler's output, with the lines of the author's source."""
    right = operator_source("AddOne", "x[i] + 1")
    wrong = right.replace('.Shape(opgraft::SameAs("x"))', "").replace("AddOne", "Wrong")
    (tmp_path / "add_one.cc").write_text(right + wrong)
    done = command("build", "add_one.cc", "--compiler", compiler, cwd=tmp_path)
    assert done.returncode == 1
    said, _, last = done.stderr.partition("opgraft: Error: ")
    heading, line = last.splitlines()
    assert heading == "add_one.cc does not compile. The errors (with details above):"
    sentence = "the kernel takes allocated outputs, so that the operator needs a shape rule: "
    place, text = line.strip().split(": ", 1)
    assert text.startswith(sentence) and sentence in said
    first = 1 + right.count("\n")
    assert place in [f"add_one.cc:{number}" for number in range(first, first + 7)]
    (tmp_path / "add_one.cc").write_text(right.replace("test.build::", ""))
    done = command("build", "add_one.cc", "--compiler", compiler, cwd=tmp_path)
    assert done.stderr.endswith(
        '\n  add_one.cc:2: the name of an operator has the form "domain::Name"\n'
    )


def test_a_pack_without_operators_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.cc").write_text("#include <opgraft/op.h>\n")
    done = command("build", "empty.cc", cwd=tmp_path)
    assert done.returncode == 1 and "libempty.so: its sources declare no operator" in done.stderr
    assert not (tmp_path / "libempty.so").exists()


def test_a_static_cpp_runtime(tmp_path: Path) -> None:
    """As docs/building.md recommends for machines with an older libstdc++."""
    (tmp_path / "add_one.cc").write_text(operator_source("AddOne", "x[i] + 1"))
    flags = ["--flag=-static-libstdc++", "--flag=-static-libgcc"]
    done = command("build", "add_one.cc", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    library = tmp_path / "libadd_one.so"
    assert needed_libraries(library) <= CPP_RUNTIME - {"libstdc++.so.6", "libgcc_s.so.1"}
    assert exported_symbols(library) == SYMBOLS
    assert run_plainly(library, "AddOne") == [2, 3]


# From here on, the adapter is a small one made for the tests, and the sources are not operators, so
# that they compile quickly.


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


Printed = Callable[[], tuple[str, str]]


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str]) -> Printed:
    def read() -> tuple[str, str]:
        captured = capfd.readouterr()
        return captured.out, captured.err

    return read


def test_the_output_is_named(workshop: Workshop, printed: Printed) -> None:
    (workshop.folder / "deep").mkdir()
    assert build("../work/my_op.cc", "-o", "deep/one,two.so") == 0
    assert printed() == ("deep/one,two.so\n", "")
    assert exported_symbols(workshop.folder / "deep" / "one,two.so") == SYMBOLS


def test_a_library_in_use_is_replaced_not_overwritten(workshop: Workshop) -> None:
    library = workshop.folder / "libmy_op.so"
    assert build("my_op.cc") == 0
    before = library.read_bytes()
    with library.open("rb") as in_use:
        (workshop.folder / "my_op.cc").write_text("int values[1000] = {1};\n")
        assert build("my_op.cc") == 0
        assert in_use.read() == before
    assert library.read_bytes() != before


def test_flags_reach_the_compiler_and_the_linker(workshop: Workshop) -> None:
    (workshop.folder / "my_op.cc").write_text("int value = STEP;\n")
    compiler = workshop.add_compiler()
    flags = ["--flag=-DSTEP=3", "--flag=-Wl,-rpath,/nowhere", "--flag=-lm"]
    assert build("my_op.cc", "--compiler", compiler, *flags) == 0
    calls = workshop.take_calls()
    (own,) = [call for call in calls if "-c my_op.cc" in call]
    assert "-std=c++20" in own
    assert "-O2" in own
    assert "-rpath" not in own
    assert "-lm" not in own
    assert "-march" not in own
    assert "-Wl,-rpath,/nowhere -lm" in calls[-1]
    assert build("my_op.cc", "--compiler", compiler, *flags, "--debug") == 0
    (own,) = [call for call in workshop.take_calls() if "-c my_op.cc" in call]
    assert "-O0 -g" in own
    assert "-O2" not in own


def test_a_sanitizer(workshop: Workshop) -> None:
    """Its functions come from the program, so they may be undefined in the pack."""
    (workshop.folder / "my_op.cc").write_text("int At(int* x, int i) { return x[i]; }\n")
    assert build("my_op.cc", "--flag=-fsanitize=address") == 0


def test_what_the_compiler_says_comes_through(workshop: Workshop, printed: Printed) -> None:
    (workshop.folder / "bad.cc").write_text("int good;\nint broken = nonsense;\n")
    (workshop.folder / "libbad.so").write_text("as it was")
    assert build("my_op.cc", "bad.cc", "-o", "libbad.so") == 1
    _, error = printed()
    assert "bad.cc:2:14: error: " in error
    assert error.endswith("opgraft: Error: bad.cc does not compile; see above\n")
    assert (workshop.folder / "libbad.so").read_text() == "as it was"


def test_what_the_linker_says_comes_through(workshop: Workshop, printed: Printed) -> None:
    (workshop.folder / "missing.cc").write_text("int Missing(); int there = Missing();\n")
    assert build("my_op.cc", "missing.cc") == 1
    _, error = printed()
    assert "Missing()" in error
    assert error.endswith("opgraft: Error: libmy_op.so cannot be linked; see above\n")
    assert sorted(path.name for path in workshop.folder.iterdir()) == ["missing.cc", "my_op.cc"]


def test_a_source_that_crashes_early(workshop: Workshop, printed: Printed) -> None:
    (workshop.folder / "my_op.cc").write_text(
        "static int value = (__builtin_trap(), 1); int* shown = &value;\n"
    )
    assert build("my_op.cc") == 1
    assert "libmy_op.so ends the process that loads it (SIG" in printed()[1]
    assert not (workshop.folder / "libmy_op.so").exists()


def test_warnings_are_shown_and_do_no_harm(workshop: Workshop, printed: Printed) -> None:
    (workshop.folder / "my_op.cc").write_text("static void Unused() {}\n")
    assert build("my_op.cc") == 0
    assert "Unused" in printed()[1]
    assert build("my_op.cc", "--flag=-Wno-unused-function") == 0
    assert printed()[1] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.cc"], "there is no file none.cc"),
        (["text.txt"], "text.txt is not a C++ source"),
        (["my_op.cc", "./my_op.cc"], "my_op.cc is given twice"),
        (["my_op.cc", "-o", "my_op.cc"], "my_op.cc is the source itself"),
        (["my_op.cc", "-o", "empty"], "empty is a folder. Fix: name the library"),
        (["my_op.cc", "-o", "no/lib.so"], "there is no folder no to write lib.so to"),
        (["my_op.cc", "-o", "/proc/lib.so"], "/proc/lib.so cannot be written: "),
        ([], "no source is given, and there is no operator's source in"),
    ],
)
def test_used_wrongly(
    workshop: Workshop, printed: Printed, arguments: list[str], message: str
) -> None:
    (workshop.folder / "text.txt").touch()
    (workshop.folder / "empty").mkdir()
    assert build(*arguments) == 1
    _, error = printed()
    assert message in error
    assert len(error.splitlines()) == 1


def test_the_sources_of_the_folder(workshop: Workshop, printed: Printed) -> None:
    (workshop.folder / "my_op.cc").write_text("int value;  // #include <opgraft/op.h>\n")
    (workshop.folder / "other.cc").write_text("extern int value; int* other = &value;\n")
    (workshop.folder / "my_op_test.cc").write_text("#error a test\n")
    assert build() == 0
    assert printed() == ("libmy_op.so\n", "")
    (workshop.folder / "work.cc").touch()  # has the name of the folder
    assert build() == 0
    assert printed() == ("libwork.so\n", "")


def test_no_compiler(workshop: Workshop, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build("my_op.cc", "--compiler", "g++-99") == 1
    assert "the compiler 'g++-99', which --compiler names, is not found" in printed()[1]
    monkeypatch.setenv("CXX", "c++-98 -x")
    assert build("my_op.cc") == 1
    assert "the compiler 'c++-98 -x', which the variable CXX names, is not found" in printed()[1]
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(workshop.folder))
    assert build("my_op.cc") == 1
    _, error = printed()
    assert "UnavailableError: there is no C++ compiler" in error
    assert "apt-get install g++" in error


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo unrecognized option >&2; exit 1", "cannot compile C++20"),
        ("echo '#define __cpp_concepts 1'", "is too old, it lacks std::bit_cast, std::span"),
    ],
)
def test_an_old_compiler(workshop: Workshop, printed: Printed, body: str, message: str) -> None:
    assert build("my_op.cc", "--compiler", workshop.add_compiler(body)) == 1
    _, error = printed()
    assert "UnavailableError" in error
    assert message in error
    assert "g++ 11 or clang++ 14 or newer is needed" in error


def test_the_variable_cxx_may_hold_options(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workshop.folder / "my_op.cc").write_text("int value = STEP;\n")
    monkeypatch.setenv("CXX", f"'{workshop.add_compiler()}' -DSTEP=2")
    assert build("my_op.cc") == 0
    assert all(call.startswith("-DSTEP=2 ") for call in workshop.take_calls())


def test_the_adapter_is_compiled_once(workshop: Workshop) -> None:
    compiler = ["--compiler", workshop.add_compiler()]
    assert build("my_op.cc", *compiler) == 0
    assert workshop.take_compiled() == {"my_op", *UNITS}
    assert len(workshop.objects()) == 2
    assert build("my_op.cc", *compiler) == 0
    assert workshop.take_compiled() == {"my_op"}


def test_an_error_in_the_source_does_not_undo_the_adapter(workshop: Workshop) -> None:
    compiler = ["--compiler", workshop.add_compiler()]
    (workshop.folder / "bad.cc").write_text("#error not yet\n")
    # Gives the adapter's sources, which start later, enough time to compile.
    Path(compiler[1]).write_text(
        '#!/bin/sh\ncase "$*" in *bad.cc*) sleep 0.5;; esac\nexec g++ "$@"\n'
    )
    assert build("bad.cc", *compiler) == 1
    assert len(workshop.objects()) >= 1


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_broken_cache_is_fixed(workshop: Workshop, damage: bytes | None) -> None:
    compiler = ["--compiler", workshop.add_compiler()]
    assert build("my_op.cc", *compiler) == 0
    workshop.take_compiled()
    broken = workshop.objects()[0]
    if damage is None:
        broken.unlink()
    else:
        broken.write_bytes(damage)
    name = broken.name.split(".")[0]
    for compiled in ({"my_op", name}, {"my_op"}):
        assert build("my_op.cc", *compiler) == 0
        assert workshop.take_compiled() == compiled
    assert exported_symbols(workshop.folder / "libmy_op.so") == SYMBOLS


def test_without_a_place_for_the_cache(workshop: Workshop, printed: Printed) -> None:
    """There is a file in place of the folder, so not even root can write there."""
    workshop.cache.touch()
    for _ in range(2):
        assert build("my_op.cc") == 0
        assert printed() == ("libmy_op.so\n", "")
    assert exported_symbols(workshop.folder / "libmy_op.so") == SYMBOLS


def test_builds_side_by_side(workshop: Workshop) -> None:
    settings = Settings(Compiler.find())
    names = [workshop.folder / f"lib{number}.so" for number in range(6)]
    threads = [
        threading.Thread(target=build_pack, args=([Path("my_op.cc")], name, settings))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        assert exported_symbols(name) == SYMBOLS
    assert len(workshop.objects()) == 2
    assert not [path for path in workshop.cache.rglob(".*") if path.is_dir()]


def test_what_the_objects_depend_on(workshop: Workshop) -> None:
    def count(*arguments: str | Path) -> int:
        assert build("my_op.cc", *arguments) == 0
        return len(list(workshop.cache.glob("opgraft/adapter-*")))

    assert count() == 1
    # Options that concern only the author's source.
    assert count("--flag=-I.", "--flag=-lm", "--flag=-Wextra", "--flag=-Wl,-z,now") == 1
    assert count("--debug") == 2
    assert count("--flag=-DX") == 3
    compiler = workshop.add_compiler()
    assert count("--compiler", compiler) == 4
    compiler.write_text(compiler.read_text() + "# a newer one\n")
    assert count("--compiler", compiler) == 5
    (workshop.adapter / "opgraft_pack" / "header.h").write_text("// a newer one\n")
    assert count() == 6
    (workshop.adapter / "opgraft_pack" / "opgraft_pack.cc").open("a").write("// a newer one\n")
    assert count() == 7
    # Objects that have not been used for long are removed when a new one is cached.
    for folder in workshop.cache.glob("opgraft/*"):
        os.utime(folder, (0, 0))
    assert count("--flag=-DY") == 1
