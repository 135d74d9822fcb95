"""onnx's version converter, in a process of its own: there are models that crash it.

Run as a script by opgraft._lowering: `_converter.py LIMIT PATH...`, where the paths are the
caller's sys.path. The model comes by the standard input, and what becomes of it leaves by the
standard output, without the weights that the caller has. What the converter says instead is printed
to the standard error, and the exit status is REFUSED.
"""

import sys

REFUSED = 3


def main() -> int:
    import os

    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed
    from onnx import ModelProto, version_converter

    model = ModelProto.FromString(sys.stdin.buffer.read())
    known = {tensor.name for tensor in model.graph.initializer}
    try:
        converted = version_converter.convert_version(model, int(sys.argv[1]))
    except Exception as error:  # whatever the model is, it is the caller's to tell
        lines = str(error).strip().splitlines()
        print(lines[0] if lines else type(error).__name__, file=sys.stderr)
        return REFUSED
    added = [tensor for tensor in converted.graph.initializer if tensor.name not in known]
    del converted.graph.initializer[:]
    converted.graph.initializer.extend(added)
    with answer:
        answer.write(converted.SerializeToString())
    return 0


if __name__ == "__main__":
    sys.path[:] = sys.argv[2:]  # before all else is imported: the folder of this file is no place
    sys.exit(main())
