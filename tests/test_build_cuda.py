"""`opgraft build` of sources for CUDA: with a stand-in for nvcc, and with nvcc if installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pack_workshop import SYMBOLS, Workshop, build

from opgraft._base._errors import Error, UnavailableError
from opgraft._build import _cuda_compiler, _refusals
from opgraft._build._compiler import Compiler
from opgraft._build._cuda_compiler import CudaCompiler
from packs import command, exported_symbols, needed_libraries, needs_clang, needs_nvcc, run_plainly

# The declaration is compiled by the C++ compiler, the kernel by nvcc.
DECLARATION = """
    #include <opgraft/op.h>
    opgraft::Status TwiceOnGpu(opgraft::Context& context, opgraft::DeviceTensor<const float> x,
                               opgraft::DeviceTensor<float> y);
    OPGRAFT_OP("test.build::Twice").Input<float>("x").Output<float>("y")
        .Shape(opgraft::SameAs("x"))
        .Cpu([](auto x, auto y) {
          for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
        })
    #ifdef OPGRAFT_CUDA
        .Cuda(TwiceOnGpu)
    #endif
        ;
"""
KERNEL = """
    #include <opgraft/cuda.h>
    #ifndef OPGRAFT_CUDA
    #error it is defined in all sources
    #endif
    __global__ void Twice(const float* x, float* y, std::size_t count) {
      const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
      if (i < count) y[i] = 2 * x[i];
    }
    opgraft::Status TwiceOnGpu(opgraft::Context& context, opgraft::DeviceTensor<const float> x,
                               opgraft::DeviceTensor<float> y) {
      if (x.size() == 0) return opgraft::Status();
      const auto blocks = static_cast<unsigned>((x.size() + 255) / 256);
      Twice<<<blocks, 256, 0, context.stream()>>>(x.data(), y.data(), x.size());
      OPGRAFT_CUDA_LAUNCHED();
      return opgraft::Status();
    }
"""
# Everything in one file, for several types, including CUDA's own.
WHOLE = """
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    #include <opgraft/cuda.h>
    #include <opgraft/op.h>
    OPGRAFT_TYPES(T, float, double, opgraft::Float16, opgraft::BFloat16);
    template <class E>
    __global__ void Scale(const E* x, E* y, std::size_t count, float factor) {
      const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
      if (i < count) y[i] = x[i] * E(factor);
    }
    OPGRAFT_OP("test.build::Scale")
        .Input<T>("x").OptionalInput<opgraft::OnHost<float>>("factor").Output<T>("y")
        .Shape(opgraft::SameAs("x"))
        .Cpu([](auto x, auto, auto y) {
          for (std::size_t i = 0; i < x.size(); ++i) y[i] = 3 * x[i];
        })
        .Cuda([](opgraft::Context& context, auto x, auto factor, auto y) {
          const float by = factor ? (*factor)[0] : 3;
          const cudaStream_t stream = context.stream();
          Scale<<<1, 256, 0, stream>>>(opgraft::CudaData(x), opgraft::CudaData(y), x.size(), by);
          OPGRAFT_CUDA_LAUNCHED();
        });
