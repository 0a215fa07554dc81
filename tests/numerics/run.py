"""Run the tests marked `numerics` under several OpenBLAS kernels. Run: `make test-numerics`.

A kernel is the set of matrix routines that OpenBLAS chooses for a processor. Kernels add in different orders,
so their results differ in the last bits. `OPENBLAS_CORETYPE` asks for another kernel than the processor's.
NumPy's own loops also have variants for processors: those newer than the kernel are switched off beside it.

A kernel is skipped, in words, if the processor lacks its instructions, or if it is the same as one that ran
already: the OpenBLAS in the wheels of NumPy and SciPy runs Zen as Haswell.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["KERNELS", "in_use", "missing", "used_under"]

REPOSITORY = Path(__file__).resolve().parents[2]

_AVX2 = {"avx", "avx2", "fma"}
KERNELS = {
    "Haswell": _AVX2,
    "SkylakeX": _AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"},
    "Zen": _AVX2,
    "Sandybridge": {"avx"},
    "Nehalem": {"sse4_2"},
}
"""Values of OPENBLAS_CORETYPE, and the flags of /proc/cpuinfo that each needs."""

NUMPY_VARIANTS = {"avx512f": ("AVX512", "X86_V4"), "avx2": ("AVX2", "FMA3", "X86_V3"), "avx": ("AVX", "F16C")}
"""How the names of NumPy's processor features begin that need a flag."""

MARKED = "pytest.mark.numerics"
COMMAND = ("-m", "pytest", "-m", "numerics and not slow", "-q", "--no-header")


def in_use() -> list[str]:
    """The kernels of this process: one for each OpenBLAS, and NumPy and SciPy each have their own."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return [one["architecture"] for one in threadpool_info() if one["internal_api"] == "openblas"]


def missing(kernel: str | None) -> list[str]:
    """Instruction sets that the kernel needs and that this processor does not list."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split()
    return sorted(KERNELS.get(kernel or "", set()) - set(flags))


def environment(kernel: str | None) -> dict[str, str]:
    """The environment of a process that uses the kernel, without later variants of NumPy's own loops."""
    import numpy as np

    own = dict(os.environ)
    if kernel is None:
        return own
    found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    newer = tuple(s for flag, names in NUMPY_VARIANTS.items() if flag not in KERNELS[kernel] for s in names)
    own["OPENBLAS_CORETYPE"] = kernel
    if disabled := [name for name in found if name.startswith(newer)]:
        own["NPY_DISABLE_CPU_FEATURES"] = " ".join(disabled)
    return own


def used_under(kernel: str | None) -> tuple[str, ...]:
    """What `in_use` gives in a new process that asks for the kernel; None asks for none."""
    command = [sys.executable, __file__, "--in-use"]
    asked = subprocess.run(command, env=environment(kernel), capture_output=True, text=True, check=True)
    return tuple(asked.stdout.split())


def _said(text: str) -> None:
    sys.stdout.write(f"numerics: {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the tests under every kernel; 0 where all pass."""
    parser = argparse.ArgumentParser(description="Other options go to pytest.")
    parser.add_argument("--times", type=int, default=1, help="repetitions under each kernel")
    parser.add_argument("--in-use", action="store_true", help="print the kernels of this process instead")
    given, for_pytest = parser.parse_known_args()
    if given.in_use:
        sys.stdout.write(" ".join(in_use()))
        return 0
    files = sorted(
        str(path) for path in (REPOSITORY / "tests").rglob("test_*.py") if MARKED in path.read_text()
    )
    ran: dict[tuple[str, ...], str] = {}
    failed = []
    for kernel in (None, *KERNELS):
        name = kernel or "the processor's own kernel"
        if lacking := missing(kernel):
            _said(f"{name}: skipped, this processor lacks {', '.join(lacking)}")
            continue
        used = used_under(kernel)
        if used in ran:
            _said(f"{name}: skipped, {'/'.join(used) or 'no OpenBLAS'} ran already as {ran[used]}")
            continue
        ran[used] = name
        for _ in range(given.times):
            _said(f"{name} ({'/'.join(used) or 'no OpenBLAS'})")
            command = [sys.executable, *COMMAND, *files, *for_pytest]
            if subprocess.run(command, cwd=REPOSITORY, env=environment(kernel), check=False).returncode:
                failed.append(name)
    _said(f"failed under {', '.join(failed)}" if failed else f"passed under {len(ran)} kernels")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
