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
            "central/gp_bandit.py",
            "sums = self._mechanism.mechanism.encode(features[told], centred)",
            "sums = self._mechanism.mechanism.encode(\n"
            "            features[told], centred - (centred.mean() if len(centred) else 0.0)\n"
            "        )",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "range of scores halved",
        "explore-then-commit draws answers with half the noise",
        (
            "central/explore_then_commit/calibration.py",
            "span = 2 * self.rounds_per_user * int(",
            "span = self.rounds_per_user * int(",
        ),
        tests="tests/central/test_usca_privacy.py",
    ),
    _bug(
        "caps of cells removed",
        "explore-then-commit's sums hold rewards above the cap of their cell",
        (
            "central/explore_then_commit/sums.py",
            "weights=np.clip(values, -limit, limit), minlength=size",
            "weights=values + 0.0 * limit, minlength=size",
        ),
        tests="tests/central/test_usca_privacy.py tests/central/test_usca.py",
    ),
    _bug(
        "function release at half the noise",
        "explore-then-commit publishes with noise for half of what one user can move",
        (
            "central/explore_then_commit/publish.py",
            "return 2.0 * self.rounds_per_user * float((caps * norms).max())",
            "return self.rounds_per_user * float((caps * norms).max())",
        ),
        tests="tests/central/test_usca_privacy.py tests/central/test_phased_usca.py",
    ),
    # -- the law of the noise ----------------------------------------------------------------------
    _bug(
        "scale from the wrong root",
        "a discrete Gaussian at 1/sqrt(2) of the scale that its certificate needs",
        (
            "privacy/noise.py",
            "sigma = _rounded_up(distance / math.sqrt(2.0 * rho))",
            "sigma = _rounded_up(distance / math.sqrt(4.0 * rho))",
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
        tests="tests/privacy/test_frequency_mechanisms.py tests/audit/test_own_bin_noise.py",
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
        tests="tests/contracts/test_neighbours.py tests/policy/test_bookkeeping.py",
    ),
    _bug(
        "releases timed by tells",
        "a block is released when enough rewards came, so its time depends on one of them",
        (
            "central/gp_bandit.py",
            "self._book.asked >= self.batch_boundaries[block]",
            "(\n            self._book.asked - len(self._book.pending)\n"
            "            >= self.batch_boundaries[block]\n        )",
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
            "any(self._users.of(user) + more > limit for",
            "any(more > limit for",
        ),
        tests="tests/policy/test_bookkeeping.py tests/contracts/test_asking_and_telling.py",
    ),
    _bug(
        "a bad set takes no round",
        "what one user brings decides whether all who follow move up",
        (
            "policy/base.py",
            "        digests = self._admit(len(rows), users)\n"
            "        refused = self._unusable(rows, available)\n",
            "        refused = self._unusable(rows, available)\n"
            "        if refused.all():\n"
            "            self.domain.validate(rows)\n"
            "        digests = self._admit(len(rows), users)\n",
        ),
        tests="tests/contracts/test_asking_and_telling.py tests/contracts/test_neighbours.py",
    ),
    _bug(
        "a bad reward keeps others out",
        "one reward off the range, and nobody's in the batch counts",
        (
            "policy/base.py",
            "values, usable = self.reward_range.within(told, clip=self.clip)",
            "values, usable = self.reward_range.within(told, clip=self.clip)\n"
            "        usable = usable & usable.all()",
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
            'digest = self._digest("str", text.encode(errors="surrogatepass"))',
            'digest = self._digest(type(user).__name__, text.encode(errors="surrogatepass"))',
        ),
        tests="tests/policy/test_bookkeeping.py tests/contracts/test_asking_and_telling.py",
    ),
    _bug(
        "earlier counts forgotten",
        "who took part before a restart, by a number for an id, takes part again",
        ("policy/bookkeeping.py", "found._typed = int(", "found._typed = False and int("),
        tests="tests/policy/test_bookkeeping.py",
    ),
    _bug(
        "surplus rows kept",
        "a user's rows beyond those that the noise covers are learned from",
        (
            "central/explore_then_commit/rows.py",
            "kept = first_rows(owners.numbers, self.rules.rounds_per_user, self._users.had(digests))",
            "kept = first_rows(owners.numbers, self.rules.horizon, self._users.had(digests))",
        ),
        tests="tests/central/test_usca.py tests/contracts/test_contexts_instead_of_candidates.py",
    ),
    _bug(
        "unreadable rows leave their place",
        "whether a row could be read decides whose row is the last that counts",
        (
            "central/explore_then_commit/rows.py",
            "kept = np.ones(len(cells), dtype=np.bool_)",
            "kept = readable.copy()",
        ),
        tests="tests/central/test_usca.py tests/central/test_logged_table.py",
    ),
    _bug(
        "scale by the rows that came",
        "the printed scale says how many rows of a log were dropped",
        (
            "central/explore_then_commit/logged_table.py",
            "            horizon=horizon,\n            privacy=privacy,",
            '            horizon=int(np.isfinite(self.rows["rewards"]).sum()),\n            privacy=privacy,',
        ),
        tests="tests/central/test_logged_table.py",
    ),
    _bug(
        "encoding by who reported",
        "features are computed in a product whose shape, and rounding, says how many reported",
        (
            "central/gp_bandit.py",
            "features = in_fixed_shapes(self.features, actions)",
            "features = np.zeros((len(actions), self.features.n_features))\n"
            "        features[told] = self.features(actions[told])",
        ),
        tests="tests/contracts/test_neighbours.py",
    ),
    _bug(
        "seed stream shifted by ties",
        "a tie in one user's decision set moves the public draws of all later ones",
        (
            "central/gp_bandit.py",
            "        return best_choice(scores, ties, available), None\n",
            "        best = scores == scores.max(axis=1, keepdims=True)\n"
            "        shift = self._tied = getattr(self, '_tied', 0) + int((best.sum(axis=1) > 1).sum())\n"
            '        ties = self._coins.uniform("ties", start + shift, start + shift + n_sets, 1)[:, 0]\n'
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
    # -- budget, durability, copies ----------------------------------------------------------------
    _bug(
        "ledger charge skipped",
        "a policy answers without paying",
        (
            "policy/base.py",
            "            self._holder.charge(self._charged_as, ",
            "            (lambda *_, **__: None)(self._charged_as, ",
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "budget counted after release",
        "explore-then-commit draws and keeps an answer before the ledger agrees",
        (
            "central/explore_then_commit/policy.py",
            '        self._spend("answer", number - 1, f"answer:{number}")\n',
            "",
        ),
        (
            "central/explore_then_commit/policy.py",
            "        return Answer(index, self.actions.points[index], number)\n",
            '        self._spend("answer", number - 1, f"answer:{number}")\n'
            "        return Answer(index, self.actions.points[index], number)\n",
        ),
        tests="tests/central/test_usca.py",
    ),
    _bug(
        "answers not kept",
        "an answer leaves before its number is on disk, and is drawn again after a crash",
        (
            "central/explore_then_commit/policy.py",
            "        self._answered = number\n        self._holder.commit()\n",
            "        self._answered = number\n",
        ),
        tests="tests/central/test_usca.py",
    ),
    _bug(
        "release used before it is kept",
        "a policy answers by a release that a crash would draw again",
        (
            "policy/base.py",
            "        self._holder.commit()\n        self._fit()\n",
            "        self._fit()\n",
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "forked state accepted",
        "two copies of one state go on, and release twice",
        (
            "state/ledger.py",
            "if last is None or new == last or new.position == last.position + 1:",
            "if last is None or new == last or new.position >= last.position:",
        ),
        tests="tests/state/test_ledger.py",
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
            "policy/base.py",
            "        policy._charge()\n        policy._holder.take_over()\n        return policy\n",
            "        policy._charge()\n        return policy\n",
        ),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "release not logged",
        "a state does not know on which terms its blocks were released",
        ("central/gp_bandit.py", "        self._enter_release(self._uses()[0], block)\n", ""),
        tests="tests/contracts/test_saving.py",
    ),
    _bug(
        "log not held against the configuration",
        "a release with a hundredth less noise than is promised is taken up",
        (
            "privacy/release_terms.py",
            'or not float(entry["scale"]) >= record.scale * (1.0 - _ROUNDING)',
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
            "last.choice = None  # what the report was about is not kept",
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
            "                exact = np.array([self._evaluate(published.number(row))])\n"
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
            "            if os.fstat(descriptor).st_size != self._mark.length:\n",
            "            os.ftruncate(descriptor, self._mark.length)\n            if False:\n",
        ),
        tests="tests/state/test_journal.py",
    ),
    _bug(
        "answered row taken from a broken log",
        "a log that answers a row twice goes on without the rows behind it",
        (
            "outsourced/curator/answers.py",
            "                self._unsound = True  # for good: the journal gives a record once\n",
            "",
        ),
        tests="tests/outsourced/test_curator.py",
    ),
    # -- the command line --------------------------------------------------------------------------
    _bug(
        "a retry is another charge",
        "learn: an interrupted run is charged once more when it is repeated",
        (
            "central/explore_then_commit/once.py",
            'charge_id=f"learn:{run.name}"',
            'charge_id=f"learn:{secrets.token_hex(16)}"',
        ),
        tests="tests/cli/test_usca_commands.py",
    ),
    _bug(
        "any run may finish another",
        "learn: another table takes up the folder and the charge of a run that was begun",
        (
            "central/explore_then_commit/once.py",
            "elif not secrets.compare_digest(",
            "elif False and not secrets.compare_digest(",
        ),
        tests="tests/cli/test_usca_commands.py",
    ),
    _bug(
        "a lost release is drawn again",
        "learn: whoever removes the published folder gets fresh noise for the same charge",
        (
            "central/explore_then_commit/once.py",
            "if run.release or (ledger is not None and ledger.last(run.name) is not None):",
            "if False and run.release:",
        ),
        tests="tests/cli/test_usca_commands.py",
    ),
    _bug(
        "rows outside the fingerprint",
        "learn: the same options on a changed table pass for the same run",
        (
            "central/explore_then_commit/logged_table.py",
            "for name, values in sorted(self.rows.items()):",
            "for name, values in sorted(self.rows.items())[:0]:",
        ),
        tests="tests/cli/test_usca_commands.py",
    ),
    _bug(
        "a manifest that nobody reads",
        "predict: a function goes under another release's statement",
        (
            "central/explore_then_commit/logged_table.py",
            "if _manifest(files) != manifest:",
            "if not files:",
        ),
        tests="tests/cli/test_usca_commands.py",
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
        ("tables/files.py", '{"", "na", "nan", "null"}', '{"", "nan", "null"}'),
        tests="tests/tables/test_table_files.py",
    ),
    _bug(
        "cells as they come",
        "Parquet: a list in a cell passes for somebody's name",
        (
            "tables/files.py",
            "_FROM_PARQUET: dict[type, Callable[[Any], object]] = {float: _number, str: _text,",
            "_FROM_PARQUET: dict[type, Callable[[Any], object]] = {float: _number, str: str,",
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
)
