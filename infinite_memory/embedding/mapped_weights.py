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
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER_OPTION = "session.model_external_initializers_file_folder_path"
"""onnxruntime's setting for the folder of external data, needed where the graph is not opened by its path."""

_MIN_VERSION = (1, 21)  # of onnxruntime; before it the option was ignored

_MIN_BYTES = 64 * 1024  # smaller weights stay in the graph: scales, offsets and biases
_WEIGHT_INPUTS = {b"Gather": 0, b"MatMul": 1, b"MatMulInteger": 1, b"Gemm": 1, b"Conv": 1}
"""Operators whose weights are copied or loaded unaligned, and the input that has them."""

_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5  # kinds of fields of a protobuf message
_VARINT_BITS = 70

# numbers of fields in onnx.proto
_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_INPUT, _OPERATOR = 1, 4
_NAME, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 8, 9, 13, 14
_EXTERNAL = 1


class _Field(NamedTuple):
    """One field: its number, and where it and its value are in the message."""

    number: int
    start: int
    value: int
    end: int


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
        for field in _fields(model, 0, len(model)):
            is_graph = field.number == _GRAPH
            parts.append(_rewrite_graph(model, field, path.name) if is_graph else model[field.start : field.end])
        return b"".join(parts)


def _rewrite_graph(model: mmap.mmap, graph: _Field, file_name: str) -> bytes:
    mappable = _find_mappable(model, graph)
    parts = [
        _rewrite_weight(model, field, mappable, file_name)
        if field.number == _INITIALIZER
        else model[field.start : field.end]
        for field in _fields(model, graph.value, graph.end)
    ]
    return _message(_GRAPH, b"".join(parts))


def _find_mappable(model: mmap.mmap, graph: _Field) -> frozenset[bytes]:
    """Return the names of values that are used as the weights of operators in `_WEIGHT_INPUTS` only."""
    uses: defaultdict[bytes, set[bool]] = defaultdict(set)
    for node in _fields(model, graph.value, graph.end):
        if node.number == _NODE:
            fields = [(field.number, model[field.value : field.end]) for field in _fields(model, node.value, node.end)]
            operator = next((value for number, value in fields if number == _OPERATOR), b"")
            inputs = [value for number, value in fields if number == _INPUT]
            for position, name in enumerate(inputs):
                uses[name].add(_WEIGHT_INPUTS.get(operator) == position)
    return frozenset(name for name, kinds in uses.items() if kinds == {True})


def _rewrite_weight(model: mmap.mmap, weight: _Field, mappable: frozenset[bytes], file_name: str) -> bytes:
    fields = list(_fields(model, weight.value, weight.end))
    name = next((model[field.value : field.end] for field in fields if field.number == _NAME), b"")
    data = next((field for field in fields if field.number == _RAW_DATA), None)
    if data is None or data.end - data.value < _MIN_BYTES or name not in mappable:
        return model[weight.start : weight.end]
    parts = [model[field.start : field.end] for field in fields if field is not data]
    reference = {"location": file_name, "offset": str(data.value), "length": str(data.end - data.value)}
    for key, value in reference.items():
        parts.append(_message(_EXTERNAL_DATA, _message(1, key.encode()) + _message(2, value.encode())))
    parts.append(_varint(_DATA_LOCATION << 3 | _VARINT) + _varint(_EXTERNAL))
    return _message(_INITIALIZER, b"".join(parts))


def _fields(model: mmap.mmap, index: int, end: int) -> Iterator[_Field]:
    """Yield the fields of the message between two offsets.

    Raises:
        ValueError: it is not a message.
        IndexError: the file ends too early.
    """
    while index < end:
        start = index
        key, index = _read_varint(model, index)
        kind, value = key & 7, index
        if kind == _VARINT:
            _, index = _read_varint(model, index)
        elif kind == _LENGTH:
            size, value = _read_varint(model, index)
            index = value + size
        elif kind in (_FIXED_32, _FIXED_64):
            index += 4 if kind == _FIXED_32 else 8
        else:
            raise ValueError(f"a field of kind {kind}")
        if index > end or key >> 3 == 0:
            raise ValueError("a field ends outside its message, or has no number")
        yield _Field(key >> 3, start, value, index)


def _read_varint(model: mmap.mmap, index: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        byte = model[index]
        value |= (byte & 0x7F) << shift
        index += 1
        if not byte & 0x80:
            return value, index
    raise ValueError("a number is too long")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _message(number: int, value: bytes) -> bytes:
    """Return a field with bytes."""
    return _varint(number << 3 | _LENGTH) + _varint(len(value)) + value
