"""Private readout of a running policy: what it earns against a control group that never enters learning.

| module | content |
|---|---|
| `declared` | `Readout`, `Control` and `Stop`: the public arguments |
| `groups` | the group of every round, from public coins |
| `lattice` | outcomes as integers, their sums at a look, and the sensitivities of these sums |
| `segments` | segments of one context column, sums in them, and their sensitivities |
| `budget` | division of the promise between learning and readout, and the noise of both groups' sums |
| `rows` | the outcomes of rounds whose look is not released yet: secret |
| `minimum` | propensities of decisions with a minimum share |
| `reading` | `ReadoutResult`: the answer, in numbers and in words |
| `run` | the looks of one policy, and the choices of its control group |
| `policy` | `ReadoutPolicy`: asks and tells of a policy with a readout |
| `statement` | what the statement says of it |

`dpbandits.models.readout` computes estimates and intervals from the released sums.
"""
