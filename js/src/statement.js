/** What is promised to the person whose device it is, in words. */

/** The statement of an open device; `budget` is the one that it was opened with. */
export function statement(device, budget) {
  const { spec, deadline, readout, reports, epsilon: whole } = device.policy.contract;
  const { epsilon } = device;
  const bit = "one randomised bit, beside the group, which is drawn by a coin and not hidden";
  const local =
    `One report (${readout ? bit : spec.mechanism}) is ${epsilon}-locally differentially private: any two contexts and rewards give any ` +
    `report with probabilities within a factor of exp(${epsilon}), whatever the server asks.`;
  const distributed =
    "Two aggregators get one encrypted share of a report each, and add noise to sums. Two that work together read every " +
    "report. If one is honest and adds its noise, then for everybody who cannot break the encryption any two sets of " +
    `contexts and rewards of at most ${reports} reports give what they see with probabilities within a factor of exp(${whole}). ` +
    "Experimental.";
  return (
    `${reports ? distributed : local} At most ${reports ? Math.min(budget, whole) : budget} is spent ` +
    "on this policy, under its address, by this site in this browser's profile: a choice is charged and reported once, " +
    "whatever tabs, reloads and crashes do. Other policies, of this site too, have budgets of their own, and so have " +
    "other sites and a page that names another account. Clearing the site's storage, another profile or another device, " +
    "and the site inside another one's page, where browsers keep storage apart, forget what was spent: the budget begins " +
    "anew, and an open choice may be made and reported again. No script prevents that. " +
    `Reports wait ${deadline / 1000} seconds from the choice, so that when they leave says nothing; a page that sends ` +
    "them early gives this up. That this device takes part is not hidden, nor what its page shows. The page, its " +
    "scripts and the browser's random numbers are trusted."
  );
}
