"""Writes event files of TensorBoard: records with checksums, each a protocol buffer `Event` of scalars.

The package tensorboardX imports PyTorch wherever it is installed, which would delay each start by a second.
"""

import socket
import struct
import time
from pathlib import Path


def _table() -> list[int]:
    """Returns the remainders of all bytes for CRC-32C, whose reversed polynomial is 0x82F63B78."""
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ (0x82F63B78 if value & 1 else 0) for value in table]
    return table


TABLE = _table()


def _checksum(data: bytes) -> bytes:
    """Returns the CRC-32C of data, rotated and shifted as the format asks."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _number(value: int) -> bytes:
    """Returns a variable-length integer: seven bits in each byte, the lowest first."""
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def _message(field: int, data: bytes) -> bytes:
    """Returns a field of a message that holds bytes, a string or another message."""
    return bytes([field << 3 | 2]) + _number(len(data)) + data


class EventFile:
    """Appends events to a new file. The caller flushes it.

    Args:
      folder: an existing folder; the file is named after the time and the host.
      step: step of the first events. They mark events of this and later steps in older files as invalid.
    """

    def __init__(self, folder: Path, step: int):
        self.file = (folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}").open("ab")
        self._write(step, _message(3, b"brain.Event:2"))
        self._write(step, _message(7, bytes([1 << 3, 1])))  # SessionLog with the status START

    def scalar(self, step: int, name: str, value: float) -> None:
        """Writes a number.

        Args:
          step: step of the run.
          name: name of the plot, for example "train/loss".
          value: the number.
        """
        number = bytes([2 << 3 | 5]) + struct.pack("<f", value)
        self._write(step, _message(5, _message(1, _message(1, name.encode()) + number)))

    def _write(self, step: int, content: bytes) -> None:
        event = (
            bytes([1 << 3 | 1]) + struct.pack("<d", time.time()) + bytes([2 << 3]) + _number(step) + content
        )
        size = struct.pack("<Q", len(event))
        self.file.write(size + _checksum(size) + event + _checksum(event))
