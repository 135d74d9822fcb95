"""Valid calls of the operators that src/aten/guards.cc checks, for tests to run and to corrupt."""

from __future__ import annotations

from typing import Any

import torch

Call = tuple[list[Any], dict[str, Any]]

SMALLEST = -(2**63)
SMALLEST_OF_32 = -(2**31)


def good_calls() -> dict[str, list[Call]]:
    """Returns the calls of each operator, "name" or "name.overload"."""
    torch.manual_seed(0)
    found = {**_attention(), **_images(), **_grids(), **_matrices(), **_normalization()}
    return {**found, **_integers(), **_recurrent(), **_others(), **_counts()}


def _integers_of_32(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def _attention() -> dict[str, list[Call]]:
    query, key = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8)
    long_query, long_key = torch.randn(1, 2, 70, 16), torch.randn(1, 2, 600, 16)
    once = torch.randn(1, 3, 5, 8)
    return {
        "scaled_dot_product_attention": [
            ([query, key, key], {}),
            ([query, key, key, torch.randn(2, 1, 4, 5)], {}),
            ([query, key, key, torch.ones(4, 5, dtype=torch.bool)], {"scale": 0.3}),
            ([torch.randn(2, 6, 4, 8), key, key], {"enable_gqa": True}),
            ([query[0], key[0], key[0]], {}),
            ([key, key, key, None, 0.0, True], {}),
            ([query, once, once], {}),
            ([query[:1], key, key, torch.randn(2, 3, 4, 5)], {}),
            ([long_query, long_key, long_key, torch.randn(70, 600)], {}),
        ],
        "_scaled_dot_product_flash_attention_for_cpu": [
            ([query, key, key], {}),
            ([query, key, key], {"attn_mask": torch.randn(2, 3, 4, 5), "scale": 0.5}),
            ([query, key, key], {"attn_mask": torch.randn(2, 1, 1, 5)}),
            ([long_query, long_key, long_key, 0.0, True], {"attn_mask": torch.randn(70, 600)}),
        ],
        "_masked_softmax": [
            ([torch.randn(2, 3, 4, 4), torch.rand(2, 3, 4, 4) < 0.5, 3, 2], {}),
            ([torch.randn(2, 3, 4, 4), torch.rand(4, 4) < 0.5, 3, 0], {}),
            ([torch.randn(2, 3, 4, 4), torch.rand(2, 4) < 0.5, 3, 1], {}),
            ([torch.randn(3, 4), torch.rand(3, 4) < 0.5, 0, 2], {}),
        ],
    }


def _images() -> dict[str, list[Call]]:
    line, plane = torch.randn(2, 3, 7), torch.randn(2, 3, 6, 7)
    space = torch.randn(1, 2, 4, 5, 6)
    picture = torch.randint(0, 255, (1, 3, 16, 17), dtype=torch.uint8)
    found: dict[str, list[Call]] = {}
    for name in ("upsample_nearest", "_upsample_nearest_exact"):
        found[f"{name}1d"] = [([line, [14], 2.0], {}), ([line, [5]], {}), ([line, [3], 0.5], {})]
        found[f"{name}2d"] = [
            ([plane, [12, 21], 2.0, 3.0], {}),
            ([plane, [3, 4]], {}),
            ([picture, [32, 34], 2.0, 2.0], {}),
        ]
        found[f"{name}3d"] = [([space, [8, 10, 12], 2.0, 2.0, 2.0], {}), ([space, [2, 2, 2]], {})]
        found[f"{name}1d.vec"] = [([line, None, [2.0]], {}), ([line, [5], None], {})]
        found[f"{name}2d.vec"] = [([plane, None, [2.0, 1.5]], {}), ([plane, [5, 4], None], {})]
        found[f"{name}3d.vec"] = [([space, None, [2.0, 0.5, 1.0]], {})]
    smooth = ("upsample_bilinear2d", "_upsample_bilinear2d_aa")
    for name in (*smooth, "upsample_bicubic2d", "_upsample_bicubic2d_aa"):
        found[name] = [
            ([plane, [12, 21], False, 2.0, 3.0], {}),
            ([plane, [3, 4], True], {}),
            ([plane, [3, 3], False, 0.5, 0.5], {}),
            ([picture, [8, 9], False, 0.5, 0.55], {}),
        ]
        found[f"{name}.vec"] = [
            ([plane, None, False, [2.0, 1.5]], {}),
            ([plane, [5, 4], True, None], {}),
            ([picture, None, False, [0.5, 0.4]], {}),
        ]
    found["_upsample_lanczos2d_aa"] = [([picture, [8, 9], False, 0.5, 0.55], {})]
    found["_upsample_lanczos2d_aa.vec"] = [([picture, None, False, [0.5, 0.4]], {})]
    found["upsample_linear1d"] = [([line, [14], False, 2.0], {}), ([line, [3], True], {})]
    found["upsample_linear1d.vec"] = [([line, None, False, [2.0]], {})]
    found["upsample_trilinear3d"] = [([space, [8, 10, 12], False, 2.0, 2.0, 2.0], {})]
    found["upsample_trilinear3d.vec"] = [([space, None, False, [2.0, 0.5, 1.0]], {})]
    return found


