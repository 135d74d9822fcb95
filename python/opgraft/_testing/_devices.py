"""The devices on which a case of an operator can run: the CPU, and the GPU if it has a kernel."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from opgraft import _pyop
from opgraft._cuda import _provider
from opgraft._declare import _declare, _packs

CPU, CUDA = "cpu", "cuda"


def devices_of(
    full_name: str,
    version: int,
    input_types: Sequence[int],
    *,
    library: str | None,
    prefer: Collection[str],
) -> set[str]:
    """Returns the devices for which the operator has a kernel for these types; 0 is absent.

    For operators that are not known here, such as ONNX Runtime's own, this is the CPU, unless
    `prefer` says that a pack's operator runs instead.
    """
    for one in _declare.operators() if library is None else ():
        if one.full_name == full_name:
            return {CUDA if one.schema.on_gpu else CPU}
    native = _find(full_name, version, library)
    if native is None:
        return {CPU}
    is_the_runtimes = not native.runtime_name.startswith(f"{native.domain}::")
    if is_the_runtimes and library is None and not {full_name, native.domain} & set(prefer):
        return {CPU}
    return {one.device for one in native.kernels if _takes(native, one, input_types)} or {CPU}


def _find(full_name: str, version: int, library: str | None) -> _pyop.Schema | None:
    operators = _packs.operators() if library is None else _packs.read(library)
    found = [
        one for one in operators if one.full_name == full_name and one.since_version <= version
    ]
    return max(found, key=lambda one: one.since_version, default=None)


def _takes(operator: _pyop.Schema, kernel: _pyop.KernelChoice, input_types: Sequence[int]) -> bool:
    def types() -> Iterator[tuple[int, int]]:
        for place, given in enumerate(input_types):
            parameter = operator.inputs[min(place, len(operator.inputs) - 1)]
            yield kernel.types[parameter.type], given

    has_inputs = bool(operator.inputs)
    return not has_inputs or all(not given or taken in (0, given) for taken, given in types())


def why_no_gpu() -> str:
    """Returns why nothing can run on a GPU here, or ""."""
    if os.environ.get("OPGRAFT_TEST_CUDA") == "0":
        return "the variable OPGRAFT_TEST_CUDA is 0"
    return _provider.find_problem()


def add_gpu(options: Any, *, is_alone: bool) -> dict[str, Any]:
    """Returns the arguments of a session whose nodes run on the GPU.

    With `is_alone`, opening fails unless all nodes do; older runtimes do not support that.
    """
    providers = list(_provider.PROVIDERS)
    if is_alone and _provider.finds_by_name():
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        providers = [_provider.PROVIDER]
    return {"providers": providers}
