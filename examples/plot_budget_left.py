"""
How much budget is left?
========================

A ledger keeps one account for the people whom several policies see. A policy charges the account before its
first answer, and one that it cannot pay for is refused before it computes anything. Accounts add up
certificates, which cost less than the bare epsilons.
"""

import matplotlib.pyplot as plt

import dpbandits as dpb
from dpbandits.policy.accounts import open_account

ledger = dpb.MemoryLedger()
open_account(ledger, "customers", privacy=dpb.JointDP(epsilon=3, delta=1e-5))
spent, refused = [0.0], False
while not refused:
    campaign = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        arms=["mail", "call"],
        reward_range=(0, 1),
        horizon=1_000,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
        ledger=ledger,
        account="customers",
    )
    try:
        campaign.ask({"age": 44}, user="u-17")
        spent.append(float(ledger.balance("customers").spent_epsilon))
    except dpb.errors.BudgetExceeded as error:
        print(error)
        refused = True

# %%
# Campaigns at epsilon 1 each, for an account of epsilon 3: together they cost less than their sum, as the
# account adds up what their noise proves.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.step(range(len(spent)), spent, where="post", label="spent")
axes.axhline(3, color="tab:red", linestyle="--", label="the account")
axes.plot(range(4), range(4), color="grey", linestyle=":", label="epsilons added up")
axes.set(xlabel="campaigns", ylabel="epsilon")
axes.legend()
plt.show()
