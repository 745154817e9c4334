"""Whole numbers in MessagePack, as the scripts and the sidecar exchange them.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

# The first byte of a number, with its length in bytes and whether it is signed; and of an array, with the length of
# its count.
NUMBERS = {0xCC + i: (1 << i, False) for i in range(4)} | {0xD0 + i: (1 << i, True) for i in range(4)}
ARRAYS = {0xDC: 2, 0xDD: 4}


def unpack(text: str) -> list[int]:
    """Reads one array of whole numbers. Raises ValueError if the text is anything else."""
    data = text.encode("latin-1")
    position = 0

    def take(length: int, signed: bool = False) -> int:
        nonlocal position
        position += length
        if position > len(data):
            raise ValueError("the array is incomplete")
        return int.from_bytes(data[position - length : position], "big", signed=signed)

    def number() -> int:
        first = take(1)
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first not in NUMBERS:
            raise ValueError(f"{first:#x} does not begin a whole number")
        return take(*NUMBERS[first])

    first = take(1)
    if first & 0xF0 == 0x90:
        count = first & 0x0F
    elif first in ARRAYS:
        count = take(ARRAYS[first])
    else:
        raise ValueError(f"{first:#x} does not begin an array")
    numbers = [number() for _ in range(count)]
    if position != len(data):
        raise ValueError("the array is followed by more bytes")
    return numbers


def pack(numbers: list[int]) -> str:
    """Writes an array of whole numbers, for tests."""
    data = b"\xdd" + len(numbers).to_bytes(4, "big")
    for number in numbers:
        data += bytes([number]) if 0 <= number < 0x80 else b"\xd3" + number.to_bytes(8, "big", signed=True)
    return data.decode("latin-1")
