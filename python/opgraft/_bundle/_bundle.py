"""`opgraft bundle`: gathers what a model needs into a folder, with a program that runs it."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from opgraft import __version__
from opgraft._base._errors import Error
from opgraft._bundle._check import FORMAT, LIST, PROGRAM, check, digest
from opgraft._doctor._doctor import blocks, diagnose
from opgraft._doctor._doctor_report import OK, Diagnosis
from opgraft._doctor._shipment import (
    Part,
    as_dicts,
    copied,
    lacking,
    shipment_blocks,
    shipment_lines,
)
from opgraft._run._prepare import installed_runtime
from opgraft._run._run import pairs
from opgraft._terminal._document import GOOD, Line
from opgraft._terminal._screen import show

READ_ME = "README.txt"
#: The files that are written here; all others are copied, as the list of parts says.
WRITTEN = (PROGRAM, READ_ME, LIST)

_PROGRAM = """\
#!/bin/sh
# Runs the model of this folder, from wherever the folder lies: run.sh --input NAME=FILE.npy
case $0 in */*) here=${{0%/*}} ;; *) here=. ;; esac
here=$(CDPATH='' cd -- "$here" && pwd -P) || exit 1
{environment}exec "$here/opgraft/bin/opgraft-run" \\
    --onnxruntime "$here/opgraft/lib/libonnxruntime.so.1" \\
    {options}"$@" "$here"/{model}
"""

#: OPGRAFT_PYTHON wins; then the Python that the bundle was made with; then python3 on the PATH.
_PYTHON = """\
if [ -z "$OPGRAFT_PYTHON" ] && [ -x {python} ]; then
  OPGRAFT_PYTHON={python}
  export OPGRAFT_PYTHON
fi
"""
_LIBTORCH = """\
: "${OPGRAFT_LIBTORCH:=$here/torch/lib/libtorch_cpu.so}"
export OPGRAFT_LIBTORCH
"""
#: Python must not write into the bundle, whose files must stay as listed.
_MODULES = """\
OPGRAFT_PATH="$here/python${OPGRAFT_PATH:+:$OPGRAFT_PATH}"
: "${PYTHONDONTWRITEBYTECODE:=1}"
export OPGRAFT_PATH PYTHONDONTWRITEBYTECODE
"""


def bundle(options: argparse.Namespace) -> int:
    """Runs the command. The exit status is 0, or 1 if something is missing or it does not run."""
    files = pairs(options.input, "--input")
    if options.check:
        if options.folder is not None:
            raise Error("--check takes the folder of a bundle, and nothing else")
        show([Line(f"{options.model}: {check(options.model, files)}", style=GOOD)])
        return 0
    if options.folder is None:
        raise Error("expected a model and a folder: opgraft bundle MODEL FOLDER")
    sys.path.append(os.getcwd())
    folder = os.path.abspath(options.folder)
    _refuse(folder, options.folder)
    environment = os.environ.get("OPGRAFT_ALLOW", "").split(",")
    allow = [*options.allow, *(one for one in environment if one and one not in options.allow)]
    diagnosis = diagnose(
        options.model,
        installed_runtime(),
        allow=allow,
        imports=options.imports,
        packs=options.packs,
        prefer=options.prefer,
        is_verbose=options.verbose,
        with_libtorch=options.libtorch,
    )
    if diagnosis.status != OK:
        show(blocks(diagnosis), sys.stderr)
        raise Error("nothing is bundled, because something is missing")
    if absent := lacking(diagnosis.ship, options.libtorch):
        told = "; ".join(f"{one.name}: {one.what}" for one in absent)
        raise Error(f"nothing is bundled, because a file cannot be copied: {told}")
    arguments = [("--allow", one) for one in allow]
    arguments += [("--import", one) for one in options.imports]
    arguments += [("--prefer", one) for one in options.prefer]
    gather(diagnosis, folder, arguments)
    show([*shipment_blocks(diagnosis.ship), Line("")])
    try:
        said = check(folder, files)
    except Error as error:
        raise type(error)(f"{error}\nThe files are left in '{options.folder}'") from error
    show([Line(f"{options.folder}: {said}", style=GOOD)])
    return 0


def _refuse(folder: str, given: str) -> None:
    if os.path.isdir(folder) and not os.listdir(folder):
        return
    if os.path.lexists(folder):
        kind = "is not empty" if os.path.isdir(folder) else "is not a folder"
        raise Error(f"'{given}' {kind}. Fix: name a folder that is empty or not there yet")


def gather(diagnosis: Diagnosis, folder: str, arguments: Sequence[tuple[str, str]]) -> None:
    """Writes the bundle. It is made beside `folder` and moved there once it is complete."""
    parts = copied(diagnosis.ship)
    making = f"{folder}.{os.getpid()}.part"
    os.makedirs(making)
    try:
        files: dict[str, dict[str, Any]] = {}
        for part in parts:
            path = _path(making, part.name)
            shutil.copyfile(part.source, path)
            os.chmod(path, 0o755 if part.kind == "program" else 0o644)
            files[part.name] = {"size": os.path.getsize(path), "sha256": digest(path)}
        for name, text in (
            (PROGRAM, _program(parts, arguments, diagnosis)),
            (READ_ME, _read_me(diagnosis)),
        ):
            path = _path(making, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755 if name == PROGRAM else 0o644)
            files[name] = {"size": os.path.getsize(path), "sha256": digest(path)}
        listed = {
            "format": FORMAT,
            "opgraft": __version__,
            "files": files,
            "parts": [{**one, "source": ""} for one in as_dicts(diagnosis.ship)],
            "inputs": diagnosis.inputs,
        }
        with open(os.path.join(making, LIST), "w", encoding="utf-8") as file:
            json.dump(listed, file, indent=1)
        os.rename(making, folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def _path(folder: str, name: str) -> str:
    path = os.path.normpath(os.path.join(folder, name))
    if not path.startswith(folder + os.sep) or os.path.lexists(path):
        raise Error(f"'{name}' cannot be a file of the bundle: it is there twice, or outside")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def _program(
    parts: Sequence[Part], arguments: Sequence[tuple[str, str]], diagnosis: Diagnosis
) -> str:
    """The script that starts opgraft-run with what the bundle holds."""
    asks_python = any(
        one.kind == "python" or (one.kind == "libtorch" and not one.source)
        for one in diagnosis.ship
    )
    environment = _PYTHON.format(python=shlex.quote(sys.executable)) if asks_python else ""
    if any(one.kind == "libtorch" for one in parts):
        environment += _LIBTORCH
    if any(one.kind == "module" for one in parts):
        environment += _MODULES
    packs = [one for one in parts if one.kind == "pack" and one.name.startswith("packs/")]
    options = "".join(f'--pack "$here"/{shlex.quote(one.name)} ' for one in packs)
    options += "".join(f"{option} {shlex.quote(value)} " for option, value in arguments)
    (model,) = [one for one in parts if one.kind == "model"]
    return _PROGRAM.format(environment=environment, options=options, model=shlex.quote(model.name))


def _read_me(diagnosis: Diagnosis) -> str:
    inputs = " ".join(f"--input {one['name']}=FILE.npy" for one in diagnosis.inputs)
    lines = [
        f"A model, with what runs it; made by opgraft {__version__}.",
        "",
        f"    ./{PROGRAM} {inputs}",
        "",
        f"runs it and prints its outputs. `opgraft bundle --check FOLDER` compares the files with "
        f"{LIST}, and runs it with an empty environment.",
        "",
        "What there is, and what the machine must have:",
        "",
        *(f"- {one}" for one in shipment_lines(diagnosis.ship)),
        "",
    ]
    return "\n".join(lines)
