from collections.abc import Callable, Sequence
from typing import Any, NoReturn

bridge: Any

class ElementType:
    """One of ONNX's types of elements, or torch's complex32, whose number is 0."""

    number: int
    name: str  #: in NumPy, ml_dtypes and torch
    onnx_name: str
    bits: int
    parts: int  #: of complex numbers: the number of the type of their two parts
    torch_number: int  #: c10::ScalarType; -1 where torch has no tensors of it
    is_carried: bool  #: ONNX Runtime has tensors of it
    is_packed: bool  #: several to a byte
    is_numpys: bool  #: NumPy has it without ml_dtypes
    has_dlpack: bool
    dlpack_code: int  #: DLDataTypeCode, where it has one; DLPack's bits are `bits`

ELEMENT_TYPES: tuple[ElementType, ...]

class Parameter:
    """An input or output."""

    name: str
    description: str
    occurrence: int  #: REQUIRED, OPTIONAL or VARIADIC of opgraft._signature
    type: int  #: an index into the schema's types
    minimum: int  #: of a variadic one
    def __init__(self, name: str, occurrence: int, type: int) -> None: ...

class TypeVariable:
    """The element type of one or more parameters."""

    name: str  #: "T"
    description: str
    allowed: list[int]  #: ONNX's numbers; none: any
    is_tied: bool  #: all values of it have the same
    def __init__(self, name: str, allowed: Sequence[int], is_tied: bool) -> None: ...

class AttributeParameter:
    name: str
    description: str
    kind: int  #: a number of AttributeProto.AttributeType
    is_required: bool
    default: Any  #: as onnx.helper.get_attribute_value gives it, a tensor as an array; or None
    is_bool: bool  #: an integer, or some, that the operator takes for true or false
    def __init__(
        self, name: str, kind: int, is_required: bool, default: Any, is_bool: bool
    ) -> None: ...

class KernelChoice:
    """What computes an operator on one device, for one choice of its types; 0: any."""

    device: str
    types: list[int]

class TypeOrigin:
    """Where an output's type comes from: a fixed one, or an input; neither: nobody can tell."""

    fixed: int
    input: int | None

class Schema:
    """What an operator takes and gives, by a declaration in Python or by that of a pack."""

    domain: str
    name: str
    full_name: str  #: "domain::Name"
    module: str  #: that declares it; empty for one of a pack
    documentation: str
    torch_name: str  #: "aten::linalg_inv, aten::inverse": what it can stand for in torch
    since_version: int
    inputs: list[Parameter]
    outputs: list[Parameter]
    types: list[TypeVariable]
    attributes: list[AttributeParameter]
    has_shape_rule: bool
    on_gpu: bool  #: its Python function takes arrays on a GPU, and no others
    is_native: bool  #: of a pack
    runtime_name: str  #: what nodes of prepared models call it, as `full_name`
    kernels: list[KernelChoice]  #: of a pack's
    pack: str  #: its path; empty for one that is declared in Python
    def __init__(
        self,
        *,
        domain: str,
        name: str,
        module: str,
        documentation: str,
        torch_name: str,
        inputs: Sequence[Parameter],
        outputs: Sequence[Parameter],
        types: Sequence[TypeVariable],
        attributes: Sequence[AttributeParameter],
        has_shape_rule: bool,
        on_gpu: bool,
    ) -> None: ...
    def output_type(self, index: int, input_types: Sequence[int]) -> int: ...
    def output_type_origin(self, index: int, are_there: Sequence[bool]) -> TypeOrigin: ...

class SizeExpression:
    """A sum of products of names and quotients, such as `2*n + m//3`.

    What does not fit 64 bits overflows.
    """

    text: str
    number: int | None  #: where it has no names
    names: list[str]
    is_name: bool
    def __init__(self, number: int) -> None: ...
    @staticmethod
    def named(name: str) -> SizeExpression: ...
    def add(self, other: SizeExpression, /) -> SizeExpression: ...
    def subtract(self, other: SizeExpression, /) -> SizeExpression: ...
    def multiply(self, other: SizeExpression, /) -> SizeExpression: ...
    def divide(self, other: SizeExpression, /) -> SizeExpression: ...
    def remainder(self, other: SizeExpression, /) -> SizeExpression: ...
    def evaluate(self, sizes: dict[str, Any], /) -> Any: ...

