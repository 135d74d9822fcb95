"""Wrong declarations that a compiler can detect do not compile; the message says what is wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from pack_building import ENVIRONMENT, INCLUDE, find_compiler

import opgraft
from opgraft._build import _refusals

Compiler = Callable[[str], str]

BEGIN = "#include <opgraft/op.h>\nOPGRAFT_TYPES(T, float, double);\n"
DECLARED = 'OPGRAFT_OP("my::A").Input<T>("x").Output<T>("y")'
RULE = '.Shape(opgraft::SameAs("x"))'

RIGHT = f"{DECLARED}{RULE}.Cpu([](auto x, auto y) {{ (void)x; (void)y; }});"

WRONG = {
    "arguments that do not fit": (
        f"{DECLARED}{RULE}.Cpu([](opgraft::Tensor<const float> x) {{ (void)x; }});",
        "no kernel takes these types, or the arguments do not fit: expected the inputs as",
    ),
    "attributes forgotten": (
        f'{DECLARED}.Attribute<float>("a", 1){RULE}'
        ".Cpu([]<class E>(opgraft::Tensor<const E>, opgraft::Tensor<E>) {});",
        "then the attributes, each by value and in the order declared",
    ),
    "an optional input taken as one that is there": (
        'OPGRAFT_OP("my::A").OptionalInput<float>("x").Output<float>("y")'
        f"{RULE}.Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float>) {{}});",
        "optional inputs in std::optional",
    ),
    "an input that is written to": (
        f"{DECLARED}{RULE}.Cpu([]<class E>(opgraft::Tensor<E>, opgraft::Tensor<E>) {{}});",
        "the inputs as opgraft::Tensor<const E>",
    ),
    "a type without a kernel": (
        f"{DECLARED}{RULE}.Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float>) {{}});",
        "no kernel takes these types",
    ),
    "numbers in another order": (
        f'{DECLARED}.Attribute<float>("a", 1).Attribute<std::int64_t>("b", 2){RULE}'
        ".Cpu([](auto, auto, std::int64_t, float) {});",
        "a kernel parameter converts the number of an attribute",
    ),
    "numbers in another order, of a typed template": (
        f'{DECLARED}.Attribute<std::int64_t>("a", 1){RULE}'
        ".Cpu([]<class E>(opgraft::Tensor<const E>, opgraft::Tensor<E>, float) {});",
        "a kernel parameter converts the number of an attribute",
    ),
    "a number that may not fit": (
        'OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y").Attribute<std::int64_t>("a", 1)'
        f"{RULE}.Cpu([](opgraft::Context&, opgraft::Tensor<const float>, opgraft::Tensor<float>,"
        " int) {});",
        "a kernel parameter converts the number of an attribute",
    ),
    "numbers in another order, of a method": (
        "struct K { void Compute(opgraft::Tensor<const float>, opgraft::Tensor<float>, float) "
        'const; }; OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y")'
        f'.Attribute<std::int64_t>("a", 1){RULE}.Cpu<K>();',
        "a kernel parameter converts the number of an attribute",
    ),
    "no output": (
        'OPGRAFT_OP("my::A").Input<T>("x").Cpu([](auto) {});',
        "an operator needs an output: .Output<T>",
    ),
    "no kernel": (f"{DECLARED}{RULE};", "an operator needs a kernel: .Cpu(...)"),
    "no shape rule": (
        f"{DECLARED}.Cpu([](auto, auto) {{}});",
        "the kernel takes allocated outputs, so that the operator needs a shape rule",
    ),
    "two shape rules": (
        f"{DECLARED}{RULE}{RULE}.Cpu([](auto, auto) {{}});",
        "the operator already has a shape rule",
    ),
    "no domain": (
        f"""{RIGHT.replace("my::A", "A")}""",
        "the name of an operator has the form",
    ),
    "an empty name": (
        f"""{RIGHT.replace("my::A", "my::")}""",
        "the name of an operator has the form",
    ),
    "three parts": (
        f"""{RIGHT.replace("my::A", "my::A::B")}""",
        "the name of an operator has the form",
    ),
    "an output of any type": (
        'OPGRAFT_OP("my::A").Input<T>("x").Output<opgraft::Any>("y")'
        f"{RULE}.Cpu([](auto, auto) {{}});",
        "an output cannot be opgraft::Any, because its type must be known",
    ),
    "an output's type that no input has": (
        f'OPGRAFT_OP("my::A").Input<float>("x").Output<T>("y"){RULE}.Cpu([](auto, auto) {{}});',
        "the type of an output must be a single type, or a type variable of an input",
    ),
    "an unknown element type": (
        'OPGRAFT_OP("my::A").Input<long double>("x").Output<float>("y")'
        f"{RULE}.Cpu([](auto, auto) {{}});",
        "the type of an input or output must be an element type (float, ...",
    ),
    "an unknown type among several": (
        "OPGRAFT_TYPES(U, float, char*);",
        "OPGRAFT_TYPES: not an element type of tensors",
    ),
    "an attribute of no kind": (
        f'{DECLARED}.Attribute<double>("a", 1){RULE}.Cpu([](auto, auto, double) {{}});',
        "an attribute must be float, std::int64_t, std::string, std::vector of these",
    ),
    "an input behind a kernel": (
        f'{DECLARED}{RULE}.Cpu([](auto, auto) {{}}).Input<T>("z");',
        "declare kernels last, because they take everything that is declared",
    ),
    "what a kernel returns": (
        f"{DECLARED}{RULE}.Cpu([](auto, auto) {{ return 1.5; }});",
        "a kernel returns nothing, or an opgraft::Status",
    ),
    "a class that cannot be made": (
        "struct K { explicit K(int); void Compute(opgraft::Tensor<const float>,"
        " opgraft::Tensor<float>) const; };"
        f'OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y"){RULE}.Cpu<K>();',
        "a kernel class needs a default constructor, or one that takes a const",
    ),
    "a method that is not const": (
        "struct K { void Compute(opgraft::Tensor<const float>, opgraft::Tensor<float>); };"
        f'OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y"){RULE}.Cpu<K>();',
        "The method Compute of a class must be const",
    ),
    "a kernel for CUDA that takes tensors of the host": (
        f"{DECLARED}{RULE}.Cuda([](opgraft::Tensor<const float>, opgraft::Tensor<float>) {{}});",
        "the inputs as opgraft::DeviceTensor<const E> (as opgraft::Tensor<const E> if they are",
    ),
    "a type without a kernel, on GPUs alone": (
        f"{DECLARED}{RULE}"
        ".Cuda([](opgraft::DeviceTensor<const float>, opgraft::DeviceTensor<float>) {});",
        "some of the types have no CUDA kernel, and there is no CPU kernel",
    ),
    "a second kernel for CUDA that takes none of the types": (
        f"{DECLARED}{RULE}.Cpu([](auto, auto) {{}}).Cuda([](auto, auto) {{}})"
        ".Cuda([](opgraft::DeviceTensor<const bool>, opgraft::DeviceTensor<bool>) {});",
        "a CUDA kernel takes none of the types, or its arguments do not fit",
    ),
    "an input that is on the host, taken as if it were not": (
        'OPGRAFT_OP("my::A").Input<opgraft::OnHost<std::int64_t>>("k").Output<float>("y")'
        '.Shape(opgraft::FromConstant("k"))'
        ".Cuda([](opgraft::DeviceTensor<const std::int64_t>, opgraft::DeviceTensor<float>) {});",
        "a CUDA kernel takes none of the types, or its arguments do not fit",
    ),
    "elements of the GPU read on the host": (
        f"{DECLARED}{RULE}.Cuda([](auto x, auto y) {{ y[0] = x[0]; }});",
        "the elements of a DeviceTensor are on the GPU, so that the host cannot access them",
    ),
    "strings on a GPU": (
        f'OPGRAFT_OP("my::A").Input<std::string>("x").Output<float>("y"){RULE}'
        ".Cuda([](auto, auto) {});",
        "Strings cannot be on a GPU: declare an input of strings as opgraft::OnHost",
    ),
    "strings on a GPU, by name": (
        f'OPGRAFT_OP("my::A").Input<std::string>("x").Output<float>("y"){RULE}'
        ".Cuda([](opgraft::DeviceTensor<const std::string> x, auto) { (void)x.size(); });",
        "strings cannot be on a GPU",
    ),
    "strings from a GPU": (
        'OPGRAFT_OP("my::A").Input<opgraft::OnHost<std::string>>("x").Output<std::string>("y")'
        f"{RULE}.Cuda([](auto, auto) {{}});",
        "outputs of strings are not possible",
    ),
    "a variadic input on the host": (
        'OPGRAFT_OP("my::A").VariadicInput<opgraft::OnHost<float>>("x").Output<float>("y")'
        f"{RULE}.Cuda([](auto, auto) {{}});",
        "a variadic input cannot be opgraft::OnHost",
    ),
    "an output on the host": (
        f'OPGRAFT_OP("my::A").Input<T>("x").Output<opgraft::OnHost<T>>("y"){RULE}'
        ".Cuda([](auto, auto) {});",
        "only inputs can be opgraft::OnHost",
    ),
    "a type without a kernel for the CPU, but for CUDA": (
        f"{DECLARED}{RULE}.Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float>) {{}})"
        ".Cuda([](auto, auto) {});",
        "no kernel takes these types",
    ),
}


@pytest.fixture(scope="module", params=["g++", "clang++"])
def compiler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """Compiles a text after BEGIN, which is precompiled, and returns the compiler's output."""
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "begin.h").write_text(BEGIN)
    ending = "pch" if "clang" in request.param else "gch"
    command = [find_compiler(request.param), "-std=c++20", *INCLUDE]
    header = ["-x", "c++-header", str(folder / "begin.h"), "-o", str(folder / f"begin.h.{ending}")]
    subprocess.run([*command, *header], check=True, env=ENVIRONMENT)

    def say(text: str) -> str:
        source = ["-include", str(folder / "begin.h"), "-fsyntax-only", "-x", "c++", "-"]
        done = subprocess.run(
            [*command, *source],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env=ENVIRONMENT,
        )
        assert (done.returncode != 0) == ("error:" in done.stderr)
        return done.stderr

    return say


