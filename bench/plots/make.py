"""Makes the plots of the README: `make bench-plots` measures and draws, `make plots` only draws.

The three benches print tables. Measuring stores them in docs/plots/*.json, with the machine and the
versions; drawing turns each file into two pictures, for light and for dark pages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "docs" / "plots"
BENCHES = {
    "python_operator": ["bench/pyop_overhead.py"],
    "inverse": ["bench/contrib_operators.py", "inverse"],
    "sklearn_pipeline": ["bench/sklearn_pipeline.py"],
}
THEMES = {
    "light": {"ours": "#0f8a5f", "second": "#7cc4a6", "other": "#c2571a", "text": "#3b4a44"},
    "dark": {"ours": "#5fd6a4", "second": "#2f7d5f", "other": "#f0a070", "text": "#b9c9c1"},
}


def table_of(printed: str) -> tuple[list[str], list[list[str]], str]:
    """Returns the columns and rows of the table that a bench has printed, and its versions."""
    lines = printed.splitlines()
    rows = [
        [cell.strip().strip("*").replace(",", "") for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|") and not line.startswith("|---")
    ]
    before = lines[: next(i for i, line in enumerate(lines) if line.startswith("|"))]
    return rows[0], rows[1:], ", ".join(line for line in before if line)


def machine() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return f"{found[1] if found else 'unknown processor'}, {os.cpu_count()} cores"


def measure() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, command in BENCHES.items():
        print("==", *command, flush=True)
        done = subprocess.run(
            [sys.executable, *command],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        columns, rows, versions = table_of(done.stdout)
        content = {
            "command": "python " + " ".join(command),
            "machine": machine(),
            "versions": versions,
            "columns": columns,
        }
        text = json.dumps(content, indent=1)[:-2] + ',\n "rows": [\n  '
        text += ",\n  ".join(map(json.dumps, rows)) + "\n ]\n}\n"
        (FOLDER / f"{name}.json").write_text(text)


def python_operator(axes: Any, rows: list[dict[str, str]], colour: dict[str, str]) -> None:
    sizes = [int(row["floats"]) for row in rows]
    neighbour = [float(row["onnxruntime-extensions"]) for row in rows]
    limit = [float(row["NumPy alone"]) + float(row["one Add"]) for row in rows]
    axes.loglog(sizes, neighbour, color=colour["other"], marker="o", label="onnxruntime-extensions")
    axes.loglog(sizes, limit, color=colour["text"], linestyle="--", label="native Add + NumPy")
    ours = [float(row["PyOp"]) for row in rows]
    axes.loglog(sizes, ours, color=colour["second"], marker="o", label="Opgraft")
    ours = [float(row["out="]) for row in rows]
    axes.loglog(sizes, ours, color=colour["ours"], marker="o", label="Opgraft, out=")
    axes.minorticks_off()
    axes.set_title("A Python operator, µs per call")
    axes.set_xlabel("floats")
    axes.legend(loc="upper left")


def inverse(axes: Any, rows: list[dict[str, str]], colour: dict[str, str]) -> None:
    """Every row of the bench. The ratio is the one that it prints: its times have few decimals."""
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    shades = {"1": "other", "100": "second", "10000": "ours"}
    for place, (batch, shade) in enumerate(shades.items()):
        chosen = [row for row in rows if row["batch"] == batch]
        positions = [sizes.index(row["n"]) + 0.27 * (place - 1) for row in chosen]
        heights = [float(row["times as fast as the faster"]) for row in chosen]
        axes.bar(positions, heights, 0.25, color=colour[shade], label=f"batch {int(batch):,}")
    axes.set_xticks(range(len(sizes)), sizes)
    axes.axhline(1, color=colour["text"], linewidth=0.8)
    axes.set_title("Inverse, times as fast as the faster\nof ONNX Runtime and torch")
    axes.set_xlabel("n, for n × n matrices")
    axes.legend(loc="upper right")


def sklearn_pipeline(axes: Any, rows: list[dict[str, str]], colour: dict[str, str]) -> None:
    names = list(dict.fromkeys(row["step in Python"] for row in rows))
    shades = {"1": "ours", "100": "second", "10000": "other"}
    for place, (count, shade) in enumerate(shades.items()):
        ratios = [
            float(row["Opgraft"]) / float(row["scikit-learn"])
            for row in rows
            if row["rows"] == count
        ]
        positions = [i + 0.27 * (place - 1) for i in range(len(names))]
        label = f"{int(count):,} row{'s' * (count != '1')}"
        axes.barh(positions, ratios, 0.25, color=colour[shade], label=label)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(1, color=colour["text"], linewidth=0.8)
    axes.set_xlim(0, 1.8)  # room for the legend
    axes.set_title("Pipeline, time / scikit-learn's own")
    axes.set_xlabel("below 1: the ONNX model is faster")
    axes.legend(loc="upper right")


def draw() -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    drawings = {
        "python_operator": python_operator,
        "inverse": inverse,
        "sklearn_pipeline": sklearn_pipeline,
    }
    for name, drawing in drawings.items():
        data = json.loads((FOLDER / f"{name}.json").read_text())
        rows = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
        for theme, colour in THEMES.items():
            style = {
                "svg.fonttype": "none",  # text stays text
                "svg.hashsalt": "opgraft",  # the same picture from the same data
                "font.family": "sans-serif",
                "font.size": 8.5,
                "axes.titlesize": 10,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "legend.frameon": False,
                "legend.fontsize": 7.5,
                "lines.markersize": 3.5,
            }
            for part in ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color"):
                style[part] = colour["text"]
            style["ytick.color"] = colour["text"]
            with pyplot.rc_context(style):
                figure, axes = pyplot.subplots(figsize=(4.1, 3.3), layout="constrained")
                drawing(axes, rows, colour)
                runtime = re.search(r"ONNX Runtime [\d.]+", data["versions"])
                assert runtime is not None, data["versions"]
                figure.supxlabel(f"{data['machine']}, {runtime[0]}", fontsize=7)
                file = FOLDER / f"{name}-{theme}.svg"
                figure.savefig(file, transparent=True, metadata={"Date": None})
                pyplot.close(figure)
            print(file.relative_to(REPOSITORY))


if __name__ == "__main__":
    if "--measure" in sys.argv[1:]:
        measure()
    draw()
