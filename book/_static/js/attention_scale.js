// The moving figure of chapter 02: one query, eleven keys; d_k, the scale and the temperature are yours.
// It computes what transformer_lib.visualisation.scale computes (a test compares them). Needs moving.js.
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

  moving.figure("attention-scale", function (data) {
    var element = moving.element, rows = [];
    var bars = moving.bars("auto 1fr auto 1fr auto", "scores and weights of the keys");
    function cell(role, properties) { properties.role = role; return element("span", properties); }
    function head(text) { return cell("columnheader", { className: "m-head", textContent: text }); }
    function empty() { return element("span", { "aria-hidden": "true" }); }
    function middle() {
      var line = element("span");
      line.style.cssText = "position:absolute;top:0;bottom:0;left:50%;border-left:1px solid currentColor;opacity:.5";
      return line;
    }
    bars.append(element("div", { className: "m-row", role: "row" }, [head("key"), head("score"), empty(), head("weight"), empty()]));
    data.labels.forEach(function (label) {
      var row = {
        score: element("span", { className: "m-fill" }), scoreSays: cell("cell", { className: "m-number" }),
        weight: element("span", { className: "m-fill" }), weightSays: cell("cell", { className: "m-number" })
      };
      bars.append(element("div", { className: "m-row", role: "row" }, [
        cell("rowheader", { textContent: label }),
        moving.track([row.score, middle()]), row.scoreSays,
        moving.track([row.weight]), row.weightSays]));
      rows.push(row);
    });

    function show(values) {
      var now = compute(data.draws[values.draw][data.widths[values.width]], data.widths[values.width], values.scaled, values.temperature);
      var reach = Math.max(4, Math.max.apply(null, now.scores.map(Math.abs)));
      rows.forEach(function (row, i) {
        var score = now.scores[i], half = Math.abs(score) / reach * 50;
        row.score.style.cssText = "background:var(--m-key);width:" + half + "%;left:" + (score < 0 ? 50 - half : 50) + "%";
        row.scoreSays.textContent = score.toFixed(1).replace("-", "\u2212");
        row.weight.style.cssText = "background:var(--m-query);width:" + now.weights[i] * 100 + "%";
        row.weightSays.textContent = now.weights[i].toFixed(3);
      });
      var winner = data.labels[now.weights.indexOf(now.largest)];
      return "Largest weight: " + now.largest.toFixed(3) + " (" + winner + "). Entropy: " + now.entropy.toFixed(2) +
        " of at most " + Math.log(data.labels.length).toFixed(2) + " nats, as if the query looked at " +
        Math.exp(now.entropy).toFixed(1) + " of " + data.labels.length + " keys alike.";
    }

    return {
      title: "One query, " + data.labels.length + " keys",
      controls: [
        { kind: "range", name: "width", label: "d_k", min: 0, max: data.widths.length - 1, value: data.widths.indexOf(64),
          says: function (place) { return data.widths[place]; } },
        { kind: "check", name: "scaled", label: "divide by \u221Ad_k", value: false },
        { kind: "range", name: "temperature", label: "temperature", min: 0.25, max: 4, step: 0.25, value: 1,
          says: function (value) { return value.toFixed(2); } },
        { kind: "button", label: "other vectors", press: function (values) { values.draw = (values.draw + 1) % data.draws.length; } }
      ],
      values: { draw: 0 }, body: [bars], show: show
    };
  });
})();
