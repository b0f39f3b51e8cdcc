// Makes book/_static/vendor/mathjax/tex-svg.js from MathJax's own sources; README.md says how, and when.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const ASCII = [[0x20, 0x7e]];
const DELIMITERS = [[0x28, 0x2f], [0x5b, 0x5d], [0x7b, 0x7d], [0x2c6, 0x2dc], [0x302, 0x303], [0x2016], [0x221a], [0x2223, 0x2225],
  [0x2308, 0x230b], [0x239b, 0x23ae], [0x27e8, 0x27e9], [0xe000, 0xe1ff]];
const SUMS = [[0x220f, 0x2211], [0x222b, 0x222c], [0x22c0, 0x22c3], [0x2a00, 0x2a02]];
const SIGNS = [ // Latin-1 and accents; Greek; dots and primes; letter-like signs; arrows; operators and relations
  [0xa0], [0xa7], [0xac], [0xaf, 0xb1], [0xb4], [0xb7], [0xd7], [0xf7], [0x131], [0x237], [0x2c6, 0x2dc], [0x300, 0x338],
  [0x391, 0x3f5], [0x2002, 0x2064], [0x20d7], [0x2102], [0x210d, 0x210f], [0x2111], [0x2113], [0x2115], [0x2119, 0x211a],
  [0x211c, 0x211d], [0x2124], [0x2135], [0x2190, 0x2199], [0x21a6], [0x21aa], [0x21c0], [0x21d0, 0x21d5],
  [0x2200, 0x2203], [0x2205], [0x2207, 0x220c], [0x220f, 0x2213], [0x2217, 0x221a], [0x221d, 0x221e], [0x2220], [0x2223],
  [0x2225, 0x222b], [0x223c, 0x2248], [0x2260, 0x226b], [0x227a, 0x2287], [0x2293, 0x2299], [0x22a2, 0x22a5], [0x22c0, 0x22c6],
  [0x22ee, 0x22f1], [0x2308, 0x230b], [0x23de, 0x23df], [0x25a1], [0x25b3], [0x25ef], [0x27e8, 0x27e9], [0x27f5, 0x27fc], [0x2a7d, 0x2a7e]];
const LETTERS = [ // bold A to z, italic A to z, blackboard bold A to Z, italic alpha to omega, bold digits
  [0x1d400, 0x1d433], [0x1d434, 0x1d467], [0x1d538, 0x1d550], [0x1d6fc, 0x1d71b], [0x1d7ce, 0x1d7d7]];

const KEPT = {
  "normal": [...ASCII, ...SIGNS, ...LETTERS],
  "italic": [...ASCII, ...SIGNS],
  "bold": [...ASCII, [0x302, 0x304], [0x2c6, 0x2dc], [0x22c5], [0xd7]],
  "tex-calligraphic": [[0x41, 0x5a]],
  "tex-variant": [[0x2016], [0x2032, 0x2036], [0x210f], [0x2205]],
  "smallop": [...DELIMITERS, ...SUMS],
  "largeop": [...DELIMITERS, ...SUMS],
  "tex-size3": DELIMITERS,
  "tex-size4": DELIMITERS,
  "delimiters": null, // whole
};

const ENTRY = /^    (0x[0-9A-F]+): (?:\[.*?\]|\{.*?\}|'.*?'|".*?"),?\n/gms;
const held = (ranges, code) => ranges.some(([first, last = first]) => first <= code && code <= last);

const fewerGlyphs = {
  name: "fewer glyphs",
  setup: (bundle) => bundle.onLoad({ filter: /output\/(svg|common)\/fonts\/tex\/.*\.ts$/ }, async ({ path }) => {
    const ranges = KEPT[basename(path, ".ts")];
    const source = await readFile(path, "utf8");
    const contents = ranges === null ? source
      : source.replace(ENTRY, (entry, code) => (held(ranges ?? [], Number(code)) ? entry : ""));
    return { contents, loader: "ts" };
  }),
};

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

await build({
  entryPoints: [here("page.js")],
  outfile: here("../../book/_static/vendor/mathjax/tex-svg.js"),
  bundle: true,
  minify: true,
  target: "es2020",
  tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } }, // the sources declare inherited fields again
  nodePaths: [here("node_modules")],
  banner: { js: "/*! MathJax 3.2.2, Apache 2.0, https://www.mathjax.org: the parts that this book uses (tools/mathjax) */" },
  plugins: [fewerGlyphs],
  logLevel: "info",
});
