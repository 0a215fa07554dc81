// Runs a schema and the evaluator of exported policies from the wheel in Pyodide, where there is no NumPy.
import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const here = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
const python = await loadPyodide();
python.unpackArchive(new Uint8Array(readFileSync(process.argv[2])), "zip");
python.globals.set("cases", here("cases.json"));
console.log(python.runPython(here("use.txt")));