"""


# In the style of ONNX Runtime's tree: the class in C++, and the kernel that it launches in CUDA.
CONTRIB = """
    #include <opgraft/contrib_cuda.h>
    void LaunchTwice(cudaStream_t stream, const float* x, float* y, std::int64_t count);
    namespace onnxruntime {
    namespace contrib {
    ONNX_CONTRIB_OPERATOR_SCHEMA(Twice)
        .SetDomain("test.build").SinceVersion(1)
        .Input(0, "X", "any", "T").Output(0, "Y", "twice X", "T")
        .TypeConstraint("T", {"tensor(float)", "tensor(float16)"}, "floats")
        .TypeAndShapeInferenceFunction(ONNX_NAMESPACE::propagateShapeAndTypeFromFirstInput);
    class Twice final : public OpKernel {
     public:
      explicit Twice(const OpKernelInfo& info) : OpKernel(info) {}
      Status Compute(OpKernelContext* context) const override {
        const Tensor& x = context->RequiredInput<Tensor>(0);
        Tensor& y = context->RequiredOutput(0, x.Shape());
        for (int64_t i = 0; i < x.Shape().Size(); ++i) {
          y.MutableData<float>()[i] = 2 * x.Data<float>()[i];
        }
        return Status::OK();
      }
    };
    ONNX_OPERATOR_KERNEL_EX(Twice, "test.build", 1, kCpuExecutionProvider,
                            KernelDefBuilder().TypeConstraint(
                                "T", BuildKernelDefConstraints<float>()),
                            Twice);
    namespace cuda {
    using namespace onnxruntime::cuda;
    template <typename T>
    class Twice final : public CudaKernel {
     public:
      explicit Twice(const OpKernelInfo& info) : CudaKernel{info} {}
      Status ComputeInternal(OpKernelContext* context) const override {
        using CudaT = typename ToCudaType<T>::MappedType;
        const Tensor& x = context->RequiredInput<Tensor>(0);
        Tensor& y = context->RequiredOutput(0, x.Shape());
        const auto scratch = GetScratchBuffer<T>(4, context->GetComputeStream());
        CUDA_RETURN_IF_ERROR(cudaMemsetAsync(scratch.get(), 0, 4 * sizeof(T), Stream(context)));
        CudaAsyncBuffer<int64_t> sizes(this, GetDeviceProp().multiProcessorCount);
        ORT_RETURN_IF_ERROR(sizes.CopyToGpu(context->GetComputeStream()));
        LaunchTwice(Stream(context), reinterpret_cast<const CudaT*>(x.Data<T>()),
                    reinterpret_cast<CudaT*>(y.MutableData<T>()), x.Shape().Size());
        return Status::OK();
      }
    };
    ONNX_OPERATOR_TYPED_KERNEL_EX(Twice, "test.build", 1, float, kCudaExecutionProvider,
                                  (*KernelDefBuilder::Create()).TypeConstraint(
                                      "T", DataTypeImpl::GetTensorType<float>()),
                                  Twice<float>)
    }  // namespace cuda
    }  // namespace contrib
    }  // namespace onnxruntime
"""
CONTRIB_KERNEL = """
    #include <cstdint>
    __global__ void Twice(const float* x, float* y, std::int64_t count) {
      const std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
      if (i < count) y[i] = 2 * x[i];
    }
    void LaunchTwice(cudaStream_t stream, const float* x, float* y, std::int64_t count) {
      Twice<<<static_cast<unsigned>(count / 256 + 1), 256, 0, stream>>>(x, y, count);
    }
