// A moving figure: the weights of every head of a trained model, on a few sentences. Which model: its holder names the
// data, `<div class="head-selector" data-source="NAME">`, in the form that transformer_lib.visualisation.heads writes.
// Its numbers are those that transformer_lib.visualisation.heads computes (a test compares them). Needs moving.js.
(function () {
  "use strict";

  // Weights are stored in thousandths as weights[layer][head][query][key]; rows sum to 1 up to that rounding.
  function compute(data, sentence, kind, layer, head, query) {
    var map = data.sentences[sentence].maps[kind];
    var weights = map.weights[layer][head].map(function (row) { return row.map(function (share) { return share / 1000; }); });
    var row = weights[Math.min(query, weights.length - 1)];
    var entropy = row.reduce(function (sum, w) { return w > 0 ? sum - w * Math.log(w) : sum; }, 0);
    return { queries: map.queries, keys: map.keys, following: map.following, weights: weights, row: row, entropy: entropy, largest: Math.max.apply(null, row) };
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  moving.figure("head-selector", function (data, change) {
    var element = moving.element, table = element("div"), bars = moving.bars("auto 1fr auto", "weights of the chosen query");
    var sentences = data.sentences, first = Object.assign({ sentence: 0, kind: 0, layer: 0, head: 0, query: 0 }, data.first);
    var grid = null, shown = "";

    function counted(count) { return Array.from({ length: count }, function (_, i) { return [i, i + 1]; }); }
    function kinds(sentence) { return sentences[sentence].maps.map(function (map, i) { return [i, map.kind]; }); }

    function show(values) {
      var now = compute(data, values.sentence, values.kind, values.layer, values.head, values.query);
      var tokens = values.sentence + " " + values.kind;
      if (tokens !== shown) {
        grid = moving.grid(now.queries, now.keys, "query \u2193 key \u2192", function (query) {
          if (query !== values.query) { change.to({ query: query }); }
        });
        table.replaceChildren(grid.node);
        shown = tokens;
      }
      now.weights.forEach(function (row, query) { row.forEach(function (weight, key) { moving.paint(grid.cells[query][key], weight); }); });
      grid.mark(values.query);
      moving.drawBars(bars, ["key", "weight"], now.keys.map(function (key, i) { return [key, now.row[i]]; }), "var(--m-query)");
      var seen = now.largest > 0.9995 ? "all of it" : now.largest.toFixed(2);
      return "Layer " + (values.layer + 1) + ", head " + (values.head + 1) + ": the query \u201C" + now.queries[values.query] + "\u201D " +
        (now.following ? "(next comes \u201C" + now.following[values.query] + "\u201D) " : "") + "gives most to \u201C" +
        now.keys[now.row.indexOf(now.largest)] + "\u201D, " + seen + ". Entropy " + now.entropy.toFixed(2) + " nats, as if it looked at " +
        Math.exp(now.entropy).toFixed(1) + " of " + now.keys.length + " keys alike.";
    }

    var sizes = sentences[first.sentence].maps[first.kind].weights, several = sentences[0].maps.length > 1;
    var kind = { kind: "select", name: "kind", label: "attention", options: kinds(first.sentence), value: first.kind };
    return {
      title: data.title,
      controls: [
        { kind: "select", name: "sentence", label: "sentence", options: sentences.map(function (s, i) { return [i, s.title]; }), value: first.sentence },
        kind,
        { kind: "select", name: "layer", label: "layer", options: counted(sizes.length), value: first.layer },
        { kind: "select", name: "head", label: "head", options: counted(sizes[0].length), value: first.head },
        { kind: "button", label: "next head", press: function (values) {
          var map = sentences[values.sentence].maps[values.kind].weights;
          values.head += 1;
          if (values.head >= map[0].length) { values.head = 0; values.layer = (values.layer + 1) % map.length; }
        } }
      ].filter(function (control) { return several || control !== kind; }),
      values: { kind: first.kind, query: first.query }, body: [element("div", { className: "m-columns" }, [table, bars])],
      adjust: function (values) { // another sentence may have fewer queries
        var map = sentences[values.sentence].maps[values.kind];
        values.query = Math.min(values.query, map.queries.length - 1);
      },
      show: show
    };
  });
})();
