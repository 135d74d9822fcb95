"""Writes src/aten/operators.inc: what ATen nodes may run, from the schemas of the installed torch.

    python tests/aten_operators.py > src/aten/operators.inc

Then read the difference: each new operator must be reviewed. An operator that trusts its arguments
(sizes, indices or lengths that its CPU kernel does not check) belongs in UNCHECKED.
tests/aten_trial.py calls the operators with invalid arguments and names those that crash: they need
a check in src/aten/guards.cc, or must not be on the list.
"""

from __future__ import annotations

import re
import sys

import torch

#: The types that the C interface can pass. A Generator is always left out; a Scalar needs its own
#: function (src/aten/scalars.cc).
TYPES = {
    "Tensor",
    "int",
    "SymInt",
    "bool",
    "float",
    "number",
    "str",
    "ScalarType",
    "Layout",
    "Device",
    "MemoryFormat",
    "Generator",
}

#: Not allowed even with allow=, because they are useless or impossible in a graph on the CPU.
SENSELESS = (
    r".*_$",  # writes to its arguments
    r".*(cudnn|cuda|miopen|mps|mkldnn|fbgemm|triton|xnnpack|nnpack|hip).*",
    r".*(quantize[d_]|qparams|_fq_|int4pack|int8pack|dyn_quant|_packed?_gemm).*",
    r"(?!_?to_sparse$).*(sparse|csr|csc|bsr|bsc|coalesce|nested|jagged|padded_tensor).*",
    r"(.*_)?(indices|values|crow|ccol|row|col)(_indices)?(_copy)?|hspmm|smm|sspaddmm|_spdiags",
    r"_(foreach|fused_ada|fused_sgd|amp|autocast|test|foobar|philox|wrapped|make_dep|lazy).*",
    r".*(batch_dim|_dual|_primal|dep_token|_assert|sym_constrain|no_grad|overrideable).*",
    r"(_coalesced|_copy_from.*|_cast_.*|data|detach|detach_copy|lift.*|_to_cpu|pin_memory|_pin.*)",
    r"(_convert_.*|_rowwise_prune|_saturate_.*|_reshape_from_tensor|_efficientzerotensor)",
    r"(_ncf_.*|_mixed_dtypes.*|_scaled_(mm|grouped).*|_grouped_mm.*|_native_multi_head.*)",
    r"(_transform.*|_fake_quant.*|q_.*|dequantize|int_repr|_new_zeros_with.*|_has_.*|to_mkldnn)",
)

#: Run only if a host allows them by name, for the reasons given.
UNCHECKED = (
    r".*backward.*|.*_jvp|.*_grad",  # kernels for gradients do not check their indices
    r"_?reshape_alias.*|_sobol.*|set|_pack_.*|_pad_packed.*|_index_put_impl|_chunk_cat",
    r"slice_inverse|_thnn.*|thnn.*|slow_.*",
    r"embedding_bag|batch_norm_update_stats",  # are known to crash
    r"from_file",  # reads and writes files
)

#: These return uninitialised memory; our kernel returns zeros instead.
UNINITIALIZED = r"(new_)?empty.*|resize(_as)?"

#: Names with an underscore are internal to torch; these occur in decomposed programs.
INTERNAL = set(
    """_adaptive_avg_pool2d _adaptive_avg_pool3d _aminmax _cdist_forward _conj _conj_copy
    _conj_physical _convolution _convolution_mode _ctc_loss _dim_arange _euclidean_dist
    _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors _int_mm
    _is_all_true _is_any_true _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet
    _linalg_solve_ex _linalg_svd _log_softmax _logcumsumexp _lu_with_info _masked_softmax
    _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _neg_view _neg_view_copy _pad_circular _pad_enum
    _pdist_forward _prelu_kernel _reshape_copy _safe_softmax _sample_dirichlet
    _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu _shape_as_tensor
    _softmax _standard_gamma _to_copy _to_sparse _trilinear _unique _unique2 _unsafe_index
    _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d __and__ __or__
    __xor__ __lshift__ __rshift__""".split()
)

#: Only these may return numbers.
NUMBERS = {"allclose", "equal"}


def candidates() -> dict[str, str]:
    """Returns the operators that modify no argument and run on the CPU, with their schemas."""
    found = {}
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or not _runs_on_cpu(name):
            continue
        base, _, overload = name.removeprefix("aten::").partition(".")
        schema = torch._C._get_schema(f"aten::{base}", overload)
        if schema.is_mutable or any(re.fullmatch(pattern, base) for pattern in SENSELESS):
            continue
        types = {_element(str(argument.real_type)) for argument in schema.arguments}
        if types - TYPES or "Dimname" in str(schema) or "dimname" in overload:
            continue
        returns = [str(value.real_type) for value in schema.returns]
        # The C interface converts results by their types in reverse order.
        if returns != returns[::-1] or not returns:
            continue
        if {_element(kind) for kind in returns} != {"Tensor"} and base not in NUMBERS:
            continue
        found[name.removeprefix("aten::")] = _translate(str(schema).removeprefix("aten::"))
    return found


def _translate(schema: str) -> str:
    """Writes the defaults in the notation of docs/aten.md."""
    for torchs, ours in {
        "=None": "=null",
        "=True": "=true",
        "=False": "=false",
        "ScalarType? dtype=4": "ScalarType? dtype=torch.int64",
        "memory_format=0": "memory_format=torch.contiguous_format",
    }.items():
        schema = schema.replace(torchs, ours)
    return schema


def is_listed(name: str) -> bool:
    """Patterns of UNCHECKED with a dot match one overload, those without match all overloads."""
    base = name.partition(".")[0]
    if base.startswith("_") and base not in INTERNAL:
        return False
    return not any(re.fullmatch(pattern, each) for pattern in UNCHECKED for each in (base, name))


def _element(kind: str) -> str:
    while match := re.fullmatch(r"(?:Optional|List)\[(.*)\]", kind):
        kind = match[1]
    return kind


def _runs_on_cpu(name: str) -> bool:
    keys = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
        for key in (*keys, "CompositeExplicitAutogradNonFunctional")
    )


def mark(name: str) -> str:
    if not is_listed(name):
        return "!"
    return "0" if re.fullmatch(UNINITIALIZED, name.partition(".")[0]) else " "


def main() -> None:
    print(
        "// Written by tests/aten_operators.py, then read. What begins with ! needs an allowance,"
    )
    print("// what an operator with 0 leaves as it was is zeros.")
    for name, schema in sorted(candidates().items()):
        text = schema.replace("\\", "\\\\").replace('"', '\\"')
        print(f'"{mark(name)}{text}\\n"')


if __name__ == "__main__":
    sys.exit(main())
