"""Weight of the sum of answers in a readout: `python -m reproduction.tuning.readout_answers`.

More weight finds unequal shares of answers more often, and makes every interval wider. The table has both
figures for pure noise at 10,000 people. `found` says how often the check finds 90% against 80% answered, and
the aim is .9. `width` is that of an interval at 1% conversions over the one without privacy, and the aim is
2.95. `lattice.ANSWERED` is the largest weight here with the L2 sensitivity that `lattice` states.
"""

from unittest.mock import patch

from reproduction.studies import readout as study

SEED, RUNS, WEIGHTS = 500_000, 20_000, (0.4, 0.5, 0.55, 0.5625, 0.6)


def main() -> None:
    print("weight  found  width")
    for weight in WEIGHTS:
        with patch.object(study, "SEED", SEED), patch.object(study, "ANSWERED", weight):
            found = study.answered_row("pure", 10_000, (0.9, 0.8), RUNS, 0)["found"]
            wide = study.main_row("rare", "pure", 10_000, RUNS, 1)["width_over_open"]
        print(f"{weight:6.4f}  {found:.3f}  {wide:.3f}", flush=True)


if __name__ == "__main__":
    main()
