/** A refusal; `code` says which, for programs. It depends on the contract, the version and the budget alone. */
export class Refused extends Error {
  constructor(code, about) {
    super(`${code}: ${about}`);
    this.code = code;
  }
}

/** Refuse where this does not hold. */
export function expect(good, code, about) {
  if (!good) throw new Refused(code, about);
}
