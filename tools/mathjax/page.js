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

// A formula that is wider than a telephone is made smaller, by a third at most; what is wider still scrolls in its box.
function fit() {
  const formulas = [...document.querySelectorAll('mjx-container[display="true"]')].map((box) => ({ box, size: 100 }));
  formulas.forEach(({ box }) => { box.style.fontSize = ""; });
  for (let again = 0; again < 6; again += 1) { // sizes are rounded, so that a share of the width isn't quite one of the size
    formulas.forEach((one) => { one.share = one.box.clientWidth / one.box.scrollWidth; });
    formulas.filter((one) => one.share < 1).forEach((one) => {
      one.size = Math.max(Math.floor(one.size * one.share), 67);
      one.box.style.fontSize = `${one.size}%`;
    });
  }
}

function fitted() {
  fit();
  addEventListener("resize", fit);
}

const promise = loaded.then(shown).then(typeset).then(fitted);
window.MathJax = { ...given, version: mathjax.version, startup: { promise } };
