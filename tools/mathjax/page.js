// What of MathJax the pages need: TeX with AMS's additions in, SVG out, and MathML beside it for screen readers.
import { mathjax } from "mathjax-full/ts/mathjax";
import { TeX } from "mathjax-full/ts/input/tex";
import { SVG } from "mathjax-full/ts/output/svg";
import { browserAdaptor } from "mathjax-full/ts/adaptors/browserAdaptor";
import { RegisterHTMLHandler } from "mathjax-full/ts/handlers/html";
import { AssistiveMmlHandler } from "mathjax-full/ts/a11y/assistive-mml";
import "mathjax-full/ts/input/tex/base/BaseConfiguration";
import "mathjax-full/ts/input/tex/ams/AmsConfiguration";

const given = window.MathJax ?? {};
const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const loaded = document.readyState !== "loading" ? Promise.resolve()
  : new Promise((done) => document.addEventListener("DOMContentLoaded", done));

// The text is shown first. A tab in the background shows nothing, so it doesn't wait for long.
const shown = () => Promise.race([later(500), new Promise((done) => requestAnimationFrame(() => setTimeout(done)))]);

function typeset() {
  AssistiveMmlHandler(RegisterHTMLHandler(browserAdaptor()));
  const settings = {
    ...given.options,
    InputJax: new TeX({ packages: ["base", "ams"], ...given.tex }),
    OutputJax: new SVG({ fontCache: "global" }),
  };
  return mathjax.handleRetriesFor(() => mathjax.document(document, settings).render());
}

window.MathJax = { ...given, version: mathjax.version, startup: { promise: loaded.then(shown).then(typeset) } };
