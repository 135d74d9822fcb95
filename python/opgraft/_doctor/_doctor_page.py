"""`opgraft doctor --html FILE`: writes the report as a page, with the times of --profile."""

from __future__ import annotations

import argparse
import os

from opgraft._base._errors import Error
from opgraft._doctor._doctor_report import OK, Diagnosis
from opgraft._run._prepare import is_installed
from opgraft._run._run import pairs


def check_target(options: argparse.Namespace) -> None:
    """Refuses to write the page over a file that the command reads."""
    read = [options.model, *options.library, *options.packs]
    read += pairs(options.input, "--input").values()
    for file in read:
        is_there = os.path.exists(options.html) and os.path.exists(file)
        if is_there and os.path.samefile(options.html, file):
            raise Error(f"--html {options.html}: this would overwrite {file}, which is read")


def write(diagnosis: Diagnosis, options: argparse.Namespace) -> None:
    """Writes the report as a page; if the runs of --profile fail, writes it without their times."""
    from opgraft._page import _page, _profile

    times, failure = None, None
    if options.profile:
        request = _profile.Request(
            model=os.path.abspath(options.model),
            allow=options.allow,
            imports=options.imports,
            libraries=[os.path.abspath(one) for one in options.library],
            packs=options.packs,
            prefer=options.prefer,
            inputs=pairs(options.input, "--input"),
        )
        try:
            if not is_installed(diagnosis.runtime):
                raise Error(
                    f"--profile: ONNX Runtime {diagnosis.runtime} is not the installed one, so "
                    "the model cannot be run in it. Fix: leave out --runtime, or --profile"
                )
            if diagnosis.status != OK:
                raise Error("--profile: the model cannot be run, because something is missing")
            times = _profile.profile(request)
        except Error as error:
            failure = error
    page = _page.of_diagnosis(diagnosis, options.model, times, str(failure or ""))
    with open(options.html, "w", encoding="utf-8") as file:
        file.write(page)
    if failure is not None:
        raise failure
