import type { Device } from "./index.js";

/** What is promised to the person whose device it is, in words. */
export function statement(device: Device, budget: number): string;
