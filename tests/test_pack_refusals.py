"""Wrong declarations that a compiler can see do not compile, and the message says what is wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from pack_building import ENVIRONMENT, INCLUDE, find_compiler

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
        "optional ones in std::optional",
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
        "a number is taken as another kind than the attribute's",
    ),
    "numbers in another order, of a typed template": (
        f'{DECLARED}.Attribute<std::int64_t>("a", 1){RULE}'
        ".Cpu([]<class E>(opgraft::Tensor<const E>, opgraft::Tensor<E>, float) {});",
        "a number is taken as another kind than the attribute's",
    ),
    "a number that may not fit": (
        'OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y").Attribute<std::int64_t>("a", 1)'
        f"{RULE}.Cpu([](opgraft::Context&, opgraft::Tensor<const float>, opgraft::Tensor<float>,"
        " int) {});",
        "a number is taken as another kind than the attribute's",
    ),
    "numbers in another order, of a method": (
        "struct K { void Compute(opgraft::Tensor<const float>, opgraft::Tensor<float>, float) "
        'const; }; OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y")'
        f'.Attribute<std::int64_t>("a", 1){RULE}.Cpu<K>();',
        "a number is taken as another kind than the attribute's",
    ),
    "no output": (
        'OPGRAFT_OP("my::A").Input<T>("x").Cpu([](auto) {});',
        "an operator has an output: .Output<T>",
    ),
    "no kernel": (f"{DECLARED}{RULE};", "an operator has a kernel: .Cpu(...)"),
    "no shape rule": (
        f"{DECLARED}.Cpu([](auto, auto) {{}});",
        "the kernel takes ready-made outputs, so that the operator needs a shape rule",
    ),
    "two shape rules": (
        f"{DECLARED}{RULE}{RULE}.Cpu([](auto, auto) {{}});",
        "the operator has a shape rule already",
    ),
    "no domain": (
        f"""{RIGHT.replace("my::A", "A")}""",
        "an operator is called",
    ),
    "an empty name": (f"""{RIGHT.replace("my::A", "my::")}""", "an operator is called"),
    "three parts": (f"""{RIGHT.replace("my::A", "my::A::B")}""", "an operator is called"),
    "an output of any type": (
        'OPGRAFT_OP("my::A").Input<T>("x").Output<opgraft::Any>("y")'
        f"{RULE}.Cpu([](auto, auto) {{}});",
        "an output of any type: nobody could tell which",
    ),
    "an output's type that no input has": (
        f'OPGRAFT_OP("my::A").Input<float>("x").Output<T>("y"){RULE}.Cpu([](auto, auto) {{}});',
        "the type of an output is one that an input has too, or a single one",
    ),
    "an unknown element type": (
        'OPGRAFT_OP("my::A").Input<long double>("x").Output<float>("y")'
        f"{RULE}.Cpu([](auto, auto) {{}});",
        "the type of an input or output is an element type (float, ...",
    ),
    "an unknown type among several": (
        "OPGRAFT_TYPES(U, float, char*);",
        "OPGRAFT_TYPES: not an element type of tensors",
    ),
    "an attribute of no kind": (
        f'{DECLARED}.Attribute<double>("a", 1){RULE}.Cpu([](auto, auto, double) {{}});',
        "attributes are float, std::int64_t, std::string, std::vector of these",
    ),
    "an input behind a kernel": (
        f'{DECLARED}{RULE}.Cpu([](auto, auto) {{}}).Input<T>("z");',
        "kernels come last: they take all that is declared",
    ),
    "what a kernel returns": (
        f"{DECLARED}{RULE}.Cpu([](auto, auto) {{ return 1.5; }});",
        "a kernel returns nothing, or an opgraft::Status",
    ),
    "a class that cannot be made": (
        "struct K { explicit K(int); void Compute(opgraft::Tensor<const float>,"
        " opgraft::Tensor<float>) const; };"
        f'OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y"){RULE}.Cpu<K>();',
        "a class that is a kernel has a constructor that takes nothing, or a const",
    ),
    "a method that is not const": (
        "struct K { void Compute(opgraft::Tensor<const float>, opgraft::Tensor<float>); };"
        f'OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y"){RULE}.Cpu<K>();',
        "The method Compute of a class is const",
    ),
}


@pytest.fixture(scope="module", params=["g++", "clang++"])
def compiler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """Compiles a text behind BEGIN, which it has read once for all, and returns what it says."""
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


@pytest.mark.parametrize("what", WRONG)
def test_wrong_declarations_do_not_compile(what: str, compiler: Compiler) -> None:
    declaration, message = WRONG[what]
    assert message in compiler(declaration)
