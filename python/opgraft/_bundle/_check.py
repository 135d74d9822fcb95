"""Checks a bundle: that its files are those that its list names, and that it runs by itself."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opgraft._base._errors import Error, ModelError
from opgraft._base._signals import signal_name
from opgraft._run._made_up import make_up
from opgraft._run._run import load_input, save_array

LIST = "bundle.json"
PROGRAM = "run.sh"
#: The version of the list's format.
FORMAT = 1
_NOT_GIVEN = "is missing: --input"


@dataclass(frozen=True)
class Input:
    """An input of a model, with the fields of onnxruntime's NodeArg."""

    name: str
    type: str
    shape: list[int | str | None]


def digest(path: str) -> str:
    with open(path, "rb") as file:
        found = hashlib.sha256()
        while block := file.read(1 << 20):
            found.update(block)
        return found.hexdigest()


def read_list(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, LIST)
    try:
        with open(path, encoding="utf-8") as file:
            listed: dict[str, Any] = json.load(file)
        if listed["format"] != FORMAT:
            raise Error(f"'{path}' has the format {listed['format']}, not {FORMAT}")
        return listed
    except FileNotFoundError as error:
        raise Error(f"'{folder}' is not a bundle: it has no {LIST}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Error(f"'{path}' is not the list of a bundle: {error}") from error


def problems_of(folder: str, listed: Mapping[str, Any]) -> list[str]:
    """Compares the files with the list; returns what is wrong."""
    found = []
    for name, expected in listed["files"].items():
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            found.append(f"{name} is missing")
        elif os.path.getsize(path) != expected["size"] or digest(path) != expected["sha256"]:
            found.append(f"{name} is not the file that was bundled")
    return found


def check(folder: str, files: Mapping[str, str]) -> str:
    """Checks the files, then runs the bundle; returns what was done, or raises an Error.

    It runs in a fresh process, with an empty environment, in the folder "/". `files` are .npy files
    for inputs, by name; the others are made up.
    """
    folder = os.path.abspath(folder)
    listed = read_list(folder)
    if problems := problems_of(folder, listed):
        raise Error(f"the bundle '{folder}' is broken: {'; '.join(problems)}")
    inputs = [Input(**one) for one in listed["inputs"]]
    for name in files:
        if name not in [one.name for one in inputs]:
            raise Error(f"--input {name}: the model has no such input")
    if any(not one.type.startswith("tensor(") for one in inputs):
        done = _run(folder, [])
        if done.returncode != 1 or _NOT_GIVEN not in done.stderr:
            raise _failure(folder, done, "")
        return "its model opens; it was not run, since an input is not a tensor"
    with tempfile.TemporaryDirectory() as scratch:
        arguments = []
        for number, one in enumerate(inputs):
            path = os.path.join(scratch, f"{number}.npy")
            kind = one.type.removeprefix("tensor(").removesuffix(")")
            given = load_input(files[one.name], kind) if one.name in files else make_up(one)
            save_array(path, given)
            arguments += ["--input", f"{one.name}={path}"]
        done = _run(folder, arguments)
    if done.returncode != 0:
        made_up = [one.name for one in inputs if one.name not in files]
        hint = f". The inputs {', '.join(made_up)} were made up; give others by --input"
        raise _failure(folder, done, hint if made_up else "")
    return "it runs in a fresh process, in the folder /, with an empty environment"


def _run(folder: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.path.join(folder, PROGRAM), *arguments],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _failure(folder: str, done: subprocess.CompletedProcess[str], hint: str) -> Error:
    status = done.returncode
    end = f"it was ended by {signal_name(-status)}" if status < 0 else f"its status is {status}"
    said = done.stderr.strip()
    kind = ModelError if ": opgraft.ModelError: " in said else Error
    return kind(f"the bundle '{folder}' does not run: {end}{': ' if said else ''}{said}{hint}")
