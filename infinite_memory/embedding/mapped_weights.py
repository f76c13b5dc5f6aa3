"""Rewrite a model's graph so that onnxruntime maps the weights from the model's file instead of copying them.

A file ``model.onnx`` is a protobuf message with the graph and its weights. Opened by its path, onnxruntime copies every weight into the
heap. Here the message is read without the weights: each becomes a reference to its bytes in the same file ("external data"), which
onnxruntime maps. Of a table of token vectors only the pages of tokens that occur are then in memory, and they are the file's, shared by
all daemons; what is repacked for multiplication leaves no copy behind. Measured: 45 MiB less for the default model, 60 for the
multilingual one, the same vectors in the same time, and less time to load.

Weights start at any byte of the file, so only operators are considered that read them as unaligned data, on processors that allow it.
"""

from __future__ import annotations

import mmap
import platform
import sys
from collections import defaultdict
from pathlib import Path

from infinite_memory.embedding.protobuf import Field, encode_bytes, encode_number, iter_fields, iter_values

FOLDER_OPTION = "session.model_external_initializers_file_folder_path"
"""onnxruntime's setting for the folder of external data, needed where the graph is not opened by its path."""

_MIN_VERSION = (1, 21)  # of onnxruntime; before it the option was ignored

_MIN_BYTES = 64 * 1024  # smaller weights stay in the graph: scales, offsets and biases
_WEIGHT_INPUTS = {b"Gather": 0, b"MatMul": 1, b"MatMulInteger": 1, b"Gemm": 1, b"Conv": 1}
"""Operators whose weights are copied or loaded unaligned, and the input that has them."""

# numbers of fields in onnx.proto
_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_INPUT, _OPERATOR = 1, 4
_NAME, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 8, 9, 13, 14
_EXTERNAL = 1


def is_supported(version: str) -> bool:
    """Return whether *version* of onnxruntime maps weights here.

    Windows is left out: it refuses to replace a mapped file, which `setup` does with a model that is made again.
    """
    can_read_unaligned = platform.machine().lower() in {"x86_64", "amd64", "arm64", "aarch64"}
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return sys.platform != "win32" and can_read_unaligned and numbers >= _MIN_VERSION


def without_weights(path: Path) -> bytes:
    """Return the model in *path* with its large weights as references to that file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a model.
        IndexError: it ends too early.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as model:
        parts = []
        for field in iter_fields(model):
            is_graph = field.number == _GRAPH
            parts.append(_rewrite_graph(model, field, path.name) if is_graph else model[field.start : field.end])
        return b"".join(parts)


def _rewrite_graph(model: mmap.mmap, graph: Field, file_name: str) -> bytes:
    mappable = _find_mappable(model, graph)
    parts = [
        _rewrite_weight(model, field, mappable, file_name)
        if field.number == _INITIALIZER
        else model[field.start : field.end]
        for field in iter_fields(model, graph.value, graph.end)
    ]
    return encode_bytes(_GRAPH, b"".join(parts))


def _find_mappable(model: mmap.mmap, graph: Field) -> frozenset[bytes]:
    """Return the names of values that are used as the weights of operators in `_WEIGHT_INPUTS` only."""
    uses: defaultdict[bytes, set[bool]] = defaultdict(set)
    for node in iter_fields(model, graph.value, graph.end):
        if node.number == _NODE:
            fields = list(iter_values(model, node.value, node.end))
            operator = next((value for number, value in fields if number == _OPERATOR), b"")
            inputs = [value for number, value in fields if number == _INPUT]
            for position, name in enumerate(inputs):
                uses[name].add(_WEIGHT_INPUTS.get(operator) == position)
    return frozenset(name for name, kinds in uses.items() if kinds == {True})


def _rewrite_weight(model: mmap.mmap, weight: Field, mappable: frozenset[bytes], file_name: str) -> bytes:
    fields = list(iter_fields(model, weight.value, weight.end))
    name = next((model[field.value : field.end] for field in fields if field.number == _NAME), b"")
    data = next((field for field in fields if field.number == _RAW_DATA), None)
    if data is None or data.end - data.value < _MIN_BYTES or name not in mappable:
        return model[weight.start : weight.end]
    parts = [model[field.start : field.end] for field in fields if field is not data]
    reference = {"location": file_name, "offset": str(data.value), "length": str(data.end - data.value)}
    for key, value in reference.items():
        parts.append(encode_bytes(_EXTERNAL_DATA, encode_bytes(1, key.encode()) + encode_bytes(2, value.encode())))
    parts.append(encode_number(_DATA_LOCATION, _EXTERNAL))
    return encode_bytes(_INITIALIZER, b"".join(parts))