def evaluate_size(text: str, sizes: dict[str, Any]) -> Any: ...

class PlannedOperator:
    """A Python operator that a model will run, where it is allowed to."""

    node: str
    module: str
    class_name: str
    operator: str

class SessionPlan:
    """What opening a session of a model takes."""

    tells_folder: bool  #: the runtime is told of the folder while it makes the session
    folder: bytes  #: of the external data; empty where the model came as bytes
    has_external_data: bool
    refers_to_original: bool  #: some of the weights are references into the model's file
    needs_file: bool  #: it cannot be opened, but by the path of a file with the model
    python_operators: list[PlannedOperator]
    packs: dict[str, str]  #: by the operators, "domain::Name"
    aten: dict[str, bool]  #: operators of ATen, and whether they run without an allowance
    def take_content(self) -> bytes | None:
        """The model for the runtime, once; None where the original serves as it is."""
    def check_unchanged(self) -> None: ...

def make_plan(
    *,
    path: bytes | None = None,
    model: bytes = b"",
    origin: str = "the model",
    folder: bytes = b"",
    runtime: str,
    allow: str,
    environment: str,
    prefer: str,
    may_refer: bool = False,
) -> SessionPlan: ...
def refuse_to_open(runtime: str) -> NoReturn: ...

class AtenWord:
    """What no plain value of Python's is among the arguments of an operator of torch."""

    kind: str  #: "torch" and "device": see `text`; else what the input at `place` is read as
    text: str
    place: int

def read_aten_arguments(text: str, who: str) -> list[tuple[str, Any]]: ...
def aten_is_listed(full_name: str) -> bool | None: ...
def libtorch_problem(installed: str) -> str: ...

#: The domains whose operators ONNX and ONNX Runtime define.
RUNTIME_DOMAINS: tuple[str, ...]
#: The Python modules of ours that nodes of a model may name, and the class of each that runs them.
OUR_MODULES: dict[str, str]

def survey(model: object, origin: str, runtime: str) -> dict[str, Any]: ...
def explain(model: object, origin: str, folder: str, text: str) -> str: ...
def check_is_file(path: bytes) -> None: ...
def allows(name: str, allow: str, environment: str) -> bool: ...
def allows_type(name: str, allow: str, environment: str) -> bool: ...
def held(model: object) -> list[tuple[str, str, dict[str, Any]]]: ...
def held_for(module: str) -> str: ...
def allowance_of(module: str) -> str: ...
def is_of_standard_library(name: str) -> bool: ...
def declare(schema: Schema) -> None: ...
def load_pack(path: bytes) -> None: ...
def has_packs() -> bool: ...
def torch_calls(
    pack: bytes, domain: str, name: str, version: int
) -> list[tuple[str, list[tuple[str, str, Any]], list[int]]] | None: ...
def pack_operators() -> list[Schema]: ...
def read_pack(path: bytes) -> list[Schema]: ...
def run_native(
    full_name: str, version: int, inputs: list[Any], attributes: dict[str, Any], outputs: int
) -> list[Any]: ...
def infer_native(
    full_name: str, version: int, inputs: list[Any], attributes: dict[str, Any], outputs: int
) -> list[tuple[int, tuple[int | str | None, ...] | None]]: ...
def find_refusal(text: str) -> tuple[int, str] | None: ...
def find_error(text: str) -> tuple[str, str, int] | None: ...
def make_session(number: int) -> int: ...
def is_in_operator_of(session: int) -> bool: ...
def enter_run() -> None: ...
def leave_run() -> None: ...
def close_gate() -> None: ...
def is_plain(feed: object) -> bool: ...
def set_torch(
    exchange: Any,
    tensor: type,
    parameter: type,
    count_modes: Callable[[], int],
    is_grad_enabled: Callable[[], bool],
    forward_mode: dict[str, Any],
    parallel_for: int,
) -> None: ...

class TorchKernel:
    def __init__(
        self,
        full_name: str,
        is_native: bool,
        read: Callable[[dict[str, Any]], tuple[dict[str, Any], int]],
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def output_types(self, types: Sequence[int], outputs: int) -> list[int]: ...
    def otherwise(self, function: Callable[..., Any]) -> TorchKernel: ...
    def reload(self) -> None: ...
