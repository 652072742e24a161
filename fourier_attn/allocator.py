"""Keeps freed memory in the process for the next step."""

import ctypes
import os
import sys
from pathlib import Path

HUGE_PAGE = 2 << 20  # bytes
MADV_HUGEPAGE = 14  # of madvise, sys/mman.h
KEEP = {  # of mallopt, malloc.h
    -8: 1,  # M_ARENA_MAX: all threads share what has been freed; only this arena takes arrays of any size
    -4: 0,  # M_MMAP_MAX: large arrays come from it, too
    -1: -1,  # M_TRIM_THRESHOLD: it is never given back
}
STRICT = Path("/proc/sys/vm/overcommit_memory")
TOLD = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_")  # variables with which somebody has said how


def keep_memory() -> bool:
    """Makes glibc keep freed memory, and Linux use pages of 2 MB for it.

    A compiled training step allocates its temporary memory, often hundreds of megabytes, in one piece and
    frees it at its end. By default, glibc returns such a piece to the system, and the next step gets it back
    in pages of 4 kB, each with a page fault and filled with zeros. docs/performance.md has the cost. With
    this function, the process keeps the largest amount of memory that it has used. It also reserves address
    space of half of the machine's memory, which uses no memory by itself.

    Call it before JAX makes arrays. The programs of this project do.

    Returns: whether it was done: on Linux with glibc, unless a variable of the environment configures memory
      (MALLOC_.., GLIBC_TUNABLES, LD_PRELOAD). MALLOC_KEEP=no switches it off without affecting glibc.
    Source: mallopt(3), madvise(2).
    """
    if sys.platform != "linux" or any(name.startswith(TOLD) for name in os.environ):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    for option, value in KEEP.items():
        libc.mallopt(option, value)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    strict = STRICT.exists() and STRICT.read_text().strip() == "2"  # others would lack what is set aside
    if not strict and (begin := libc.malloc(size)):
        first = -(-begin // HUGE_PAGE) * HUGE_PAGE
        libc.madvise(first, (begin + size - first) // HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE)
        libc.free(begin)
    return True
