// The moving figure of chapter 08: beam search by the shipped translator, step by step.
// It repeats the search of transformer_lib.visualisation.beam_tree from the log-probabilities of the likeliest tokens
// (a test compares the two). Needs moving.js and beam_tree_data.js.
(function () {
  "use strict";

  function penalty(length, alpha) { return Math.pow((5 + length) / 6, alpha); }
  function byScore(a, b) { return b.score - a.score; }

  // Repeat the first `step` steps. Each live target is extended by each of its likeliest tokens; the best `beam` of all
  // extensions are kept; those that end are done, and compete by log-probability over length penalty.
  function compute(data, beam, step) {
    var live = [{ tokens: [], score: 0 }], done = [], candidates = [];
    data.beams[beam].slice(0, step).forEach(function (likeliest, place) {
      candidates = [];
      live.forEach(function (target, parent) {
        likeliest[0][parent].forEach(function (token, i) {
          candidates.push({ parent: parent, before: target.tokens, token: token, score: target.score + likeliest[1][parent][i], fate: "dropped" });
        });
      });
      candidates.sort(byScore);
      live = [];
      candidates.slice(0, beam).forEach(function (candidate) {
        if (candidate.token === "<end>") {
          candidate.fate = "finished";
          done.push({ tokens: candidate.before, score: candidate.score / penalty(place + 1, data.alpha) });
        } else {
          candidate.fate = "kept";
          live.push({ tokens: candidate.before.concat(candidate.token), score: candidate.score });
        }
      });
      done = done.sort(byScore).slice(0, beam);
    });
    return { live: live, done: done, candidates: candidates, steps: data.beams[beam].length };
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  function text(tokens) { return tokens.join(" ").replace(/ -/g, "") || "<start>"; }
  function number(score) { return score.toFixed(2).replace("-", "\u2212"); }
  var MARKS = { kept: "\u2713 kept", finished: "\u25A0 finished", dropped: "\u00D7 dropped" };
  var COLOURS = { kept: "var(--m-value)", finished: "var(--m-output)", dropped: "inherit" };

  moving.figure("beam-tree", function (data) {
    var element = moving.element, tree = element("ul"), finished = element("div"), source = element("p", {}, ["Source: ", element("em", { lang: "de", textContent: data.sentence })]);
    tree.style.cssText = "list-style:none;margin:.2rem 0;padding:0";
    source.style.margin = "0 0 .3rem";

    function leaf(candidate) {
      var mark = element("span", { textContent: MARKS[candidate.fate] }), row = element("li", {}, [
        element("span", { textContent: candidate.token }), element("span", { className: "m-number", textContent: number(candidate.score) }), mark]);
      row.style.cssText = "display:grid;grid-template-columns:minmax(4.5rem,9rem) 3.4rem auto;gap:.6rem;padding-left:1.2rem;border-left:2px solid " +
        (candidate.fate === "dropped" ? "var(--m-track)" : COLOURS[candidate.fate]);
      mark.style.color = COLOURS[candidate.fate];
      row.style.opacity = candidate.fate === "dropped" ? 0.75 : 1;
      return row;
    }

    function show(values) {
      var now = compute(data, values.beam, values.step), before = compute(data, values.beam, values.step - 1);
      var shown = now.candidates.slice(0, 2 * values.beam); // the best of those that are dropped, too
      tree.replaceChildren.apply(tree, before.live.map(function (target, parent) {
        var leaves = element("ul", {}, shown.filter(function (candidate) { return candidate.parent === parent; }).map(leaf));
        leaves.style.cssText = "list-style:none;margin:.1rem 0 .5rem .6rem;padding:0";
        return element("li", {}, [element("strong", { textContent: text(target.tokens) }), " " + number(target.score), leaves]);
      }));
      finished.replaceChildren.apply(finished, now.done.length ? [element("strong", { textContent: "finished, by log-probability over length penalty" })].concat(now.done.map(function (target) {
        return element("div", { textContent: number(target.score) + "  " + text(target.tokens) });
      })) : []);
      var fates = { kept: 0, finished: 0, dropped: 0 };
      now.candidates.forEach(function (candidate) { fates[candidate.fate] += 1; });
      var over = values.step === now.steps ? " The search ends: nothing live can still beat \u201C" + text(now.done[0].tokens) + "\u201D." : "";
      return "Step " + values.step + " of " + now.steps + ": of the likeliest extensions, the best " + values.beam + (values.beam > 1 ? " survive" : " survives") +
        " (" + fates.kept + " go on, " + fates.finished + " finished)." + over;
    }

    function walk(by) { return function (values) { values.step += by; }; }
    return {
      title: "Beam search, step by step",
      controls: [
        { kind: "range", name: "beam", label: "beam", min: 1, max: 5, value: 2 },
        { kind: "range", name: "step", label: "step", min: 1, max: data.beams[2].length, value: 8 },
        { kind: "button", label: "back", press: walk(-1) }, { kind: "button", label: "next", beside: true, press: walk(1) }
      ],
      body: [source, tree, finished],
      adjust: function (values, handles) { // a wider beam may search longer
        var steps = data.beams[values.beam].length;
        handles.step.input.max = steps;
        values.step = Math.min(Math.max(values.step, 1), steps);
      },
      show: show
    };
  });
})();
