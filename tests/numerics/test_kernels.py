"""The kernel that is asked for is the kernel in use, in NumPy's copy of OpenBLAS and in SciPy's."""

import os

import pytest

from numerics.run import KERNELS, in_use, missing, used_under

ALSO = {"Zen": "Haswell"}
"""Kernels that an OpenBLAS may run as another one."""


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_that_is_asked_for_is_in_use(kernel):
    if not in_use():
        pytest.skip("neither NumPy nor SciPy uses OpenBLAS here")
    if missing(kernel):
        pytest.skip(f"this processor lacks {', '.join(missing(kernel))}")
    assert set(used_under(kernel)) <= {kernel, ALSO.get(kernel)}


@pytest.mark.numerics
def test_these_tests_run_under_the_kernel_that_was_asked_for():
    asked, used = os.environ.get("OPENBLAS_CORETYPE"), set(in_use())
    assert len(used) <= 1
    if asked is not None and used:
        assert used <= {asked, ALSO.get(asked)}
