"""The command line: `dpbandits COMMAND`. Every command has `--help`; commands are grouped by trust model.

- `run`: simulates a private policy on a table, attacks it, and writes a report of its cost.
- `schema TABLE`: writes a first TOML file that describes a table, from a public sample of its rows.
- `calibrate gaussian`: prints the noise that a privacy promise needs.
- `guarantee CONFIG`: prints the statement of a configured policy, without data.
- `audit NAME`, `audit --all`: measures lower bounds of the privacy loss with the real noise.
- `central learn`, `predict`, `evaluate`: learns a public policy from logged bandit data, applies it, and
  evaluates it.
- `local simulate`, `local aggregate`: simulates clients that decide on their own device, or counts reports.
- `outsourced curate`, `answer`, `optimise`: releases a table once and optimises over the release.
- `lab compare STUDY.toml`: compares policies in simulated or recorded worlds.

No command overwrites a file silently. `--force` replaces results; releases, secrets and states are never
replaced. Errors are one line on standard error; exit statuses are listed in `dpbandits.cli.console`.

The file of a command holds its options and its printing. The packages below compute.
"""

from dpbandits.cli.main import app, main

__all__ = ["app", "main"]
