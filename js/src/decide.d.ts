import type { Arm, Context } from "./index.js";

/** The arm that an exported policy gives; null where the context cannot be read. */
export function decide(policy: any, context: Context, draw?: number): Arm | null;

/** Every arm's expected reward, or chance. */
export function scores(policy: any, context: Context, draw?: number): number[];
