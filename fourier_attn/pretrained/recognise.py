"""Detects the format of a file of weights from its first bytes, without executing anything in it."""

import zipfile
from pathlib import Path

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
HDF5 = b"\x89HDF\r\n\x1a\n"
HEAD = 512  # number of bytes that are examined
LISTED = 3  # largest number of names in a message
SAFE = "convert it to safetensors"
# First bytes of files that cannot be read, a description, and the cure.
KINDS = (
    (b"\x1f\x8b", "compressed with gzip", "decompress it with gunzip"),
    (b"\xfd7zXZ\0", "compressed with xz", "decompress it with unxz"),
    (b"BZh", "compressed with bzip2", "decompress it with bunzip2"),
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", "decompress it with unzstd"),
    (b"\x93NUMPY", "a single NumPy array", "save all arrays of the network as safetensors, by their names"),
    (b"GGUF", "a GGUF file of quantised weights", "get the weights as safetensors"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the weights", "run git lfs pull"),
    (b"<", "a web page", "download the file itself"),
    (b"{", "JSON, not weights", "give the file of weights"),
)


def recognise(path: Path) -> str:
    """Returns the format of a file, "safetensors", "msgpack" or "h5"; in doubt its ending decides.

    Raises: ValueError with the kind of any other file and the cure.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    length = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and length <= path.stat().st_size - 8:
        return "safetensors"
    if head.startswith(HDF5):
        return "h5"
    if head.startswith(b"PK\x03\x04"):
        raise ValueError(_archive(path))
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise ValueError(pickled(path))
    for magic, kind, cure in KINDS:
        if head.lstrip().startswith(magic) if magic in (b"<", b"{") else head.startswith(magic):
            raise ValueError(f"{path} is {kind}; {cure}")
    if head[257:262] == b"ustar":
        raise ValueError(f"{path} is a tar archive; extract it with tar -xf")
    if path.suffix in PICKLES and not _is_map(head):
        raise ValueError(pickled(path))
    return "safetensors" if path.suffix == ".safetensors" else "msgpack"


def pickled(path: Path, what: str = "a pickle") -> str:
    """Returns the message for a pickle, or for another kind of file, `what`, that contains one."""
    return f"{path} is {what}, which can execute any code and is not opened; {SAFE}"


def _is_map(head: bytes) -> bool:
    """Returns whether a file can begin with a non-empty map of msgpack, which Flax writes."""
    return 0x81 <= head[0] <= 0x8F or head[0] in (0xDE, 0xDF) if head else False


def _archive(path: Path) -> str:
    """Returns the message for a zip archive, which may be a file of PyTorch, of NumPy, or another one."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            arrays = [name.removesuffix(".npy") for name in names if name.endswith(".npy")]
            objects = [name for name in arrays if b"|O'" in archive.open(f"{name}.npy").read(HEAD)]
    except (OSError, ValueError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile) as error:
        return f"{path} is a damaged zip archive ({error}); get it again"
    listed = ", ".join(name[:80] for name in (arrays or names)[:LISTED]) or "nothing"
    if any(name.endswith("data.pkl") for name in names):
        return pickled(path, "a PyTorch file, a zip archive around a pickle")
    if objects:
        return pickled(path, f"an .npz with Python objects, as a pickle, in the array {objects[0][:80]}")
    if arrays:
        return (
            f"{path} is an .npz file with unknown names of arrays ({listed}); rename them as in Hugging "
            "Face's FNet or ViT, or as in this project, and save them as safetensors"
        )
    return f"{path} is a zip archive of {listed}; extract it and give the file of weights"
