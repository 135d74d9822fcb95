"""The reference of the command `opgraft`, from its own help."""

from __future__ import annotations

import argparse
import os


def markdown() -> str:
    from opgraft import _command

    os.environ["COLUMNS"] = "80"
    parser = _command._parser()
    (commands,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    parts = []
    for name, command in commands.choices.items():
        command.color = False  # of Python 3.14
        text = command.format_help()
        usage, _, rest = text.partition("\n\n")
        parts.append(f"## `opgraft {name}`\n\n```text\n{usage.strip()}\n```\n")
        parts.append(f"{command.description}\n" if command.description else "")
        parts.append(_table(command))
        if not rest:
            raise ValueError(f"opgraft {name} has no help")
    return "\n".join(parts)


def _table(command: argparse.ArgumentParser) -> str:
    rows = ["| argument | |", "|---|---|"]
    for action in command._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = action.metavar if action.nargs != 0 else None
        names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar}`"
        if action.option_strings and value:
            names = names[:-1] + f" {value}`"
        meaning = (action.help or "") % vars(action) if action.help else ""
        rows.append(f"| {names} | {meaning} |".replace("\n", " "))
    return "\n".join(rows) + "\n"
