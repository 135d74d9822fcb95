"""What is said where a package that opgraft.torch needs is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hidden_packages import refusal, without

REPOSITORY = Path(__file__).resolve().parents[2]


def test_without_torch() -> None:
    for module in ("opgraft.torch", "opgraft.torch.compat", "opgraft.torch.operators"):
        assert without("torch", refusal(f"import {module}")) == (
            "torch; opgraft.torch needs torch, 2.10 or newer, which is not installed: "
            'pip install "opgraft[torch]"'
        )


@pytest.mark.parametrize("package", ["onnx", "onnx_ir", "onnxscript"])
def test_without_what_exports_need(package: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    names = [
        ("import opgraft.torch.compat", "opgraft.torch.compat"),
        ("import opgraft.torch.symbolics", "opgraft.torch.symbolics"),
        ("from opgraft.torch import export", "opgraft.torch.export"),
        ("opgraft.torch.translation_table()", "opgraft.torch.translation_table"),
    ]
    # What needs none of them works as ever.
    eager = """
import opgraft.torch, torch
print(opgraft.torch.operator("com.microsoft::Inverse")(torch.eye(1)).item())
opgraft.torch.register_backward("com.microsoft::Inverse", lambda gradient: gradient)
"""
    printed = without(package, eager + "".join(refusal(statement) for statement, _ in names))
    wanted = "onnxscript" if package == "onnx_ir" else package
    told = f'needs {wanted}, which is not installed: pip install "opgraft[torch]"'
    assert printed.splitlines() == ["1.0", *(f"{package}; {name} {told}" for _, name in names)]


def test_the_documentation_says_what_to_install() -> None:
    for page in ("docs/start/install.md", "docs/torch.md"):
        assert 'pip install "opgraft[torch]"' in (REPOSITORY / page).read_text(), page