def test_the_right_ones_compile(compiler: Compiler) -> None:
    assert compiler(RIGHT) == ""
    attributes = (
        '.Attribute<float>("a", 1).Attribute<std::int64_t>("b", 2).Attribute<std::string>("c", "")'
    )
    for kernel in (
        "[](auto x, auto y, auto a, auto b, auto c) { y[0] = x[0] * a * b * c.size(); }",
        "[](auto x, auto y, double a, std::int64_t b, std::string_view c) "
        "{ y[0] = x[0] * a * b * c.size(); }",
        "[](opgraft::Context&, auto... all) { static_assert(sizeof...(all) == 5); }",
        "[]<class E>(opgraft::Tensor<const E> x, opgraft::Tensor<E> y, float a, std::int64_t b, "
        "const std::string&) { y[0] = x[0] * a * b; }",
        "[](opgraft::Context&, auto, auto y, auto... rest) "
        "{ static_assert(sizeof...(rest) == 3); y[0] = 0; }",
    ):
        assert compiler(f"{DECLARED}{attributes}{RULE}.Cpu({kernel});") == ""


def test_right_kernels_for_cuda_compile(compiler: Compiler) -> None:
    for kernels in (
        ".Cuda([](auto x, auto y) { (void)x.data(); (void)y.data(); })",
        ".Cpu([](auto, auto) {}).Cuda([](opgraft::DeviceTensor<const float>, "
        "opgraft::DeviceTensor<float>) {})",
        ".Cpu([](auto, auto) {}).Cuda([]<class E>(opgraft::Context& context, "
        "opgraft::DeviceTensor<const E>, opgraft::DeviceOutput<E> y) {"
        "  CUstream_st* stream = context.stream(); (void)stream;"
        "  opgraft::DeviceTensor<const E> same = y.Allocate({1}); (void)same.dimension(-1); })",
    ):
        assert compiler(f"{DECLARED}{RULE}{kernels};") == ""
    assert (
        compiler(
            "OPGRAFT_TYPES(S, float, std::string);"
            'OPGRAFT_OP("my::A").Input<S>("x").Input<opgraft::OnHost<std::string>>("mode")'
            f'.Output<S>("y"){RULE}.Cpu([](auto, auto, auto) {{}})'
            ".Cuda([](auto x, opgraft::Tensor<const std::string>, auto y) {"
            "  static_assert(std::is_same_v<decltype(x), opgraft::DeviceTensor<const float>>);"
            "  static_assert(std::is_same_v<decltype(y), opgraft::DeviceTensor<float>>); });"
        )
        == ""
    )


