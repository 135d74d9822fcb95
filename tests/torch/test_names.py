"""Which operators torch knows, by which names, and from when on."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from eager_operators import pack

import opgraft
import opgraft.torch

torch = pytest.importorskip("torch", reason="torch is not installed")

X = torch.ones(2)


def declare(name: str, add: float) -> None:
    @opgraft.op(name)
    def operator(x: np.ndarray) -> np.ndarray:
        return x + x.dtype.type(add)


def in_a_process(code: str, folder: Path) -> str:
    (folder / "program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_before_and_after_the_import(tmp_path: Path) -> None:
    printed = in_a_process(
        f"""
import sys
import numpy as np
import opgraft

@opgraft.op("a.b::Before")
def before(x: np.ndarray) -> np.ndarray:
    return x + 1

opgraft.load({str(pack.path)!r})
assert "torch" not in sys.modules
import torch
assert not hasattr(torch.ops.a_b, "Before")
import opgraft.torch

@opgraft.op("a.b::After")
def after(x: np.ndarray) -> np.ndarray:
    return x + 2

x = torch.zeros(1)
print(torch.ops.a_b.Before(x).item(), torch.ops.a_b.After(x).item())
print(torch.ops.eager_pack.Copy(x).item(), opgraft.torch.operator("a.b::After"))
""",
        tmp_path,
    )
    assert printed == "1.0 2.0\n0.0 a_b.After.default\n"


def test_a_pack_loaded_later(tmp_path: Path) -> None:
    code = f"""
import opgraft.torch
import torch
assert not hasattr(torch.ops.eager_pack, "Copy")
opgraft.load({str(pack.path)!r})
print(torch.ops.eager_pack.Copy(torch.ones(1)).item())
"""
    assert in_a_process(code, tmp_path) == "1.0\n"


def test_the_exit_with_tensors_around(tmp_path: Path) -> None:
    """What torch lets go of at the very end holds arrays of a Python that is no more."""
    code = f"""
import numpy as np
import opgraft.torch
import torch
opgraft.load({str(pack.path)!r})

@opgraft.op("a::B")
def b(x: np.ndarray) -> np.ndarray:
    return x + 1

kept = [torch.ops.a.B(torch.ones(10)), torch.ops.eager_pack.Copy(torch.ones(10))]
torch.kept = kept
print("end")
"""
    assert in_a_process(code, tmp_path) == "end\n"


def test_domains_become_namespaces() -> None:
    for name, namespace in {
        "names.a.b::C": "names_a_b",
        "names-a/b+c::C": "names_a_b_c",
        "3names::C": "_3names",
    }.items():
        declare(name, 1)
        operator = getattr(torch.ops, namespace)
        assert getattr(operator, name.partition("::")[2])(X).tolist() == [2, 2]
        assert opgraft.torch.operator(name)(X).tolist() == [2, 2]


def test_the_domain_of_onnx_becomes_a_namespace(tmp_path: Path) -> None:
    """In its own process: other tests read all that onnx.defs has in this domain."""
    code = """
import numpy as np
import opgraft.torch
import torch

@opgraft.op("ai.onnx::NamesTest")
def op(x: np.ndarray) -> np.ndarray:
    return x + 1

x = torch.ones(2)
by_name = opgraft.torch.operator("ai.onnx::NamesTest")
print(torch.ops.ai_onnx.NamesTest(x).tolist(), by_name(x).tolist())
"""
    assert in_a_process(code, tmp_path) == "[2.0, 2.0] [2.0, 2.0]\n"


def test_two_of_a_name() -> None:
    declare("names.clash::Op", 1)
    with pytest.warns(UserWarning, match="names_clash::Op cannot be an operator of torch's: it wo"):
        declare("names_clash::Op", 2)
    assert torch.ops.names_clash.Op(X).tolist() == [2, 2]
    with pytest.raises(
        opgraft.Error, match="torch.ops.names_clash.Op, which names.clash::Op is al"
    ):
        opgraft.torch.operator("names_clash::Op")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        declare("names.clash::Other", 3)


def test_a_name_that_torch_has() -> None:
    with pytest.warns(UserWarning, match="torch.ops.aten.neg exists already, from another library"):
        declare("aten::neg", 1)
    assert torch.ops.aten.neg(X).tolist() == [-1, -1]
    with pytest.raises(opgraft.Error, match="Fix: give the operator another domain or name"):
        opgraft.torch.operator("aten::neg")


def test_declaring_again() -> None:
    """As in a notebook: with the same schema, and with another."""
    declare("names.again::Op", 1)
    held = torch.ops.names_again.Op.default
    assert held(X).tolist() == [2, 2]
    declare("names.again::Op", 2)
    assert held(X).tolist() == [3, 3] and torch.ops.names_again.Op(X).tolist() == [3, 3]

    @opgraft.op("names.again::Op")
    def operator(x: np.ndarray, *, factor: float = 4.0) -> np.ndarray:
        return x * x.dtype.type(factor)

    assert torch.ops.names_again.Op(X).tolist() == [4, 4]
    assert torch.ops.names_again.Op(X, factor=5).tolist() == [5, 5]


def test_names_of_arguments() -> None:
    @opgraft.op("names.arguments::Op")
    def operator(
        outputs: np.ndarray, *, lambda_: int = 1, out_: float = 2
    ) -> tuple[np.ndarray, ...]:
        return (outputs * lambda_ * np.float32(out_),)

    schema = str(opgraft.torch.operator("names.arguments::Op")._schema)
    assert schema.endswith(
        "(Tensor outputs, *, int outputs_, int lambda_=1, float out_=2.) -> Tensor[]"
    )
    (y,) = torch.ops.names_arguments.Op(X, outputs_=1, lambda_=3)
    assert y.tolist() == [6, 6]


def test_operators_that_come_with_opgraft(tmp_path: Path) -> None:
    """Loaded when they are asked for by name, and not before."""
    printed = in_a_process(
        """
import opgraft.torch
import torch
from opgraft._declare import _packs

def refusal(name):
    try:
        opgraft.torch.operator(name)
    except opgraft.Error as error:
        return str(error)

assert refusal("no.domain::Inverse").startswith("there is no operator 'no.domain::Inverse'")
assert not _packs.operators()
assert "Did you mean 'com.microsoft::Inverse'?" in refusal("com.microsoft::Invers")
inverse = opgraft.torch.operator("com.microsoft::Inverse")
assert inverse is torch.ops.com_microsoft.Inverse.default
print(*sorted(one.full_name for one in _packs.operators()), inverse(2 * torch.eye(1)).item())
""",
        tmp_path,
    )
    names = ["com.microsoft::Gelu", "com.microsoft::Inverse", "com.microsoft::Trilu"]
    assert printed.split() == [*names, "0.5"]
