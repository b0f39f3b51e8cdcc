// The moving figure of chapter 06: the parts of the model in order, each with the shape of what leaves it.
// Its shapes are those of transformer_lib.visualisation.data_flow, where a real model runs (a test compares them). Needs moving.js.
(function () {
  "use strict";

  // side, what leaves the part, its dimensions, and a sentence on it
  var PARTS = [
    ["encoder", "source tokens", "batch source", "Each sentence comes in as a row of numbers, one per token."],
    ["encoder", "embedding + positions", "batch source d_model", "Each number becomes a vector, and its position is added."],
    ["encoder", "self-attention: Q, K, V", "batch heads source d_k", "The width is split among the heads: d_k = d_model / heads."],
    ["encoder", "self-attention: weights", "batch heads source source", "Each source position weighs each source position, once per head."],
    ["encoder", "self-attention: output", "batch source d_model", "The heads lie side by side again, so that it can be added to its input."],
    ["encoder", "feed-forward: inner", "batch source d_ff", "Each position by itself is made four times as wide."],
    ["encoder", "feed-forward: output", "batch source d_model", "It's narrow again, and added. The next layer starts here with the same shape."],
    ["encoder", "memory", "batch source d_model", "What the last layer hands to every layer of the decoder."],
    ["decoder", "target tokens", "batch target", "The translation so far; its length has nothing to do with the source's."],
    ["decoder", "embedding + positions", "batch target d_model", "The same table of vectors serves both sides."],
    ["decoder", "self-attention: Q, K, V", "batch heads target d_k", "As in the encoder, now on the target's positions."],
    ["decoder", "self-attention: weights", "batch heads target target", "A causal mask makes everything above the diagonal zero."],
    ["decoder", "self-attention: output", "batch target d_model", "Side by side again, and added."],
    ["decoder", "cross-attention: Q", "batch heads target d_k", "The queries come from the target ..."],
    ["decoder", "cross-attention: K, V", "batch heads source d_k", "... and the keys and values from the memory: the only place where the two lengths meet."],
    ["decoder", "cross-attention: weights", "batch heads target source", "Each target position weighs each source position. The map needn't be square."],
    ["decoder", "cross-attention: output", "batch target d_model", "The source's length is gone: it was averaged over."],
    ["decoder", "feed-forward: inner", "batch target d_ff", "Each position by itself, as in the encoder."],
    ["decoder", "feed-forward: output", "batch target d_model", "Narrow again, and added. The next layer starts here with the same shape."],
    ["decoder", "logits", "batch target vocabulary", "One score per word for every target position: what may come next."]
  ];

  // sizes: batch, source, target, d_model, heads, vocabulary; d_ff is four times d_model, as in the paper.
  function compute(sizes) {
    var known = Object.assign({ d_k: sizes.d_model / sizes.heads, d_ff: 4 * sizes.d_model }, sizes);
    return PARTS.map(function (part) {
      return { side: part[0], name: part[1], shape: part[2].split(" ").map(function (dimension) { return known[dimension]; }) };
    });
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  moving.figure("data-flow", function (data, change) {
    var element = moving.element, rows = [], columns = { encoder: element("div"), decoder: element("div") };
    PARTS.forEach(function (part, step) {
      var shape = element("span"), arrow = element("span", { "aria-hidden": "true", textContent: "\u2192" });
      var button = element("button", { type: "button", textContent: part[1] });
      var row = element("div", {}, [button, arrow, shape]);
      row.style.cssText = "display:flex;gap:.4rem;align-items:center;flex-wrap:wrap;margin:2px 0";
      button.style.cssText = "text-align:left;padding:.1rem .4rem;min-width:12em;font-size:.88em";
      shape.style.cssText = "white-space:nowrap;font-size:.9em;font-variant-numeric:tabular-nums";
      button.addEventListener("click", function () { change.to({ step: step }); });
      if (!columns[part[0]].childNodes.length) { columns[part[0]].append(element("strong", { textContent: part[0] })); }
      columns[part[0]].append(row);
      rows.push({ row: row, button: button, shape: shape });
    });

    function show(values) {
      var now = compute({ batch: values.batch, source: values.source, target: values.target, d_model: values.dModel, heads: values.heads, vocabulary: 1000 });
      rows.forEach(function (row, step) {
        row.shape.textContent = now[step].shape.join(" \u00D7 ");
        row.row.style.opacity = step > values.step ? 0.7 : 1;
        row.row.style.color = step === values.step ? "var(--m-key)" : "inherit";
        row.button.style.boxShadow = step === values.step ? "0 0 0 2px var(--m-key)" : "none";
        row.button.setAttribute("aria-pressed", step === values.step);
      });
      var part = PARTS[values.step];
      return "Step " + (values.step + 1) + " of " + PARTS.length + ", " + part[0] + ", " + part[1] + ": " + part[2].split(" ").join(" \u00D7 ") + " = " +
        now[values.step].shape.join(" \u00D7 ") + ". " + part[3];
    }

    function walk(by) { return function (values) { values.step = Math.min(Math.max(values.step + by, 0), PARTS.length - 1); }; }
    return {
      title: "Through the model, shape by shape",
      controls: [
        { kind: "button", label: "back", press: walk(-1) }, { kind: "button", label: "next", beside: true, press: walk(1) },
        { kind: "range", name: "batch", label: "batch", min: 1, max: 12, value: 2 },
        { kind: "range", name: "source", label: "source", min: 1, max: 12, value: 7 },
        { kind: "range", name: "target", label: "target", min: 1, max: 12, value: 5 },
        { kind: "select", name: "dModel", label: "d_model", options: [64, 128, 256, 512], value: 64 },
        { kind: "select", name: "heads", label: "heads", options: [1, 2, 4, 8], value: 4 }
      ],
      values: { step: 3 }, saysFirst: true,
      body: [element("div", { className: "m-columns" }, [columns.encoder, columns.decoder])],
      show: show
    };
  });
})();