def _grids() -> dict[str, list[Call]]:
    plane, space = torch.randn(2, 3, 6, 7), torch.randn(1, 2, 4, 5, 6)
    on_plane, in_space = torch.rand(2, 4, 5, 2) * 2.2 - 1, torch.rand(1, 3, 4, 5, 3) * 2.2 - 1
    flat = [
        ([plane, on_plane, mode, padding, mode == 1], {})
        for mode in range(3)
        for padding in range(3)
    ]
    wide: list[Call] = [([plane.double(), on_plane.double(), 0, 2, False], {})]
    deep = [
        ([space, in_space, mode, padding, False], {}) for mode in range(2) for padding in range(3)
    ]
    return {
        "grid_sampler": [*flat[:3], *deep[:3]],
        "grid_sampler_2d": [*flat, *wide],
        "grid_sampler_3d": deep,
    }


def _matrices() -> dict[str, list[Call]]:
    squares: list[Call] = [
        ([torch.randn(4, 4)], {}),
        ([torch.randn(2, 3, 3).double()], {}),
        ([torch.randn(3, 3, dtype=torch.complex64)], {}),
    ]
    found: dict[str, list[Call]] = {
        "linalg_eigvals": squares,
        "_linalg_eigvals": squares,
        "_pdist_forward": [
            ([torch.randn(5, 3), p], {}) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))
        ],
    }
    for dtype in (torch.float32, torch.complex64):
        matrix, right = torch.randn(2, 3, 3, dtype=dtype), torch.randn(2, 3, 2, dtype=dtype)
        factors, pivots = torch.linalg.lu_factor(matrix)
        blocks, swaps = torch.linalg.ldl_factor(matrix + matrix.mT)
        found.setdefault("lu_unpack", []).append(([factors, pivots], {}))
        found.setdefault("lu_solve", []).append(([right, factors, pivots], {}))
        found.setdefault("linalg_lu_solve", []).append(([factors, pivots, right], {}))
        found.setdefault("linalg_ldl_solve", []).append(([blocks, swaps, right], {}))
    return found


def _normalization() -> dict[str, list[Call]]:
    image, each = torch.randn(2, 6, 2, 2), torch.randn(6)
    return {
        "native_group_norm": [
            ([image, each, each, 2, 6, 4, 3, 1e-5], {}),
            ([image, None, None, 2, 6, 4, 2, 1e-5], {}),
        ],
        "_native_batch_norm_legit_no_training": [
            ([image, each, each, each, torch.rand(6), 0.1, 1e-5], {}),
            ([torch.randn(4, 6), None, None, each, torch.rand(6), 0.1, 1e-5], {}),
        ],
    }


def _integers() -> dict[str, list[Call]]:
    pairs = [
        [torch.tensor([SMALLEST, 5, 7]), torch.tensor([3, 2, 1])],
        [torch.tensor([5, 2, 7]), torch.tensor([3, -1, 1])],
        [_integers_of_32(SMALLEST_OF_32, 5, 7), torch.tensor(3)],
        [torch.tensor(5), _integers_of_32(1, -1, 7)],
        [torch.tensor([-128, 3], dtype=torch.int8), torch.tensor([3, -1], dtype=torch.int8)],
        [torch.randn(3), torch.randn(3)],
    ]
    numbers = [[torch.tensor([SMALLEST, 5, 7]), 3], [_integers_of_32(SMALLEST_OF_32, 5), 3]]
    found: dict[str, list[Call]] = {}
    for name in ("div", "divide"):
        for mode in ("trunc", "floor"):
            kept = found.setdefault(f"{name}.Tensor_mode", [])
            kept += [(args, {"rounding_mode": mode}) for args in pairs]
            kept = found.setdefault(f"{name}.Scalar_mode", [])
            kept += [(args, {"rounding_mode": mode}) for args in numbers]
    for name in ("gcd", "lcm"):
        found[name] = [([torch.tensor([4, 6]), torch.tensor([6, 4])], {})]
        found[name].append(([_integers_of_32(4, 6), torch.tensor(6)], {}))
    return found


