"""Runs programs without a package, for tests of the messages about missing packages."""

from __future__ import annotations

import subprocess
import sys

# Finds all modules except those of one package.
HIDING = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *given: (
    None if name.partition(".")[0] == PACKAGE else find_spec(name, *given)
)
import opgraft
"""


def without(package: str, code: str) -> str:
    """Returns what a program prints without that package."""
    program = HIDING.replace("PACKAGE", repr(package)) + code
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refusal(statement: str) -> str:
    return f"""
try:
    {statement}
except ImportError as error:
    assert isinstance(error, opgraft.UnavailableError)
    print(error.name, error, sep="; ")
"""
