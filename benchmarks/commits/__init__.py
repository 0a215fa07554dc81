"""Benchmarks over commits for airspeed velocity: speed, memory, and the regret of three fixed studies.

`make bench-commits` runs them on the current commit. They use public names only, so that older and newer
commits run the same code. Seeds are fixed, so a commit that changes no decision has the same regret.
"""