def _cells(gates: int, layers: int, directions: int, projection: int = 0) -> list[torch.Tensor]:
    """Returns weights and biases of cells with 3 inputs and 5 hidden values."""
    made = []
    given = projection or 5
    for layer in range(layers):
        for _ in range(directions):
            taken = 3 if layer == 0 else given * directions
            made += [torch.randn(gates * 5, taken), torch.randn(gates * 5, given)]
            made += [torch.randn(gates * 5), torch.randn(gates * 5)]
            if projection:
                made.append(torch.randn(projection, 5))
    return made


def _recurrent() -> dict[str, list[Call]]:
    line, packed, sizes = torch.randn(4, 2, 3), torch.randn(6, 3), torch.tensor([3, 2, 1])
    found: dict[str, list[Call]] = {}
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        for layers, directions in ((1, 1), (2, 2)):
            params = _cells(gates, layers, directions)
            options = [True, layers, 0.0, False, directions == 2]

            def states(batch: int, count: int = layers * directions, name: str = name) -> Any:
                both = [torch.randn(count, batch, 5), torch.randn(count, batch, 5)]
                return both if name == "lstm" else both[0]

            found.setdefault(f"{name}.input", []).extend(
                ([line, states(4 if is_first else 2), params, *options, is_first], {})
                for is_first in (False, True)
            )
            found.setdefault(f"{name}.data", []).append(
                ([packed, sizes, states(3), params, *options], {})
            )
    narrow = [torch.randn(1, 2, 2), torch.randn(1, 2, 5)]
    projected = [line, narrow, _cells(4, 1, 1, 2), True, 1, 0.0, False, False, False]
    found["lstm.input"].append((projected, {}))
    return found


def _others() -> dict[str, list[Call]]:
    rows = torch.randn(3, 4)
    return {
        "repeat_interleave.Tensor": [
            ([torch.tensor([1, 0, 2, 3])], {}),
            ([_integers_of_32(1, 0, 2, 3)], {"output_size": 6}),
        ],
        "repeat_interleave.self_Tensor": [
            ([rows, torch.tensor([1, 0, 2, 3]), 1], {}),
            ([rows, torch.tensor([2])], {}),
            ([rows, _integers_of_32(1, 2, 2), 0], {"output_size": 5}),
        ],
        "repeat_interleave.self_int": [([rows, 2, 1], {}), ([rows, 2], {})],
    }


def _counts() -> dict[str, list[Call]]:
    """Returns calls of operators that a single number could make run without end."""
    rows, square, few = torch.randn(3, 4), torch.randn(3, 3), torch.tensor([1.5, 2.5, 30.5])
    image, empty = torch.randn(1, 2, 5, 5), torch.zeros(2, 0)
    polynomials = ["special_chebyshev_polynomial_t", "special_legendre_polynomial_p"]
    return {
        "matrix_power": [([square, n], {}) for n in (-2, 0, 3)],
        "linalg_matrix_power": [([square, 5], {})],
        "diff": [([rows], {}), ([rows, 2, 0], {})],
        "mvlgamma": [([few + 2, 3], {})],
        "combinations": [([few, 2], {}), ([few, 3, True], {})],
        "meshgrid": [([[few, few[:2]]], {})],
        "cartesian_prod": [([[few, few[:2]]], {})],
        "linalg_multi_dot": [([[square, rows, rows.T]], {})],
        "chain_matmul": [([[square, rows, rows.T]], {})],
        "max_pool1d": [([image[0], 3, 1, 1], {})],
        "max_pool2d": [([image, [3, 13], 1, [1, 6]], {}), ([image, 2], {})],
        "max_pool3d": [([image, 2, 1, 1], {})],
        "tensor_split.sections": [([rows, 5], {}), ([rows, 2, 1], {})],
        "tensor_split.tensor_indices_or_sections": [([rows, torch.tensor(2)], {})],
        "hsplit.int": [([rows, 2], {})],
        "chunk": [([rows, 2, 1], {}), ([rows, 100], {}), ([empty, 2, 1], {})],
        "unbind.int": [([rows, -1], {}), ([empty], {})],
        "split.Tensor": [([rows, 2], {}), ([rows, 3, -1], {})],
        "special_zeta": [([few, torch.tensor([-1.5, 2.0, -300.5])], {}), ([few[:1], few], {})],
        "polygamma": [([2, torch.tensor([-3.5, 2.0])], {}), ([1, few], {})],
        **{name: [([few / 40, torch.tensor([3.0])], {})] for name in polynomials},
    }