"""


def write(path: Path, text: str) -> None:
    path.write_text(textwrap.dedent(text).lstrip())


@needs_nvcc
def test_a_declaration_and_its_kernel(tmp_path: Path) -> None:
    """In separate files; the resulting pack can be loaded without a driver."""
    folder = tmp_path / "Größe, in m²"
    folder.mkdir()
    write(folder / "twice.cc", DECLARATION)
    write(folder / "ein Häkchen.cu", KERNEL)
    done = command("build", "--cuda-arch", "80,90", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "libtwice.so\n"), done.stderr
    library = folder / "libtwice.so"
    assert run_plainly(library, "Twice") == [2, 4]
    assert exported_symbols(library) == SYMBOLS
    assert not [name for name in needed_libraries(library) if "cuda" in name]
    # Without the kernel for CUDA, the operator is the same.
    done = command("build", "twice.cc", "-o", "libcpu.so", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert run_plainly(folder / "libcpu.so", "Twice") == [2, 4]


@needs_nvcc
@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=needs_clang)])
def test_an_operator_in_one_file(tmp_path: Path, compiler: str) -> None:
    write(tmp_path / "scale.cu", WHOLE)
    warnings = ["--cuda-flag=-Werror=all-warnings", "--flag=-Wextra", "--flag=-Werror"]
    options = ["--cuda-arch", "90", "--compiler", compiler, *warnings]
    done = command("build", "scale.cu", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "libscale.so\n"), done.stderr
    assert run_plainly(tmp_path / "libscale.so", "Scale") == [3, 6]


@needs_nvcc
def test_a_kernel_of_the_runtimes_own_tree(tmp_path: Path) -> None:
    write(tmp_path / "twice.cc", CONTRIB)
    write(tmp_path / "twice_impl.cu", CONTRIB_KERNEL)
    warnings = ["--flag=-Wextra", "--flag=-Werror"]
    done = command("build", "--cuda-arch", "90", *warnings, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "libtwice.so\n"), done.stderr
    assert run_plainly(tmp_path / "libtwice.so", "Twice") == [2, 4]


@needs_nvcc
def test_what_nvcc_says_comes_through(tmp_path: Path) -> None:
    write(tmp_path / "scale.cu", WHOLE.replace("opgraft::CudaData(x)", "&x[0]"))
    done = command("build", "scale.cu", "--cuda-arch", "90", cwd=tmp_path)
    assert done.returncode == 1
    heading, line = done.stderr.partition("opgraft: Error: ")[2].splitlines()
    assert heading == "scale.cu does not compile. The errors (with details above):"
    place, text = line.strip().split(": ", 1)
    assert text.startswith("the elements of a DeviceTensor are on the GPU")
    assert place.startswith("scale.cu:")


SAID = """
PACKAGE/op.h(356): error: static assertion failed with "first \\"x\\""
      static_assert(
      ^
          detected during:
            instantiation of "void CheckCuda()" at line 221 of PACKAGE/op.h
            instantiation of "Declared::Declared(Sentence) [with T=<>]" at line 3 of a.cu

PACKAGE/op.h(300): error: static assertion failed with "nobody knows where"
      ^

a.cu(9): error: static assertion failed with "of the author's own"
a.cu(10): error: identifier "y" is undefined
"""


def test_what_nvcc_says() -> None:
    assert _refusals.find(SAID.replace("PACKAGE", "/package"), "/package") == [
        ("a.cu:3", 'first "x"'),
        ("", "nobody knows where"),
        ("a.cu:9", "of the author's own"),
    ]


# Accepts nvcc's options, and compiles the source as C++ with the compiler that they name.
STAND_IN = """
    #!{python}
    import subprocess, sys
    words = sys.argv[1:]
    with open({calls!r}, "a") as calls:
        print("|".join(words), file=calls)
    if words == ["--version"]:
        print("Cuda compilation tools, release {release}, V13.0.88")
        sys.exit()
    if "-dryrun" in words:
        print('#$ INCLUDES="-I{libraries}/../include"', file=sys.stderr)
        print('#$ LIBRARIES=  "-L/none/stubs" "-L{libraries}"', file=sys.stderr)
        sys.exit()
    options = []
    while words:
        word = words.pop(0)
        if word == "-ccbin":
            compiler = words.pop(0)
        elif word == "-Xcompiler":
            options.append(words.pop(0).replace("\\\\,", ","))
        elif not word.startswith(("-cudart", "--threads", "-arch", "-gencode", "-G", "-fast")):
            options.append(word)
    place = options.index("-c")
    options[place:place] = ["-x", "c++"]
    sys.exit(subprocess.run([compiler, *options]).returncode)
"""


class Toolkit:
    """A stand-in for CUDA's toolkit, which records its calls."""

    def __init__(self, folder: Path, release: str = "13.0"):
        self.libraries = folder / "lib"
        self.libraries.mkdir(parents=True)
        self.calls = folder / "calls"
        self.nvcc = folder / "nvcc"
        words = {"python": sys.executable, "calls": str(self.calls), "release": release}
        write(self.nvcc, STAND_IN.format(**words, libraries=self.libraries))
        self.nvcc.chmod(0o755)

    def add_runtime(self) -> None:
        subprocess.run(["ar", "rc", str(self.libraries / "libcudart_static.a")], check=True)
        include = self.libraries.parent / "include"
        include.mkdir()
        (include / "cuda_runtime.h").touch()

    def compilations(self) -> list[list[str]]:
        words = [line.split("|") for line in self.calls.read_text().splitlines()]
        self.calls.unlink()
        return [line for line in words if "-c" in line and "-dryrun" not in line]


@pytest.fixture
def toolkit(tmp_path: Path) -> Toolkit:
    toolkit = Toolkit(tmp_path / "toolkit")
    toolkit.add_runtime()
    return toolkit


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A workshop with a source for CUDA that any compiler accepts."""
    workshop = Workshop(tmp_path, monkeypatch)
    monkeypatch.delenv("CUDACXX", raising=False)
    check = "#ifndef OPGRAFT_CUDA\n#error it is built with CUDA\n#endif\n"
    (workshop.folder / "my_op.cc").write_text(
        f"{check}#include <cuda_runtime.h> // opgraft/op.h\nextern int value;\n"
    )
    (workshop.folder / "my_op_cuda.cu").write_text(f"{check}int value = 3;\n")
    (workshop.folder / "my_op_test.cu").write_text("#error a test\n")
    return workshop


@pytest.mark.skipif(
    Path("/usr/include/cuda_runtime.h").exists(), reason="every compiler finds CUDA's headers here"
)
def test_the_header_for_cuda_in_a_source_that_is_not(tmp_path: Path) -> None:
    write(tmp_path / "twice.cc", "#include <opgraft/op.h>\n#include <opgraft/cuda.h>\n")
    done = command("build", "twice.cc", cwd=tmp_path)
    assert done.returncode == 1
    assert "opgraft/cuda.h is for CUDA sources: include it in a .cu file" in done.stderr


def test_the_options_of_nvcc(
    workshop: Workshop, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--flag=-DSTEP=3", "--flag=-fdebug-prefix-map=/a,b=/c", "--flag=-Wl,-z,now"]
    arguments = ["--cuda-compiler", str(toolkit.nvcc), *flags, "--cuda-flag=-fast"]
    assert build(*arguments, "--cuda-arch", "sm_80,9.0") == 0
    assert exported_symbols(workshop.folder / "libmy_op.so") == SYMBOLS
    (call,) = toolkit.compilations()
    assert call[: call.index("-ccbin") + 2] == ["-ccbin", shutil.which("g++")]
    assert "-gencode=arch=compute_80,code=sm_80" in call
    assert "-gencode=arch=compute_90,code=[sm_90,compute_90]" in call
    assert {"-cudart=static", "-std=c++20", "-O2", "-DSTEP=3", "-fast"} <= set(call)
    handed_on = {call[i + 1] for i, word in enumerate(call) if word == "-Xcompiler"}
    prefix = "-fdebug-prefix-map=/a\\,b=/c"
    assert {"-Wall", "-fPIC", "-fvisibility=hidden", prefix} <= handed_on
    # Not anywhere in a word: the names of temporary folders are random.
    assert not [word for word in call if word.startswith("-z") or "-Wl," in word]

    monkeypatch.setenv("CUDACXX", "none")  # which is not used then
    assert build(*arguments, "--debug") == 0
    (call,) = toolkit.compilations()
    assert {"-arch=all-major", "-O0", "-g", "-G"} <= set(call)
    monkeypatch.setenv("CUDACXX", str(toolkit.nvcc))
    assert build("--cuda-arch=native") == 0
    (call,) = toolkit.compilations()
    assert "-arch=native" in call


def test_no_source_for_cuda_no_nvcc(workshop: Workshop, toolkit: Toolkit) -> None:
    """And OPGRAFT_CUDA is not defined in the sources."""
    assert build("my_op.cc", "--cuda-compiler", toolkit.nvcc) == 1
    (workshop.folder / "my_op.cc").write_text("int value;\n")
    assert build("my_op.cc", "--cuda-compiler", toolkit.nvcc) == 0
    assert not toolkit.calls.exists()


def test_a_launcher_of_the_compiler(toolkit: Toolkit) -> None:
    """nvcc needs the compiler itself, without the launcher."""
    path = shutil.which("g++")
    assert path is not None
    source = Path("none.cu")
    host = Compiler(("/usr/bin/ccache", "g++", "-DX"), "")
    CudaCompiler((str(toolkit.nvcc),), host).run("-c", source)
    (call,) = toolkit.compilations()
    assert call[:2] == ["-ccbin", path]


def test_without_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = Compiler.find()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDACXX", raising=False)
    monkeypatch.setattr(_cuda_compiler, "_USUAL_PLACE", str(tmp_path / "nvcc"))

    def refusal(given: str | None = None) -> str:
        with pytest.raises(UnavailableError) as error:
            CudaCompiler.find(given, host, [Path("a.cu"), Path("b.cu")])
        return str(error.value)

    said = refusal()
    assert said.startswith("a.cu, b.cu needs nvcc, which is neither on the path nor at ")
    assert "install the toolkit of CUDA 12 or newer" in said
    assert "apt-get" not in said  # since many distributions have an older CUDA
    assert "leave the .cu out" in said
    assert "'nv', which --cuda-compiler names for a.cu, b.cu" in refusal("nv")
    monkeypatch.setenv("CUDACXX", "nvcc-99")
    assert "'nvcc-99', which the variable CUDACXX names" in refusal()


def test_a_toolkit_that_will_not_do(tmp_path: Path) -> None:
    host = Compiler.find()
    old = Toolkit(tmp_path / "old", "11.8")
    with pytest.raises(UnavailableError, match=r"is from CUDA 11, which cannot compile C\+\+20"):
        CudaCompiler.find(str(old.nvcc), host, [])
    with pytest.raises(UnavailableError, match="'/bin/echo' is not an nvcc: nvcc 12 or newer"):
        CudaCompiler.find("/bin/echo", host, [])
    bare = Toolkit(tmp_path / "bare")
    with pytest.raises(UnavailableError, match="has no libcudart_static.a in /none/stubs, "):
        CudaCompiler.find(str(bare.nvcc), host, []).link_options()


@pytest.mark.parametrize("given", ["8", "80;90", "compute_80", "80,", "-90"])
def test_architectures_that_are_none(toolkit: Toolkit, given: str) -> None:
    with pytest.raises(Error, match="--cuda-arch is '"):
        CudaCompiler((str(toolkit.nvcc),), Compiler.find()).options([], given)
