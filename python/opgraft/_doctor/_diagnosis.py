"""Concludes from the survey and the trial of a model what is missing and how to fix it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from opgraft import _pyop
from opgraft._doctor import _stubs, _survey
from opgraft._doctor._doctor_report import Finding
from opgraft._doctor._examination import NOT_FOUND, Examination
from opgraft._doctor._locate import locate
from opgraft._doctor._permissions import (
    allowance_of,
    allowing,
    held_for,
    is_of_standard_library,
    module_of,
    permissions_of,
)
from opgraft._doctor._stubs import Stub
from opgraft._doctor._survey import Operator, Survey
from opgraft._doctor._vouching import Doubt, doubt_of, is_installed

# ONNX's operators that are defined as functions; a runtime needs no kernels for them.
_FUNCTIONS = frozenset(
    "AffineGrid Attention Bernoulli BlackmanWindow CastLike CausalConvWithState Celu CenterCropPad "
    "Clip Constant DynamicQuantizeLinear Elu Gelu GreaterOrEqual GroupNormalization HammingWindow "
    "HannWindow HardSigmoid HardSwish LayerNormalization LeakyRelu LessOrEqual LinearAttention "
    "LogSoftmax MeanVarianceNormalization Mish NegativeLogLikelihoodLoss PRelu RMSNormalization "
    "Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare Relu RotaryEmbedding "
    "Selu SequenceMap Shrink Softmax SoftmaxCrossEntropyLoss Softplus Softsign SwiGLU Swish "
    "ThresholdedRelu".split()
)


class Judge:
    """Judges the operators of a model one by one."""

    def __init__(
        self,
        survey: Survey,
        found: Examination,
        *,
        runtime: str,
        allows: Callable[[str], bool],
        allows_type: Callable[[str], bool],
        libraries: Iterable[str],
    ) -> None:
        self.survey = survey
        self.found = found
        self.runtime = runtime
        self.allows = allows
        self.allows_type = allows_type
        self.libraries = list(libraries)
        self.domains = _pyop.RUNTIME_DOMAINS if found.domains is None else tuple(found.domains)

    def operators(self) -> list[Operator]:
        """Returns the model's operators. If a function's callers choose what a PyOp runs, returns
        the operators of those calls."""
        known = {one.key for one in self.survey.operators}
        listed = [one for one in self.survey.operators if not one.is_referring]
        if self.found.prepared is None:
            return [*listed, *(one for one in self.survey.operators if one.is_referring)]
        prepared = _survey.from_values(self.found.prepared)
        more = [one for one in prepared.operators if one.is_pyop and one.key not in known]
        return listed + [one for one in more if one.operator_name not in {k for k, _ in known}]

    def judge(self, operator: Operator) -> Finding | None:
        """Returns None for an operator that the runtime itself has."""
        finding = Finding.of(operator, "nobody")
        if operator.is_referring:
            finding.operator = "PyOp"
            finding.run_by = "a Python class that the calls of its function name"
            return finding
        if operator.is_in_libtorch:
            return self._judge_aten(operator, finding)
        if operator.torch_operator:
            return self._judge_torch(operator, finding)
        if operator.is_class:
            return self._judge_class(operator, finding)
        pack = self._pack_of(operator)
        if pack is not None:
            finding.run_by, finding.pack = f"the pack {os.path.basename(pack)}", pack
            return finding
        if operator.full_name in self.found.declared:
            finding.run_by = "declared operator"
            finding.module = self.found.declared[operator.full_name]
            finding.file = locate(finding.module)
            return finding
        module = module_of(operator, self.survey)
        if module is not None:
            return self._judge_declared(operator, module, finding)
        if operator.is_function:
            finding.run_by = "function of the model"
            return finding
        if operator.full_name in self.found.rescued:
            finding.run_by = f"ONNX Runtime ({self.found.rescued[operator.full_name]})"
            return finding
        if operator.domain in self.domains:
            return self._judge_runtimes_own(operator, finding)
        return self._judge_foreign(operator, finding)

    def _own_name(self, operator: Operator) -> str:
        """Returns a pack's own name for an operator; a prepared model may use another name."""
        return self.found.native.get(operator.full_name, operator.full_name)

    def _pack_of(self, operator: Operator) -> str | None:
        """Returns the pack that runs the operator, or would if the model could be prepared."""
        name = self._own_name(operator)
        if self.found.prepared is None and operator.domain not in self.domains:
            return self.found.in_packs.get(name)
        return self.found.run_by_packs.get(name)

    def hints(self) -> list[str]:
        """Returns notes on operators that both the runtime and a pack have."""
        return [
            f"{operator.title} is ONNX Runtime's own; {self._preferring(operator)}"
            for operator in self.operators()
            if operator.full_name in self.found.in_packs
            and operator.domain in self.domains
            and not (operator.is_pyop or operator.is_function)
            and self._pack_of(operator) is None
            and operator.full_name not in self.found.declared
        ]

    def _preferring(self, operator: Operator) -> str:
        """Returns how to let a pack run the operator, or "" if no pack has it."""
        pack = self.found.in_packs.get(operator.full_name)
        if pack is None:
            return ""
        name = operator.title
        return (
            f"the pack {os.path.basename(pack)} has it too: --prefer {name} "
            f'(in a program prefer=["{name}"])'
        )

    def _judge_module(self, operator: Operator, module: str, finding: Finding) -> bool:
        """Whether the module is allowed, exists, and can be imported."""
        finding.module = module
        finding.allowed = self.allows(module)
        finding.file = self.found.files.get(module) or locate(module) or ""
        if module == "__main__":
            finding.file = None
            finding.miss(
                "it is in '__main__' of the program that made the model, which other programs lack",
                "put it into a module of its own, and name that in the model",
            )
            return False
        raised = self.found.modules.get(module, "")
        stub = self._stub(operator, module)
        if not finding.allowed:
            finding.permissions = [allowance_of(module)]
            # Torch has several ways to define an operator in a module, so it is not looked for.
            doubt = doubt_of(module, operator.title, None if operator.torch_operator else operator)
            if doubt is not None and module not in self.found.imports:  # those the user vouches for
                finding.doubt(doubt)
            elif held := held_for(module):
                self._refuse_held(f"it holds {held}, and is not allowed", finding)
            elif finding.file:
                finding.miss("its module is not allowed", allowing([module]))
            elif stub is None:
                finding.doubt(
                    Doubt(
                        "its module is neither allowed nor found",
                        "put the module on Python's path (PYTHONPATH), and ask again",
                    )
                )
            else:
                finding.miss(
                    "its module is neither allowed nor found",
                    f"write it, and allow it: {allowing([module])}. Do not install a package only "
                    "because a model names it",
                    stub,
                )
            return False
        if raised == NOT_FOUND:
            finding.miss(
                f"there is no module '{module}' on Python's path",
                "write it, or add its folder to PYTHONPATH",
                stub,
            )
        elif raised:
            finding.miss(f"the import of its module raised {raised}", f"correct {finding.file}")
        return not raised

    def _refuse_held(self, problem: str, finding: Finding) -> None:
        """Names everything that must be allowed for the objects in the operator's nodes."""
        names = {
            node: [name for name in wanted if not self.allows_type(name)]
            for node, wanted in self.found.held.items()
        }
        holders = [node for node in names if names[node]]
        for node in holders:
            wanted = ", ".join(f"'{name}'" for name in names[node])
            problem += f"\nnode '{node}' holds {wanted} too, which must be allowed by name"
        finding.problem = problem
        own = sorted({name for node in holders for name in names[node]})
        self._refuse([*finding.permissions, *own], finding)

    def _stub(self, operator: Operator, module: str, file: str | None = None) -> Stub | None:
        if operator.torch_operator or not all(part.isidentifier() for part in module.split(".")):
            return None
        if operator.is_class:
            return _stubs.class_stub(operator, file)
        return _stubs.operator_stub(operator, module)

    def _judge_class(self, operator: Operator, finding: Finding) -> Finding:
        finding.run_by = "Python class"
        if not self._judge_module(operator, operator.module, finding):
            return finding
        key = ":".join((operator.module, operator.class_name, operator.compute))
        file = finding.file or ""
        missing = self.found.classes.get(key)
        if missing and (is_of_standard_library(operator.module) or is_installed(file)):
            finding.miss(
                f"WARNING: '{operator.module}' has no such class or method, and is not your own "
                "module",
                "do not allow it, and do not change files of Python or of a package. Ask the "
                "author of the model what it is for, or use another model",
            )
        elif missing == "class":
            finding.miss(
                f"its module has no class '{operator.class_name}'",
                f"write it into {file}",
                self._stub(operator, operator.module, file),
            )
        elif missing == "method":
            finding.miss(
                f"its class has no method '{operator.compute}'",
                f"write it into {file}",
                _stubs.method_stub(operator, file),
            )
        return finding

    def _judge_aten(self, operator: Operator, finding: Finding) -> Finding:
        """Checks libtorch and permissions; other problems show when the session is made."""
        # Without libtorch, reported for every ATen operator; a session names only the first.
        if self.found.libtorch:
            finding.miss(*split_remedy(self.found.libtorch))
        finding.run_by = "libtorch"
        lacking = self._lacking_permissions(operator)
        if permissions_of(operator, self.survey):
            finding.allowed = not lacking
        if lacking:
            self._refuse(lacking, finding)
        return finding

    def _judge_torch(self, operator: Operator, finding: Finding) -> Finding:
        """Judges an operator that torch runs in Python."""
        finding.run_by = "torch in Python"
        raised = self.found.modules.get(operator.module)
        if operator.defined_in:
            self._judge_module(operator, operator.defined_in, finding)
        if finding.module == "__main__":
            return finding
        lacking = self._lacking_permissions(operator)
        finding.allowed = not lacking
        if lacking:
            finding.permissions = lacking
            what = " and ".join(lacking) + (" are" if len(lacking) > 1 else " is") + " not allowed"
            if finding.file == "":
                finding.doubt(
                    Doubt(
                        f"{what}, and there is no module '{finding.module}' on Python's path",
                        "add the folder of the module to PYTHONPATH, and ask again",
                    )
                )
            else:
                finding.problem = what
                self._refuse(lacking, finding)
        elif raised:
            finding.miss(
                f"the import of {operator.module} raised {raised}", 'pip install "opgraft[torch]"'
            )
        return finding

    def _lacking_permissions(self, operator: Operator) -> list[str]:
        return [one for one in permissions_of(operator, self.survey) if not self.allows(one)]

    def _judge_declared(self, operator: Operator, module: str, finding: Finding) -> Finding:
        finding.run_by = "declared operator"
        if self._judge_module(operator, module, finding) and module in self.found.modules:
            finding.miss(
                f"its module '{module}' does not (or no longer) declare it",
                f"declare it in {finding.file}",
                self._stub(operator, module),
            )
        return finding

    def _judge_runtimes_own(self, operator: Operator, finding: Finding) -> Finding | None:
        lacking = self.found.lacking.get(operator.full_name)
        finding.run_by = "ONNX Runtime"
        opset = next((i for i in self.survey.imports if i.domain == operator.domain), None)
        limit, known = (opset.limit, opset.known) if opset else (0, 0)
        if operator.differences and self.found.prepared is None:
            stub = _stubs.operator_stub(operator) if lacking == "unknown" else None
            if opset is not None and opset.version > known:
                return finding.miss(
                    f"it is of opset {opset.version}, and this Opgraft does not know whether it "
                    f"means the same in opset {limit}",
                    f"export the model for opset {limit}, or install a newer Opgraft",
                )
            return finding.miss(
                f"newer than ONNX Runtime {self.runtime}: {', '.join(operator.differences)}",
                f"export the model for opset {limit}"
                + (", or declare it" + _how(stub) if stub else ", or use a newer ONNX Runtime"),
                stub,
            )
        if lacking == "unknown" and not operator.differences:
            stub = _stubs.operator_stub(operator)
            declaring = "declare it" + _how(stub) if stub else "export the model without it"
            return finding.miss(
                f"ONNX Runtime {self.runtime} has no such operator"
                + (f" in opset {operator.version}" if operator.version else ""),
                self._preferring(operator) or declaring,
                stub,
            )
        if lacking == "no kernel" and operator.op_type not in _FUNCTIONS:
            return self._without_kernel(operator, finding)
        return None

    def _without_kernel(self, operator: Operator, finding: Finding) -> Finding:
        stub = _stubs.operator_stub(operator)
        declaring = "declare it" + _how(stub) if stub else "export the model without it"
        return finding.miss(
            f"ONNX Runtime {self.runtime} defines it, but has no kernel for it",
            self._preferring(operator) or declaring,
            stub,
        )

    def _judge_foreign(self, operator: Operator, finding: Finding) -> Finding:
        if self.libraries:
            finding.run_by = "a library of --library"
            if self.found.failure is None:
                return finding
        if operator.domain == _pyop.EXTENSIONS_DOMAIN:
            finding.run_by = "onnxruntime-extensions"
            file = locate("onnxruntime_extensions")
            path = "onnxruntime_extensions.get_library_path()"
            line = f"sess_options.register_custom_ops_library({path})"
            how = "; here: --library with that path"
            if file is None:
                return finding.miss(
                    "the package is not installed",
                    f"pip install onnxruntime-extensions, and then {line}{how}",
                )
            return finding.miss("its library must be registered", line + how)
        if self.libraries:
            return finding.miss(
                "the libraries of --library do not have it", "--library with a library that has it"
            )
        finding.run_by = "nobody"
        stub = _stubs.operator_stub(operator)
        whose = (
            f"if another library has the domain '{operator.domain}', register it "
            "(sess_options.register_custom_ops_library(...), here --library FILE); if a pack has "
            "it, load that (opgraft.load(...), here --pack FILE)"
        )
        return finding.miss(
            "the operator is not defined",
            whose
            + (
                f"; otherwise declare it{_how(stub)}, or write it in C++: {_in_cpp(operator)}"
                if stub
                else ""
            ),
            stub,
        )

    def blame(self, kind: str, text: str, findings: list[Finding]) -> bool:
        """Assigns an error that occurred while the session was made to the operator it is about.

        Returns False if it is not about one operator.
        """
        lacking = re.search(r"Could not find an implementation for (?P<name>[\w.:]+)\(", text)
        if lacking:
            name = re.split(r"[.:]", lacking["name"])[-1]
            return self._blame_runtime(name, text, findings)
        found = []
        for operator in self.operators():
            who = _named(operator, text)
            finding = next((one for one in findings if one.operator == operator.title), None)
            if who is not None and finding is not None:
                is_its_node = who["node"] in [node.name for node in operator.nodes]
                found.append((not is_its_node, operator, who, finding))
        if not found:
            return False
        _, operator, who, finding = min(found, key=lambda one: one[0])
        first, *traceback = text[who.end() :].strip().split("\n", 1)
        problem, remedy = split_remedy(first)
        own = finding.file or finding.pack
        finding.miss(
            "\n".join([problem, *traceback]),
            remedy or (f"correct it in {own}" if own else "correct the node in the model"),
        )
        if who["node"] in [node.name for node in operator.nodes]:
            finding.problem_nodes = [one for one in finding.nodes if one["name"] == who["node"]]
        wanted = _refused_names(text[who.end() :]) if kind == "PolicyError" else []
        if wanted:
            finding.problem = problem.partition(" (allowed: ")[0]  # without the lines to paste
            self._refuse(wanted, finding)
        elif "TypeError" in text and "__init__" in text:
            finding.stub = self._stub(operator, finding.module or "", finding.file)
        return True

    @staticmethod
    def _refuse(wanted: list[str], finding: Finding) -> None:
        """Sets the line that allows what is wanted, or why no such line is given."""
        finding.permissions = wanted
        finding.remedy = allowing(wanted)
        for name in wanted:
            doubt = doubt_of(name, finding.operator if "::" in name else f"'{name}'")
            if doubt is not None:
                finding.doubt(doubt)
                return

    def _blame_runtime(self, name: str, text: str, findings: list[Finding]) -> bool:
        """Reports that the runtime has no kernel for an operator, or none for its types."""
        for operator in self.operators():
            if operator.op_type != name or operator.is_pyop:
                continue
            finding = self._without_kernel(operator, Finding.of(operator, "ONNX Runtime"))
            if self.found.lacking.get(operator.full_name) is None:
                node = re.search(r"node with name '(?P<name>[^']+)'", text)
                where = f": see its node '{node['name']}'" if node else ""
                finding.problem = (
                    f"ONNX Runtime {self.runtime} has it, but not for these types{where}"
                )
            findings.append(finding)
            return True
        return False


