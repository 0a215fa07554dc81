/** One minified file, and how large it is: less than 13.5 KiB, so that a person can read what it was made of. */
import { buildSync } from "esbuild";

const LARGEST = 13.5 * 1024;
for (const [from, to] of [["index", "dpbandits"], ["decide", "decide"]]) {
  const { metafile } = buildSync({
    entryPoints: [`src/${from}.js`],
    outfile: `dist/${to}.js`,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    metafile: true,
  });
  const [[file, { bytes }]] = Object.entries(metafile.outputs);
  console.log(`${file} ${bytes} bytes`);
  if (from === "index" && bytes >= LARGEST) throw new Error(`more than ${LARGEST} bytes`);
}
