"""Mean reward per person that is lost against the best arm of each person, in three fixed studies.

Each is the mean over `REPS` seeds from 1,000,000. A commit that changes no decision has the same number.
The studies are the income table with a trusted server, the same table with local DP, and a known function.
"""

import dpbandits as dpb

REPS, PEOPLE, EPSILON, SEED = 3, 5_000, 1.0, 1_000_000


def income(seed, people):
    """The public income table."""
    return dpb.lab.worlds.load("cps-income", seed=seed, horizon=people)


def function(seed, people):
    """A known function of two numbers, with new candidates in every round."""
    return dpb.lab.worlds.camelback(seed=seed, horizon=people)


STUDIES = {
    "income, central": (income, "GPBandit"),
    "income, local": (income, "Spec"),
    "function, central": (function, "GPBandit"),
}


class Regret:
    """Regret of a policy in a world."""

    params = (list(STUDIES),)
    param_names = ("study",)
    timeout = 900.0
    unit = "reward per person"

    def track_regret(self, study):
        world, policy = STUDIES[study]
        found = dpb.lab.compare(
            {study: world}, [policy], promises=[EPSILON], people=[PEOPLE], reps=REPS, seed=SEED
        )
        rows = found.rows()
        return sum(row["regret"] / row["rounds"] for row in rows) / len(rows)