def _refused_names(text: str) -> list[str]:
    """Returns the names that a PolicyError refuses; none if they are not valid names."""
    listed = re.search(r' allow=\[("[^]]*")\]', text) or re.search(r" module ('[^']*')", text)
    listed = listed or re.search(r'does not allow: ("[^(]*") \(', text)
    names = [] if listed is None else [one.strip("'\"") for one in listed[1].split(", ")]
    return names if all(re.fullmatch(r"[\w.:]+", one) for one in names) else []


def split_remedy(text: str) -> tuple[str, str]:
    """Splits an error of ours into the problem and its fix, which may be ""."""
    problem, _, remedy = text.partition(". Fix: ")
    return problem, remedy


def _named(operator: Operator, text: str) -> re.Match[str] | None:
    """Finds the part of an error of ours that names a node of this operator, if any."""
    name = re.escape(operator.full_name)
    if operator.is_in_libtorch:  # the error may name an overload
        name = re.escape(operator.torch_operator or "aten::") + r"[\w.]*"
    return re.search(
        rf"node '(?P<node>.*)', operator {name}(:|, (?=argument)| (?=is |runs |contains ))", text
    )


def _in_cpp(operator: Operator) -> str:
    """Returns the command that starts a pack with the operator."""
    return f"opgraft new {operator.title}"


def _how(stub: Stub | None) -> str:
    if stub is None:
        return ""
    module = stub.file.removesuffix(".py").replace("/", ".")
    where = f" in your own module, such as {stub.file}, and name that: "
    return f'{where}--import {module} (imports=["{module}"])'
