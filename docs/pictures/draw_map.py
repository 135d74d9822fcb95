"""Draws the README's picture, for light and dark pages: `python docs/pictures/draw_map.py`."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
THEMES = {
    "light": {
        "text": "#12382c", "soft": "#46685b", "strong": "#0f8a5f",
        "box": "#ffffff", "line": "#9cc7b5", "rung": "#e3f4ec",
    },
    "dark": {
        "text": "#e6f2ec", "soft": "#a3bcb1", "strong": "#5fd6a4",
        "box": "#16211d", "line": "#3f6656", "rung": "#173a2d",
    },
}  # fmt: skip
WRITTEN = [
    ("@opgraft.op", "a Python function"),
    ("OPGRAFT_OP", "a C++ or CUDA kernel"),
    ("opgraft.torch.export", "a PyTorch model"),
    ("opgraft.sklearn.to_onnx", "a scikit-learn pipeline"),
]
RUNGS = ["Your own operator", "Standard ONNX", "A native pack", "libtorch, no Python", "Python"]
RUNS = [
    ("A Python program", "opgraft.InferenceSession"),
    ("A C++ program", "opgraft/host.h"),
    ("The CPU", "stock ONNX Runtime, 1.19+"),
    ("An NVIDIA GPU", "the same wheel, 1.24+"),
]


def box(x: int, y: int, width: int, height: int, lines: tuple[str, ...], kind: str) -> str:
    """Returns a box with one or two lines of text; a line with a dot or an underscore is code."""
    parts = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>']
    first = y + height / 2 + (5 if len(lines) == 1 else -4)
    for number, line in enumerate(lines):
        code = "opgraft" in line or "_" in line
        style = "code" if code else "soft" if number else "name"
        place = f'x="{x + width / 2:g}" y="{first + 19 * number:g}"'
        parts.append(f'<text class="{style}" {place} text-anchor="middle">{line}</text>')
    return "\n".join(parts)


def picture(colour: dict[str, str]) -> str:
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 330" role="img">',
        "<title>Where an operator is written, the ladder, where it runs</title>",
        f"""<style>
text{{font:500 14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:{colour["text"]}}}
.soft{{font-size:12px;font-weight:400;fill:{colour["soft"]}}}
.code{{font:400 12.5px ui-monospace,Menlo,Consolas,monospace}}
.head{{font-size:12.5px;font-weight:700;fill:{colour["strong"]};letter-spacing:.06em}}
.box{{fill:{colour["box"]};stroke:{colour["line"]};stroke-width:1.4}}
.rung{{fill:{colour["rung"]};stroke:{colour["strong"]};stroke-width:1.5}}
.arrow{{stroke:{colour["strong"]};stroke-width:2;fill:none;marker-end:url(#head)}}
</style>""",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour["strong"]}"/>'
        "</marker></defs>",
    ]
    for x, head in ((120, "WRITTEN ONCE"), (420, "THE BEST RUNG THAT HOLDS"), (720, "RUNS IN")):
        parts.append(f'<text class="head" x="{x}" y="28" text-anchor="middle">{head}</text>')
    for number, lines in enumerate(WRITTEN):
        parts.append(box(10, 46 + 68 * number, 220, 54, lines, "box"))
        parts.append(f'<path class="arrow" d="M232 {73 + 68 * number}L296 {124 + 34 * number}"/>')
    parts.append(
        f'<path d="M316 44V314M524 44V314" stroke="{colour["line"]}" stroke-width="6" '
        'stroke-linecap="round"/>'
    )
    for number, rung in enumerate(RUNGS):
        parts.append(box(304, 52 + 53 * number, 232, 40, (f"{number + 1} &#160; {rung}",), "rung"))
    for number, lines in enumerate(RUNS):
        parts.append(box(610, 46 + 68 * number, 220, 54, lines, "box"))
        parts.append(f'<path class="arrow" d="M542 {124 + 34 * number}L606 {73 + 68 * number}"/>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    for theme, colour in THEMES.items():
        (FOLDER / f"map-{theme}.svg").write_text(picture(colour))
