"""Reading plain data out of a pickle file without executing it.

The official CIFAR archives for Python are pickles, and to unpickle a file is to run whatever it says.  A
pickle is a list of instructions for a small stack machine; this module reads the instructions (the standard
library can list them) and follows only those that build numbers, strings, lists, tuples, dicts and arrays of
bytes.  Nothing is imported or called on behalf of the file, any other instruction is an error, and memory and
time are in proportion to the size of the file: what it names many times is made once, keys are short strings
(to hash a tuple of tuples can take for ever), and nothing is shown in an error message that may be endless.
"""

from __future__ import annotations

import math
import os
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

MAX_BYTES = 512 * 2**20
"""Files larger than this are refused (CIFAR's largest has 155 million bytes)."""

MAX_KEY = 256
"""Characters that a key of a dict may have."""
MAX_DIMENSIONS = 32

_ARRAY, _DTYPE, _ENCODE = "array", "dtype", "encode"
_GLOBALS = {
    "numpy.core.multiarray _reconstruct": _ARRAY,
    "numpy._core.multiarray _reconstruct": _ARRAY,
    "numpy dtype": _DTYPE,
    "numpy ndarray": "ndarray",
    "_codecs encode": _ENCODE,
}
"""The names that pickled arrays use -> what they stand for here; they are words, not functions."""

_LITERALS = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Built:
    """An array or a type of its entries, as far as the file has described it."""

    def __init__(self, kind: str, arguments: Any) -> None:
        self.kind, self.arguments = kind, arguments
        self.state: Any = None


class _Latin1:
    """The bytes that strings stand for: each string is encoded once, however often the file names it."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[str, bytes]] = {}  # with the string, or another might get its id

    def __call__(self, text: str) -> bytes:
        if id(text) not in self._made:
            self._made[id(text)] = text, text.encode("latin1")
        return self._made[id(text)][1]


def read(path: str | os.PathLike[str]) -> Any:
    """Return the plain data in the pickle file ``path``.

    Strings of Python 2 pickles come as ``str`` (Latin 1), arrays of unsigned bytes as NumPy arrays.

    Raises
    ------
    ValueError
        When the file is not a pickle, is damaged, or holds anything but plain data.

    Examples
    --------
    >>> import pickle, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "batch")
    ...     _ = file.write_bytes(pickle.dumps({"labels": [3, 5], "name": "first"}, protocol=2))
    ...     read(file)
    {'labels': [3, 5], 'name': 'first'}
    """
    file = Path(path)
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{file} has {size} bytes; at most {MAX_BYTES} are read")
    try:
        encode = _Latin1()
        return _finished(_follow(file.read_bytes(), encode), {}, encode)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        raise ValueError(f"{file} is not a pickle of plain data: {reason[:300]}") from None


def _follow(content: bytes, encode: _Latin1) -> Any:
    """Follow the instructions and return what is on the stack at the end."""
    stack: list[Any] = []
    marks: list[int] = []  # how high the stack was
    memo: dict[int, Any] = {}

    def above(at: int) -> list[Any]:
        if not 0 <= at <= len(stack):
            raise ValueError("it takes more than it has put down")
        items = stack[at:]
        del stack[at:]
        return items

    argument: Any
    for instruction, argument, position in pickletools.genops(content):
        name = instruction.name
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name in ("DICT", "LIST", "TUPLE"):
            items = above(marks.pop())
            if name == "DICT":
                stack.append(_entries(items))
            else:
                stack.append(items if name == "LIST" else tuple(items))
        elif name in _TUPLES:
            stack.append(tuple(above(len(stack) - _TUPLES[name])))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            if not 0 <= argument <= len(content):  # there are no more things than bytes
                raise ValueError(f"it gives something the number {argument}, at byte {position}")
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "APPEND":
            item = stack.pop()
            _list(stack[-1]).append(item)
        elif name == "APPENDS":
            items = above(marks.pop())
            _list(stack[-1]).extend(items)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _dict(stack[-1]).update(_entries([key, value]))
        elif name == "SETITEMS":
            items = above(marks.pop())
            _dict(stack[-1]).update(_entries(items))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            if name == "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                if not isinstance(attribute, str) or not isinstance(module, str):
                    raise ValueError(f"it asks for what is not a name, at byte {position}")
                argument = f"{module} {attribute}"
            if argument not in _GLOBALS:
                raise ValueError(f"it asks for {argument[:100].replace(' ', '.')}, at byte {position}")
            stack.append(_Built(_GLOBALS[argument], None))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_reduced(function, arguments, encode))
        elif name == "BUILD":
            state = stack.pop()
            if not isinstance(stack[-1], _Built):
                raise ValueError(f"it sets the state of a {type(stack[-1]).__name__}, at byte {position}")
            stack[-1].state = state
        elif name not in ("PROTO", "FRAME", "STOP"):  # STOP is the last that is listed
            raise ValueError(f"it has the instruction {name}, at byte {position}")
    if len(stack) != 1 or marks:
        raise ValueError("it ends in the middle")
    return stack[0]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"it appends to a {type(value).__name__}")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it puts an entry into a {type(value).__name__}")
    return value


def _entries(items: list[Any]) -> dict[str | bytes, Any]:
    """Return the dict of keys and values that stand in turns."""
    keys = items[::2]
    if not all(isinstance(key, str | bytes) and len(key) <= MAX_KEY for key in keys):
        raise ValueError("it has a key that is not a short string")
    return dict(zip(keys, items[1::2], strict=True))


def _reduced(function: Any, arguments: Any, encode: _Latin1) -> Any:
    """Stand in for a call: describe the array or its type, or turn text into bytes."""
    if not isinstance(function, _Built) or not isinstance(arguments, tuple):
        raise ValueError("it calls what is not a function")
    if function.kind == _ENCODE:
        text, encoding = arguments
        if encoding != "latin1":
            raise ValueError("its bytes are not written in Latin 1")
        return encode(text)
    if function.kind not in (_ARRAY, _DTYPE):
        raise ValueError(f"it calls {function.kind}")
    return _Built(function.kind, arguments)


def _finished(value: Any, known: dict[int, Any], encode: _Latin1) -> Any:
    """Return ``value`` with all descriptions of arrays replaced by arrays."""
    if id(value) in known:
        return known[id(value)]
    result: Any
    if isinstance(value, _Built):
        result = _array(value, encode)
    elif isinstance(value, dict):
        result = {key: _finished(entry, known, encode) for key, entry in value.items()}
    elif isinstance(value, list | tuple):
        result = type(value)(_finished(entry, known, encode) for entry in value)
    else:
        return value
    known[id(value)] = result
    return result


def _array(built: _Built, encode: _Latin1) -> np.ndarray:
    if built.kind != _ARRAY or not isinstance(built.state, tuple):
        raise ValueError(f"it holds a {built.kind} that is not an array")
    _, shape, kind, in_columns, content = built.state
    if not isinstance(kind, _Built) or kind.kind != _DTYPE or kind.arguments[0] not in ("u1", "|u1"):
        raise ValueError("it has an array whose entries are not unsigned bytes")
    if isinstance(content, str):
        content = encode(content)
    if not isinstance(shape, tuple) or len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"it has an array of more than {MAX_DIMENSIONS} dimensions, or of no shape")
    if not all(isinstance(n, int) and 0 <= n < 2**63 for n in shape):
        raise ValueError("it has an array of a shape that no array has")
    if math.prod(shape) != len(content):
        raise ValueError(f"it has an array of shape {shape} with {len(content)} bytes")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if in_columns else "C")
