from collections.abc import Callable, Sequence
from typing import Any, NoReturn

bridge: Any

class ElementType:
    """One of ONNX's element types, or torch's complex32, whose number is 0."""

    number: int
    name: str  #: in NumPy, ml_dtypes and torch
    onnx_name: str
    bits: int
    parts: int  #: for a complex type, the number of the type of its two parts
    torch_number: int  #: c10::ScalarType; -1 if torch has no tensors of it
    tolerance: float  #: OpTester's default, absolute and relative
    is_carried: bool  #: whether ONNX Runtime has tensors of it
    is_packed: bool  #: whether a byte holds several elements
    is_numpys: bool  #: whether NumPy has it without ml_dtypes
    has_dlpack: bool
    dlpack_code: int  #: DLDataTypeCode, if it has one; DLPack's bits are `bits`

ELEMENT_TYPES: tuple[ElementType, ...]

class Parameter:
    """An input or output."""

    name: str
    description: str
    occurrence: int  #: REQUIRED, OPTIONAL or VARIADIC of opgraft._declare._signature
    type: int  #: an index into the schema's types
    minimum: int  #: the smallest number of values, if it is variadic
    def __init__(self, name: str, occurrence: int, type: int) -> None: ...

class TypeVariable:
    """The element type of one or more parameters."""

    name: str  #: "T"
    description: str
    allowed: list[int]  #: ONNX's numbers; if empty, any type is allowed
    is_tied: bool  #: whether all values of it have the same type
    def __init__(self, name: str, allowed: Sequence[int], is_tied: bool) -> None: ...

class AttributeParameter:
    name: str
    description: str
    kind: int  #: a number of AttributeProto.AttributeType
    is_required: bool
    default: Any  #: as from onnx.helper.get_attribute_value, but a tensor is an array; or None
    is_bool: bool  #: whether its integers stand for true and false
    def __init__(
        self, name: str, kind: int, is_required: bool, default: Any, is_bool: bool
    ) -> None: ...

class KernelChoice:
    """A kernel of an operator on one device, for one choice of its types; 0 means any type."""

    device: str
    types: list[int]

class TypeOrigin:
    """Where an output's type comes from: a fixed type, or an input. Unknown if it has neither."""

    fixed: int
    input: int | None

class Schema:
    """The inputs, outputs and attributes of an operator, declared in Python or by a pack."""

    domain: str
    name: str
    full_name: str  #: "domain::Name"
    module: str  #: the module that declares it; empty for an operator of a pack
    documentation: str
    torch_name: str  #: the torch operators that it can replace: "aten::linalg_inv, aten::inverse"
    since_version: int
    inputs: list[Parameter]
    outputs: list[Parameter]
    types: list[TypeVariable]
    attributes: list[AttributeParameter]
    has_shape_rule: bool
    on_gpu: bool  #: whether its Python function takes arrays on a GPU (and only those)
    is_isolated: bool  #: whether it runs in a worker process in every session
    is_native: bool  #: whether a pack declares it
    runtime_name: str  #: its name in prepared models, in the form of `full_name`
    kernels: list[KernelChoice]  #: for an operator of a pack
    pack: str  #: the path of its pack; empty if it is declared in Python
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
        is_isolated: bool = False,
    ) -> None: ...
    def output_type(self, index: int, input_types: Sequence[int]) -> int: ...
    def output_type_origin(self, index: int, are_there: Sequence[bool]) -> TypeOrigin: ...

class SizeExpression:
    """A sum of products of names and quotients, such as `2*n + m//3`.

    Raises OverflowError if a number does not fit into 64 bits.
    """

    text: str
    number: int | None  #: its value if it has no names, otherwise None
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
    """A Python operator that a model will run, if it is allowed."""

    node: str
    module: str
    class_name: str
    operator: str

class SessionPlan:
    """What must be done to open a session of a model."""

    tells_folder: bool  #: whether the runtime must be told the folder while it makes the session
    folder: bytes  #: the folder of the external data; empty if the model was given as bytes
    has_external_data: bool
    refers_to_original: bool  #: whether some weights are references to the model's file
    needs_file: bool  #: whether the model can only be opened as a file, by its path
    python_operators: list[PlannedOperator]
    why_refused: str  #: why nodes cannot run that were not rescued; "" if there are none
    rescues: list[tuple[str, str, str, str, str]]  #: the fields of opgraft's `Rescue`
    packs: dict[str, str]  #: from operators, "domain::Name", to the paths of their packs
    aten: dict[str, bool]  #: operators of ATen, and whether they run without an allowance
    def take_content(self) -> bytes | None:
        """Returns the model for the runtime and drops it; None if it is the original."""
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
    loads: Callable[[bytes], bool] | None = None,
    conditions: str = "",
    exact: bool = False,
) -> SessionPlan: ...
def function_body(node: bytes, version: int, graph: bytes = b"") -> bytes | None: ...
def refuse_to_open(runtime: str) -> NoReturn: ...

class AtenWord:
    """An argument of a torch operator that has no plain Python value."""

    kind: str  #: "torch" or "device", named by `text`; otherwise how the input `place` is read
    text: str
    place: int

def read_aten_arguments(text: str, who: str) -> list[tuple[str, Any]]: ...
def aten_is_listed(full_name: str) -> bool | None: ...
def libtorch_problem(installed: str) -> str: ...

#: The domains whose operators ONNX and ONNX Runtime define.
RUNTIME_DOMAINS: tuple[str, ...]
#: The domain of onnxruntime-extensions.
EXTENSIONS_DOMAIN: str
#: Our Python modules that nodes of a model may name, and the class in each that runs such nodes.
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

def serve() -> NoReturn: ...
def cancel_calls(session: int) -> None: ...
def pool_stats() -> dict[str, Any]: ...
def check_isolation(text: str) -> None: ...
