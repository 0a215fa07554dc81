/**
 * The reference evaluator of exported policies: docs/exported-policies.md says what is in one.
 *
 * `decide(policy, context)` gives the arm that the server gives, or null where the context cannot be read; with
 * `draw` it decides by that one of the policy's public draws. Nothing is reported, and nothing is learned.
 */
const UNREADABLE = Symbol("unreadable");

function place(column, value) {
  if (value === undefined || value === null || Number.isNaN(value)) value = column.missing;
  if (column.values) {
    const code = column.values.indexOf(value);
    if (code < 0) throw UNREADABLE;
    return column.coded ? code : (code + 0.5) / column.values.length;
  }
  if (typeof value !== "number" || !Number.isFinite(value)) throw UNREADABLE;
  const inside = Math.min(Math.max(value, column.low), column.high);
  if (!column.clip && inside !== value) throw UNREADABLE;
  return Math.min(Math.max((inside - column.low) / (column.high - column.low), 0), 1);
}

const KERNELS = {
  Product: (k, x, z) => k.parts.reduce((product, part) => product * kernel(part, x, z), 1),
  Sum: (k, x, z) => k.parts.reduce((sum, part) => sum + kernel(part, x, z), 0),
  Scaled: (k, x, z) => k.variance * kernel(k.kernel, x, z),
  Indicator: (k, x, z) => (k.columns.every((j) => x[j] === z[j]) ? 1 : k.correlation),
  SquaredExponential: (k, x, z) => Math.exp(-distance(k, x, z) / 2),
  Matern(k, x, z) {
    const r = Math.sqrt(2 * k.nu * distance(k, x, z));
    return { 0.5: 1, 1.5: 1 + r, 2.5: 1 + r + (r * r) / 3 }[k.nu] * Math.exp(-r);
  },
};
const kernel = (k, x, z) => KERNELS[k.type](k, x, z);

function distance({ columns, lengthscale }, x, z) {
  const own = columns ?? [...x.keys()];
  return own.reduce((sum, j, at) => sum + ((x[j] - z[j]) / (lengthscale.length ? lengthscale[at] : lengthscale)) ** 2, 0);
}

const RULES = {
  tree(rule, x) {
    let node = rule.nodes[0];
    while (node.column !== undefined) node = rule.nodes[x[node.column] >= node.at ? node.above : node.below];
    return node.scores;
  },
  grid({ sizes, scores }, x) {
    return scores[x.reduce((cell, share, j) => cell * sizes[j] + Math.min(Math.floor(share * sizes[j]), sizes[j] - 1), 0)];
  },
  kernel(rule, x, draw) {
    const near = rule.landmarks.map((z) => kernel(rule.kernel, x, z));
    const features = rule.projection[0].map((_, m) => near.reduce((sum, k, l) => sum + k * rule.projection[l][m], 0));
    const cut = Math.min(1, rule.longest / Math.hypot(...features));
    const weights = draw === undefined ? rule.mean : rule.draws[draw];
    return weights.map((arm) => rule.middle + rule.width * cut * arm.reduce((sum, w, m) => sum + w * features[m], 0));
  },
};

/** Every arm's score for a person: expected rewards, or chances. Throws where the context cannot be read. */
export function scores(policy, context, draw) {
  const point = policy.columns.map((column, j) => place(column, context?.[Array.isArray(context) ? j : column.name]));
  return RULES[policy.rule.type](policy.rule, point, draw);
}

export function decide(policy, context, draw) {
  try {
    const found = scores(policy, context, draw);
    return policy.arms[found.indexOf(Math.max(...found))];
  } catch (error) {
    if (error === UNREADABLE) return null;
    throw error;
  }
}
