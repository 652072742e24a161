"""Recognises a file of weights by its first bytes, whatever it is called; nothing in it is executed."""

import zipfile
from pathlib import Path

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
HDF5 = b"\x89HDF\r\n\x1a\n"
HEAD = 512  # bytes that are looked at
LISTED = 3  # names of arrays in a message
SAFE = "convert it to safetensors"
# The first bytes of files that are not read, what such a file is, and what a user can do.
KINDS = (
    (b"\x1f\x8b", "packed with gzip", "unpack it first, with gunzip"),
    (b"\xfd7zXZ\0", "packed with xz", "unpack it first, with unxz"),
    (b"BZh", "packed with bzip2", "unpack it first, with bunzip2"),
    (b"\x28\xb5\x2f\xfd", "packed with Zstandard", "unpack it first, with unzstd"),
    (b"\x93NUMPY", "a single NumPy array", "save all arrays of the network as safetensors, by their names"),
    (b"GGUF", "a GGUF file of quantised weights", "get the weights as safetensors"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the weights", "fetch them: git lfs pull"),
    (b"<", "a web page", "download the file itself"),
    (b"{", "JSON, not weights", "name the file of weights"),
)


def recognise(path: Path) -> str:
    """Returns "safetensors", "msgpack" or "h5"; a file that shows neither is taken for what its name says.

    Raises: ValueError that says what another file is, and the cure.
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
        raise ValueError(f"{path} is a tar archive; unpack it first, with tar -xf")
    if path.suffix in PICKLES and not _is_map(head):
        raise ValueError(pickled(path))
    return "safetensors" if path.suffix == ".safetensors" else "msgpack"


def pickled(path: Path, what: str = "a pickle") -> str:
    """Returns why a pickle is not opened."""
    return f"{path} is {what}, which may run any program and is not opened; {SAFE}"


def _is_map(head: bytes) -> bool:
    """Returns whether the bytes can begin a map in msgpack that is not empty, as Flax writes one."""
    return 0x81 <= head[0] <= 0x8F or head[0] in (0xDE, 0xDF) if head else False


def _archive(path: Path) -> str:
    """Returns what a zip archive is: PyTorch's file, NumPy's, or another one."""
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
        return pickled(path, f"an .npz whose array {objects[0][:80]} holds Python objects, as a pickle")
    if arrays:
        return (
            f"{path} is an .npz file whose array names are not known here ({listed}); rename the arrays as "
            "in Hugging Face's FNet or ViT, or this project, and save them as safetensors"
        )
    return f"{path} is a zip archive of {listed}; unpack it and name the file of weights in it"
