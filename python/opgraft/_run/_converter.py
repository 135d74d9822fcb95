"""Runs onnx's version converter in a separate process, because some models crash it.

Run as a script by opgraft._run._lowering: `_converter.py LIMIT PATH...`, where the paths are the
caller's sys.path. Reads the model from standard input and writes the converted model, without the
weights that the caller has, to standard output. If the converter refuses the model, its message is
printed to standard error, and the exit status is REFUSED.
"""

import sys

REFUSED = 3


def main() -> int:
    import os

    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # anything else that is printed goes to standard error
    from onnx import ModelProto, version_converter

    model = ModelProto.FromString(sys.stdin.buffer.read())
    known = {tensor.name for tensor in model.graph.initializer}
    try:
        converted = version_converter.convert_version(model, int(sys.argv[1]))
    except Exception as error:  # the caller reports it, whatever it is
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
    sys.path[:] = sys.argv[2:]  # before any import, so that none comes from this file's folder
    sys.exit(main())
