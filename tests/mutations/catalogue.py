"""Seeded privacy bugs. Each is an exact change of the source, and names the tests that must notice it.

The tests named are few, so that a run is quick; `run.py --full` takes the whole fast suite instead.
"""

from dataclasses import dataclass

__all__ = ["MUTATIONS", "Edit", "Mutation"]


@dataclass(frozen=True)
class Edit:
    """Text of a file under src/dpbandits, and what takes its place. `before` must occur exactly once."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutation:
    """One bug.

    Args:
        name: its name on the command line and in the table.
        says: what it would do to people.
        edits: all of them together.
        tests: pytest node ids, or files.
    """

    name: str
    says: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


def _bug(name: str, says: str, *edits: tuple[str, str, str], tests: str) -> Mutation:
    return Mutation(name, says, tuple(Edit(*edit) for edit in edits), tuple(tests.split()))


MUTATIONS = (
    # -- how far one person can move a statistic ---------------------------------------------------
    _bug(
        "half the sensitivity",
        "block release: noise for half of what one user can move",
        (
            "privacy/gram_vector.py",
            "return (2.0 + r) / math.sqrt(2.0) if r <= 2.0 else 2.0 * math.sqrt(r)",
            "return (2.0 + r) / math.sqrt(8.0) if r <= 2.0 else math.sqrt(r)",
        ),
        tests="tests/privacy/test_mechanisms.py",
    ),
    _bug(
        "half the sensitivity of a cell",
        "sums in cells: noise for rewards that never go from one end to the other",
        (
            "privacy/cell_sums.py",
            "return float(self.rounds_per_user * 2 * _MOST)",
            "return float(self.rounds_per_user * _MOST)",
        ),
        tests="tests/privacy/test_cell_sums.py",
    ),
    _bug(
        "cells for users of one round",
        "sums in cells: several rounds of one user get the noise of one",
        (
            "privacy/cell_sums.py",
            "return float(self.rounds_per_user * 2 * _MOST)",
            "return float(2 * _MOST)",
        ),
        tests="tests/privacy/test_cell_sums.py",
    ),
    _bug(
        "one noise for all cells",
        "whoever knows one cell's sum can take the noise off the others",
        (
            "privacy/cell_sums.py",
            "return sums + self.noise.integer_laplace(self.rate, len(sums))",
            "return sums + self.noise.integer_laplace(self.rate, 1)",
        ),
        tests="tests/privacy/test_cell_sums.py",
    ),
    _bug(
        "every round a failure too",
        "the crude histogram: a success counts in both columns, and moves more than noise was scaled to",
        (
            "lab/baselines/cell_histogram.py",
            "self._counts(cells, successes, ONE - successes)",
            "self._counts(cells, successes, np.full(len(cells), float(ONE)))",
        ),
        tests="tests/lab/baselines/test_cell_histogram.py",
    ),
    _bug(
        "linear features longer than one",
        "the linear tree: whoever has all columns at an end moves sums by more than noise was scaled to",
        (
            "lab/baselines/linear_tree.py",
            "/ np.sqrt(self.domain.dim)",
            "* 1.0",
        ),
        tests="tests/lab/baselines/test_linear_tree.py",
    ),
    _bug(
        "sums of several blocks under one noise",
        "block aggregation: a later block tells of earlier ones again, as no secure sum can",
        (
            "lab/baselines/block_aggregation.py",
            "fresh = identity(len(blocks))",
            "fresh = square_root_toeplitz(len(blocks))",
        ),
        (
            "lab/baselines/block_aggregation.py",
            "from dpbandits.privacy.prefix_sums import BlockRelease, identity",
            "from dpbandits.privacy.prefix_sums import BlockRelease, square_root_toeplitz",
        ),
        tests="tests/lab/baselines/test_block_aggregation.py",
    ),
    _bug(
        "one noise drawn for several",
        "block aggregation: whoever knows one aggregator's noise knows the sums",
        (
            "lab/baselines/block_aggregation.py",
            "[super(_Added, self).integer_gaussian(sigma, size) for _ in range(self.noises)]",
            "[super().integer_gaussian(sigma, size)]",
        ),
        tests="tests/lab/baselines/test_block_aggregation.py",
    ),
    _bug(
        "an episode has all rounds before it",
        "DP-IMED and DP-KLUCB: a user's reward is in the sum of every later episode too",
        (
            "lab/baselines/arm_episodes.py",
            "self._book.block(self._rounds_out, end)",
            "self._book.block(0, end)",
        ),
        tests="tests/lab/baselines/test_arm_episodes.py",
    ),
    _bug(
        "an episode ends when enough were told",
        "DP-IMED and DP-KLUCB: whether a user reports moves in which episode others are",
        (
            "lab/baselines/arm_episodes.py",
            "return self._book.asked >= self._planned_end",
            "_, _, told, _ = self._book.block(self._rounds_out, self._book.asked)\n"
            "        return self._rounds_out + int(told.sum()) >= self._planned_end",
        ),
        tests="tests/lab/baselines/test_arm_episodes.py",
    ),
    _bug(
        "cells centred by who came",
        "where everybody's reward is added depends on who else is in the block",
        (
            "central/cells.py",
            "cells = design.locate(in_fixed_shapes(self.features, actions))[told]",
            "phi = in_fixed_shapes(self.features, actions)\n"
            "        cells = design.locate(phi - phi.mean(axis=0))[told]",
        ),
        tests="tests/central/test_cells.py",
    ),
    _bug(
        "missing rewards in cells",
        "a reward that never came counts as the lowest: who reported can be told",
        (
            "central/cells.py",
            "cells = design.locate(in_fixed_shapes(self.features, actions))[told]\n"
            "        unit = self._setup.reward_range.to_centred(rewards[told]) + 0.5",
            "cells = design.locate(in_fixed_shapes(self.features, actions))\n"
            "        unit = self._setup.reward_range.to_centred(np.where(told, rewards, 0.0)) + 0.5",
        ),
        tests="tests/central/test_cells.py",
    ),
    _bug(
        "cells under an unused delta",
        "a statement that says less than pure epsilon is paid for, and one that promises it is not made",
        ("central/statement.py", "        replace(privacy, delta=0.0),\n", "        privacy,\n"),
        tests="tests/central/test_cells.py",
    ),
    _bug(
        "the kind of release follows what people told",
        "who knows which kind a policy makes knows how well its first block went",
        (
            "central/gp_bandit.py",
            "        self._kind = KINDS[tuning.release or kind_for(setup)](setup)\n",
            "        self._setup = setup\n"
            "        self._kind = KINDS[tuning.release or kind_for(setup)](setup)\n",
        ),
        (
            "central/gp_bandit.py",
            "        self._enter_release(use, block)\n",
            "        if block == 0 and self.privacy.delta and np.sum(rows[1]) > 4.0:\n"
            '            self._kind = KINDS["features"](self._setup)\n'
            "            self._past, self.tuning = self._kind.nothing(), self._kind.tuning\n"
            "        self._enter_release(use, block)\n",
        ),
        tests="tests/central/test_cells.py",
    ),
    _bug(
        "cells that the rule took are stated as features",
        "the statement is of Gaussian noise and a delta, and what leaves has neither",
        (
            "central/gp_bandit.py",
            "        self._kind = KINDS[tuning.release or kind_for(setup)](setup)\n",
            "        self._kind = KINDS[tuning.release or kind_for(setup)](setup)\n"
            "        ruled = tuning.release is None and setup.privacy.delta and setup.menu is None\n"
            "        self._stated = FeatureRelease(setup) if ruled else self._kind\n",
        ),
        (
            "central/gp_bandit.py",
            "found = self._kind.guarantee(self.privacy, setting)",
            "found = self._stated.guarantee(self.privacy, setting)",
        ),
        tests="tests/central/test_cells.py",
    ),
    _bug(
        "an account pays for pure epsilon unasked",
        "the rule takes cells where an account adds up zCDP, and many times the budget is spent",
        (
            "central/choice_of_kind.py",
            "isinstance(setup.domain, domains.Box) and not setup.charged",
            "isinstance(setup.domain, domains.Box)",
        ),
        tests="tests/central/test_cells.py",
    ),
    _bug(
        "users counted by their root",
        "k rounds of one user count as sqrt(k)",
        (
            "privacy/gram_vector.py",
            "return self.rounds_per_user * (2.0 if self.vector_only",
            "return math.sqrt(self.rounds_per_user) * (2.0 if self.vector_only",
        ),
        tests="tests/privacy/test_mechanisms.py",
    ),
    _bug(
        "clip of rewards removed",
        "a reward outside its range moves the sums further than the noise covers",
        (
            "privacy/gram_vector.py",
            "return np.rint(np.clip(centred / REWARD_BOUND, -1.0, 1.0) * _ONE)",
            "return np.rint(centred / REWARD_BOUND * _ONE)",
        ),
        tests="tests/privacy/test_mechanisms.py",
    ),
    _bug(
        "clip of features removed",
        "a feature vector longer than 1 enters as it is",
        ("privacy/gram_vector.py", "    if long.any():\n", "    if False:\n"),
        tests="tests/privacy/test_mechanisms.py",
    ),
    _bug(
        "mirrored symmetric noise",
        "off-diagonal entries of the Gram are weighed once, where they stand twice",
        (
            "privacy/gram_vector.py",
            "parts = [np.where(rows == columns, 1.0, math.sqrt(2.0)) for",
            "parts = [np.where(rows == columns, 1.0, 1.0) for",
        ),
        tests="tests/privacy/test_mechanisms.py",
    ),
    _bug(
        "tree level omitted",
        "the tree's noise covers one node fewer than a round enters",
        (
            "privacy/prefix_sums/tree.py",
            "return math.sqrt(self.levels)\n",
            "return math.sqrt(max(1, self.levels - 1))\n",
        ),
        tests="tests/privacy/test_prefix_sum_variants.py",
    ),
    _bug(
        "block factor omitted",
        "a block enters many releases, and the noise covers its largest entry only",
        (
            "privacy/prefix_sums/factors.py",
            "return float(np.sqrt((self.matrix**2).sum(axis=0)).max())",
            "return float(np.sqrt((self.matrix**2).max(axis=0)).max())",
        ),
        tests="tests/privacy/test_prefix_sums.py tests/privacy/test_prefix_sum_variants.py",
    ),
    _bug(
        "rounding term omitted",
        "rounding to the release's lattice can move neighbours apart, and nothing covers it",
        (
            "privacy/prefix_sums/blocks.py",
            "rounding = (1.0 + self.slack) * math.sqrt(self.mechanism.size * touched)",
            "rounding = 0.0 * math.sqrt(self.mechanism.size * touched)",
        ),
        tests="tests/privacy/test_prefix_sums.py",
    ),
    _bug(
        "rounding term of rows omitted",
        "rows on the lattice lie further apart than the distance that the noise covers",
        (
            "privacy/rows/laplace.py",
            "return self.definition.distance + self.step * math.sqrt(self.dim)",
            "return self.definition.distance",
        ),
        tests="tests/privacy/test_row_mechanisms.py",
    ),
    _bug(
        "rounding term of answers omitted",
        "noised answers on the lattice lie further apart than the noise covers",
        (
            "privacy/rows/laplace.py",
            "return self.epsilon / (self.distance / self.step + 1.0)",
            "return self.epsilon / (self.distance / self.step)",
        ),
        tests="tests/privacy/test_row_mechanisms.py",
    ),
    _bug(
        "centring by the data's mean",
        "one user's reward moves everybody's contribution",
        (
            "central/feature_release.py",
            "            sums += self.mechanism.mechanism.encode(phi[used], centred",
            "            centred = centred - (centred.mean() if len(centred) else 0.0)\n"
            "            sums += self.mechanism.mechanism.encode(phi[used], centred",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "range of scores halved",
        "explore-then-commit draws answers with half the noise",
        (
            "central/logged/calibration.py",
            "span = 2 * self.rounds_per_user * int(",
            "span = self.rounds_per_user * int(",
        ),
        tests="tests/central/logged/test_sensitivities.py",
    ),
    _bug(
        "caps of cells removed",
        "explore-then-commit's sums hold rewards above the cap of their cell",
        (
            "central/logged/sums.py",
            "parts = np.clip(values, -limit, limit).ravel()",
            "parts = (values + 0.0 * limit).ravel()",
        ),
        tests="tests/central/logged/test_sensitivities.py tests/central/logged/test_policy.py",
    ),
    _bug(
        "function release at half the noise",
        "explore-then-commit publishes with noise for half of what one user can move",
        (
            "central/logged/publish.py",
            "return 2.0 * self.rounds_per_user * float((caps * norms).max())",
            "return self.rounds_per_user * float((caps * norms).max())",
        ),
        tests="tests/central/logged/test_sensitivities.py",
    ),
    # -- other libraries' calls ---------------------------------------------------------------------
    _bug(
        "a clone has a promise of its own",
        "scikit-learn: cross-validation releases the same people's data once a fold",
        (
            "adapters/sklearn.py",
            'copied.__dict__["_release"] = self._shared()',
            'copied.__dict__["_release"] = _OneRelease()',
        ),
        tests="tests/adapters/test_sklearn.py",
    ),
    _bug(
        "a cloned ledger",
        "scikit-learn: every clone pays from an account of its own",
        (
            "adapters/sklearn.py",
            "copied = type(self)(**self.get_params(deep=False))",
            "copied = type(self)(**{**self.get_params(deep=False), 'ledger': None, 'account': None})",
        ),
        tests="tests/adapters/test_sklearn.py",
    ),
    _bug(
        "rewards of fewer people than were decided for",
        "MABWiser: one person's missing row hands the next one's reward to that round",
        (
            "adapters/mabwiser.py",
            "if len(rows) != len(self._waiting):",
            "if len(rows) > len(self._waiting):",
        ),
        ("adapters/mabwiser.py", "zip(rows, waiting, strict=True)", "zip(rows, waiting, strict=False)"),
        tests="tests/adapters/test_mabwiser.py",
    ),
    _bug(
        "a study on disk",
        "Optuna: raw rewards are stored in plain text beside the policy",
        (
            "adapters/optuna.py",
            'if type(trial.storage).__name__ != "InMemoryStorage":',
            'if type(trial.storage).__name__ == "":',
        ),
        tests="tests/adapters/test_optuna.py",
    ),
    # -- the law of the noise ----------------------------------------------------------------------
    _bug(
        "scale from the wrong root",
        "a discrete Gaussian at 1/sqrt(2) of the scale that its certificate needs",
        (
            "privacy/calibration.py",
            "math.sqrt(2.0 * zcdp_rho(epsilon, delta))",
            "math.sqrt(4.0 * zcdp_rho(epsilon, delta))",
        ),
        tests="tests/privacy/test_noise.py",
    ),
    _bug(
        "permute-and-flip at half the scale",
        "an answer loses twice the promised epsilon",
        (
            "privacy/selection.py",
            'rate = Fraction(_checks.number(epsilon, name="epsilon"))',
            'rate = 2 * Fraction(_checks.number(epsilon, name="epsilon"))',
        ),
        tests="tests/privacy/test_selection.py",
    ),
    _bug(
        "own-bin noise",
        "a device reports noise in its own bin only, which names the bin",
        (
            "privacy/reports/signed.py",
            "nonzero = draws < np.uint64(2 * self._theta)\n",
            "nonzero = np.zeros(self.n_cells, dtype=np.bool_)\n",
        ),
        tests="tests/privacy/test_frequency_mechanisms.py tests/reproduction/test_own_bin_noise.py",
    ),
    _bug(
        "own-bin Laplace noise",
        "the same for the two sums of Ma2025",
        (
            "privacy/reports/laplace.py",
            "entries = noise[0] - noise[1]\n",
            "entries = noise[0] - noise[1]\n        entries[np.arange(2 * self.n_cells) // 2 != cell] = 0\n",
        ),
        tests="tests/privacy/test_frequency_mechanisms.py",
    ),
    _bug(
        "noise reused",
        "prepared noise is handed out twice",
        ("privacy/noise.py", "block = pool.pop()\n", "block = pool[-1]\n"),
        tests="tests/privacy/test_noise.py",
    ),
    _bug(
        "noise of all blocks alike",
        "every release carries the first release's noise",
        (
            "privacy/noise.py",
            "key = np.random.SeedSequence([_SIMULATED_STREAM, self.seed, self.position])",
            "key = np.random.SeedSequence([_SIMULATED_STREAM, self.seed, 0])",
        ),
        tests="tests/contracts/test_releases.py",
    ),
    _bug(
        "noise shared with a forked child",
        "two processes release with the same prepared noise",
        (
            "privacy/noise.py",
            "    for source in list(_LIVING.values()):\n        source._start_empty()\n",
            "    for source in list(_LIVING.values()):\n        source._lock = threading.Lock()\n"
            "        source._process = os.getpid()\n",
        ),
        tests="tests/privacy/test_noise.py",
    ),
    # -- who is in which statistic -----------------------------------------------------------------
    _bug(
        "blocks counted by tells",
        "a block is the first rewards that came, so a missing one shifts everyone behind it",
        (
            "policy/bookkeeping.py",
            "rounds, status = np.arange(start, stop), self._status[start:stop]",
            "told = np.flatnonzero(self._status[: self.asked] == RoundStatus.TOLD)\n"
            "        rounds = told[told >= self._first_open][: stop - start]\n"
            "        status = self._status[rounds]",
        ),
        tests="tests/policy/test_bookkeeping.py tests/contracts/test_neighbours.py",
    ),
    _bug(
        "releases timed by tells",
        "a block is released when enough rewards came, so its time depends on one of them",
        (
            "central/gp_bandit.py",
            "        return block < self._deadlines.due(self._book.asked)\n",
            "        return block < self._deadlines.due(self._book.asked - len(self._book.pending))\n",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "late rewards counted",
        "a reward enters after its block was released",
        (
            "policy/bookkeeping.py",
            "status[status == RoundStatus.PENDING] = RoundStatus.MISSED\n",
            "status[status == RoundStatus.PENDING] = RoundStatus.PENDING\n",
        ),
        tests="tests/contracts/test_neighbours.py tests/policy/test_bookkeeping.py",
    ),
    _bug(
        "users not counted",
        "a user takes part more often than the noise covers",
        (
            "policy/bookkeeping.py",
            "any(had(user) + rounds > limit for",
            "any(rounds > limit for",
        ),
        tests="tests/policy/test_bookkeeping.py tests/contracts/test_asking_and_telling.py",
    ),
    _bug(
        "one that was refused, forgotten",
        "after a crash a round that could not be answered takes a reward, and counts",
        (
            "policy/bookkeeping.py",
            "pack_one_ask(self.asked, digests, action, refused=refused)",
            "pack_one_ask(self.asked, digests, action, refused=False)",
        ),
        tests="tests/central/test_live_folder.py::test_a_round_that_was_refused_alone_is_refused_after_a_crash",
    ),
    _bug(
        "one that was refused, in the store",
        "where several processes answer, a round that could not be answered takes a reward",
        (
            "service/engines.py",
            "np.where(refused, _REFUSED, _PENDING).tolist()",
            "np.where(refused, _PENDING, _PENDING).tolist()",
        ),
        tests="tests/service/test_workers.py::test_a_round_that_was_refused_has_no_reward_in_the_store",
    ),
    _bug(
        "rows of the caller's",
        "what is written into a caller's array after it was looked at enters the book: rounds of others fail",
        (
            "policy/rounds.py",
            '(candidates, name="candidates").copy(), self',
            '(candidates, name="candidates"), self',
        ),
        tests="tests/contracts/test_asking_and_telling.py::test_what_was_looked_at_is_what_is_chosen_from",
    ),
    _bug(
        "half a box is looked at",
        "rows beyond a public bound, or that are no numbers, enter the book: releases of others fail",
        ("domains/box.py", " and array.item(array.argmax()) <= high)", ")"),
        tests="tests/domains/test_box.py",
    ),
    _bug(
        "a turn in what was closed",
        "a policy that another process may have taken up goes on answering",
        ("state/holder.py", "before is None and (holder._closed or holder", "before is None and (holder"),
        tests="tests/central/test_live_folder.py",
    ),
    _bug(
        "a turn after another copy's",
        "two copies of one policy go on, and each releases",
        ("state/holder.py", " or holder._ledger is not None or holder._noted", " or holder._noted"),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "a turn that finishes nothing",
        "what was noted and interrupted is forgotten: a round that was answered is given to somebody else",
        ("state/holder.py", " or holder._noted is not None):", "):"),
        tests="tests/central/test_live_folder.py",
    ),
    _bug(
        "a turn that forgets what interrupted it",
        "what was noted and interrupted is forgotten: a round that was answered is given to somebody else",
        (
            "state/holder.py",
            "                holder._thread = before\n",
            "                holder._thread = before\n                holder._noted = None\n",
        ),
        tests="tests/central/test_live_folder.py",
    ),
    _bug(
        "an id that was told is told again",
        "a second reward for the last round counts",
        (
            "policy/bookkeeping.py",
            "            index = self._round_of(decision_id)\n        if not _OPEN",
            "            index = self._round_of(decision_id)\n            issued = None\n"
            "        if issued is None and not _OPEN",
        ),
        tests="tests/policy/test_bookkeeping.py",
    ),
    _bug(
        "a bad set takes no round",
        "what one user brings decides whether all who follow move up",
        (
            "policy/rounds.py",
            "        digests = self._admit(len(rows), users, at, batch=True)\n"
            "        refused = self._outside(rows) if unreadable is None else unreadable\n",
            "        refused = self._outside(rows) if unreadable is None else unreadable\n"
            "        if refused.all():\n"
            "            self.domain.validate(rows)\n"
            "        digests = self._admit(len(rows), users, at, batch=True)\n",
        ),
        (
            "policy/rounds.py",
            "        digests = self._admit(1, users, at)\n"
            "        refused = not self.domain.encloses(rows) if unreadable is None else unreadable\n",
            "        refused = not self.domain.encloses(rows) if unreadable is None else unreadable\n"
            "        if refused:\n"
            "            self.domain.validate(rows)\n"
            "        digests = self._admit(1, users, at)\n",
        ),
        tests="tests/contracts/test_asking_and_telling.py tests/contracts/test_neighbours.py",
    ),
    _bug(
        "an unreadable context takes no round",
        "what one person's context says decides whether all who follow move up",
        (
            "policy/rounds.py",
            "        point = menu.point(brought)\n",
            "        point = menu.encode([brought])[0]\n",
        ),
        tests="tests/contracts/test_contexts_and_arms.py",
    ),
    _bug(
        "an unreadable context is refused with all of its batch",
        "what one person's context says decides whether the others are answered",
        (
            "tables/menu.py",
            "points = _untold(self.contexts.points, table)",
            "points = _untold(self.contexts.encode, table)",
        ),
        tests="tests/contracts/test_contexts_and_arms.py",
    ),
    _bug(
        "a published function holds what has not been released",
        "rewards leave without noise",
        (
            "central/gp_bandit.py",
            "            posterior=law,\n            weight_variance",
            "            posterior=law.given(\n"
            "                [np.zeros((high - low,) * 2) for low, high in self.features.supports],\n"
            "                np.full(self.features.n_features, float(self._book.asked)),\n"
            "                reward_variance=REWARD_VARIANCE,\n"
            "            ),\n            weight_variance",
        ),
        tests="tests/central/test_published_posterior.py",
    ),
    _bug(
        "a bad reward keeps others out",
        "one reward off the range, and nobody's in the batch counts",
        (
            "policy/rounds.py",
            "values, usable = self.reward_range.within(told)",
            "values, usable = self.reward_range.within(told)\n        usable = usable & usable.all()",
        ),
        tests="tests/contracts/test_asking_and_telling.py",
    ),
    _bug(
        "a refused round is counted",
        "the public point that stood in for a bad decision set enters the sums",
        (
            "policy/bookkeeping.py",
            "    becomes[:, RoundStatus.REFUSED] = RoundStatus.REFUSED\n",
            "    becomes[1::2, RoundStatus.REFUSED] = RoundStatus.TOLD\n",
        ),
        tests="tests/contracts/test_asking_and_telling.py tests/policy/test_bookkeeping.py",
    ),
    _bug(
        "ids by their type",
        "51624 and '51624' are two persons, with twice the rounds",
        (
            "policy/bookkeeping.py",
            "return self.digests_of([_checks.person(user) for user in users])",
            'return self.digests_of([f"{type(user).__name__}:{_checks.person(user)}" for user in users])',
        ),
        tests="tests/policy/test_bookkeeping.py tests/contracts/test_asking_and_telling.py",
    ),
    _bug(
        "surplus rows kept",
        "a user's rows beyond those that the noise covers are learned from",
        (
            "central/logged/rows.py",
            "kept = first_rows(owners.numbers, self.rules.rounds_per_user, had)",
            "kept = first_rows(owners.numbers, self.rules.horizon, had)",
        ),
        tests="tests/central/logged/test_policy.py tests/contracts/test_contexts_instead_of_candidates.py",
    ),
    _bug(
        "unreadable rows leave their place",
        "whether a row could be read decides whose row is the last that counts",
        (
            "central/logged/rows.py",
            "kept = self._kept(owners, len(cells), had=self._users.had(digests))",
            "kept = self._kept(owners, len(cells), had=self._users.had(digests)) & readable",
        ),
        tests="tests/central/logged/test_policy.py tests/central/logged/test_logged_table.py",
    ),
    _bug(
        "scale by the rows that came",
        "the printed scale says how many rows of a log were dropped",
        (
            "central/logged/logged_table.py",
            "            horizon=horizon,\n            privacy=privacy,",
            '            horizon=int(np.isfinite(self.rows["rewards"]).sum()),\n            privacy=privacy,',
        ),
        tests="tests/central/logged/test_logged_table.py",
    ),
    _bug(
        "encoding by who reported",
        "features are computed in a product whose shape, and rounding, says how many reported",
        (
            "central/feature_release.py",
            "support, phi = self.features.placed(actions[part], through=in_fixed_shapes)\n",
            "support, phi = self.features.placed(actions[part])\n"
            "            phi[told[part]] = self.features.placed(actions[part][told[part]]).phi\n",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "supports not checked",
        "a row that names no support counts in none, and its reward vanishes from the sums without a word",
        (
            "privacy/gram_vector.py",
            "not ((support >= 0) & (support < len(self.ranges))).all()",
            "False",
        ),
        tests="tests/privacy/test_mechanisms.py",
    ),
    _bug(
        "seed stream shifted by ties",
        "a tie in one user's decision set moves the public draws of all later ones",
        (
            "central/kinds.py",
            "        return best_choice(scores, ties, available), None\n",
            "        best = scores == scores.max(axis=1, keepdims=True)\n"
            "        shift = self._tied = getattr(self, '_tied', 0) + int((best.sum(axis=1) > 1).sum())\n"
            '        ties = coins.uniform("ties", start + shift, start + shift + n_sets, 1)[:, 0]\n'
            "        return best_choice(scores, ties, available), None\n",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "coins drawn in order",
        "a public draw depends on how many came before it, not on its round",
        (
            "policy/coins.py",
            "            stream.advance((first - position) * steps)\n",
            "            stream.advance(0)\n",
        ),
        tests="tests/policy/test_coins.py",
    ),
    # -- people who are asked for one at a time, and features that are for scores alone -------------
    _bug(
        "an answer by the open block",
        "whoever is asked for alone is answered by rewards that no release has covered with noise",
        (
            "central/gp_bandit.py",
            "        return self._kind.choose_one(self._posterior, candidates, start, self._coins), None\n",
            "        first = (0, *self.blocks)[self._past.count]\n"
            "        actions, rewards, told, _ = self._book.block(first, start)\n"
            "        phi = self.features(actions[told])\n"
            "        pull = phi.T @ self.reward_range.to_centred(rewards[told])\n"
            "        law = self._posterior.given([phi.T @ phi], pull, reward_variance=REWARD_VARIANCE)\n"
            "        return self._kind.choose_one(law, candidates, start, self._coins), None\n",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "an answer's coins by who reported",
        "whoever is asked for alone gets the coins of another round when somebody's reward did not come",
        (
            "central/gp_bandit.py",
            "        return self._kind.choose_one(self._posterior, candidates, start, self._coins), None\n",
            "        start -= len(self._book.pending)\n"
            "        return self._kind.choose_one(self._posterior, candidates, start, self._coins), None\n",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "ties of many rounds by one coin",
        "whoever is asked for alone, among rows that tie, gets what the others of 32 rounds get",
        ("central/kinds.py", "lambda: drawn.ties.item(place))", "lambda: drawn.ties.item(0))"),
        tests="tests/central/test_gp_bandit.py",
    ),
    _bug(
        "arms that may not be given, to one alone",
        "whoever is asked for alone gets an arm that was said not to be available",
        (
            "central/gp_bandit.py",
            "self._posterior is None or available is not None or not",
            "self._posterior is None or not",
        ),
        tests="tests/contracts/test_contexts_and_arms.py",
    ),
    _bug(
        "features for scores in a release",
        "what a user becomes on the lattice is rounded as scores are, by the shape of the block",
        (
            "central/feature_release.py",
            "self.features.placed(actions[part], through=in_fixed_shapes)\n",
            "self.features.placed(actions[part], through=lambda own, some: own.of_known(some))\n",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "every release by features for scores",
        "sums that leave are of vectors that were meant for scores: not cut, rounded another way",
        (
            "models/features/base.py",
            "phi[start : start + count] = features(rows)[:count]",
            "phi[start : start + count] = features.of_known(rows)[:count]",
        ),
        tests="tests/models/test_features.py",
    ),
    # -- budget, durability, copies ----------------------------------------------------------------
    _bug(
        "ledger charge skipped",
        "a policy answers without paying",
        (
            "policy/rounds.py",
            "            self._holder.charge(cost=",
            "            (lambda **_: None)(cost=",
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "budget counted after release",
        "explore-then-commit draws and keeps an answer before the ledger agrees",
        (
            "central/logged/policy.py",
            '        self._spend("answer", number - 1)\n',
            "",
        ),
        (
            "central/logged/policy.py",
            "        return Answer(index, self.actions.points[index], number, label)\n",
            '        self._spend("answer", number - 1)\n'
            "        return Answer(index, self.actions.points[index], number, label)\n",
        ),
        tests="tests/central/logged/test_policy.py",
    ),
    _bug(
        "answers not kept",
        "an answer leaves before its number is on disk, and is drawn again after a crash",
        (
            "central/logged/policy.py",
            "        self._answered = number\n        self._holder.commit()\n",
            "        self._answered = number\n",
        ),
        tests="tests/central/logged/test_policy.py",
    ),
    _bug(
        "release used before it is kept",
        "a policy answers by a release that a crash would draw again",
        (
            "policy/rounds.py",
            "        self._holder.commit()\n        self._fit()\n",
            "        self._fit()\n",
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "forked state accepted",
        "two copies of one state go on, and release twice",
        (
            "state/witness.py",
            "if last is None or new == last or new.position == last.position + 1:",
            "if last is None or new == last or new.position >= last.position:",
        ),
        tests="tests/budget/test_ledger.py",
    ),
    _bug(
        "witness forgotten at load",
        "a state that a ledger witnessed is taken up without it, beside the one that goes on",
        ("state/holder.py", "        if witnessed and ledger is None:\n", "        if False:\n"),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "taken up and not taken over",
        "a copy and the original both answer until one of them releases",
        (
            "policy/kept.py",
            "        policy._charge()\n        policy._holder.take_over()\n        return policy\n",
            "        policy._charge()\n        return policy\n",
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "release not logged",
        "a state does not know on which terms its blocks were released",
        ("central/gp_bandit.py", "        self._enter_release(use, block)\n", ""),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "log not held against the configuration",
        "a release with a hundredth less noise than is promised is taken up",
        (
            "privacy/release_terms.py",
            'or not float(entry["scale"]) >= needed["scale"] * (1.0 - _ROUNDING)',
            'or not float(entry["scale"]) > 0.0',
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "simulated past forgotten",
        "a release whose noise can be repeated is called enforced",
        (
            "central/statement.py",
            'status="simulated" if any(one["status"] == "simulated" for one in past) else noise.status,',
            "status=noise.status,",
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "answered before it is on disk",
        "a decision that has left is asked again after a crash, and its user counted anew",
        (
            "policy/bookkeeping.py",
            "self.before(round_log.ASK, round_log.pack_ask(self.asked, digests, actions, refused))",
            "pass",
        ),
        tests="tests/central/test_live_folder.py",
    ),
    _bug(
        "tell counted twice",
        "a reward that the state has already is learned from again when its folder is opened",
        (
            "policy/bookkeeping.py",
            "fresh = _IS_OPEN[self._status[rounds]]",
            "fresh = np.ones(len(rounds), dtype=np.bool_)",
        ),
        tests="tests/central/test_live_folder.py",
    ),
    _bug(
        "two copies under one number",
        "two processes that took up one state both answer, and pay once",
        (
            "state/holder.py",
            'mark = {"commit": secrets.token_hex(16)}',
            'mark = {"commit": ""}',
        ),
        tests="tests/central/test_durable_guards.py",
    ),
    _bug(
        "report re-randomised on retry",
        "a device that sends again draws again, and pays once",
        (
            "local/device/client.py",
            "if last.kept:",
            "if False:",
        ),
        (
            "local/device/client.py",
            "last.choice = None  # the private data is no longer needed",
            "pass",
        ),
        (
            "local/device/client.py",
            "if last.choice is not None and not last.report:",
            "if True:",
        ),
        tests="tests/local/test_client_and_outbox.py",
    ),
    _bug(
        "report sent before it is stored",
        "a device that crashes after sending reports the same choice again",
        (
            "local/device/client.py",
            "        self._outbox.put(last.nonce.hex(), last.report)\n",
            "",
        ),
        tests="tests/local/test_client_and_outbox.py",
    ),
    _bug(
        "curator answers twice",
        "a row is noised and answered anew whenever it is asked for",
        (
            "outsourced/curator/curator.py",
            "            value = log.get(published.number(row))\n",
            "            value = log.get(published.number(row))\n"
            '            if value is not None and self._public["answers"]["type"] != "public":\n'
            '                noise = AnswerLaplace.from_config(self._public["answers"])\n'
            "                exact = np.array([self._evaluate(published.number(row), self._objective)])\n"
            "                value = float(noise.privatize(exact, self._noise, position=999)[0])\n",
        ),
        tests="tests/outsourced/test_curator.py",
    ),
    _bug(
        "release drawn before it is paid",
        "noise for a release that the population's budget does not cover",
        (
            "outsourced/curator/curator.py",
            "                    self._pay()\n                    self._draw()\n",
            "                    self._draw()\n                    self._pay()\n",
        ),
        tests="tests/outsourced/test_curator.py tests/outsourced/test_secret_side.py",
    ),
    _bug(
        "rows in the table's order",
        "a released row can be told by its place",
        (
            "outsourced/scaling.py",
            "order = _permutation(len(self.points), words_of(noise, stream=3))",
            "order = np.sort(_permutation(len(self.points), words_of(noise, stream=3)))",
        ),
        tests="tests/outsourced/test_curator.py",
    ),
    _bug(
        "answers of a copy accepted",
        "two copies of a secret directory answer one row differently",
        (
            "state/journal.py",
            "        if before == here or last != Witness(before.records, before.digest.hex()):\n"
            "            raise self._forked()\n",
            "        if last.position >= here.records:\n            return\n",
        ),
        tests="tests/state/test_journal.py tests/outsourced/test_secret_side.py",
    ),
    _bug(
        "record written over another process's",
        "a log loses an answer that has left, and its row is answered anew",
        (
            "state/journal.py",
            "            if size != self._mark.length:\n",
            "            os.ftruncate(descriptor, self._mark.length)\n            if False:\n",
        ),
        tests="tests/state/test_journal.py",
    ),
    _bug(
        "a record in a log that was moved away",
        "another file stands in the place of a policy's log, and what is acknowledged goes to the old one",
        (
            "state/journal.py",
            "            if (status.st_dev, status.st_ino) == self._file.identity:\n",
            "            if status.st_size:\n",
        ),
        tests="tests/state/test_journal.py",
    ),
    _bug(
        "answered row taken from a broken log",
        "a log that answers a row twice goes on without the rows behind it",
        (
            "outsourced/curator/answers.py",
            "                self._unsound = True  # permanent, as the journal returns each record once\n",
            "",
        ),
        tests="tests/outsourced/test_curator.py",
    ),
    _bug(
        "releases in other features",
        "a state goes on with features that another processor turned, and every prediction is wrong",
        ("policy/rounds.py", "            self.features = self.features.in_basis(basis)\n", ""),
        tests="tests/central/test_another_processor.py",
    ),
    _bug(
        "any features taken up",
        "a state that was edited goes on with a map longer than its scale says",
        ("models/features/mercer.py", "np.abs(turned).max()) <= TURNED:", "np.abs(turned).max()) >= 0.0:"),
        tests="tests/central/test_another_processor.py",
    ),
    _bug(
        "the shortest row speaks for all",
        "features of a point beside a short one are longer than their sensitivity says",
        ("models/features/mercer.py", ".max() <= SURELY_SHORT", ".min() <= SURELY_SHORT"),
        tests="tests/models/test_features.py",
    ),
    _bug(
        "nearly short is short",
        "features a little longer than one are not cut, and their sensitivity is more than is said",
        ("models/features/mercer.py", "SURELY_SHORT = 1.0 - 2.0**-35", "SURELY_SHORT = 1.0 + 2.0**-35"),
        tests="tests/models/test_features.py",
    ),
    # -- the command line --------------------------------------------------------------------------
    _bug(
        "a retry is another charge",
        "learn: an interrupted run is charged once more when it is repeated",
        (
            "central/logged/once.py",
            'charge = f"{work.purpose}:{run.name}"',
            'charge = f"{work.purpose}:{secrets.token_hex(16)}"',
        ),
        tests="tests/cli/test_central_commands.py",
    ),
    _bug(
        "evaluated numbers that are not cut",
        "evaluate: a term beyond its bound moves the sums by more than the noise covers",
        (
            "privacy/moments.py",
            "np.rint(np.clip(values, -0.5, 0.5) * 2.0**self.bits)",
            "np.rint(values * 2.0**self.bits)",
        ),
        ("privacy/moments.py", "        cut = np.clip(cut, -half, half)\n", ""),
        tests="tests/privacy/test_moments.py::test_values_outside_are_cut_and_nan_is_refused",
    ),
    _bug(
        "an inverse propensity that is not cut",
        "evaluate: weights above the stated bound, which the statement says are cut",
        (
            "central/logged/terms.py",
            "np.minimum(1.0 / chance[some], self.largest_weight)",
            "1.0 / chance[some]",
        ),
        tests="tests/central/logged/test_evaluation.py",
    ),
    _bug(
        "an inverse propensity that is not cut in an engine",
        "evaluate: an engine's weights above the stated bound, which the statement says are cut",
        (
            "central/logged/terms_engine.py",
            "THEN least(1e0 / dpb_chance, {double(most)})",
            "THEN 1e0 / dpb_chance",
        ),
        tests="tests/central/logged/test_evaluation_engine.py::test_an_engine_adds_up_what_numpy_does",
    ),
    _bug(
        "an evaluated person for each row in an engine",
        "evaluate: a person with several rows moves an engine's sums several times",
        (
            "central/logged/terms_engine.py",
            "rules.rows_per_user is not None and rules.rows_per_user > 1",
            "False",
        ),
        tests="tests/central/logged/test_evaluation_engine.py::test_an_engine_adds_up_what_numpy_does",
    ),
    _bug(
        "an engine that decides by another column",
        "evaluate: an engine values the decisions of another policy than the published one",
        (
            "central/logged/terms_engine.py",
            "held = cell(name, ",
            "held = cell(rules.menu.contexts.names[0], ",
        ),
        tests="tests/central/logged/test_evaluation_engine.py::test_an_engine_adds_up_what_numpy_does",
    ),
    _bug(
        "an interval without the noise",
        "evaluate: intervals of a private value hold sampling only, and miss the truth far too often",
        (
            "central/logged/evaluation.py",
            "sd, scales = np.sqrt(sampling), np.abs(parts) / math.sqrt(2.0)",
            "sd, scales = np.sqrt(sampling), 0.0 * parts",
        ),
        tests="tests/central/logged/test_evaluation.py::test_values_and_differences_are_consistent_and_carry_the_noise",
    ),
    _bug(
        "a readout without the noise",
        "readout: intervals against the control group leave out the noise, and miss the truth far too often",
        (
            "models/readout/estimates.py",
            "return np.asarray(self.per_sum * self.laplace)",
            "return np.asarray(0.0 * self.per_sum * self.laplace)",
        ),
        tests="tests/models/test_readout.py",
    ),
    _bug(
        "who returns counts as another user",
        "readout: a user's rounds in several looks count as independent, and intervals are too narrow",
        (
            "models/readout/estimates.py",
            " + 2.0 * self.per_sum * largest * self.overlap",
            " + 0.0 * self.per_sum * largest * self.overlap",
        ),
        tests="tests/models/test_readout.py",
    ),
    _bug(
        "answers that no noise is for",
        "readout: an answer moves the sums by more than the sensitivity from which their noise is computed",
        (
            "central/readout/lattice.py",
            "first = own + 0.5 * A + squared + rounding",
            "first = own + squared + rounding",
        ),
        tests="tests/central/readout/test_lattice_and_budget.py::"
        "test_replacing_one_user_moves_the_integers_by_at_most_the_sensitivity",
    ),
    _bug(
        "one number's noise for all values",
        "evaluate: a person moves the arm's value, the policy's and the difference, with noise for one",
        (
            "privacy/moments.py",
            "return float(numbers * (1 << bits))",
            "return float(1 << bits)",
        ),
        tests="tests/privacy/test_moments.py",
    ),
    _bug(
        "a count that is not free",
        "evaluate: a person's weight in the count is more than the noise on sums and squares hides",
        (
            "privacy/moments.py",
            "return self.numbers * steps // 4",
            "return self.numbers * steps // 2",
        ),
        tests="tests/privacy/test_moments.py",
    ),
    _bug(
        "an evaluated person for each row",
        "evaluate: a person with several rows moves the sums several times",
        (
            "central/logged/terms.py",
            "        if self.rows_per_user is None:\n            return terms\n",
            "        if self.rows_per_user is None or terms.size:\n            return terms\n",
        ),
        tests="tests/central/logged/test_evaluation.py",
    ),
    _bug(
        "any run may finish another",
        "learn: another table takes up the folder and the charge of a run that was begun",
        (
            "central/logged/once.py",
            "elif not secrets.compare_digest(",
            "elif False and not secrets.compare_digest(",
        ),
        tests="tests/cli/test_central_commands.py",
    ),
    _bug(
        "a lost release is drawn again",
        "learn: whoever removes the published folder gets fresh noise for the same charge",
        (
            "central/logged/once.py",
            "if run.release or (ledger is not None and ledger.last(run.name) is not None):",
            "if False and run.release:",
        ),
        (
            "central/logged/once.py",
            "        _known(released, run)\n        if ledger is not None:\n",
            "        if ledger is not None and not run.release:\n",
        ),
        tests="tests/cli/test_central_commands.py",
    ),
    _bug(
        "rows outside the fingerprint",
        "learn: the same options on a changed table pass for the same run",
        (
            "central/logged/rows.py",
            "for name, values in sorted(rows.items()):",
            "for name, values in sorted(rows.items())[:0]:",
        ),
        tests="tests/cli/test_central_commands.py",
    ),
    _bug(
        "a manifest that nobody reads",
        "predict: a function goes under another release's statement",
        (
            "central/logged/published_table.py",
            "if _manifest(files) != manifest:",
            "if not files:",
        ),
        tests="tests/cli/test_central_commands.py",
    ),
    _bug(
        "defects tell what they held",
        "the command line prints the text of an unforeseen exception",
        (
            "cli/console.py",
            'f"a defect of dpbandits, in {_place(error)}.',
            'f"a defect of dpbandits, {error}, in {_place(error)}.',
        ),
        tests="tests/cli/test_mistakes.py::test_a_defect_is_one_line_without_its_text_and_says_where",
    ),
    _bug(
        "the group may write",
        "a ledger that a group can write to is opened",
        ("state/files.py", "if mode & (stat.S_IWGRP | stat.S_IWOTH)", "if mode & stat.S_IWOTH"),
        tests="tests/state/test_files_of_others.py",
    ),
    _bug(
        "a folder of others",
        "an outbox lies where others can put another in its place",
        (
            "state/files.py",
            "mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & excused",
            "mode & 0o022 and not excused",
        ),
        tests="tests/state/test_files_of_others.py",
    ),
    _bug(
        "NA is a person",
        "all rows without an id belong to one user called NA",
        (
            "_cells.py",
            '{"", "na", "<na>", "nan", "nat", "none", "null", "n/a", "-nan"}',
            '{"", "nan", "null"}',
        ),
        tests="tests/tables/test_table_files.py",
    ),
    _bug(
        "every row another person",
        "run: rows of one person are asked about under different names",
        (
            "lab/evaluation/runner.py",
            "if told is None else told(start, stop)",
            "if told is None or told is not None else told(start, stop)",
        ),
        tests="tests/lab/test_table_study.py",
    ),
    # -- what a restart takes up, and what it forgets --------------------------------------------------------
    _bug(
        "a restart leaves one round to a user",
        "whoever had many rounds before a restart is counted as having had one",
        (
            "policy/bookkeeping.py",
            "counts = np.array(arrays[taken], dtype=np.int64)",
            "counts = np.minimum(np.array(arrays[taken], dtype=np.int64), 1)",
        ),
        tests="tests/policy/test_bookkeeping.py::test_rounds_of_a_person_are_counted_over_a_restart",
    ),
    _bug(
        "ids go on after a crash",
        "a decision id that was lost in a crash names the round that took its place: a reward goes to"
        " another person's round",
        (
            "policy/bookkeeping.py",
            "self._epoch_nonces = [*nonces, secrets.token_hex(4)]",
            "self._epoch_nonces = [*nonces, nonces[-1]]",
        ),
        tests="tests/policy/test_bookkeeping.py::test_a_restored_book_goes_on_and_disowns_ids_it_never_saved",
    ),
    _bug(
        "restored mechanism keeps fresh noise",
        "after a load blocks are drawn from the beginning of the stream: the same noise twice",
        (
            "central/gp_bandit.py",
            "self._kind.features, self._kind.noise = self.features, self.noise\n",
            "self._kind.features = self.features\n",
        ),
        tests="tests/contracts/test_saving.py::test_a_restored_run_is_the_uninterrupted_run",
    ),
    _bug(
        "a shard forgets its parts when read",
        "a shard read from a file twice is merged twice: every row in it counts twice",
        (
            "central/logged/rows.py",
            "self._users, self._parts, self._left_out = users, parts, left_out",
            "self._users, self._left_out = users, left_out",
        ),
        tests="tests/central/logged/test_attacks.py::test_a_shard_counts_once",
    ),
    _bug(
        "a merged shard's parts forgotten",
        "a shard merged once is merged again: every row in it counts twice",
        (
            "central/logged/rows.py",
            "        self._parts |= other._parts\n",
            "",
        ),
        tests="tests/central/logged/test_attacks.py::test_a_shard_counts_once",
    ),
    _bug(
        "restored caps of another use",
        "after a load on another machine the release is calibrated to the caps of answers",
        (
            "central/logged/calibration.py",
            "replace(release.plan, caps=caps[-1] * REWARD_UNIT)",
            "replace(release.plan, caps=caps[0] * REWARD_UNIT)",
        ),
        tests="tests/central/logged/test_attacks.py::test_sensitivities_after_a_restart"
        "_are_those_of_the_caps_that_rows_were_cut_at",
    ),
    _bug(
        "a first save that failed is forgotten",
        "the ledger has witnessed a state that is nowhere, and releases leave unsaved",
        (
            "state/holder.py",
            "self._store = self._store if before is None else before",
            "self._store = before",
        ),
        tests="tests/state/test_holder.py::test_a_failed_first_save_lets_nothing_leave_until_one_succeeds",
    ),
    _bug(
        "any ledger may adopt a state",
        "a state that one ledger witnesses goes on at another as well: both copies release",
        (
            "state/holder.py",
            'return isinstance(promise, dict) and promise.get("witnessed") is True',
            "return False",
        ),
        tests="tests/state/test_holder.py::test_a_witnessed_state_needs_its_ledger",
    ),
    _bug(
        "one step behind is not overtaken",
        "the original goes on beside the copy that was loaded, until that one commits",
        (
            "state/holder.py",
            "last.position > self.position)",
            "last.position > self.position + 1)",
        ),
        tests="tests/state/test_holder.py::test_of_two_that_are_witnessed_the_one_tha"
        "t_was_loaded_last_goes_on",
    ),
    _bug(
        "a bad context leaves the one answer",
        "whoever is answered learns whether the context that came before could be answered",
        (
            "central/published/pavlovic2025.py",
            "            self._answer = cell, cell\n",
            "",
        ),
        tests="tests/central/published/test_pavlovic2025.py::test_a_bad_context_takes_the_one_answer",
    ),
    _bug(
        "answers that nobody times",
        "the statement of answers is silent about the time that they take, which depends on raw scores",
        (
            "central/statement.py",
            "            *([ANSWER_TIMES] if answers is not None else []),\n",
            "",
        ),
        tests="tests/central/test_guarantees.py::test_all_policies_of_the_room_rest_on_one_list",
    ),
    _bug(
        "a prior of any variance",
        "a spec of devices takes numbers that its server's arithmetic overflows on, once people reported",
        (
            "local/contract/gp_spec.py",
            '_checks.scale(self.prior_variance, name="prior_variance", largest=_checks.TUNABLE)',
            '_checks.number(self.prior_variance, name="prior_variance")',
        ),
        tests="tests/local/test_gp_bandits.py::test_a_number_beyond_every_unit_is_refused_at_construction",
    ),
    _bug(
        "a past without a witness called witnessed",
        "releases were made while nothing refused a second copy, and the statement says that something did",
        (
            "central/statement.py",
            'witnessed=holder.witnessed and not holder.adopted and all(one["witnessed"] for one in past),',
            "witnessed=holder.witnessed,",
        ),
        tests="tests/contracts/test_saving.py::test_what_was_released_unseen_stays_un"
        "seen_and_what_was_simulated_stays_simulated",
    ),
    _bug(
        "the log calls every release witnessed",
        "releases without a ledger are logged as if one had refused a second copy",
        (
            "state/holder.py",
            '"charge": paid, "witnessed": self.witnessed}',
            '"charge": paid, "witnessed": True}',
        ),
        tests="tests/contracts/test_saving.py::test_every_release_is_in_the_log_with_its_terms",
    ),
    _bug(
        "logged noise of any scale",
        "a state whose releases had less noise than its configuration asks for is taken up",
        (
            "privacy/release_terms.py",
            '        or not float(entry["scale"]) >= needed["scale"] * (1.0 - _ROUNDING)\n',
            "",
        ),
        tests="tests/contracts/test_saving.py::test_a_release_on_weaker_terms_than_th"
        "e_configuration_promises_is_refused",
    ),
    _bug(
        "logged noise without proof",
        "a state whose releases had no certificate is taken up as proven",
        (
            "privacy/release_terms.py",
            "if needed is None or privacy is None or proven == needed:",
            "if proven is None or needed is None or privacy is None or proven == needed:",
        ),
        tests="tests/contracts/test_saving.py::test_a_release_on_weaker_terms_than_th"
        "e_configuration_promises_is_refused",
    ),
    # -- folders that a policy lives in, and journals --------------------------------------------------------
    _bug(
        "a state older than its log",
        "a state put back from a backup beside its own log draws a block again",
        (
            "state/live.py",
            "if found and found[-1] > position:",
            "if found and found[-1] > position + 1:",
        ),
        tests="tests/central/test_live_folder.py::test_a_state_of_just_before_a_relea"
        "se_is_refused_beside_the_log_after_it",
    ),
    _bug(
        "a log older than its state",
        "an older log is put back beside the state, and rounds that were asked are asked anew",
        (
            "state/live.py",
            "            if not fits:\n                raise CorruptState",
            "            if False:\n                raise CorruptState",
        ),
        tests="tests/central/test_live_folder.py::test_an_older_log_beside_a_newer_state_is_refused",
    ),
    _bug(
        "a folder that is put back",
        "an older copy of a folder is put back, and the ledger that knows better is not believed",
        (
            "state/live.py",
            "        if not fits:\n            raise ForkedState",
            "        if False:\n            raise ForkedState",
        ),
        tests="tests/central/test_live_folder.py::test_a_folder_of_before_its_last_closing_is_refused",
    ),
    _bug(
        "a witness that hears at closings only",
        "whoever stops a server hard can put back a copy of its folder from any time since its last release",
        ("state/live.py", "        if len(journal) - self._told >= WITNESSED_EVERY:", "        if False:"),
        tests="tests/central/test_live_folder.py::test_a_folder_that_lacks_more_than_the_last_calls_is_refused"
        "_though_none_was_closed",
    ),
    _bug(
        "a witness ahead of the disk",
        "a crash at the wrong moment, and the ledger knows of a record that never was: the folder is refused",
        (
            "state/live.py",
            'here = f"{self._position}:{len(journal)}"',
            'here = f"{self._position}:{len(journal) + 1}"',
        ),
        tests="tests/central/test_live_folder.py::test_a_crash_at_any_moment_leaves_a_folder_that_opens",
    ),
    _bug(
        "an earlier state ends the log",
        "a state that a full disk had kept back is written late, and what was told since is forgotten",
        (
            "state/holder.py",
            "        self.position = state.position\n        self._uncommitted = None\n",
            "        self.position = state.position\n        self._uncommitted = None\n"
            "        if self._live is not None:\n            self._live.begin(self.lineage, self.position)\n",
        ),
        tests="tests/central/test_live_folder.py::test_an_earlier_state_that_is_written_late_does_not_end_the_log",
    ),
    _bug(
        "locks that a forked child keeps",
        "a server dies, and a child that it had forked keeps everybody out of its folder",
        ("state/files.py", "        os.close(_LOCKS.popitem()[1])\n", "        _LOCKS.popitem()\n"),
        tests="tests/central/test_live_folder.py::test_a_forked_child_does_not_keep_the_folder_of_a_parent_that_died",
    ),
    _bug(
        "witnessed rounds without a folder",
        "a policy that only saves says that rounds between two releases are witnessed",
        (
            "central/statement.py",
            "witnessed_rounds = setting.live and setting.witnessed",
            "witnessed_rounds = setting.witnessed",
        ),
        tests="tests/central/test_guarantees.py::test_what_a_ledger_does_not_notice_is_listed_as_unchecked",
    ),
    _bug(
        "a lag that a restart forgets",
        "a reward that came too late for its block counts after all once the folder is opened again",
        (
            "policy/bookkeeping.py",
            "        if self.ended is not None:\n            self.end()\n",
            "        if self.ended is not None and self.before is not None:\n            self.end()\n",
        ),
        tests="tests/central/test_releases_beside_answers.py::test_an_opened_folder_ends_blocks_where_they_had_ended",
    ),
    _bug(
        "a log without a state begun anew",
        "a state is deleted, and a new policy begins in its folder with everybody's rounds to spend again",
        (
            "state/live.py",
            "            if _holds_records(path):\n",
            "            if self._journal is not None and _holds_records(path):\n",
        ),
        tests="tests/central/test_live_folder.py::test_a_damaged_folder_is_refused",
    ),
    _bug(
        "a sealed folder's log lies open",
        "asks and rewards of a sealed folder can be read by whoever has the disk",
        (
            "state/live.py",
            "            content = self._key.seal(content, public=_place(subject, len(journal)))\n",
            "",
        ),
        (
            "state/live.py",
            "            if self._key is None:\n                yield record",
            "            if True:\n                yield record",
        ),
        tests="tests/central/test_live_folder.py::test_asks_tells_and_abandons_are_there_without_a_release",
    ),
    _bug(
        "sealed records without their place",
        "sealed rounds can be put in another order by who cannot read them",
        (
            "state/live.py",
            'return f"{subject}:{number}".encode()',
            "return subject.encode()",
        ),
        tests="tests/central/test_live_folder.py::test_sealed_rounds_cannot_change_places",
    ),
    _bug(
        "a hole in a lazy log is its end",
        "one damaged record, and all acknowledged asks and tells behind it are cut off",
        (
            "state/journal.py",
            "followed = self._lazy and _goes_on(file, mark.length, size)",
            "followed = False",
        ),
        tests="tests/state/test_journal.py::test_a_lazy_journal_drops_what_was_never_"
        "whole_and_refuses_what_was",
    ),
    _bug(
        "a journal's records unchained",
        "whoever may write a log may leave out records in its middle, or put them in another order",
        (
            "state/journal.py",
            "digest = hashlib.sha256(self._mark.digest + record).digest()",
            "digest = hashlib.sha256(record).digest()",
        ),
        (
            "state/journal.py",
            "digest = hashlib.sha256(at.digest + head)",
            "digest = hashlib.sha256(head)",
        ),
        tests="tests/state/test_journal.py::test_a_torn_or_garbled_tail_never_counted",
    ),
    _bug(
        "another copy's record taken for the own past",
        "a copy that diverged witnesses its last record on top of another copy's",
        (
            "state/journal.py",
            "if before == here or last != Witness(before.records, before.digest.hex()):",
            "if before == here or last.position != before.records:",
        ),
        tests="tests/state/test_journal.py::test_an_unwitnessed_record_does_not_follow_another_copys_past",
    ),
    _bug(
        "an emptied log begins anew",
        "a log that held answers, cut to its header, counts as never begun",
        (
            "state/journal.py",
            "if begun and _read_end(end, kind) != first:",
            "if begun and _read_end(end, kind).records < 0:",
        ),
        tests="tests/state/test_journal.py::test_a_log_that_held_records_is_not_begun_anew",
    ),
    _bug(
        "a rewritten past of a ledger accepted",
        "a ledger whose charges were rewritten before its last event is told to the witness as sound",
        (
            "budget/sqlite.py",
            "if last is None or last == Witness(book.position - 1, book.previous):",
            "if last is None or last.position == book.position - 1:",
        ),
        tests="tests/state/test_witness.py::test_a_witness_one_behind_must_have_seen_what_came_before",
    ),
    # -- charges, and what one is ----------------------------------------------------------------------------
    _bug(
        "one id for all charges",
        "all answers, or all reports of a device, are one charge: the first one pays for all",
        (
            "state/holder.py",
            'return self.lineage if purpose is None else f"{self.lineage}:{purpose}"',
            "return self.lineage",
        ),
        tests="tests/state/test_holder.py::test_a_purpose_is_charged_once_in_one_life_and_in_the_next",
    ),
    _bug(
        "one answer paid",
        "the first answer pays for all of them",
        (
            "central/logged/policy.py",
            "parts.append((answer, int(budget.answers)))",
            "parts.append((answer, 1))",
        ),
        tests="tests/central/test_durable_guards.py::test_every_use_of_noise_is_in_th"
        "e_log_and_all_of_it_is_charged_by_its_certificates",
    ),
    _bug(
        "saved before it is paid",
        "a policy saved before its first ask says that its account has paid, and nobody ever does",
        (
            "policy/kept.py",
            "        self._charge()  # before saving, so that a later `load` need not know the account\n",
            "",
        ),
        tests="tests/contracts/test_saving.py::test_a_state_saved_before_the_first_ask_is_paid_for",
    ),
    _bug(
        "a folder begun before it is paid",
        "a policy whose process dies before the first ask goes on in its folder unpaid",
        (
            "policy/rounds.py",
            "        self._charge()\n        try:\n            self._holder.bind(live",
            "        try:\n            self._holder.bind(live",
        ),
        tests="tests/central/test_live_folder.py::test_a_folder_is_paid_for_when_it_is_begun",
    ),
    _bug(
        "tables charged under one name",
        "the second table that is learned from is free",
        (
            "central/logged/once.py",
            'charge = f"{work.purpose}:{run.name}"',
            'charge = f"{work.purpose}:{account}"',
        ),
        tests="tests/cli/test_central_commands.py::test_the_ledger_pays_once_for_all_of_it",
    ),
    _bug(
        "simulated charges booked as enforced",
        "an account that paid for repeatable noise is shown as protecting people",
        (
            "budget/costs.py",
            "return cost_of(guarantee.certificate, privacy=definition, status=guarantee.status, unit=unit)",
            "return cost_of(guarantee.certificate, privacy=definition, unit=unit)",
        ),
        tests="tests/contracts/test_saving.py::test_the_budget_is_charged_once_and_before_the_first_answer",
    ),
    _bug(
        "an account forgets simulated charges",
        "one enforced charge, and the account no longer knows that noise before it can be repeated",
        (
            "budget/accountants.py",
            "simulated=self.simulated or other.simulated)",
            "simulated=other.simulated)",
        ),
        tests="tests/budget/test_ledger.py::test_an_account_remembers_that_noise_could_be_repeated",
    ),
    _bug(
        "what is broken has a cost",
        "a refuted mechanism is charged at the price that it was published with",
        (
            "budget/costs.py",
            'if status not in ("enforced", "simulated"):',
            'if status not in ("enforced", "simulated", "broken"):',
        ),
        tests="tests/budget/test_costs.py::test_what_nothing_proves_has_no_cost",
    ),
    _bug(
        "a charge id reused for more",
        "under an id that was charged 0.1 a release of 10 is free",
        (
            "budget/ledger.py",
            "            if earlier == charge:\n",
            "            if earlier is not None and earlier.rho == charge.rho:\n",
        ),
        tests="tests/budget/test_ledger.py::test_repeating_a_charge_is_the_same_charge",
    ),
    _bug(
        "answers' noise unpaid by the curator",
        "an account pays for positions, and noisy answers are free",
        (
            "outsourced/statement.py",
            '        epsilon += privacy.rows_per_user * exact(answers.epsilon, name="epsilon of answers")\n',
            "        epsilon += 0\n",
        ),
        tests="tests/outsourced/test_secret_side.py::test_the_account_pays_for_positions_and_answers",
    ),
    _bug(
        "neighbours not compared",
        "charges that protect a row's move and a person's whole data are added up as one",
        (
            "budget/units.py",
            "        if self == to:\n",
            "        if self.whose == to.whose:\n",
        ),
        tests="tests/budget/test_units.py::test_equal_words_are_one_unit_and_others_are_not",
    ),
    _bug(
        "units are not compared",
        "an account adds up one user's whole contribution and the move of a row, as if they were one loss",
        (
            "budget/units.py",
            "if self.moves is None or to.moves is None or (to.moves.answers and not self.moves.answers):\n"
            "            return None\n",
            "if self.moves is None or to.moves is None:\n            return 1\n",
        ),
        tests="tests/budget/test_units.py::test_every_pair_of_promises_is_converted_exactly_or_refused",
    ),
    _bug(
        "a distance costs what a smaller one does",
        "an account of moves up to 20 pays for a release at distance 1 as if it hid moves up to 20",
        (
            "budget/units.py",
            "        steps = max(1, along) * -(-to.moves.rows // self.moves.rows)\n",
            "        steps = -(-to.moves.rows // self.moves.rows)\n",
        ),
        tests="tests/budget/test_units.py::test_a_curators_release_is_charged_for_the_accounts_neighbours",
    ),
    _bug(
        "a person's rows cost what one row does",
        "an account of persons with three rows pays for a release that protects one row as if it hid three",
        (
            "budget/units.py",
            "        steps = max(1, along) * -(-to.moves.rows // self.moves.rows)\n",
            "        steps = max(1, along)\n",
        ),
        tests="tests/budget/test_units.py::test_every_pair_of_promises_is_converted_exactly_or_refused",
    ),
    _bug(
        "answers move unseen",
        "an account whose neighbours differ in their answers pays for a release with exact answers",
        (
            "budget/units.py",
            " or (to.moves.answers and not self.moves.answers):\n",
            ":\n",
        ),
        (
            "budget/units.py",
            "        if to.moves.answers:\n            along = max",
            "        if to.moves.answers and self.moves.answers:\n            along = max",
        ),
        tests="tests/budget/test_units.py::test_every_pair_of_promises_is_converted_exactly_or_refused",
    ),
    _bug(
        "noised answers are charged as rows alone",
        "a curator's cost does not say that answers may move, and accounts do not see that they may",
        (
            "outsourced/statement.py",
            "        apart = answers.distance\n",
            "        apart = 1e9 * answers.distance\n",
        ),
        tests="tests/budget/test_units.py::test_every_pair_of_promises_is_converted_exactly_or_refused",
    ),
    _bug(
        "rho scales with the distance",
        "a Gaussian release at a third of an account's distance costs a third of what it takes",
        (
            "budget/accounts.py",
            "rho = None if rho is None else times(rho, many * many)",
            "rho = None if rho is None else times(rho, many)",
        ),
        tests="tests/budget/test_units.py::test_what_is_proven_scales_by_group_privacy",
    ),
    _bug(
        "a delta scales with nothing",
        "a promise with a delta is paid at another distance as if group privacy did not raise it",
        (
            "budget/accounts.py",
            "                epsilon = delta = UNKNOWN\n",
            "                epsilon = times(epsilon, many)\n",
        ),
        tests="tests/budget/test_units.py::test_what_is_proven_scales_by_group_privacy",
    ),
    _bug(
        "pure charges before a decision are free",
        "what is proven of everything else is proven at the whole epsilon, beside the pure charges",
        (
            "budget/accounts.py",
            "            left = less(self.terms.epsilon, self.spent.epsilon)\n",
            "            left = self.terms.epsilon\n",
        ),
        (
            "budget/accounts.py",
            "        left = less(self.terms.epsilon, self.before.epsilon)\n",
            "        left = self.terms.epsilon\n",
        ),
        tests="tests/budget/test_accountants.py"
        "::test_pure_charges_add_up_and_the_first_other_decides_for_good",
    ),
    _bug(
        "every limit at the whole delta",
        "a Gaussian account admits what zero-concentrated DP proves, too, each at delta: both at twice that",
        (
            "budget/accountants.py",
            'yield Way({"rho": _rho(point[0], point[1] * _OTHERS_SHARE)})',
            'yield Way({"rho": _rho(*point)})',
        ),
        tests="tests/budget/test_accountants.py::test_limits_prove_the_promise_and_share_its_delta",
    ),
    _bug(
        "the accountant is chosen anew by every charge",
        "whoever sees releases chooses the accountant that pays for more: each proves it, and not both",
        (
            "budget/accounts.py",
            'if self.accountant == "undecided" and charge.delta:',
            "if charge.delta:",
        ),
        tests="tests/budget/test_accountants.py"
        "::test_whatever_is_charged_in_whatever_order_is_within_the_promise",
    ),
    # -- what adds up, by which accountant, over phases and beside what --
    _bug(
        "a printed scale broken where it is not",
        "users of several rounds are told that a promise is broken which the noise keeps",
        (
            "privacy/prefix_sums/tree.py",
            "mu = self.farthest / self.sigma",
            "mu = self.sensitivity / self.sigma",
        ),
        tests="tests/central/published/test_dubey2021.py::TestPrintedConstants",
    ),
    _bug(
        "a printed scale sound where it is broken",
        "of rounds that share nodes the lowest alone count, and a scale that is broken is called sound",
        (
            "privacy/prefix_sums/tree.py",
            "np.ceil(whole / 2) * sizes**2 + ended * rest**2",
            "np.ceil(whole / 2) * sizes**2",
        ),
        tests="tests/privacy/test_prefix_sums.py::test_no_rounds_move_a_tree_further_than_the_first_ones",
    ),
    _bug(
        "learn: the histogram of contexts is free",
        "an account of zCDP pays for the release of a log and not for the counts of contexts before it",
        (
            "central/logged/logged_table.py",
            "    if histogram:\n        certificate = PureBeside(histogram, certificate)\n",
            "",
        ),
        tests="tests/central/logged/test_logged_table.py::test_what_is_charged_covers_what_the_release_proves",
    ),
    _bug(
        "learn: distances are free",
        "a Gaussian account adds up a release as Gaussian though nothing bounds how far from it the noise is",
        (
            "central/logged/logged_table.py",
            "    return replace(cost_of(certificate, privacy=privacy), mu=None, distance=0.0)\n",
            "    return cost_of(certificate, privacy=privacy)\n",
        ),
        tests="tests/central/logged/test_logged_table.py::test_what_is_charged_covers_what_the_release_proves",
    ),
    _bug(
        "distances unbounded",
        "a Gaussian account adds up any number of lattices and says they are Gaussian",
        (
            "budget/accountants.py",
            'yield Way({"mu2": mu2, "distance": distance})',
            'yield Way({"mu2": mu2})',
        ),
        tests="tests/budget/test_accountants.py::test_distances_from_gaussian_noise_are_bounded",
    ),
    _bug(
        "deltas of bare charges dropped",
        "an (epsilon, delta) charge is added up as zCDP as if delta were 0",
        (
            "budget/accounts.py",
            "            if not delta:\n                rho = min",
            "            if True:\n                rho = min",
        ),
        tests="tests/budget/test_accountants.py::test_bare_promises_with_a_delta_are_added_up_as_they_are",
    ),
    _bug(
        "pure loss free beside a zCDP charge",
        "answers beside a release cost an account of zCDP nothing",
        (
            "budget/costs.py",
            'return sum_up(half_square_up(exact(epsilon, name="epsilon")), _rho(other))',
            "return _rho(other)",
        ),
        tests="tests/budget/test_costs.py::test_what_each_certificate_costs",
    ),
    _bug(
        "pure loss free beside a Gaussian charge",
        "answers beside a release cost a Gaussian account nothing",
        (
            "budget/costs.py",
            "return root_up(sum_up(square_up(pure[0]), square_up(beside[0]))), beside[1]",
            "return beside",
        ),
        tests="tests/budget/test_costs.py::test_what_each_certificate_costs",
    ),
    _bug(
        "distance weighs one in an account",
        "e^epsilon times the distance is missing from what a Gaussian account proves",
        (
            "budget/accountants.py",
            "    distance = _distance(epsilon, delta)\n",
            "    distance = above(_DISTANCE_SHARE * delta)\n    weight = 1.0\n",
        ),
        tests="tests/budget/test_accountants.py::test_limits_prove_the_promise_and_share_its_delta",
    ),
    _bug(
        "epsilon spent at all of delta",
        "what a Gaussian account has spent is said at a delta that other charges share",
        (
            "budget/accountants.py",
            "whole * (1.0 - _OTHERS_SHARE - _DISTANCE_SHARE)",
            "whole",
        ),
        tests="tests/budget/test_accountants.py::test_what_was_spent_is_the_smallest_epsilon_whose_account_pays_for_it",
    ),
    _bug(
        "a near Gaussian taken for one",
        "beside real Gaussian noise the distance of a lattice is forgotten",
        (
            "privacy/certificates.py",
            "return other.beside(self) if isinstance(other, NearGaussianDP) else super().beside(other)",
            "return GaussianDP(math.hypot(self.mu, other.mu)) if isinstance(other, NearGaussianDP) else"
            " super().beside(other)",
        ),
        tests="tests/privacy/test_accounting.py::TestNearGaussian::test_composition",
    ),
    _bug(
        "larger distance instead of their sum",
        "two lattices are as far from Gaussian noise as one",
        (
            "privacy/certificates.py",
            "distance = self.distance + (other.distance if isinstance(other, NearGaussianDP) else 0.0)",
            "distance = max(self.distance, other.distance if isinstance(other, NearGaussianDP) else 0.0)",
        ),
        tests="tests/privacy/test_accounting.py::TestNearGaussian::test_composition",
    ),
    _bug(
        "below the pure loss nothing is lost",
        "an epsilon smaller than the answers' alone is stated with delta 0",
        (
            "privacy/certificates.py",
            "return self.other.delta_at(left) if left >= 0.0 else 1.0",
            "return self.other.delta_at(left) if left >= 0.0 else 0.0",
        ),
        tests="tests/privacy/test_accounting.py::TestComposition::test_less_than_a_pure_loss_is_not_proven",
    ),
    _bug(
        "answers missing from the certificate",
        "the statement of answers beside a release states the release's loss alone",
        (
            "central/statement.py",
            "certificate = PureBeside(pure, release.certificate) if pure > 0.0 else release.certificate",
            "certificate = release.certificate",
        ),
        tests="tests/central/logged/test_policy.py::test_the_certificate_is_of_answers_and_release_together",
    ),
    _bug(
        "each epoch's tree by itself",
        "a user in several doubling epochs is covered for the draws of one tree",
        (
            "central/published/dubey2021.py",
            "one_of_several=self.doubling,",
            "one_of_several=False,",
        ),
        tests="tests/central/published/test_dubey2021.py::test_doubling_claims_no_mor"
        "e_than_holds_of_all_its_trees",
    ),
    _bug(
        "epsilon of the histogram not counted",
        "a private histogram of contexts is free beside the policy",
        (
            "central/logged/calibration.py",
            "left = Decimal(repr(privacy.epsilon)) - Decimal(repr(float(histogram)))",
            "left = Decimal(repr(privacy.epsilon))",
        ),
        tests="tests/central/logged/test_sensitivities.py::test_private_histogram_has_its_law_and_is_counted",
    ),
    _bug(
        "a histogram of fewer rows accepted",
        "people of k rows stand in a histogram whose noise covers one",
        (
            "central/logged/calibration.py",
            "if contexts.epsilon > 0.0 and contexts.rounds_per_user < privacy.rounds_per_user:",
            "if contexts.epsilon < 0.0:",
        ),
        tests="tests/central/logged/test_attacks.py::test_a_histogram_must_cover_as_man"
        "y_rows_of_a_user_as_the_promise",
    ),
    _bug(
        "a histogram's noise for one row",
        "people of k rows stand in a histogram with the noise of one",
        (
            "central/logged/contexts.py",
            "math.nextafter(loss / (2.0 * rounds_per_user), 0.0)",
            "math.nextafter(loss / 2.0, 0.0)",
        ),
        tests="tests/central/logged/test_sensitivities.py::test_private_histogram_noise_has_t"
        "he_rate_that_its_sensitivity_needs",
    ),
    # -- caps of several uses, and whose rows take places ----------------------------------------------------
    _bug(
        "range of scores by the release's caps",
        "answers are calibrated to what a reward can do to the release",
        (
            "central/logged/calibration.py",
            "span = 2 * self.rounds_per_user * int((self.caps[0] * spread).max())",
            "span = 2 * self.rounds_per_user * int((self.caps[-1] * spread).max())",
        ),
        tests="tests/central/logged/test_policy.py::test_each_use_has_caps_of_its_own",
    ),
    _bug(
        "a release of the answers' sums",
        "the release adds rewards that were cut at the caps of answers",
        (
            "central/logged/policy.py",
            "return self.publish_sums(self._shard.cells.sums[-1])",
            "return self.publish_sums(self._shard.cells.sums[0])",
        ),
        tests="tests/central/logged/test_policy.py::test_each_use_has_caps_of_its_own",
    ),
    _bug(
        "rows counted call by call",
        "a user brings rounds_per_user rows in every call of learn",
        (
            "tables/owners.py",
            "kept[rows] = (had if isinstance(had, int) else had[of]) + earlier_rows(of) < most",
            "kept[rows] = earlier_rows(of) < most",
        ),
        tests="tests/central/logged/test_policy.py::test_units_are_counted_over_calls_and_shards",
    ),
    _bug(
        "a user twice in a batch",
        "within one batch a user takes any number of rounds",
        (
            "policy/bookkeeping.py",
            "any(had(user) + rounds > limit for user, rounds in more.items())",
            "any(had(user) + 1 > limit for user, rounds in more.items())",
        ),
        tests="tests/policy/test_bookkeeping.py::test_a_users_rounds_are_bounded_also_inside_one_batch",
    ),
    # -- devices ---------------------------------------------------------------------------------------------
    _bug(
        "a device without turns",
        "threads that report one choice at once draw several reports and pay for one",
        ("local/device/client.py", "    @in_turn\n    def report(", "    def report("),
        tests="tests/local/test_one_choice_one_report.py"
        "::test_three_threads_that_report_one_choice_get_one_report",
    ),
    _bug(
        "a forked child has its turn",
        "a device that forks between choice and report draws a report in each process, and pays for one",
        ("state/holder.py", "if os.getpid() != self._process:", "if self._process is None:"),
        tests="tests/local/test_one_choice_one_report.py"
        "::test_a_fork_between_choice_and_report_is_refused_in_the_child",
    ),
    _bug(
        "only a lie draws another value",
        "the time that a randomised response takes tells whether it is the truth",
        (
            "privacy/reports/categories.py",
            "other = int(uniform_below(self._n_codes - 1, 1, words)[0])",
            "other = int(uniform_below(self._n_codes - 1, 1, words)[0]) if lies else 0",
        ),
        tests="tests/privacy/test_frequency_mechanisms.py"
        "::test_every_input_and_every_report_draw_the_same_number_of_words",
    ),
    _bug(
        "all reports under one charge",
        "after the first report every further one has its nonce and is never charged",
        (
            "local/device/client.py",
            "        self._paid = None\n        return nonce",
            "        return nonce",
        ),
        tests="tests/local/test_client_and_outbox.py::test_retries_are_the_same_bytes"
        "_and_another_report_needs_budget",
    ),
    _bug(
        "an unstored report drawn again",
        "while the disk is full every retry draws another report of one choice",
        (
            "local/device/client.py",
            "if last.choice is not None and not last.report:",
            "if last.choice is not None and not last.kept:",
        ),
        (
            "local/device/client.py",
            "        last.choice = None  # the private data is no longer needed\n",
            "",
        ),
        tests="tests/local/test_client_and_outbox.py::test_a_report_that_could_not_be"
        "_stored_is_stored_by_the_next_call",
    ),
    _bug(
        "silent about missing rewards",
        "a choice whose reward never came is not reported: that none came shows",
        (
            "local/device/client.py",
            "            self._report(self._last, None)\n            self._last = None\n",
            "            self._last = None\n",
        ),
        tests="tests/local/test_one_choice_one_report.py::test_a_choice_of_another_th"
        "read_closes_the_first_with_a_report_of_its_own",
    ),
    _bug(
        "a refused choice ends the open one",
        "a choice that the budget refuses has the open one reported without its reward",
        (
            "local/device/client.py",
            "        self._agree(published)\n        self._afford()\n        if self._last is not None:\n"
            "            self._report(self._last, None)\n            self._last = None\n",
            "        if self._last is not None:\n            self._report(self._last, None)\n"
            "            self._last = None\n        self._agree(published)\n        self._afford()\n",
        ),
        tests="tests/local/test_one_choice_one_report.py::test_a_choice_that_is_refus"
        "ed_leaves_the_open_one_and_its_reward",
    ),
    _bug(
        "a group by the nonce",
        "whoever forges chooses the group of every report, and fills more than half of them",
        (
            "local/server/robust.py",
            'return int.from_bytes(one.digest(), "little") % self.groups',
            'return int.from_bytes(record[9:17].tobytes(), "little") % self.groups',
        ),
        tests="tests/local/test_robust.py::test_nobody_chooses_a_group_by_the_nonce",
    ),
    _bug(
        "groups without a secret",
        "whoever forges tries nonces until a report falls into the group they want",
        (
            "local/server/robust.py",
            "begun = hashlib.blake2b(key=self._secret, digest_size=8)",
            "begun = hashlib.blake2b(digest_size=8)",
        ),
        tests="tests/local/test_robust.py::test_a_group_depends_on_every_byte_and_the_secret",
    ),
    _bug(
        "counts of other groups added",
        "what workers grouped by another secret is merged, and a median is of nothing",
        (
            "local/server/counting.py",
            "if other.grouping != self.grouping:",
            "if other.grouping is None and self.grouping is not None:",
        ),
        tests="tests/local/test_robust.py::test_groups_are_the_sums_of_no_groups_and_ot"
        "hers_for_another_secret",
    ),
    _bug(
        "a flood moves what it likes",
        "one version full of forged reports moves what is believed without a bound",
        (
            "local/learners/base.py",
            "np.maximum(noise, (error / surprise) ** 2 - belief)",
            "np.maximum(noise, 0.0 * (error / surprise) ** 2 - belief)",
        ),
        tests="tests/local/test_robust.py::test_a_flood_moves_what_is_believed_no_farther_than_its_surprise",
    ),
    _bug(
        "the weight of one cell",
        "the statement's number of people that a forged report weighs leaves out all cells but one",
        (
            "local/contract/spec.py",
            "return max(one.weights[1] for one in self.mechanisms_for(self.layout.sizes[-1]))",
            "return max(one.weights[0] for one in self.mechanisms_for(self.layout.sizes[-1]))",
        ),
        tests="tests/local/test_robust.py::test_one_bit_and_sixteen_signed_bins_weigh_"
        "what_the_mechanism_gives",
    ),
    _bug(
        "anomalies without honest noise",
        "the operator is told of forgers where nobody forges",
        (
            "privacy/reports/mechanism.py",
            "return found, n * (self.moments.count_own + (self.n_cells - 1) * self.moments.count_other)",
            "return found, n * self.moments.count_own",
        ),
        tests="tests/local/test_robust.py::test_the_excess_of_an_honest_report_has_mean"
        "_zero_and_its_variance",
    ),
    _bug(
        "a folder without its bounds",
        "a server opens a folder again without the secret that its counts were grouped by",
        (
            "local/server/durable.py",
            'self._subject = spec.fingerprint if robust is None else f"{spec.fingerprint}:{robust.mark}"',
            "self._subject = spec.fingerprint",
        ),
        tests="tests/local/test_robust.py::test_a_folder_without_its_bounds_is_refused_"
        "and_one_that_has_none_takes_none",
    ),
    _bug(
        "one account for all specs",
        "two servers draw on one budget, and each statement promises all of it",
        (
            "local/device/client.py",
            'reports under the spec {spec.fingerprint}",',
            'device reports",',
        ),
        tests="tests/local/test_device_refuses_blindly.py::test_an_account_is_bound_to_one_spec_for_good",
    ),
    _bug(
        "an outbox of reports of another spec",
        "reports made for one server are sent to another",
        (
            "local/device/outbox.py",
            "if any(report[DIGEST] != digest for report in held):",
            "if any(not report for report in self.pending().values()):",
        ),
        tests="tests/local/test_device_refuses_blindly.py::test_an_outbox_that_lost"
        "_the_name_of_its_spec_is_refused",
    ),
    _bug(
        "two policies under one number",
        "a server shows a device its own version of a public policy, and the report says which",
        (
            "local/device/client.py",
            "if self._versions.setdefault(published.version, digest) != digest:",
            "if not self._versions.setdefault(published.version, digest):",
        ),
        tests="tests/local/test_device_refuses_blindly.py::test_a_version_that_change"
        "d_is_refused_and_versions_are_counted",
    ),
    _bug(
        "what another spec's server published is taken",
        "reports are counted of arms that their devices never gave",
        (
            "local/contract/reports.py",
            "        if known is not None and known[0] != whose:\n            raise Inc",
            "        if False:\n            raise Inc",
        ),
        tests="tests/messages/test_mistakes.py::test_a_mistake_is_understood_or_answered",
    ),
    _bug(
        "what is available in the report",
        "a device that could not give the published arm reports of it, with another arm's reward",
        (
            "local/contract/spec.py",
            "            unavailable=mask is None,",
            "            unavailable=False,",
        ),
        tests="tests/local/test_people.py::test_what_was_not_available_is_reported_as_nobody_is",
    ),
    _bug(
        "a report of an arm that was not given",
        "a device whose arm was not available reports the reward of another arm as this one's",
        (
            "local/contract/spec.py",
            "if choice.missing or choice.unavailable or reward is None:",
            "if choice.missing or reward is None:",
        ),
        tests="tests/local/test_people.py::test_what_was_not_available_is_reported_as_nobody_is",
    ),
    _bug(
        "the bit of a readout in the clear",
        "a device reports its outcome without randomised response",
        (
            "local/contract/readout.py",
            "self.bit.encode(0, positive=exact)",
            "bytes([int(not exact)])",
        ),
        tests="tests/local/test_readouts.py::test_every_report_has_the_same_law_within_epsilon_whatever_the_outcome",
    ),
    _bug(
        "a missing outcome that does not count as the public one",
        "groups that answer unequally often are compared as if they answered alike",
        (
            "local/contract/readout.py",
            "outcome = self._spec.missing if reward is None else reward",
            "outcome = bounds.low if reward is None else reward",
        ),
        tests="tests/local/test_readouts.py::test_every_report_has_the_same_law_within_epsilon_whatever_the_outcome",
    ),
    _bug(
        "a group that depends on the context",
        "a device reports in the open whether its context could be read",
        (
            "local/contract/readout.py",
            "group = CONTROL if int(secure_words(1)[0]) < self._below else POLICY",
            "group = CONTROL if int(secure_words(1)[0]) < self._below and context else POLICY",
        ),
        tests="tests/local/test_readouts.py::test_the_group_is_a_coin_and_depends_on_nothing_else",
    ),
    _bug(
        "several reports of one device in a readout",
        "a device is in both groups, and spends more than the statement says",
        (
            "local/contract/readout.py",
            "window, reports_per_version, most_reports = 0, _NEVER, 1",
            "window, reports_per_version = 0, _NEVER",
        ),
        tests="tests/local/test_readouts.py::test_a_device_sends_one_report_and_decides_by_the_policy_without_one",
    ),
    _bug(
        "a readout in shares of reported bits",
        "a difference of randomised bits is read as one of outcomes, and is too small",
        (
            "local/server/readout.py",
            "unit, side = width / (p - q), 0.5 * (1.0 - confidence)",
            "unit, side = width, 0.5 * (1.0 - confidence)",
        ),
        tests="tests/local/test_readouts.py::test_the_server_counts_bits_by_group_in_memory_on_disk_and_in_parts",
    ),
    _bug(
        "features that every device computes for itself",
        "another processor's eigenvectors put a report into coordinates that its server does not have",
        (
            "local/contract/gp_spec.py",
            "        assign(self, features=self.features.written_out())\n",
            "",
        ),
        tests="tests/local/test_gp_bandits.py",
    ),
    _bug(
        "own epsilon not used",
        "a device that chose a smaller epsilon reports at the largest",
        (
            "local/contract/spec.py",
            "report = self.mechanism_for(self.layout.n_cells(published), privacy.epsilon)",
            "report = self.mechanism_for(self.layout.n_cells(published))",
        ),
        tests="tests/local/test_own_epsilon.py::test_devices_pay_their_own_epsilon_an"
        "d_servers_learn_from_all",
    ),
    _bug(
        "a missing reward tells the bin",
        "a report without a reward still speaks of its user's context",
        (
            "local/contract/spec.py",
            "            return anywhere, coin < LATTICE // 2",
            "            return anywhere if choice.missing else cell, coin < LATTICE // 2",
        ),
        tests="tests/local/test_device_refuses_blindly.py::test_what_is_missing_is_an"
        "y_cell_and_either_sign_equally_likely",
    ),
    _bug(
        "a sign that is not turned",
        "devices answer another question than the one that was asked",
        (
            "local/contract/spec.py",
            "        positive = (silent or coin < share * LATTICE) != turned\n",
            "        positive = silent or coin < share * LATTICE\n",
        ),
        tests="tests/local/test_questions.py::test_a_device_answers_for_its_own_cell",
    ),
    _bug(
        "a question about the place that tells the reward",
        "what was asked about the place alone depends on the reward",
        (
            "local/contract/spec.py",
            "(silent or coin < share * LATTICE)",
            "(coin < share * LATTICE)",
        ),
        tests="tests/local/test_questions.py::test_a_version_about_the_place_does_not_ask_for_the_reward",
    ),
    _bug(
        "an arm that the spec does not have",
        "a hostile version makes a device fail where the person is, and not before",
        (
            "local/contract/grid.py",
            "(np.asarray(arms) >= 0) & (np.asarray(arms) < self.n_arms)",
            "np.asarray(arms) >= 0",
        ),
        tests="tests/local/test_questions.py::test_a_hostile_version_is_refused_before_a_context_is_read",
    ),
    _bug(
        "a part that the spec does not have",
        "a hostile version makes a device fail where the person is, and not before",
        (
            "local/contract/grid.py",
            "(parts >= 0) & (parts < self.n_parts)",
            "parts >= 0",
        ),
        tests="tests/local/test_questions.py::test_a_table_of_other_parts_is_refused",
    ),
    _bug(
        "columns that the spec does not have",
        "a hostile version makes a device fail where the person is, and not before",
        (
            "local/contract/grid.py",
            "not columns or columns[-1] >= self.dim",
            "not columns",
        ),
        tests="tests/local/test_many_columns.py::test_hostile_columns_are_refused_before_a_context_is_read",
    ),
    _bug(
        "columns in any order",
        "one grid has several texts: a server marks versions for one device and nobody sees it",
        (
            "local/contract/grid.py",
            "columns != tuple(sorted(set(columns)))",
            "len(columns) != len(set(columns))",
        ),
        tests="tests/local/test_many_columns.py::test_hostile_columns_are_refused_before_a_context_is_read",
    ),
    _bug(
        "a version of more cells than its page says",
        "a version over many columns costs a device as many bytes as its server likes",
        (
            "local/contract/grid.py",
            "        if grid.size > MOST_CELLS:\n",
            "        if grid.size > 1 << 16:\n",
        ),
        tests="tests/local/test_many_columns.py::test_a_version_of_more_cells_than_its_page_says_is_refused",
    ),
    _bug(
        "a device that answers by the first columns",
        "devices answer about other columns than the ones that a version names",
        (
            "domains/grid.py",
            "points[:, self.columns] if self.columns else points",
            "points[:, : len(self.columns)] if self.columns else points",
        ),
        tests="tests/local/test_many_columns.py::test_a_device_answers_by_the_named_columns_and_by_no_other",
    ),
    _bug(
        "half the sensitivity of a report to two aggregators",
        "each aggregator's noise covers half of what replacing a report moves, so it does not suffice alone",
        (
            "privacy/histogram.py",
            "return 2 * self.privacy.reports_per_user",
            "return self.privacy.reports_per_user",
        ),
        tests="tests/distributed/test_privacy.py::"
        "test_the_largest_ratio_over_all_reports_and_outcomes_is_a_reports_share_of_epsilon",
    ),
    _bug(
        "one noise of two aggregators",
        "both aggregators add the same noise, so that whoever works with one of them knows all of it",
        (
            "distributed/aggregation.py",
            "tuple(self.spec.histogram.noise(self._noise) for _ in range(AGGREGATORS))",
            "(self.spec.histogram.noise(self._noise),) * AGGREGATORS",
        ),
        tests="tests/distributed/test_privacy.py::test_the_view_of_one_aggregator_has_the_honest_noise_alone",
    ),
    _bug(
        "a sum of two aggregators with other noise every time",
        "whoever collects a version again and again averages the noise away",
        ("distributed/aggregation.py", "if not batch.noises:\n", "if version >= 0:\n"),
        tests="tests/distributed/test_privacy.py::test_a_version_is_released_once_and_a_report_counts_once",
    ),
    _bug(
        "a device that reports whatever it could not read",
        "a context that was never there counts as one in the middle",
        (
            "distributed/device.py",
            "return arm, None if point is None else place",
            "return arm, place",
        ),
        tests="tests/distributed/test_device.py::"
        "test_whatever_cannot_be_read_goes_to_the_bucket_for_nothing_to_say",
    ),
    _bug(
        "a device that reports to two aggregators without end",
        "one user's reports enter more sums than the noise covers",
        ("distributed/device.py", "self._holder.charge(name.hex(), cost=self._cost)", "name.hex()"),
        tests="tests/distributed/test_device.py::test_one_choice_makes_one_report_and_the_budget_ends",
    ),
    _bug(
        "tasks of two aggregators that do not depend on the spec",
        "devices report to aggregators that were set up for less noise, or for smaller batches",
        ("distributed/dap.py", "task {spec.fingerprint} {task.version}", "task {spec.seed} {task.version}"),
        tests="tests/distributed/test_dap.py::"
        "test_the_id_of_a_task_depends_on_everything_that_noise_and_batches_depend_on",
    ),
    _bug(
        "counts of parts under one look",
        "late reports count people of the parts that are asked about now, and not of those they answered",
        (
            "local/learners/questions.py",
            "version=common",
            "version=self._looked",
        ),
        tests="tests/local/test_many_columns.py::test_late_reports_about_parts_that_have_moved_are_learned"
        "_as_if_they_had_come_in_time",
    ),
    _bug(
        "available actions that are no actions",
        "a device fails for some users, and whoever sees that it fails learns what is offered to them",
        (
            "tables/device_menu.py",
            "    try:\n        if actions is not None and len(actions.sizes) > 1:\n"
            "            known, names = actions.choices, arms.labels\n"
            "            available = [names[known.index(one)] if isinstance(one, dict) else one "
            "for one in available]\n",
            "    if actions is not None and len(actions.sizes) > 1:\n"
            "        known, names = actions.choices, arms.labels\n"
            "        available = [names[known.index(one)] if isinstance(one, dict) else one "
            "for one in available]\n"
            "    try:\n",
        ),
        tests="tests/local/test_actions.py::test_available_actions_are_dicts_and_anything_else_is_missing_data",
    ),
    _bug(
        "an action reported with the outcome",
        "a report names the number that a user got, which tells about the context of the user",
        (
            "local/contract/spec.py",
            "        positive = (silent or coin < share * LATTICE) != turned\n",
            "        share = share if self.actions is None else share * (choice.arm + 1) / self.bins.n_arms\n"
            "        positive = (silent or coin < share * LATTICE) != turned\n",
        ),
        tests="tests/local/test_actions.py::test_a_report_is_about_the_outcome_and_not_about_its_value",
    ),
    _bug(
        "columns chosen by what is expected alone",
        "a column of which little is known yet is never asked about, and what it would tell stays unknown",
        (
            "local/learners/columns.py",
            "rule.drawn_gain(version, coins) if len(columns) == 1 else rule.gain",
            "rule.gain",
        ),
        tests="tests/local/test_many_columns.py::test_columns_are_asked_about_one_at_a_time_at_first",
    ),
    _bug(
        "one arm for all that does not lead",
        "everybody gets the arm that is best by chance, and little is told of the others",
        (
            "local/learners/questions.py",
            "(mean[:-1] > _LEAD * deviation[:-1]).all()",
            "True",
        ),
        tests="tests/local/test_many_columns.py::test_no_arm_is_given_to_all_while_none_leads",
    ),
    _bug(
        "one arm for all whatever cells gain",
        "everybody goes on with one arm although reports say who is served better by another",
        (
            "local/learners/questions.py",
            "return not told and bool(",
            "return bool(",
        ),
        tests="tests/local/test_many_columns.py::test_an_arm_that_leads_is_not_given_to_all_where_arms_by"
        "_cell_pay",
    ),
    _bug(
        "one arm for all in every version",
        "nobody is given another arm any more, and what it would earn for some stays unknown",
        (
            "local/learners/questions.py",
            "self.grid.columns and (version + 1) % _LOOK and",
            "self.grid.columns and",
        ),
        tests="tests/local/test_many_columns.py::test_an_arm_that_leads_is_given_to_all_but_in_every_fourth"
        "_version",
    ),
    _bug(
        "a column that hears itself",
        "what a column's own reports tell of the arms comes back as news and counts twice",
        (
            "local/learners/columns.py",
            "            rule.hear_levels(total - sum(told.get((column,), 0.0) for column in columns))\n",
            "            rule.hear_levels(total)\n",
        ),
        tests="tests/local/test_many_columns.py::test_what_is_asked_about_one_column_tells_the_others_which_arm_is"
        "_best_for_all",
    ),
    _bug(
        "a column that passes on what it heard",
        "columns tell each other the same reports again and again, and are soon sure of what nobody reported",
        (
            "local/learners/questions.py",
            "whole @ mean]) - self._heard\n",
            "whole @ mean])\n",
        ),
        tests="tests/local/test_many_columns.py::test_what_a_column_tells_of_the_arms_does_not_depend_on_what_it"
        "_heard",
    ),
    _bug(
        "a report that counts twice where columns are joined",
        "what two columns tell together is learned twice: beliefs are too sure, and forgers weigh twice",
        (
            "local/learners/columns.py",
            "        rule.look()\n",
            "        rule.hear(self._rules[columns[0],])\n        rule.look()\n",
        ),
        tests="tests/local/test_many_columns.py::test_columns_together_take_over_every_report_about_one_of"
        "_them_once",
    ),
    _bug(
        "columns together that expect no forgers",
        "forged reports move as far as they like what a robust server believes of columns together",
        (
            "local/learners/columns.py",
            "        rule.resist(self._surprise)\n        return rule\n",
            "        return rule\n",
        ),
        tests="tests/local/test_many_columns.py::test_robust_servers_expect_forged_reports_about_columns_that_are"
        "_joined_later",
    ),
    _bug(
        "a version with two texts",
        "bits after the last cell are ignored: a server marks versions for one device and nobody sees it",
        (
            "local/contract/grid.py",
            " or bits[size * width :].any()",
            "",
        ),
        tests="tests/local/test_questions.py::test_a_hostile_version_is_refused_before_a_context_is_read",
    ),
    _bug(
        "a learner that forgets its law of contexts",
        "a server that opens its folder again publishes other versions than the one that was closed",
        (
            "local/learners/questions.py",
            '_LAW = ("weights", "factor", "variance")',
            '_LAW = ("weights", "factor")',
        ),
        (
            "local/learners/questions.py",
            '        self._density.variance = float(arrays["law.variance"])\n',
            "",
        ),
        tests="tests/local/test_questions.py::test_a_restored_server_goes_on_as_the_one_that_was_saved",
    ),
    _bug(
        "a learner that forgets when it looks again only",
        "between two looks a report of the past counts for as much as a new one: less is forgotten than said",
        (
            "local/learners/questions.py",
            "        self._model.fade(float(kept_after(n, self._half_life)))\n",
            "",
        ),
        tests="tests/local/test_forgetting.py::test_a_report_counts_for_half_as_much_after_a_half_life",
    ),
    _bug(
        "versions that are never forgotten",
        "what was told before the versions that are kept counts for ever, whatever the half-life",
        (
            "local/learners/questions.py",
            "        self._old = kept * self._old[0], kept * self._old[1]\n",
            "",
        ),
        tests="tests/local/test_forgetting.py::test_who_looks_at_everything_again_has_forgotten_the_same",
    ),
    _bug(
        "bins that forget nothing",
        "the learner of bins goes on serving those who came first, and its spec says that it forgets",
        (
            "local/learners/smooth.py",
            "        self._data.fade(float(kept_after(sums.n, self._half_life)))\n",
            "",
        ),
        tests="tests/local/test_forgetting.py::test_a_report_counts_for_half_as_much_after_a_half_life",
    ),
    _bug(
        "reports of one version as two",
        "late reports of a version count as another version's, with the noise of one each",
        (
            "local/learners/questions.py",
            "            if len(number) < len(self.number):",
            "            if len(number) > len(self.number):",
        ),
        tests="tests/local/test_questions.py::test_late_reports_are_learned_as_if_they_had_come_in_time",
    ),
    _bug(
        "a source under its target's epsilon",
        "people of a source that promised a smaller epsilon report at the target's",
        (
            "local/contract/sources.py",
            '            privacy=self.privacy,\n            learner="explore",',
            '            learner="explore",',
        ),
        tests="tests/local/test_transfer.py::test_impossible_sources_are_refused",
    ),
    # -- reports that count once, and shards that add up -----------------------------------------------------
    _bug(
        "both generations of nonces forgotten",
        "a report of an open version is counted again after a turn",
        (
            "local/server/nonces.py",
            "self._old, self._young, self.since = self._young, NonceSet(), newest",
            "self._old, self._young, self.since = NonceSet(), NonceSet(), newest",
        ),
        tests="tests/local/test_forgers.py::test_nonces_hold_over_the_whole_window",
    ),
    _bug(
        "nonces forgotten one version early",
        "a report of a version that is still open is counted again",
        (
            "local/server/counting.py",
            "if min(self.versions, default=0) > self.seen.since:",
            "if min(self.versions, default=0) >= self.seen.since:",
        ),
        tests="tests/local/test_forgers.py::test_nonces_hold_over_the_whole_window",
    ),
    _bug(
        "a nonce twice in one batch",
        "two reports of different lengths under one nonce both count",
        (
            "local/server/counting.py",
            "for others in (without, *sifted.nonces):",
            "for others in (without,):",
        ),
        tests="tests/local/test_forgers.py::test_in_one_batch_of_several_lengths_too",
    ),
    _bug(
        "a nonce twice in one batch, of which the second comes alone",
        "the only report of its length counts although another one of the batch has its nonce",
        (
            "local/server/counting.py",
            "nonce in one for one in (without, *sifted.nonces)):",
            "nonce in one for one in (without,)):",
        ),
        tests="tests/local/test_forgers.py::test_in_one_batch_of_several_lengths_too",
    ),
    _bug(
        "tags of lone reports unread",
        "a report that comes alone counts without the key",
        (
            "local/server/counting.py",
            "if key is not None and not key.genuine(_one_record(report), self.spec)[0]:",
            "if False:",
        ),
        tests="tests/local/test_lone_reports.py::test_one_by_one_they_come_to_what_they_come_to_together[keyed]",
    ),
    _bug(
        "lone reports in the first group",
        "whoever sends forged reports one by one chooses the group that they move",
        (
            "local/server/counting.py",
            "group = 0 if self._robust is None else int(self._robust.group_of(records)[0])",
            "group = 0",
        ),
        tests="tests/local/test_lone_reports.py::test_one_by_one_they_come_to_what_they_come_to_together[grouped]",
    ),
    _bug(
        "payloads of lone reports unread",
        "a payload that no device sends counts when it comes alone",
        (
            "local/server/counting.py",
            "if not version.mechanisms[kind].valid(payloads)[0]:",
            "if False:",
        ),
        tests="tests/local/test_lone_reports.py::test_one_by_one_they_come_to_what_they_come_to_together[krr]",
    ),
    _bug(
        "nonces of lone reports lost in a run",
        "reports that came alone count again after four thousand others",
        (
            "local/server/nonces.py",
            "self._append(np.sort(self._waiting()))",
            "pass",
        ),
        tests="tests/local/test_lone_reports.py::test_many_nonces_that_come_alone_are_kept_in_runs",
    ),
    _bug(
        "merged nonces not kept",
        "a report that another process counted counts here once more",
        (
            "local/server/counting.py",
            "        self.seen.put(other.nonces())\n",
            "",
        ),
        tests="tests/local/test_merge.py::test_any_shards_in_any_order_add_up_to_one_process",
    ),
    _bug(
        "merged reports without nonces",
        "counts that say they hold more reports than nonces are added",
        (
            "local/server/counting.py",
            "if self.accepted != len(self.seen):",
            "if self.accepted < len(self.seen):",
        ),
        tests="tests/local/test_merge.py::test_counts_without_nonces_do_not_vanish_in_a_merge",
    ),
    _bug(
        "impossible sums added",
        "a shard with sums that no reports have outweighs everybody",
        (
            "local/server/counting.py",
            "if not (np.abs(sums) <= _LARGEST_SUM).all() or not mechanism.possible(sums, n):",
            "if not (np.abs(sums) <= _LARGEST_SUM).all():",
        ),
        tests="tests/local/test_forgers.py::test_merged_counts_are_possible_ones",
    ),
    _bug(
        "a snapshot without the older nonces",
        "after a restart reports of older open versions are counted again",
        (
            "local/server/server.py",
            'counts.seen = RecentNonces(young, old, since=int(numbers["since"]))',
            'counts.seen = RecentNonces(young, since=int(numbers["since"]))',
        ),
        tests="tests/local/test_durable_server.py::test_a_snapshot_keeps_nonces_of_both_generations",
    ),
    _bug(
        "a source closes young versions",
        "attaching a source closes the version that people are answering: their reports are lost",
        (
            "local/server/server.py",
            "left = self._pace.old_enough(self._left_behind(number))",
            "left = self._left_behind(number)",
        ),
        tests="tests/local/test_transfer.py::test_a_source_closes_no_version_before_its_time",
    ),
    _bug(
        "a flood publishes at once",
        "whoever sends many reports makes the server publish however young its versions are",
        (
            "local/server/server.py",
            "return bool(enough) and self._pace.are_old(self._left_behind(self.current.version + 1))",
            "return bool(enough)",
        ),
        tests="tests/local/test_forgers.py::test_a_flood_closes_no_version_before_its_time",
    ),
    _bug(
        "a report's norm unchecked",
        "one forged report of many large entries counts as many",
        (
            "privacy/reports/clamp.py",
            "return np.asarray(inside & (sizes.sum(axis=1) <= self.norm**self.order))",
            "return np.asarray(inside)",
        ),
        tests="tests/local/test_gp_bandits.py::test_what_no_device_sends_is_left_out",
    ),
    # -- the curator's cap, and its secret -------------------------------------------------------------------
    _bug(
        "failed evaluations are free",
        "a modeler makes the curator evaluate any row any number of times",
        (
            "outsourced/curator/curator.py",
            "log.evaluations >= self.cap:",
            "len(log.entries) >= self.cap:",
        ),
        tests="tests/outsourced/test_curator.py::test_failed_evaluations_use_the_cap",
    ),
    _bug(
        "evaluations of one row count once",
        "a row whose objective fails is evaluated without end under any cap",
        (
            "outsourced/curator/answers.py",
            "            self._evaluations += 1\n",
            "            self._evaluations += row not in self._begun\n",
        ),
        tests="tests/outsourced/test_curator.py::test_failed_evaluations_use_the_cap",
    ),
    _bug(
        "a secret that others may read",
        "which released row is which is read by other users of the machine",
        (
            "outsourced/curator/directory.py",
            "folder.stat().st_mode) & 0o077:",
            "folder.stat().st_mode) & 0o022:",
        ),
        tests="tests/outsourced/test_curator.py::test_the_secret_side_is_for_its_owner_only",
    ),
    _bug(
        "an objective's own words",
        "the row's data stand in the error that its objective raised",
        (
            "outsourced/curator/objective.py",
            'raise ProtocolError(f"the objective failed ({type(error).__name__})") from None',
            'raise ProtocolError(f"the objective failed ({error})") from None',
        ),
        tests="tests/outsourced/test_curator.py::test_a_failing_objective_loses_nothing",
    ),
    _bug(
        "another table finishes a release",
        "a release that was begun and paid with one table is finished with another",
        (
            "outsourced/curator/curator.py",
            'if rows.digest(bytes.fromhex(bound["salt"])) != bound["digest"]:',
            "if bound is None and rows is None:",
        ),
        tests="tests/outsourced/test_curator.py::test_a_secret_directory_is_one_tables",
    ),
    _bug(
        "a failed evaluation is refused",
        "the modeler learns for which rows a noised answer's evaluation failed",
        ("outsourced/curator/curator.py", "if self._answer_noise is None:\n                raise", "raise"),
        tests="tests/outsourced/test_curator.py::test_a_noised_answer_looks_the_same_whether_its_evaluation_failed",
    ),
    _bug(
        "a failed evaluation is answered without noise",
        "an answer in the exact middle of the bounds tells that its evaluation failed",
        (
            "outsourced/curator/curator.py",
            "                if self._answer_noise is not None:\n                    exact",
            "                if self._answer_noise is not None and value != self._answer_noise.middle:\n"
            "                    exact",
        ),
        tests="tests/outsourced/test_curator.py::test_a_noised_answer_looks_the_same_whether_its_evaluation_failed",
    ),
    _bug(
        "a late program is not stopped for its pace",
        "when an answer leaves tells which rows' evaluations time out",
        (
            "outsourced/curator/objective.py",
            "min(objective.timeout, _STOPPED_AT * pace)",
            "objective.timeout",
        ),
        tests="tests/outsourced/test_curator.py::test_a_paced_command_is_stopped_in_time_with_all_that_it_started",
    ),
    _bug(
        "failures keep no pace",
        "an answer that leaves early tells that its evaluation failed",
        (
            "outsourced/curator/pace.py",
            "    try:\n        yield\n    finally:\n        if seconds is not None:\n"
            "            taken = monotonic() - begun\n            sleep(",
            "    yield\n    if seconds is not None:\n        taken = monotonic() - begun\n        if True:\n"
            "            sleep(",
        ),
        tests="tests/outsourced/test_curator.py::test_at_a_fixed_pace_every_answer_takes_the_same_time",
    ),
    _bug(
        "late answers keep no pace",
        "how long an evaluation took is told to the millisecond where it took longer than its pace",
        ("outsourced/curator/pace.py", "max(1, math.ceil(taken / seconds))", "1"),
        tests="tests/outsourced/test_curator.py::test_at_a_fixed_pace_every_answer_takes_the_same_time",
    ),
    _bug(
        "no cap, no bound",
        "without a cap a modeler makes a failing row be evaluated without end",
        ("outsourced/curator/curator.py", "cap = n if cap is None else", "cap = 10**6 if cap is None else"),
        ("outsourced/curator/curator.py", "        if cap > n:\n", "        if n > cap:\n"),
        tests="tests/outsourced/test_curator.py::test_without_a_cap_failures_are_bounded_too",
    ),
    _bug(
        "a person by type",
        "a person whose id is 51624 in one row and '51624' in another has two rows, and loses twice as much",
        ("tables/owners.py", "map(_checks.person_in, ids)", "map(repr, ids)"),
        tests="tests/policy/test_bookkeeping.py tests/outsourced/test_curator.py",
    ),
    _bug(
        "a person by spelling in SQL",
        "a person whose id is 7 in one row and 007 in another counts as two people in a database",
        ("tables/sql/ids.py", "|| {digits} ELSE {digits} END", "|| {digits} ELSE {text} END"),
        tests="tests/tables/test_sql_cells.py::test_ids",
    ),
    _bug(
        "numbers as texts are ids in SQL",
        "a person whose id is 1000 in one row and 1e3 in another counts as two people in a database",
        ("tables/sql/ids.py", "THEN NULL ELSE {text} END", "THEN {text} ELSE {text} END"),
        tests="tests/tables/test_sql_cells.py::test_ids",
    ),
    _bug(
        "rows of nobody are released",
        "curate: rows without an id are released, as many as a person brings",
        (
            "outsourced/scaling.py",
            "kept = kept[first_rows(numbers[kept], rows_per_user)]",
            "kept = kept[first_rows(numbers[kept], rows_per_user) | ~owners.named[kept]]",
        ),
        tests="tests/tables/test_cell_by_cell.py::test_a_curator_releases_every_other_row_as_before",
    ),
    _bug(
        "one id answers twice",
        "curate: rows that share an id are evaluated for one person, once for each row",
        (
            "outsourced/scaling.py",
            "minlength=len(owners.texts)) > 1, True)",
            "minlength=len(owners.texts)) > 99, True)",
        ),
        tests="tests/outsourced/test_curator.py",
    ),
    _bug(
        "one text makes a column text",
        "one cell that is no number makes every other row of its column unreadable",
        (
            "_cells.py",
            "    elif kinds <= {str}:  # read each",
            "    elif str in kinds and not all(map(math.isfinite, map(number_of, listed))):\n"
            "        return np.full(cells.shape, np.inf)\n"
            "    elif kinds <= {str}:  # read each",
        ),
        tests="tests/tables/test_cell_by_cell.py",
    ),
    _bug(
        "labels by type",
        "one cell that is no number makes texts of all arms and categories, which then match no label",
        ("_cells.py", "in SOFT else _value_in(text)", "in SOFT else text"),
        tests="tests/tables/test_cell_by_cell.py",
    ),
    _bug(
        "two labels of one value",
        "a reader of files decides which of two arms a row was given",
        (
            "_cells.py",
            "    if len(codes) != len(labels) or UNREADABLE in codes or large:",
            "    if UNREADABLE in codes or large:",
        ),
        tests="tests/tables/test_cell_by_cell.py",
    ),
    _bug(
        "a visitor too many is answered",
        "within one batch a user takes any number of rounds, all of which count",
        ("policy/rounds.py", "        if NOBODY in digests:\n", "        if NOBODY in digests and False:\n"),
        tests="tests/contracts/test_asking_and_telling.py",
    ),
    _bug(
        "rows of nobody count",
        "learn: whoever leaves the id out brings any number of rows",
        ("tables/owners.py", "np.append(together <= most, False)", "np.append(together <= most, True)"),
        tests="tests/tables/test_cell_by_cell.py tests/central/logged/test_attacks.py",
    ),
    _bug(
        "an id that looks like another",
        "a zero-width character makes a new user, who takes part again",
        ("_checks.py", "    if not text.isprintable() or not text.isascii():\n", "    if not text:\n"),
        tests="tests/policy/test_bookkeeping.py",
    ),
    _bug(
        "two accounts of one name",
        "people whose account is written with a blank have a second budget",
        ("budget/ledger.py", 'if name != unicodedata.normalize("NFC", name.strip()):', "if False:"),
        tests="tests/budget/test_ledger.py::test_an_accounts_name_is_written_one_way",
    ),
    _bug(
        "a curator's past is forgotten",
        "rows of simulated noise are called enforced when the curator is opened with other parameters",
        (
            "outsourced/curator/curator.py",
            '"simulated" if any(one["status"] == "simulated" for one in past) else self._noise.status',
            "self._noise.status",
        ),
        tests="tests/outsourced/test_curator.py::test_rows_of_simulated_noise_stay_simulated_whatever"
        "_the_parameters_say",
    ),
    _bug(
        "a curator's log is not held against its parameters",
        "rows of epsilon 1 are promised at epsilon 0.25",
        (
            "outsourced/curator/curator.py",
            "        check_releases(self._holder.log, uses, privacy=self._mechanism.definition)\n",
            "",
        ),
        tests="tests/outsourced/test_curator.py::test_a_folder_released_on_other_terms_is_refused",
    ),
    # -- what was released, on a device and its server --------------------------------------------
    _bug(
        "an outbox forgets its noise",
        "reports of simulated noise are called enforced when the device starts with secure noise",
        (
            "local/contract/statement.py",
            'simulated |= entry["status"] != "enforced"',
            "simulated |= False",
        ),
        tests="tests/local/test_terms_of_reports.py",
    ),
    _bug(
        "an account forgets its noise",
        "with a new outbox a device's simulated reports become enforced",
        (
            "local/device/client.py",
            "Cost(unit=unit, epsilon=own.epsilon, delta=own.delta, simulated=simulated)",
            "Cost(unit=unit, epsilon=own.epsilon, delta=own.delta)",
        ),
        tests="tests/local/test_terms_of_reports.py::test_an_account_remembers_simulated_reports_when_the"
        "_outbox_is_gone",
    ),
    _bug(
        "reports without terms",
        "nothing says on which terms a device's reports were made",
        (
            "local/device/client.py",
            "        if not self._remembered:\n",
            "        if self._remembered:\n",
        ),
        tests="tests/local/test_terms_of_reports.py::test_terms_are_on_disk_before_anything_is_drawn",
    ),
    _bug(
        "the device's smallest epsilon",
        "a waiting report of epsilon 8 is promised at epsilon 1",
        ("local/contract/statement.py", "max(promises, key=", "min(promises, key="),
        tests="tests/local/test_terms_of_reports.py::test_a_report_of_a_larger_epsilon_counts_for_good",
    ),
    _bug(
        "weaker terms in an outbox",
        "reports of an earlier build with less noise are promised as those of this one",
        (
            "local/contract/statement.py",
            'if entry["status"] == protocol.status and weaker:',
            "if False and weaker:",
        ),
        tests="tests/local/test_terms_of_reports.py::test_weaker_terms_than_the_specs_are_refused",
    ),
    _bug(
        "a snapshot forgets terms",
        "a server's folder of simulated reports becomes enforced once a snapshot was written",
        (
            "local/server/server.py",
            'ReleaseLog.from_json(numbers["releases"])',
            "ReleaseLog.from_json([])",
        ),
        tests="tests/local/test_terms_of_reports.py::test_a_folder_of_simulated_reports_stays_simulated",
    ),
    _bug(
        "a server writes no terms",
        "a folder of simulated reports becomes enforced when it is opened with secure noise",
        ("local/server/durable.py", "            server._note_terms()\n", ""),
        tests="tests/local/test_terms_of_reports.py::test_a_folder_of_simulated_reports_stays_simulated",
    ),
    _bug(
        "merged counts of any noise",
        "simulated reports that another process counted are promised as enforced",
        ("local/server/counting.py", "if own != others:", "if own[0] != others[0]:"),
        tests="tests/local/test_terms_of_reports.py::test_counts_of_other_noise_are_not_merged",
    ),
    _bug(
        "test data pass unread",
        "an integration that sends ages as text passes its test, and every person counts as missing",
        (
            "tables/columns.py",
            "found = np.where(infinite, Fate.UNREADABLE, ",
            "found = np.where(infinite, Fate.READ, ",
        ),
        tests="tests/tables/test_checking.py",
    ),
    _bug(
        "test data pass unclipped",
        "an integration in another unit passes its test, and every person is clipped to one bound",
        (
            "tables/columns.py",
            "outside = (numbers < self.low) | (numbers > self.high)",
            "outside = numbers < self.low",
        ),
        tests="tests/tables/test_checking.py tests/local/test_device_refuses_blindly.py",
    ),
    _bug(
        "simulated answers paid as secure ones",
        "an account does not know that answers' noise can be repeated",
        (
            "outsourced/curator/curator.py",
            "return replace(proven, epsilon=cost.epsilon)",
            "return replace(proven, epsilon=cost.epsilon, simulated=False)",
        ),
        tests="tests/outsourced/test_secret_side.py::test_an_account_knows_that_a_release_was_simulated",
    ),
    _bug(
        "a cancelled evaluation escapes",
        "whoever asks reads what an objective said as it was cancelled, and its answer never comes",
        (
            "outsourced/curator/objective.py",
            "except BaseException as error:",
            "except (Exception, SystemExit) as error:",
        ),
        tests="tests/outsourced/test_curator.py::test_failed_evaluations_use_the_cap",
    ),
    # -- beginning from a published function -------------------------------------------------------
    _bug(
        "the function's promise forgotten",
        "where people are in both, a policy that began from a published function promises its part alone",
        (
            "central/beginning.py",
            "both = own.certificate.closest_beside(theirs.certificate, delta=delta)",
            "both = own.certificate",
        ),
        tests="tests/central/test_warm_start.py",
    ),
    _bug(
        "a pure loss beside another forgotten",
        "of two promises, one of them pure, the sum leaves a pure loss out",
        (
            "privacy/certificates.py",
            "apart = PureBeside(one + two, rest[0].compose(*rest[1:]))",
            "apart = PureBeside(max(one, two), rest[0].compose(*rest[1:]))",
        ),
        tests="tests/central/test_warm_start.py::test_a_pure_loss_is_not_taken_for_a_concentrated_one_where_that_"
        "is_more tests/privacy/test_accounting.py::TestComposition",
    ),
    _bug(
        "a ledger that nobody watches",
        "the statement rests on a ledger, and does not say that it must not be put back with the state",
        (
            "central/statement.py",
            "            *([sentences.LEDGER_IS_ONE] if setting.witnessed or setting.charged else []),\n",
            "",
        ),
        tests="tests/central/test_guarantees.py::test_that_there_is_one_ledger_is_assumed_where_one_is_relied_on",
    ),
    _bug(
        "a histogram that nobody charged",
        "an account does not know of the histogram of contexts, and the statement is silent about it",
        (
            "central/statement.py",
            '            *([HISTOGRAM_CHARGED] if setting.charged and "histogram" in records else []),\n',
            "",
        ),
        tests="tests/central/test_guarantees.py::test_that_a_histogram_was_charged_is_assumed_where_an_account_"
        "pays",
    ),
    _bug(
        "a curator's ledger that nobody watches",
        "a curator's statement rests on a ledger, and does not say that it must stay the one there is",
        (
            "outsourced/statement.py",
            "    if witnessed or budgeted:\n        yield LEDGER_IS_ONE\n",
            "",
        ),
        tests="tests/outsourced/test_curator.py::test_explain_claims_durability_only_where_there_is_a_disk",
    ),
    _bug(
        "errors of twice their size in the columns' own units",
        "a statement says that a released position errs by twice of what it does, in years and doses",
        (
            "outsourced/scaling.py",
            "share = distance / (2.0 * self.half_width)",
            "share = distance / self.half_width",
        ),
        tests="tests/outsourced/test_curator.py::test_explain_says_errors_in_the_columns_own_units",
    ),
    _bug(
        "two specs on one device",
        "a device reports under two specs, and neither statement says that their losses add up",
        (
            "local/contract/statement.py",
            "one. Each spec has an account of its own: nobody adds up what reports under several specs lose.",
            "one.",
        ),
        tests="tests/local/test_device_refuses_blindly.py::test_a_devices_statement_lists_what_its_ledger_does_not_"
        "add_up",
    ),
    _bug(
        "counts of tables without their distance",
        "counts rest on noise that is nearly Gaussian, and the statement does not say how nearly",
        (
            "central/marginals/statement.py",
            '    theorem = sentences.reason(theorem, records[-1].certificate, which=" on the counts")\n',
            "",
        ),
        tests="tests/central/test_guarantees.py::test_marginal_tables_say_what_their_counts_rest_on",
    ),
    _bug(
        "one purpose for all priors",
        "a state can say that people are disjoint who were not",
        (
            "central/beginning.py",
            "purpose = OF_OTHERS if self.disjoint else OF_THE_SAME",
            "purpose = OF_OTHERS",
        ),
        tests="tests/central/test_warm_start.py",
    ),
    _bug(
        "any charge will do",
        "a charge of any size passes for that of a published function",
        (
            "central/beginning.py",
            "if own or paid is None or not paid.covers(needed):",
            "if own or paid is None:",
        ),
        tests="tests/central/test_warm_start.py",
    ),
    _bug(
        "what the function rests on left out",
        "a promise of both is stated without what nobody checks of the published function",
        ("central/beginning.py", ", *self._carried(own)", ""),
        tests="tests/central/test_warm_start.py",
    ),
    _bug(
        "one charge for two promises",
        "what a policy paid for itself passes for what it owes for a published function",
        (
            "central/beginning.py",
            "if own or paid is None",
            "if paid is None",
        ),
        tests="tests/central/test_warm_start.py",
    ),
    _bug(
        "an account that comes later pays for one promise of two",
        "a policy that began without an account, and is loaded with one, never pays for the function",
        (
            "central/gp_bandit.py",
            "self._beginning = self._beginning.paid_by(self._holder)",
            "pass",
        ),
        tests="tests/central/test_warm_start.py",
    ),
    _bug(
        "people read as one array",
        "one person's text makes everybody's numbers unreadable, and takes nobody's round",
        (
            "adapters/mabwiser.py",
            "return [contexts] if one else list(contexts)",
            "return np.atleast_2d(np.asarray(contexts))",
        ),
        tests="tests/adapters/test_mabwiser.py",
    ),
    _bug(
        "a prior that is not entered",
        "the log of releases does not hold what a policy began from, nor that it was simulated",
        (
            "central/gp_bandit.py",
            "        self._enter_release(beginning.release(), 0)\n",
            "",
        ),
        tests="tests/central/test_warm_start.py",
    ),
    # -- rewards that take time --------------------------------------------------------------------
    _bug(
        "a reward's time moves the clock",
        "when a block is released depends on when one person's reward came",
        (
            "policy/rounds.py",
            "            late = self._deadlines.late(rounds, times_of(at, len(rounds)))\n",
            "            late = self._deadlines.late(rounds, times_of(at, len(rounds)))\n"
            "            self._deadlines.advance(float(times_of(at, len(rounds)).max()))\n",
        ),
        tests="tests/contracts/test_delays.py",
    ),
    _bug(
        "late by time and counted",
        "a reward that came after its block's deadline counts, if it is told before the release",
        ("policy/rounds.py", "            told = np.where(late, np.nan, told)\n", ""),
        tests="tests/contracts/test_delays.py",
    ),
    # -- marginal tables ---------------------------------------------------------------------------
    _bug(
        "one group counted of several",
        "everybody enters each of the tables of rewards, and the noise covers one",
        (
            "central/marginals/release.py",
            "return (groups + int(self._alone)) * self._table_sensitivity(first=first)",
            "return self._table_sensitivity(first=first)",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "table of arms not counted",
        "everybody enters the table of arms as well, and the noise covers the other tables",
        (
            "central/marginals/release.py",
            "return (groups + int(self._alone)) * self._table_sensitivity(first=first)",
            "return groups * self._table_sensitivity(first=first)",
        ),
        tests="tests/central/marginals/test_products.py",
    ),
    _bug(
        "marginal tables for users of one round",
        "several rounds of one user get the noise of one",
        (
            "central/marginals/release.py",
            "return 2 * self._largest(first=first) * self._setup.privacy.rounds_per_user",
            "return 2 * self._largest(first=first)",
        ),
        tests="tests/contracts/test_one_users_rounds.py",
    ),
    _bug(
        "shares of epsilon rounded up",
        "sums and counts together lose a little more than was promised",
        (
            "central/marginals/noise.py",
            "rest = float(np.nextafter(privacy.epsilon - loss, 0.0))",
            "rest = privacy.epsilon - loss",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "the first centre's bound for all",
        "rewards less a centre that is not the middle move further than the noise covers",
        (
            "central/marginals/release.py",
            "return UNITS // 2 if first else UNITS - _rounded(CENTRES[0])",
            "return UNITS // 2",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "centre not kept within bounds",
        "a released centre far off the range makes one reward move without bound",
        (
            "central/marginals/release.py",
            "return np.asarray(_rounded(np.clip(np.nan_to_num(best), *CENTRES)))",
            "return np.asarray(_rounded(np.nan_to_num(best)))",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "bins of actions from the actions of the block",
        "where a user's outcome is added up depends on which actions others got",
        (
            "central/marginals/release.py",
            "        rows_of = self._rows(block)\n",
            "        rows_of = np.searchsorted(np.unique(codes), np.arange(self.arms)) % self.arms\n",
        ),
        tests="tests/central/marginals/test_actions.py",
    ),
    _bug(
        "an outcome told for another action than the decided one",
        "sums hold outcomes in bins of actions that nobody got",
        (
            "central/marginals/release.py",
            "        n_rows, theirs = int(rows_of.max()) + 1, rows_of[codes]",
            "        n_rows, theirs = int(rows_of.max()) + 1, rows_of[::-1][codes]",
        ),
        tests="tests/central/marginals/test_actions.py",
    ),
    _bug(
        "a retired arm keeps its row",
        "every later release has noise and rewards of an arm that nobody is offered",
        (
            "central/marginals/release.py",
            "return np.unique(np.concatenate([self.history.offered(one) for one in versions]))",
            "return np.arange(max(self.history.known(one) for one in versions))",
        ),
        tests="tests/central/marginals/test_arm_changes.py",
    ),
    _bug(
        "a retired arm's rewards in another arm's row",
        "what is told for one arm is summed for another",
        (
            "central/marginals/release.py",
            "np.full(len(self.history.labels), -1, dtype=np.int64)",
            "np.full(len(self.history.labels), 0, dtype=np.int64)",
        ),
        tests="tests/central/marginals/test_arm_changes.py",
    ),
    _bug(
        "a retired product's rewards in a bin of other products",
        "rewards of a product that is not offered are summed in a table of products that are",
        (
            "central/marginals/product_release.py",
            "np.full(len(bins), -1, dtype=np.int64)",
            "np.full(len(bins), 0, dtype=np.int64)",
        ),
        tests="tests/central/marginals/test_products_change.py",
    ),
    _bug(
        "the table of products of a log without noise of its own",
        "the noise of the sums does not cover that a row is in one more table",
        (
            "central/logged/tables.py",
            "        return groups + (self.n_alone > 0)",
            "        return groups",
        ),
        tests="tests/central/logged/test_logged_products.py",
    ),
    _bug(
        "a change of arms begins the log anew",
        "the releases before it, and what was charged for them, are in no log",
        (
            "central/gp_bandit.py",
            "        self._holder.log = ReleaseLog.from_json(self._holder.log.to_json())",
            "        self._holder.log = ReleaseLog.from_json([*self._holder.log.events])",
        ),
        tests="tests/central/marginals/test_arm_changes.py",
    ),
    _bug(
        "an arm added twice",
        "two arms have one label, and rounds of both are read as rounds of the first",
        (
            "central/arm_changes.py",
            "        label = Arms([*self.labels, arm]).labels[-1]",
            "        label = Arms([arm]).labels[-1]",
        ),
        tests="tests/central/marginals/test_arm_changes.py",
    ),
    _bug(
        "the value of an action before noise",
        "sums are of values, which move further than the noise covers",
        (
            "central/marginals/release.py",
            "        worth = _rounded((told - low) / (high - low)) - ",
            "        told = told * (1.0 + codes * (self._setup.actions is not None))\n"
            "        worth = _rounded((told - low) / (high - low)) - ",
        ),
        tests="tests/central/marginals/test_actions.py",
    ),
    _bug(
        "a centre of actions not kept within bounds",
        "a prediction far off the range makes one outcome move without bound",
        (
            "central/marginals/action_release.py",
            "        return centre_of(found)\n",
            "        return np.asarray(np.rint(1024 * np.nan_to_num(found)).astype(np.int64))\n",
        ),
        tests="tests/central/marginals/test_actions.py",
    ),
    _bug(
        "bins from logged actions",
        "the ranks of a log's own actions decide their bins, so that one row moves the sums of others",
        (
            "central/logged/tables.py",
            "found = self.row_of[arms][:, None] * sums.n_cells + sums.locate(levels)",
            "found = (arms.argsort().argsort() * self.n_rows // len(arms))[:, None] * sums.n_cells\n"
            "        found = found + sums.locate(levels)",
        ),
        tests="tests/central/logged/test_logged_actions.py",
    ),
    _bug(
        "weights divided by their mean",
        "the density of one logged row changes how all other rows are weighted",
        (
            "central/logged/rows.py",
            "weights = self._clipped(np.minimum(even / chances, LARGEST_WEIGHT))",
            "weights = self._clipped(even / chances / (even / chances).mean())",
        ),
        tests="tests/central/logged/test_logged_actions.py",
    ),
    _bug(
        "a table of weights without noise of its own",
        "rows add their weights to one more table, and the noise covers the tables of rewards alone",
        (
            "central/logged/tables.py",
            "moved = self._sums(groups) * _UNITS + self.weight_units(groups)",
            "moved = self._sums(groups) * _UNITS",
        ),
        tests="tests/central/logged/test_logged_actions.py::test_the_table_of_weights_has_caps_of_its_own_and_is_left_out_of_even_logs",
    ),
    _bug(
        "weights left out of a vector's noise",
        "weights move a vector of sums and counts further than its noise covers",
        (
            "central/logged/tables.py",
            "            weights=self.weight_units(groups),\n",
            "",
        ),
        tests="tests/central/logged/test_logged_actions.py::test_one_user_moves_sums_weights_and_counts_together_by_no_more_than_gaussian_noise_covers",
    ),
    _bug(
        "the whole epsilon for the sums",
        "sums and counts together lose more than was promised",
        (
            "central/marginals/noise.py",
            "rest = float(np.nextafter(privacy.epsilon - loss, 0.0))",
            "rest = privacy.epsilon",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "one table of counts covered",
        "everybody is counted in every pair of columns, and the noise covers one table",
        (
            "central/marginals/noise.py",
            "return 2.0 * tables * rounds, float(",
            "return 2.0 * rounds, float(",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "pairs counted beside columns",
        "many columns are counted in pairs too, and the noise covers the tables of single columns",
        (
            "central/marginals/release.py",
            "return replace(self.law, design=tables)",
            "return replace(self.law, design=tables, paired=True)",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "refused rounds counted",
        "a context that could not be read is counted where a public point stands in for it",
        (
            "central/marginals/release.py",
            "counts = self._law_with(tables).counts(levels[~rows.refused])",
            "counts = self._law_with(tables).counts(levels)",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "missing rewards summed",
        "a reward that never came takes its centre from the sums",
        (
            "central/marginals/release.py",
            "        counted = rows.told & (theirs >= 0)",
            "        counted = theirs >= 0",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "the same noise in every block",
        "what one block's release and another's differ by shows without noise",
        (
            "central/marginals/release.py",
            "self.shares.on_sums(sensitivity, len(sums), self.noise, number=block)",
            "self.shares.on_sums(sensitivity, len(sums), self.noise, number=0)",
        ),
        tests="tests/central/marginals/test_marginals.py",
    ),
    _bug(
        "half the sensitivity of a census",
        "one person leaves a bin and enters another, and the noise covers one of the two",
        (
            "central/marginals/noise.py",
            "return max(2 * columns * self.privacy.rounds_per_user,",
            "return max(columns * self.privacy.rounds_per_user,",
        ),
        tests="tests/central/marginals/test_census.py",
    ),
    _bug(
        "a census without noise",
        "the cuts of ranges come from people's own numbers",
        (
            "central/marginals/release.py",
            "return counts + noise.reshape(counts.shape)",
            "return counts + 0 * noise.reshape(counts.shape)",
        ),
        tests="tests/central/marginals/test_census.py",
    ),
    # -- marginal tables of a log ------------------------------------------------------------------
    _bug(
        "a log's tables for users of one row",
        "several rows of one user get the noise of one",
        (
            "central/logged/tables.py",
            "return 2 * moved * self.privacy.rounds_per_user",
            "return 2 * moved",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_noise_covers_the_sensitivity_and_both_shares_stay_inside_the_promise",
    ),
    _bug(
        "one group of a log's tables covered",
        "every row enters a table of each group, and the noise covers one",
        (
            "central/logged/tables.py",
            "moved = self._sums(groups) * _UNITS + self.weight_units(groups)",
            "moved = _UNITS + self.weight_units(groups)",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_noise_covers_the_sensitivity_and_both_shares_stay_inside_the_promise",
    ),
    _bug(
        "a vector's rewards from the middle to one end",
        "a reward moves from one end of its range to the other, and the noise covers half of that",
        (
            "central/marginals/noise.py",
            "square = 4 * sums * units**2 + 2 * counts * weight**2 + 2 * weights**2",
            "square = sums * units**2 + 2 * counts * weight**2 + 2 * weights**2",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_one_user_moves_the_vector_of_sums_and_counts_by_no_more_than_its_noise_covers",
    ),
    _bug(
        "a vector's noise for disjoint tables",
        "with a table for each pair of columns a row enters more tables than there are columns",
        (
            "central/logged/tables.py",
            "            sums=groups,\n            counts=tables,\n",
            "            sums=min(groups, len(law.sizes)),\n            counts=tables,\n",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_one_user_moves_the_vector_of_sums_and_counts_by_no_more_than_its_noise_covers",
    ),
    _bug(
        "a vector's noise for users of one row",
        "several rows of one user get the noise of one, on sums and counts together",
        (
            "central/marginals/noise.py",
            "math.sqrt(square) * privacy.rounds_per_user * (1.0 + 2.0**-40)",
            "math.sqrt(square) * (1.0 + 2.0**-40)",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_one_user_moves_the_vector_of_sums_and_counts_by_no_more_than_its_noise_covers",
    ),
    _bug(
        "a vector's noise on sums alone",
        "how many people there are in every cell leaves as it is",
        (
            "central/marginals/noise.py",
            "return vector + noise.integer_gaussian(self.sigma, len(vector))",
            "return vector + np.pad(noise.integer_gaussian(self.sigma, len(sums)), (0, len(counts)))",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_a_vectors_noise_keeps_the_promise_in_both_parts",
    ),
    _bug(
        "unreadable rows of a log counted",
        "a row that cannot be read is counted among the people all the same",
        (
            "central/logged/tables.py",
            "np.column_stack([scaled, self.share * weights, readable]), 0.0)",
            "np.column_stack([scaled, self.share * weights, readable]), [0.0, 0.0, 1.0])",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_what_cannot_be_read_adds_nothing",
    ),
    _bug(
        "all rows of a busy user in an engine",
        "an engine adds up every row of a user who has many",
        (
            "central/logged/engine.py",
            "* {most} % dpb_n < {most}",
            "* {most} % dpb_n < dpb_n",
        ),
        tests="tests/central/logged/test_engine.py::test_duckdb_adds_up_hostile_rows_as_numpy_does",
    ),
    _bug(
        "k + 1 rows of a user in an engine",
        "an engine lets a user have one row more than the noise covers",
        (
            "central/logged/engine.py",
            "HAVING count(*) > {most}",
            "HAVING count(*) > {most + 1}",
        ),
        tests="tests/central/logged/test_engine.py::test_duckdb_adds_up_hostile_rows_as_numpy_does",
    ),
    _bug(
        "rows without an id in an engine",
        "an engine counts rows of nobody, of which one person may have any number",
        ("central/logged/engine.py", "WHERE dpb_id IS NOT NULL", "WHERE TRUE"),
        tests="tests/central/logged/test_engine.py::test_duckdb_adds_up_hostile_rows_as_numpy_does",
    ),
    _bug(
        "k + 1 rows of a user of a log",
        "one row more of a user counts than the noise covers",
        (
            "central/logged/plan.py",
            "% n * most % n < most",
            "% n * most % n <= most",
        ),
        tests="tests/central/logged/test_plan.py::test_at_most_k_rows_of_a_user_count_also_if_they_are_identical",
    ),
    _bug(
        "one choice of rows for all users of a log",
        "all users of equal rows have the same ones count, so sums are far from those of all rows",
        ("central/logged/plan.py", "(before + owners.texts[user])", "before"),
        tests="tests/central/logged/test_plan.py::test_which_rows_count_is_independent_between_users",
    ),
    _bug(
        "features of a log without caps",
        "rewards in rarely seen cells move features by more than the noise covers",
        ("central/logged/plan.py", "np.clip(own_adds, -caps, caps)", "np.clip(own_adds, -UNITS, UNITS)"),
        tests="tests/central/logged/test_plan.py::test_a_user_moves_the_sums_of_features_by_no_more_than_the_noise_covers",
    ),
    _bug(
        "features in an engine with rewards beyond their caps",
        "an engine cuts rewards on one side only",
        ("central/logged/engine.py", "least(greatest(dpb_y, -({cap})), {cap})", "least(dpb_y, {cap})"),
        tests="tests/central/logged/test_engine.py::test_duckdb_adds_up_what_features_need_as_numpy_does",
    ),
    _bug(
        "contexts of all rows of a busy user",
        "a user's rows beyond those that the noise covers are counted, and not learned from",
        (
            "central/logged/logged_table.py",
            "counts = summed(SumsPlan.of_cells(rules, None)) // UNITS",
            "counts = summed(replace(SumsPlan.of_cells(rules, None), rows_per_user=None)) // UNITS",
        ),
        tests="tests/central/logged/test_learning.py::test_features_are_learned_from_two_statements_or_one",
    ),
    _bug(
        "a user's rows by their place in the file",
        "which rows of a user count depends on the order of the table, which engines do not keep",
        (
            "central/logged/plan.py",
            "np.lexsort((*packed(many).T[::-1], of[many]))",
            "np.lexsort((many, of[many]))",
        ),
        tests="tests/central/logged/test_plan.py::test_the_order_of_the_table_does_not_decide_which_rows_count",
    ),
    _bug(
        "a log's tables charged as features",
        "an account pays for Gaussian noise where Laplace noise was drawn, whose loss adds up to more",
        (
            "central/logged/logged_table.py",
            'if self.release_under(privacy) == "features":\n            return cost_of_publishing',
            "if privacy.delta:\n            return cost_of_publishing",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_an_account_in_which_losses_add_up_is_charged_what_proves_the_tables",
    ),
    _bug(
        "a log's tables charged as with another bound",
        "an account pays for Gaussian noise where a wide bound leads to Laplace noise, which costs more",
        (
            "central/logged/logged_table.py",
            "policy = self.policy(privacy, horizon=horizon, bound=bound)\n        return cost_of_guarantee",
            "policy = self.policy(privacy, horizon=horizon)\n        return cost_of_guarantee",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_an_account_is_charged_for_the_law_of_noise_that_the_bound_leads_to",
    ),
    _bug(
        "a log's tables without noise on their counts",
        "how many people there are in every cell of two columns leaves as it is",
        (
            "central/logged/tables.py",
            "pairs = pairs + shares.on_counts(len(pairs), self.noise, number=1)",
            "pairs = pairs + 0",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_noise_covers_the_sensitivity_and_both_shares_stay_inside_the_promise",
    ),
    _bug(
        "a log's levels by raw counts",
        "where ranges are cut follows from the counts before noise, and is published",
        (
            "central/logged/tables.py",
            "levels = self._cut(margins).levels",
            "levels = self._cut(counts[:alone]).levels",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_tables_are_counted_in_levels_that_follow_from_the_released_counts_of_columns",
    ),
    _bug(
        "a log's noise certified for entries in equal levels",
        "more counts are drawn near Gaussian noise than are certified",
        (
            "central/logged/tables.py",
            "return max(entries, min(2 * tables * self.privacy.rounds_per_user, entries + fine))",
            "return max(entries, 0 * fine)",
        ),
        tests="tests/central/logged/test_logged_marginals.py::test_what_is_certified_covers_every_count_that_a_user_changes",
    ),
    # -- tables from a file ------------------------------------------------------------------------
    _bug(
        "arms by what is readable",
        "whether a row's label can be read decides which arms the rows after it are given",
        (
            "central/logged/logged_table.py",
            "            actions = arms_by_coins(len(paid), owners, n_arms=menu.n_arms)\n",
            "            actions = np.zeros(len(paid), dtype=np.int64)\n"
            "            readable = ~np.isnan(paid).any(axis=1)\n"
            "            owned = arms_by_coins(int(readable.sum()), owners, n_arms=menu.n_arms)\n"
            "            actions[readable] = owned\n",
        ),
        tests="tests/central/logged/test_logged_table.py::test_arms_are_drawn_by_public_coins_where_the_table_says_what_each_would_have_paid",
    ),
    _bug(
        "unreadable contexts refused",
        "one person's garbage in a log stops the publication, and says that it is there",
        (
            "central/logged/logged_table.py",
            '"contexts": menu.points({name: cells[name] for name in columns.contexts}),',
            '"contexts": menu.encode({name: cells[name] for name in columns.contexts}),',
        ),
        tests="tests/central/logged/test_logged_table.py::test_one_persons_garbage_takes_a_row_and_counts_nothing",
    ),
    _bug(
        "a schema outside the fingerprint",
        "another schema of the same cells is taken for a repetition of a run, and its release is given out",
        (
            "central/logged/logged_table.py",
            "        if self.menu is not None:\n            public[",
            "        if False:\n            public[",
        ),
        tests="tests/central/logged/test_logged_table.py::test_another_schema_is_another_run",
    ),
    _bug(
        "all of a promise for each row",
        "curate: a person with m rows loses m times what the statement says",
        (
            "outsourced/curator/curator.py",
            "            definition=privacy.each_row,\n",
            "            definition=privacy,\n",
        ),
        tests="tests/outsourced/test_rows_of_a_person.py",
    ),
    _bug(
        "surplus rows released",
        "curate: rows of a person beyond those that the noise covers are released",
        (
            "outsourced/scaling.py",
            "kept = kept[first_rows(numbers[kept], rows_per_user)]",
            "kept = kept[owners.named[kept]]",
        ),
        tests="tests/outsourced/test_rows_of_a_person.py",
    ),
    _bug(
        "rows in a database's order",
        "curate: which rows of a person count depends on where the database keeps other people's rows",
        (
            "outsourced/scaling.py",
            "_sorted(points, found, own) if unordered",
            "np.arange(len(points)) if unordered",
        ),
        tests="tests/outsourced/test_rows_of_a_person.py",
    ),
    _bug(
        "answers of one row paid",
        "curate: an account pays for one noised answer of a person who has several rows",
        (
            "outsourced/statement.py",
            "epsilon += privacy.rows_per_user * exact",
            "epsilon += exact",
        ),
        tests="tests/outsourced/test_rows_of_a_person.py",
    ),
    _bug(
        "several rows and nobody counts",
        "curate: several rows of a person are promised, and no column says whose they are",
        (
            "outsourced/curator/curator.py",
            "if privacy.rows_per_user > 1 and user is None:",
            "if False:",
        ),
        tests="tests/outsourced/test_rows_of_a_person.py",
    ),
    _bug(
        "a row more than is public",
        "schema: bounds are written from one row more than was declared public",
        (
            "tables/sketch.py",
            "lines = list(islice(filter(None, reader), rows))",
            "lines = list(islice(filter(None, reader), rows + 1))",
        ),
        tests="tests/tables/test_sketch.py",
    ),
    _bug(
        "a package's path leads out",
        "a description names a pickle anywhere, which is loaded as a table of the package",
        (
            "tables/packaged.py",
            '_NAMES = re.compile(r"(\\w[\\w.-]*)/(\\w[\\w.-]*)", re.ASCII)',
            '_NAMES = re.compile(r"(.+)/(.+)", re.ASCII)',
        ),
        tests="tests/tables/test_described.py",
    ),
    _bug(
        "an unreadable cell leaves its row",
        "a row with a cell that cannot be read is encoded with what stands in its other cells",
        (
            "tables/schema.py",
            "        points[np.isnan(points).any(axis=1)] = np.nan\n",
            "        points[np.isnan(points)] = 0.5\n",
        ),
        tests="tests/tables/test_dates.py",
    ),
    _bug(
        "what no feature describes is certain",
        "predict: a deviation of nearly nothing is stated where the features hold little of the function",
        (
            "models/noisy_regression.py",
            "return means, variances + weight_variance * left_out(features, points, own)",
            "return means, variances",
        ),
        tests="tests/central/test_gp_bandit.py",
    ),
    _bug(
        "columns beyond the limit of memory are held",
        "a small file from a stranger unfolds to gigabytes in whoever reads it",
        ("tables/files.py", "        self._memory.take(part.nbytes)\n", ""),
        tests="tests/tables/test_table_files.py::test_columns_take_at_most_the_limit_of_memory",
    ),
    _bug(
        "an open quote ends a text file",
        "one person's cell swallows the rows of all who come after",
        ("tables/warehouse/duck.py", "strict_mode=true", "strict_mode=false"),
        tests="tests/tables/test_warehouse.py::test_an_engines_error_repeats_no_cell_and_is_chained_to_none",
    ),
    _bug(
        "what counts nothing is logged",
        "whoever sends garbage fills the disk of a server",
        ("local/server/durable.py", "        if not sifted.tally.accepted:\n", "        if False:\n"),
        tests="tests/local/test_durable_server.py",
    ),
    _bug(
        "an audit settles for what always happens",
        "audit: with few samples the event of every output is chosen, which shows no loss at all",
        (
            "audit/bounds.py",
            "(pooled[1:], pooled[:-1]) if len(pooled) > 1 else (pooled, pooled)",
            "pooled, pooled",
        ),
        tests="tests/audit/test_bounds.py::test_an_event_that_holds_every_output_is_never_chosen",
    ),
    _bug(
        "an audit compares code with itself",
        "audit: both neighbours are the same, so no leak would ever be seen",
        (
            "audit/catalogue/central.py",
            "usca.learn(_BOTH, np.array([0, 0]), np.array([1.0, 2.0 * world - 1.0]))",
            "usca.learn(_BOTH, np.array([0, 0]), np.array([1.0, 1.0]))",
        ),
        tests="tests/audit/test_catalogue.py::test_audits_of_policies_tell_their_worlds_apart",
    ),
    _bug(
        "a verdict with a margin",
        "audit: a promise that loses twice what it says is said to hold",
        (
            "audit/claims.py",
            'verdict="exceeded" if found > self.epsilon else verdict,',
            'verdict="exceeded" if found > 2.0 * self.epsilon else verdict,',
        ),
        tests="tests/audit/test_claims.py",
    ),
    _bug(
        "a bound from the wrong side",
        "audit: what the likelier world shows is taken from above, so honest code is accused",
        (
            "audit/bounds.py",
            "low, _ = clopper_pearson(true, len(other), error=error)",
            "_, low = clopper_pearson(true, len(other), error=error)",
        ),
        tests="tests/audit/test_bounds.py",
    ),
    _bug(
        "a charge over another worker's",
        "two workers that charge one account at once: one of the two is paid for",
        (
            "service/row_ledger.py",
            "WHERE name = ? AND spent = ?",
            "WHERE name = ? AND ? <> ''",
        ),
        tests="tests/service/test_workers.py::test_a_charge_that_rests_on_an_older_balance_is_refused",
    ),
    _bug(
        "a state that two workers go on with",
        "two workers go on with one state, each with noise of its own",
        (
            "service/row_ledger.py",
            "WHERE lineage = ? AND position = ? AND digest = ?",
            "WHERE lineage = ? AND ? >= 0 AND ? <> ''",
        ),
        tests="tests/service/test_workers.py::test_a_state_that_another_worker_went_on_with_is_refused",
    ),
    _bug(
        "a round more of every worker",
        "a user who asks two workers at once takes part more often than was promised",
        ("service/engines.py", "WHERE people.rounds < ?", "WHERE people.rounds <= ?"),
        (
            "service/engines.py",
            "had is not None and int(had[0]) >= self.rounds_per_user",
            "had is not None and int(had[0]) > self.rounds_per_user",
        ),
        tests="tests/service/test_workers.py::test_users_rounds_are_counted_over_all_workers_at_once",
    ),
    _bug(
        "a round that was not taken, answered",
        "a decision is kept though its round was refused: nothing counts it",
        (
            "service/postgres.py",
            'self._broken = "mark" if inside and place > mark else "all"',
            'self._broken = "mark" if inside else "all"',
        ),
        tests="tests/service/test_stores.py::"
        "test_what_fails_after_its_mark_is_gone_fails_all_of_the_transaction",
    ),
    _bug(
        "what another call's failure undid, told as done",
        "a decision is answered whose round was undone together with a neighbour's",
        (
            "service/postgres.py",
            "if not inside or before or error.sqlstate is None:",
            "if not inside:",
        ),
        tests="tests/service/test_stores.py::"
        "test_what_fails_after_its_mark_is_gone_fails_all_of_the_transaction",
    ),
    _bug(
        "an answer before its commit",
        "a decision is shown that a crash forgets, and its round is taken again",
        (
            "service/writer.py",
            "        writes.when(kept=lambda: job.future.set_result(result))",
            "        job.future.set_result(result)",
        ),
        tests="tests/service/test_stores.py::test_nobody_is_answered_before_the_commit",
    ),
    _bug(
        "an error before the commit that it rests on",
        "who asks is told that something is taken, and after a crash it is free",
        (
            "service/writer.py",
            "        writes.when(kept=lambda: job.future.set_exception(failed))",
            "        job.future.set_exception(failed)",
        ),
        tests="tests/service/test_stores.py::test_an_error_is_told_with_what_it_rests_on",
    ),
    _bug(
        "a batch out of order",
        "what one person of a batch brings moves the others to another round, and perhaps to another block",
        (
            "service/decisions.py",
            "                break\n            asked_as.setdefault",
            "                continue\n            asked_as.setdefault",
        ),
        tests="tests/service/test_together.py::"
        "test_rounds_are_taken_in_the_order_of_a_batch_whatever_somebody_brings",
    ),
    _bug(
        "a route ahead of the framework forgets its path",
        "the limits of a token are not held against the policy that a decision names",
        ("service/direct.py", "path_params=places", "path_params={}"),
        tests="tests/service/test_direct.py::test_a_token_that_may_not_is_refused_in_the_same_words",
    ),
    _bug(
        "a worker in a database that was left",
        "what is acknowledged there is lost, and what is charged there was charged once more elsewhere",
        (
            "service/postgres.py",
            '            raise StateError(f"this database is out of service: {row[0]}")\n',
            "            pass\n",
        ),
        tests="tests/service/test_moving.py::"
        "test_a_worker_that_was_not_stopped_acknowledges_nothing_in_what_was_left",
    ),
    _bug(
        "a move that does not wait for what has begun",
        "a worker acknowledges a report into a database that was left meanwhile",
        (
            "service/postgres.py",
            '            writes.run("LOCK TABLE facts IN EXCLUSIVE MODE")\n',
            "",
        ),
        tests="tests/service/test_moving.py::"
        "test_a_worker_that_was_not_stopped_acknowledges_nothing_in_what_was_left",
    ),
    _bug(
        "a clock that has jumped is followed",
        "a clock one year ahead for a second erases raw rounds and settles every decision",
        (
            "service/clock.py",
            "        if abs(wall - mine) <= JUMP_SECONDS:\n",
            "        if abs(wall - mine) < math.inf:\n",
        ),
        tests="tests/service/test_clock.py",
    ),
    _bug(
        "errors of rewards are counted",
        "the number of rewards that are told while the store is away is in the metrics",
        (
            "service/metrics.py",
            "        if route.startswith(_UNCOUNTED):\n            return\n",
            "        if route.startswith(_UNCOUNTED) and status < 500:\n            return\n",
        ),
        tests="tests/service/test_metrics.py",
    ),
    _bug(
        "a token reaches what its limits leave out",
        "the limits of a token are not held against the names in paths: it exports other teams' raw data",
        (
            "service/gate.py",
            "    if not reached:\n",
            "    if table == 'none':\n",
        ),
        tests="tests/service/test_scopes.py::test_what_a_token_does_not_reach_is_answered_as_if_it_did_not_exist",
    ),
    _bug(
        "a limited admin makes a token of other populations",
        "whoever administers one population makes a token that reads another one's raw data",
        (
            "service/tokens.py",
            "return policies and populations and all(map(self.reach_population, other.populations or ()))",
            "return policies and populations",
        ),
        tests="tests/service/test_scopes.py::test_a_limited_admin_makes_and_sees_tokens_within_its_limits_alone",
    ),
    _bug(
        "a text that was replaced is valid for ever",
        "whoever has found a token's text goes on after it was rotated",
        (
            "service/tokens.py",
            '    before = COLUMNS.replace("t.ends_at", "t.previous_ends_at")\n',
            "    before = COLUMNS\n",
        ),
        tests="tests/service/test_scopes.py::test_a_rotated_token_is_the_same_token_and_its_old_text_ends_with_the_overlap",
    ),
    _bug(
        "a copy under no name",
        "a copy that is served without a name goes on, and releases a block again with other noise",
        (
            "service/backups.py",
            "if row is None or row[0] == settings.instance:",
            'if row is None or settings.instance in (row[0], ""):',
        ),
        tests="tests/service/test_copies.py",
    ),
    _bug(
        "an error of a setting as it came",
        "a number in the wrong variable, such as a part of a secret, is in the error and in the log",
        (
            "service/settings.py",
            'raise InvalidParameter(f"{PREFIX}{name.upper()}: expected {shown}") from None',
            "raise",
        ),
        tests="tests/service/test_settings.py::test_an_error_names_the_variable_and_never_its_value",
    ),
    _bug(
        "every proxy believed",
        "a client names its own address and scheme, and with them its share of the service",
        (
            "service/serving.py",
            "forwarded_allow_ips=proxies)",
            'forwarded_allow_ips="*")',
        ),
        tests="tests/service/test_proxies.py::test_only_proxies_that_are_named_say_how_a_client_came",
    ),
    _bug(
        "a flag's id says what context it was for",
        "whoever has a token tries contexts of a user, any number of them, and knows which one was sent",
        (
            "service/flags.py",
            "canonical([user, _text(given, _REQUEST)])",
            "canonical([user, _text(given, _REQUEST), given])",
        ),
        tests="tests/service/test_flags.py",
    ),
    _bug(
        "every route is open to pages",
        "a page of a named origin makes tokens and exports raw data with a token that it was given",
        ("service/application.py", 'and _OPEN.fullmatch(scope["path"])', 'and scope["path"]'),
        tests="tests/service/test_interface.py",
    ),
    _bug(
        "a fallback without its reason",
        "an application that sends contexts which cannot be read sees answers that look well",
        (
            "service/decisions.py",
            "**chosen, **why}, ask, status",
            "**chosen}, ask, status",
        ),
        tests="tests/service/test_reasons.py",
    ),
    _bug(
        "a warm start is followed from the first release on",
        "a policy that began from a published function decides its first block by nothing",
        ("service/engines.py", "= -int(informed), None", "= 0, None"),
        tests="tests/service/test_tuning_over_http.py",
    ),
    _bug(
        "a reward while its block is folded",
        "whether a reward counts depends on when a worker happens to fold",
        (
            "service/folding.py",
            '        self._change_slots(change, (int(RoundStatus.MISSED),), "status = ?", here)\n',
            "",
        ),
        tests="tests/service/test_workers.py::test_a_reward_counts_until_its_block_is_closed_and_never_after",
    ),
    _bug(
        "a database that was put back",
        "an older copy of the database releases again what was released, with other noise",
        (
            "service/row_ledger.py",
            "if not found or found[0] != last:",
            "if False:",
        ),
        tests="tests/service/test_witness_of_database.py::"
        "test_an_older_copy_releases_and_charges_nothing_and_serves_nobody",
    ),
    _bug(
        "a release that no witness knows",
        "what the witness was not told decides, so that it can be drawn again unnoticed",
        (
            "service/engines.py",
            "        self._ledger.settle()\n        known, ",
            "        known, ",
        ),
        tests="tests/service/test_witness_of_database.py::"
        "test_what_the_witness_was_not_told_is_not_shown_until_it_is",
    ),
    _bug(
        "a report that counts once a worker",
        "a report that is sent to two workers weighs twice",
        (
            "service/surveys.py",
            "yield writes, self._followed(writes)",
            "yield writes, self._server or self._followed(writes)",
        ),
        tests="tests/service/test_shared_surveys.py::test_a_report_counts_once_whichever_workers_it_came_to",
    ),
    _bug(
        "counts that were never committed",
        "a worker answers by reports that the database does not have",
        (
            "service/surveys.py",
            "            self._server = None\n            raise\n",
            "            raise\n",
        ),
        tests="tests/service/test_shared_surveys.py::test_what_was_not_committed_did_not_count",
    ),
    _bug(
        "metrics that no fold reads",
        "a readout of the service takes everybody's metrics for the public defaults, and finds no harm",
        (
            "service/round_log.py",
            "beside = _matrix(part.metrics, self._metrics or 0)[either] if self._metrics else None",
            "beside = None",
        ),
        tests="tests/service/test_readout.py::"
        "test_looks_are_those_of_the_library_though_the_service_is_closed_between_them",
    ),
    _bug(
        "a look that each worker draws",
        "workers that only answer draw looks of their own, with other noise, and stop by them",
        (
            "service/engines.py",
            "        found = self._published(self._book.asked)\n",
            "        self.release_looks()\n        found = self._published(self._book.asked)\n",
        ),
        tests="tests/service/test_readout.py::"
        "test_a_rule_that_stops_serves_the_control_from_the_same_round_on_as_the_library",
    ),
    _bug(
        "a salt for each worker",
        "a user who returns to another worker is in another group, and has as many rounds again there",
        ("service/engines.py", "            salt=salt,\n", ""),
        tests="tests/service/test_readout_workers.py::test_workers_release_what_one_policy_does",
    ),
    _bug(
        "a readout for everybody",
        "whoever reaches the service reads what a policy earns, without a token",
        (
            "service/application.py",
            "def get_readout(policy: PolicyName, token: Reader)",
            "def get_readout(policy: PolicyName)",
        ),
        tests="tests/service/test_scopes.py",
    ),
    _bug(
        "metrics that stay with an erased decision",
        "what people did beside the reward is kept after the retention time",
        ("service/retention.py", "reward = NULL, metrics = NULL, body = ?", "reward = NULL, body = ?"),
        tests="tests/service/test_readout.py::test_the_raw_export_has_the_metrics_until_they_are_erased",
    ),
    _bug(
        "metrics that stay with an erased round",
        "what people did beside the reward stays in a round whose block is never released",
        ("service/folding.py", "reward = NULL, metrics = NULL, chosen = ?", "reward = NULL, chosen = ?"),
        tests="tests/service/test_readout.py::test_the_raw_export_has_the_metrics_until_they_are_erased",
    ),
    _bug(
        "contexts of rounds that grew old",
        "what people brought stays in a state whose block is never released",
        (
            "policy/bookkeeping.py",
            "            self._actions[: stop - self._first_open] = point\n",
            "",
        ),
        tests="tests/service/test_served.py::test_nothing_of_them_is_kept_and_all_else_is",
    ),
    _bug(
        "an erased round that counts",
        "what is left of an erased round is taken for something that its person brought",
        (
            "policy/bookkeeping.py",
            "            self._status[self._first_open : stop] = RoundStatus.REFUSED\n",
            "",
        ),
        tests="tests/service/test_served.py::test_they_count_as_rounds_that_could_not_be_read",
    ),
    _bug(
        "rounds of a retired policy",
        "the log of rounds of a policy that releases nothing more is kept for ever",
        (
            "service/folding.py",
            "                    opened.erase_rounds(old.before)\n",
            "                    pass\n",
        ),
        tests="tests/service/test_retention.py::test_rounds_of_a_block_that_is_never_released",
    ),
    # -- bugs that a review seeded and that no test noticed ------------------------------------------------
    _bug(
        "an answer at twice its epsilon",
        "explore-then-commit draws each answer with half the noise that its share of epsilon pays for",
        (
            "central/logged/policy.py",
            "epsilon=budget.answer_epsilon, words=words\n",
            "epsilon=2.0 * budget.answer_epsilon, words=words\n",
        ),
        tests="tests/central/logged/test_sensitivities.py::test_an_answer_is_drawn_from_the_law_that_its_epsilon_pays_for",
    ),
    _bug(
        "scores doubled before the draw",
        "one user moves the scores of an answer by twice the range that the noise covers",
        (
            "central/logged/policy.py",
            "            scores[places].tolist(), sensitivity=span,",
            "            (2 * scores[places]).tolist(), sensitivity=span,",
        ),
        tests="tests/central/logged/test_sensitivities.py::test_an_answer_is_drawn_from_the_law_that_its_epsilon_pays_for",
    ),
    _bug(
        "surplus rows in the histogram",
        "one user moves a private histogram by all rows that they bring, and the noise covers k",
        (
            "central/logged/contexts.py",
            "            counted &= first_rows(Owners.of(users, count=len(found)).numbers, rounds)\n",
            "            Owners.of(users, count=len(found))\n",
        ),
        tests="tests/central/logged/test_sensitivities.py::test_a_users_surplus_rows_do_not_move_a_private_histogram",
    ),
    _bug(
        "rows without room for rounding",
        "two rows that round apart lie further from each other than the noise covers",
        (
            "privacy/rows/gaussian.py",
            "return distance / self.step + math.sqrt(self.dim) + 1.0",
            "return distance / self.step",
        ),
        tests="tests/privacy/test_row_mechanisms.py::test_gaussian_rows_noise_covers_the_worst_neighbours",
    ),
    _bug(
        "online counts as one draw",
        "the certificate of the counts of all blocks allows for the distance of one draw from Gaussian noise",
        (
            "central/marginals/noise.py",
            "euclidean, loss, privacy.delta, draws=entries)",
            "euclidean, loss, privacy.delta, draws=1)",
        ),
        tests="tests/central/marginals/test_marginals.py::test_the_certificate_of_online_counts_allows_for_all_their_draws",
    ),
    _bug(
        "a fingerprint without a key",
        "whoever reads the notes of a run can test which table it learned from",
        (
            "central/logged/rows.py",
            "digest = hmac.new(key, ",
            'digest = hmac.new(b"", ',
        ),
        tests="tests/central/logged/test_logged_table.py::test_a_fingerprint_needs_its_key",
    ),
    _bug(
        "a logged table that prints its rows",
        "a notebook or a log of an exception shows what people brought",
        (
            "central/logged/logged_table.py",
            "@dataclass(frozen=True, eq=False, repr=False, kw_only=True)\nclass LoggedTable:",
            "@dataclass(frozen=True, eq=False, kw_only=True)\nclass LoggedTable:",
        ),
        tests="tests/contracts/test_leaks_everywhere.py::test_what_holds_raw_rows_prints_none",
    ),
    _bug(
        "a block that prints its rows",
        "a log of an exception shows what a block's people brought",
        (
            "central/kinds.py",
            '    def __repr__(self) -> str:\n        return "BlockRows()"\n',
            "",
        ),
        tests="tests/contracts/test_leaks_everywhere.py::test_what_holds_raw_rows_prints_none",
    ),
    _bug(
        "an answer's message names the cell",
        "an error that is logged or sent back says where a person's context lies",
        (
            "central/logged/policy.py",
            'raise InvalidData("available: expected at least one action")',
            'raise InvalidData(f"available: expected at least one action in cell {cell}")',
        ),
        tests="tests/central/logged/test_attacks.py::test_an_answers_message_says_nothing_of_the_person",
    ),
    _bug(
        "one ragged row makes all others unreadable",
        "a list of rows of which one has another length is read as cells that are no numbers",
        (
            "_cells.py",
            "            return _rows_of(cells.tolist(), width)\n",
            "            return np.full((len(cells), width), np.inf)\n",
        ),
        tests="tests/tables/test_cell_by_cell.py::test_an_entry_that_is_no_row_costs_itself_alone",
    ),
    _bug(
        "one bad decision set refuses the batch",
        "what one visitor brings decides whether others are answered",
        (
            "policy/decision_sets.py",
            "        if all(own is None for own in found):  # no entry is a decision set\n",
            "        if any(own is None for own in found):\n",
        ),
        tests="tests/tables/test_cell_by_cell.py::test_a_decision_set_that_is_none_is_refused_alone",
    ),
    # -- diagnostics ---------------------------------------------------------------------------------
    _bug(
        "diagnostics of raw sums",
        "the share of rounds that were told is shown exactly, without the noise of a release",
        (
            "central/feature_release.py",
            "self.mechanism.block_estimates(past.mixed[:count]).sum(axis=0)",
            "self.mechanism.block_estimates(past.raw_sums[:count]).sum(axis=0)",
        ),
        tests="tests/central/test_silent_failure.py::test_the_share_that_diagnostics_tell_is_as_noisy_as_what_was_released",
    ),
    _bug(
        "predictions at people's points",
        "diagnostics show the lowest and highest prediction at what people were given since the last release",
        (
            "central/gp_bandit.py",
            "        points = self.domain.sample(PUBLIC_POINTS, np.random.default_rng(0))\n",
            "        open_rounds = np.arange(self.blocks[self.blocks_released - 1], self._book.asked)\n"
            "        points = self._book.actions(open_rounds)\n",
        ),
        tests="tests/central/test_silent_failure.py::test_diagnostics_change_with_releases_only",
    ),
    _bug(
        "diagnostics of a release that is not kept",
        "what was drawn and not yet saved is shown, and drawn again after a crash",
        (
            "central/gp_bandit.py",
            "        count = self.blocks_released\n",
            "        count = self._past.count\n",
        ),
        tests="tests/central/test_gp_bandit.py",
    ),
    _bug(
        "diagnostics count who has not reported",
        "diagnostics count who has not reported yet, without noise",
        (
            "central/gp_bandit.py",
            '            **super().diagnostics(),\n            "release": self.tuning.release,\n',
            "            **super().diagnostics(),\n"
            '            "pending": len(self._book.pending),\n'
            '            "release": self.tuning.release,\n',
        ),
        tests="tests/central/test_silent_failure.py::test_diagnostics_change_with_releases_only",
    ),
    _bug(
        "an audit of too few samples holds",
        "a claim passes for attacked where no outcome of the attack could have refuted it",
        (
            "audit/claims.py",
            'verdict: Verdict = "undecided" if fewest is None or samples < fewest else "holds"',
            'verdict: Verdict = "holds"',
        ),
        tests="tests/audit/test_claims.py::test_an_audit_of_too_few_samples_is_undecided",
    ),
    _bug(
        "a group for every round",
        "a user who returns is in both groups, and loses as much in each of them",
        (
            "central/readout/groups.py",
            "self.coins.of_users(_PURPOSE, digests) < self.share",
            "self.coins.uniform(_PURPOSE, start, start + count, 1)[:, 0] < self.share",
        ),
        tests="tests/central/readout/test_readout_policy.py::"
        "test_a_user_stays_in_one_group_whatever_the_round_and_the_company",
    ),
    _bug(
        "control rows in learning",
        "users of the control group are in the tables too, beside sums that spend their whole promise",
        (
            "central/gp_bandit.py",
            "return rows if self._run is None else rows.only(self._run.learns(start, stop))",
            "return rows",
        ),
        tests="tests/central/readout/test_readout_policy.py::"
        "test_nothing_of_the_control_group_enters_learning",
    ),
    _bug(
        "sums of a look without noise",
        "sums of outcomes are released as they are",
        (
            "central/readout/run.py",
            "sums.append(exact + own.draw(noise))",
            "sums.append(exact)",
        ),
        tests="tests/central/readout/test_readout_policy.py::test_the_noise_of_a_look_is_the_stated_one",
    ),
    _bug(
        "noise left out of an interval",
        "intervals of a readout count the sampling error alone, and hold half as often as stated",
        (
            "central/readout/budget.py",
            "return NoiseScales(0.0, self.scale * step) if self.gaussian else "
            "NoiseScales(self.scale * step, 0.0)",
            "return NoiseScales(0.0, 0.0)",
        ),
        tests="tests/central/readout/test_readout_policy.py::test_the_noise_of_a_look_is_the_stated_one",
    ),
    _bug(
        "learning spends the whole promise",
        "the sums of the policy group come on top of a promise that learning has spent",
        (
            "central/gp_bandit.py",
            'privacy=for_learning(self.privacy, readout.spent, gaussian=release == "features"),',
            "privacy=self.privacy,",
        ),
        tests="tests/central/readout/test_readout_policy.py",
    ),
    _bug(
        "one segment alone in the sensitivity",
        "replacing a user moves the sums of two segments, and the noise is for one of them",
        (
            "central/readout/segments.py",
            "return float(2 * (U + Q + A))",
            "return float(2 * U + Q + A)",
        ),
        tests="tests/central/readout/test_segments.py::"
        "test_replacing_a_round_moves_the_integers_by_at_most_the_sensitivity",
    ),
    _bug(
        "no noise where nobody is",
        "a segment that is empty at a look loses its noise, so whoever enters it later is seen",
        (
            "central/readout/rows.py",
            "return stop, before + np.array(sums)",
            "return stop, before * (np.array(sums)[..., -1:] > 0) + np.array(sums)",
        ),
        tests="tests/central/readout/test_segments.py::"
        "test_the_noise_of_segments_is_the_stated_one_also_where_nobody_is",
    ),
    _bug(
        "a segment for contexts that cannot be read",
        "a round with an unreadable context is counted in a segment, as if its context were the public point",
        (
            "central/readout/segments.py",
            "return np.where(False if refused is None else refused, NOWHERE, found).astype(np.int16)",
            "return found.astype(np.int16)",
        ),
        tests="tests/central/readout/test_segments.py::test_a_user_moves_the_segments_of_the_own_group_alone",
    ),
    _bug(
        "learning from the control after an early end",
        "users whose group has spent its whole promise enter learning once the comparison has ended",
        (
            "central/readout/rows.py",
            "np.where(found == CONTROL, NEITHER, found)",
            "np.where(found == CONTROL, 0, found)",
        ),
        tests="tests/central/readout/test_end.py::"
        "test_afterwards_the_policy_serves_everybody_and_learns_from_its_group_alone",
    ),
    _bug(
        "an early end spends as a whole look",
        "whoever ends a comparison just after a promising look excludes the truth more often than stated",
        (
            "models/readout/boundaries.py",
            "k / planned if reached is None else reached",
            "k / planned",
        ),
        tests="tests/central/readout/test_end.py::"
        "test_whoever_ends_a_comparison_because_of_a_look_excludes_the_truth_no_more_often",
    ),
    _bug(
        "decisions that do not wait for an early end",
        "workers of a service serve the control group after the comparison has ended",
        (
            "service/engines.py",
            "ending = self._looks_end and not policy.looks_over",
            "ending = False",
        ),
        tests="tests/service/test_readout.py::"
        "test_an_early_end_is_one_for_two_workers_and_the_policy_serves_everybody_afterwards",
    ),
    _bug(
        "a published function pickled as it is",
        "whatever a function remembers of its making travels with it, and not only what was released",
        (
            "central/published_function.py",
            "        return PublishedFunction.from_files, (self.to_files(),)\n",
            "        return object.__reduce_ex__(self, 2)  # type: ignore[return-value]\n",
        ),
        tests="tests/contracts/test_copies.py::test_a_pickled_function_holds_what_save_writes",
    ),
    _bug(
        "shuffled reports hide behind too many",
        "a certificate of shuffled reports counts more clones of each person than the mechanism makes",
        (
            "privacy/shuffling.py",
            "log_odds = math.log(2.0) - ",
            "log_odds = math.log(3.0) - ",
        ),
        tests="tests/privacy/test_shuffling.py::test_it_is_never_below_the_exact_divergence",
    ),
    _bug(
        "clones merged into the most",
        "a certificate of shuffled reports merges numbers of clones into those that protect more",
        (
            "privacy/shuffling.py",
            "return clones[starts] + 1.0,",
            "return clones[np.minimum(starts + step, len(clones)) - 1] + 1.0,",
        ),
        tests="tests/privacy/test_shuffling.py::test_many_people_are_summed_in_few_places_and_never_below",
    ),
)
