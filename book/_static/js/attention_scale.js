// The moving figure of chapter 02: one query, eleven keys; d_k, the scale and the temperature are yours.
// It computes what transformer_lib.visualisation.scale computes (a test compares them). No dependency, no network.
(function () {
  "use strict";

  // The scores are q . k, divided by sqrt(d_k) if scaled; the weights are their softmax at a temperature.
  function compute(products, dK, scaled, temperature) {
    var scores = products.map(function (product) { return scaled ? product / Math.sqrt(dK) : product; });
    var top = Math.max.apply(null, scores);
    var exponentials = scores.map(function (score) { return Math.exp((score - top) / temperature); });
    var total = exponentials.reduce(function (sum, x) { return sum + x; }, 0);
    var weights = exponentials.map(function (x) { return x / total; });
    var entropy = weights.reduce(function (sum, w) { return w > 0 ? sum - w * Math.log(w) : sum; }, 0);
    return { scores: scores, weights: weights, entropy: entropy, largest: Math.max.apply(null, weights) };
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  var STYLE =
    ".attention-scale{border:1px solid var(--book-line,#d5dbe3);border-radius:.4rem;padding:.8rem 1rem;margin:1.2rem 0;" +
    "--as-score:#c2570c;--as-weight:#2563a8;--as-track:#e9edf2;font-size:.95rem}" +
    "html[data-theme=dark] .attention-scale{--as-score:#f0995a;--as-weight:#7fb2ea;--as-track:#2c3442}" +
    ".attention-scale fieldset{border:0;margin:0 0 .7rem;padding:0;display:flex;flex-wrap:wrap;gap:.5rem 1.4rem;align-items:center}" +
    ".attention-scale legend{font-weight:600;padding:0;margin-bottom:.3rem;font-size:1rem}" +
    ".attention-scale label{display:inline-flex;align-items:center;gap:.5rem;min-height:2rem}" +
    ".attention-scale input[type=range]{width:8.5rem;height:1.6rem}" +
    ".attention-scale input[type=checkbox]{width:max(1.5rem,24px);height:max(1.5rem,24px)}" +
    ".attention-scale button{font:inherit;padding:.25rem .7rem;border:1px solid currentColor;border-radius:.3rem;background:transparent;color:inherit}" +
    ".attention-scale output{font-variant-numeric:tabular-nums;min-width:2.4em}" +
    ".attention-scale .as-bars{display:grid;grid-template-columns:auto 1fr auto 1fr auto;gap:.15rem .5rem;align-items:center}" +
    ".attention-scale .as-row{display:contents}" +
    ".reveal .attention-scale{margin-right:90px}" + // beside the slides' arrows
    ".attention-scale .as-head{font-weight:600}" +
    ".attention-scale .as-number{text-align:right;font-variant-numeric:tabular-nums;min-width:3.1em}" +
    ".attention-scale .as-track{position:relative;height:.95rem;background:var(--as-track);border-radius:2px;overflow:hidden}" +
    ".attention-scale .as-fill{position:absolute;top:0;bottom:0}" +
    ".attention-scale .as-middle{position:absolute;top:0;bottom:0;left:50%;border-left:1px solid currentColor;opacity:.5}" +
    ".attention-scale .as-says{margin:.7rem 0 0}" +
    "@media (max-width:480px){.attention-scale{padding:.6rem .5rem;font-size:.85rem}.attention-scale .as-bars{gap:.15rem .3rem}" +
    ".attention-scale .as-number{min-width:2.6em}}" +
    "@media print{.attention-scale button{display:none}.attention-scale .as-fill{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

  function element(tag, properties, children) {
    var made = document.createElement(tag);
    Object.keys(properties || {}).forEach(function (name) {
      if (name !== "role" && name in made) { made[name] = properties[name]; } else { made.setAttribute(name, properties[name]); }
    });
    (children || []).forEach(function (child) { made.append(child); });
    return made;
  }

  function build(holder, data) {
    var width = element("input", { type: "range", min: 0, max: data.widths.length - 1, step: 1 });
    var scaled = element("input", { type: "checkbox" });
    var temperature = element("input", { type: "range", min: 0.25, max: 4, step: 0.25 });
    var again = element("button", { type: "button", textContent: "other vectors" });
    var widthSays = element("output", { "aria-live": "off" }), temperatureSays = element("output", { "aria-live": "off" });
    var says = element("p", { className: "as-says" });
    says.setAttribute("aria-live", "polite");
    var rows = [], bars = element("div", { className: "as-bars", role: "table", "aria-label": "scores and weights of the keys" });
    function cell(role, properties) { properties.role = role; return element("span", properties); }
    function head(text) { return cell("columnheader", { className: "as-head", textContent: text }); }
    function track(parts) { return element("span", { className: "as-track", "aria-hidden": "true" }, parts); } // drawn, not read
    function empty() { return element("span", { "aria-hidden": "true" }); }
    bars.append(element("div", { className: "as-row", role: "row" }, [head("key"), head("score"), empty(), head("weight"), empty()]));
    data.labels.forEach(function (label) {
      var row = {
        score: element("span", { className: "as-fill" }), scoreSays: cell("cell", { className: "as-number" }),
        weight: element("span", { className: "as-fill" }), weightSays: cell("cell", { className: "as-number" })
      };
      bars.append(element("div", { className: "as-row", role: "row" }, [
        cell("rowheader", { textContent: label }),
        track([row.score, element("span", { className: "as-middle" })]), row.scoreSays,
        track([row.weight]), row.weightSays]));
      rows.push(row);
    });
    var draw = 0;

    function show() {
      var dK = data.widths[+width.value];
      var now = compute(data.draws[draw][dK], dK, scaled.checked, +temperature.value);
      var reach = Math.max(4, Math.max.apply(null, now.scores.map(Math.abs)));
      rows.forEach(function (row, i) {
        var score = now.scores[i], half = Math.abs(score) / reach * 50;
        row.score.style.cssText = "background:var(--as-score);width:" + half + "%;left:" + (score < 0 ? 50 - half : 50) + "%";
        row.scoreSays.textContent = score.toFixed(1).replace("-", "\u2212");
        row.weight.style.cssText = "background:var(--as-weight);left:0;width:" + now.weights[i] * 100 + "%";
        row.weightSays.textContent = now.weights[i].toFixed(3);
      });
      widthSays.textContent = dK;
      width.setAttribute("aria-valuetext", "d_k " + dK);
      temperatureSays.textContent = (+temperature.value).toFixed(2);
      var winner = data.labels[now.weights.indexOf(now.largest)];
      says.textContent = "Largest weight: " + now.largest.toFixed(3) + " (" + winner + "). Entropy: " + now.entropy.toFixed(2) +
        " of at most " + Math.log(data.labels.length).toFixed(2) + " nats, as if the query looked at " +
        Math.exp(now.entropy).toFixed(1) + " of " + data.labels.length + " keys alike.";
    }

    function reset() { width.value = data.widths.indexOf(64); scaled.checked = false; temperature.value = 1; draw = 0; show(); }

    var controls = element("fieldset", {}, [
      element("legend", { textContent: "One query, " + data.labels.length + " keys" }),
      element("label", {}, ["d_k", width, widthSays]),
      element("label", {}, [scaled, "divide by \u221Ad_k"]),
      element("label", {}, ["temperature", temperature, temperatureSays]), again]);
    holder.replaceChildren(controls, bars, says);
    [width, scaled, temperature].forEach(function (input) { input.addEventListener("input", show); });
    again.addEventListener("click", function () { draw = (draw + 1) % data.draws.length; show(); });
    var kept = null;
    window.addEventListener("beforeprint", function () {
      kept = [width.value, scaled.checked, temperature.value, draw];
      reset();
    });
    window.addEventListener("afterprint", function () {
      if (kept) { width.value = kept[0]; scaled.checked = kept[1]; temperature.value = kept[2]; draw = kept[3]; show(); }
    });
    reset();
  }

  function start() {
    document.head.append(element("style", { textContent: STYLE }));
    document.querySelectorAll(".attention-scale").forEach(function (holder) { build(holder, window.attentionScaleData); });
  }
  if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", start); } else { start(); }
})();