@pytest.mark.parametrize("what", WRONG)
def test_wrong_declarations_do_not_compile(what: str, compiler: Compiler) -> None:
    """And the sentence is found in the compiler's output."""
    declaration, message = WRONG[what]
    said = compiler(declaration)
    assert message in said.replace('\\"', '"')
    found = _refusals.find(said, opgraft.get_include())
    assert any(message in one.text for one in found), said
    # clang++ 14 does not say which line needs a function whose return type is deduced.
    assert {one.place for one in found} <= {"<stdin>:1", ""}


SAID = """
In file included from a.cc:1:
PACKAGE/op.h: In instantiation of ‘void Finish() [with T = {char*}]’:
PACKAGE/op.h:325:33:   required from ‘Declared::Declared()’
\x1b[01m\x1b[Ka.cc:5:23:\x1b[m\x1b[K   required from here
PACKAGE/op.h:181:35: \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kstatic assertion failed: first
PACKAGE/op.h:182:35: error: static assertion failed: of the same place
a.cc: At global scope:
a.cc:9:1: error: static assertion failed: of the author's own
a.cc:9:9: error: static assertion failed
a.cc:10:1: error: ‘x’ was not declared in this scope; did you mean ‘static assertion failed: no’?
PACKAGE/op.h: In instantiation of ‘void Finish() [with T = {int}]’:
a.cc:5:23:   required from here
PACKAGE/op.h:181:35: error: static assertion failed: first
b.h:3:4: error: static assertion failed due to requirement 'sizeof(int) == 3': of clang++ 16
PACKAGE/op.h:181:5: error: static assertion failed due to requirement 'x': it too
PACKAGE/op.h:325:27: note: in instantiation of member function 'Finish' requested here
b.cc:3:1: note: in instantiation of function template specialization 'Declared' requested here
PACKAGE/op.h:352:41: note: expanded from macro 'OPGRAFT_OP'
"""


def test_what_compilers_say() -> None:
    assert _refusals.find(SAID.replace("PACKAGE", "/package"), "/package") == [
        ("a.cc:5", "first"),
        ("a.cc:5", "of the same place"),
        ("a.cc:9", "of the author's own"),
        ("b.h:3", "of clang++ 16"),
        ("b.cc:3", "it too"),
    ]
