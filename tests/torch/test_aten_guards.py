"""What libtorch runs on trust is checked first: good calls run, spoiled ones are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opgraft

torch = pytest.importorskip("torch", reason="ATen nodes need torch")

from aten_calls import SMALLEST, SMALLEST_OF_32, good_calls  # noqa: E402
from aten_models import of_call  # noqa: E402

from opgraft.torch._rungs._aten import Output, is_listed  # noqa: E402

A = torch.ops.aten
FOLDER = Path(__file__).resolve().parents[1]
GOOD = good_calls()
NAN = float("nan")


def overload_of(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(A, base), overload or "default")


@pytest.mark.parametrize("name", GOOD)
def test_good_calls_give_what_torch_gives(name: str) -> None:
    overload = overload_of(name)
    assert is_listed(overload)
    for args, kwargs in GOOD[name]:
        case = of_call(overload, args, kwargs)
        got = opgraft.InferenceSession(case.model).run(None, case.feed)
        for one, expected in zip(got, case.expected, strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)


def check_spoiled(names: list[str]) -> None:
    """A few calls of each; tests/aten_hostile.py tries more."""
    done = subprocess.run(
        [sys.executable, FOLDER / "aten_hostile.py", "--count", "2", *names],
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(names) + 1, done.stdout + done.stderr
    assert all("0 failed" in line for line in lines)


def test_spoiled_calls_of_some_operators_do_not_end_the_process() -> None:
    check_spoiled(list(GOOD)[::4])


@pytest.mark.exhaustive
def test_spoiled_calls_do_not_end_the_process() -> None:
    check_spoiled(list(GOOD))


IMAGE = torch.ones(1, 2, 6, 7)
PLACES = torch.zeros(1, 4, 5, 2)
QUERY, KEY = torch.ones(1, 2, 4, 8), torch.ones(1, 2, 5, 8)
STATES, WEIGHTS = [torch.ones(1, 2, 5)] * 2, [torch.ones(20, 3), torch.ones(20, 4)]
NO_SIZES = torch.empty(0, dtype=torch.int64)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "says"),
    [
        ("scaled_dot_product_attention", [QUERY, QUERY, KEY], {}, "as many keys as values"),
        ("scaled_dot_product_attention", [QUERY, KEY, KEY, torch.ones(5, 4)], {}, "4 rows of 5"),
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            [QUERY, KEY[:0], KEY[:0]],
            {},
            r"not empty, got query float32\[1, 2, 4, 8\], key float32\[0, 2, 5, 8\]",
        ),
        ("upsample_nearest2d", [IMAGE, [12, 14], 1e-30, 2.0], {}, "scales_h .*, got 1e-30"),
        ("upsample_bilinear2d", [IMAGE, [12, 14], False, 2.0, NAN], {}, "scales_w .*, got nan"),
        ("upsample_bicubic2d", [IMAGE, [12, 0], False], {}, "output_size above 0, got 0"),
        ("grid_sampler_2d", [IMAGE, PLACES, 3, 0, False], {}, "_mode from 0 to 2, got 3"),
        ("grid_sampler", [IMAGE, PLACES[..., :1], 0, 0, False], {}, r"\[1, 4, 5, 1\]"),
        ("linalg_eigvals", [torch.full((3, 3), NAN)], {}, "finite numbers, got nan"),
        (
            "native_group_norm",
            [torch.ones(2, 6, 5), None, None, 2**62 + 15, 4, 1, 1, 1e-5],
            {},
            "the input's 60 elements",
        ),
        (
            "repeat_interleave.Tensor",
            [torch.tensor([2**62] * 4)],
            {},
            "whose sum does not overflow",
        ),
        ("repeat_interleave.Tensor", [torch.tensor([2, -1])], {}, "of 0 or more, got -1"),
        (
            "_native_batch_norm_legit_no_training",
            [IMAGE, None, None, torch.ones(1), torch.ones(2), 0.1, 1e-5],
            {},
            "running_mean to have one number for each channel",
        ),
        (
            "div.Tensor_mode",
            [torch.tensor([SMALLEST]), torch.tensor([-1])],
            {"rounding_mode": "trunc"},
            "-1 among the divisors",
        ),
        (
            "div.Scalar_mode",
            [torch.tensor([SMALLEST_OF_32], dtype=torch.int32), -1],
            {"rounding_mode": "trunc"},
            "-1 among the divisors",
        ),
        ("_pdist_forward", [torch.ones(3), 2.0], {}, "2 dimensions, got float32"),
        (
            "lstm.input",
            [torch.ones(4, 2, 3), STATES, WEIGHTS, False, 1, 0.0, False, False, False],
            {},
            r"params\[1\] float32\[20, 5\], got float32\[20, 4\]",
        ),
        (
            "gru.data",
            [torch.ones(6, 3), NO_SIZES, STATES[0], WEIGHTS, False, 1, 0.0, False, False],
            {},
            r"batch_sizes .*, got int64\[0\]",
        ),
        (
            "_masked_softmax",
            [torch.ones(2, 3), torch.ones(3, dtype=torch.bool), 1, 2],
            {},
            r"mask_type 2, float32\[2, 3\] and bool\[3\]",
        ),
    ],
)
def test_what_is_wrong_is_said(
    name: str, args: list[Any], kwargs: dict[str, Any], says: str
) -> None:
    overload = overload_of(name)
    results = [Output("float32") for _ in overload._schema.returns]
    case = of_call(overload, args, kwargs, results=results if len(results) > 1 else results[0])
    with pytest.raises(opgraft.Error) as caught:
        opgraft.InferenceSession(case.model).run(None, case.feed)
    full_name = name.replace(".", r"\.")
    assert re.search(f"operator aten::{full_name}: expected .*{says}", str(caught.value)), caught


def test_numbers_in_inputs_are_checked_too() -> None:
    """Where a node takes its numbers from inputs, in each run."""
    args = [IMAGE, PLACES, 0, 0, False]
    case = of_call(A.grid_sampler_2d.default, args, numbers=[2])
    session = opgraft.InferenceSession(case.model)
    np.testing.assert_allclose(session.run(None, case.feed)[0], case.expected[0])
    case.feed[next(name for name in case.feed if case.feed[name].ndim == 0)] = np.array(7)
    with pytest.raises(opgraft.Error, match="interpolation_mode from 0 to 2, got 7"):
        session.run(None, case.feed)


# By hand, since no tensor of torch's is so. Each is an error, and does not end the process.
BY_HAND = """if True:
    import numpy as np, onnx.parser, opgraft, torch

    def run(operator, overload, arguments, results, given):
        types = {"float32": "float", "int32": "int32", "int64": "int64", "uint32": "uint32",
                 "uint64": "uint64"}
        inputs = ", ".join(
            f"{types[str(v.dtype)]}" + (f"[{','.join(map(str, v.shape))}]" if v.ndim else "")
            + f" {k}" for k, v in given.items())
        outputs = ", ".join(f"{types[results.partition('[')[0]]}[o{i}] y{i}"
                            for i in range(results.count("[")))
        names = ", ".join(f"y{i}" for i in range(results.count("[")))
        model = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 18, "org.pytorch.aten": 1]> '
            f'g ({inputs}) => ({outputs}) {{ {names} = org.pytorch.aten.ATen '
            f'<operator="{operator}", overload_name="{overload}", encoding=1, '
            f'arguments="{arguments}", results="{results}"> ({", ".join(given)}) }}')
        try:
            opgraft.InferenceSession(model).run(None, given)
        except opgraft.Error as error:
            assert "nan" not in str(error), error  # what lies behind the tensor
        else:
            raise AssertionError(operator)

    for last in (0, 1):
        x = np.zeros((2000, 2000, last), np.float32)
        run("aten::linalg_eigvals", "", "(complex(%0))", "float32[n]", {"x": x})
    x = np.zeros((50000, 50000, 0), np.int64)
    run("aten::gcd", "", "(complex(%0), %1)", "int64[n]", {"x": x, "z": np.ones(1, np.int64)})
    for bits in (32, 64):
        x = np.array([-(2 ** (bits - 1))], f"int{bits}")
        z = np.array(2**bits - 1, f"uint{bits}")
        run("aten::div", "Tensor_mode", '(%0, %1, rounding_mode=\\\\"trunc\\\\")', f"int{bits}[n]",
            {"x": x, "z": z})
    h = 8
    given = {"x": np.zeros((3, 2, 8), np.float32)}
    given |= {name: np.ones((2, 2, h), np.float32) for name in ("h", "c")}
    for cell in "01":
        given |= {"a" + cell: np.zeros((4 * h, 8), np.float32)}
        given |= {"b" + cell: np.zeros((4 * h, h), np.float32)}
        given |= {"p" + cell: np.zeros((h, h), np.float32)}
    options = "false, 2, 0.0, false, false, false"
    run("aten::lstm", "input", f"(%0, [%1, %2], [%3, %4, %5, %6, %7, %8], {options})",
        "float32[n], float32[n], float32[n]", given)
"""


def test_calls_that_torch_itself_never_writes() -> None:
    done = subprocess.run([sys.executable, "-c", BY_HAND], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode} {done.stdout} {done.stderr[-2000:]}"
