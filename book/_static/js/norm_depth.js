// The moving figure of chapter 10: each layer's gradient before the first step, by the place of the norm and the depth.
// It shows what transformer_lib.visualisation.norm_depth shows (a test compares them). Needs moving.js and norm_depth_data.js.
(function () {
  "use strict";

  // Each layer's gradient over the largest one's, from the input up, and the first layer's over the last layer's.
  function compute(data, rule, depth) {
    var sizes = data.gradients[rule][depth], largest = Math.max.apply(null, sizes);
    return { shares: sizes.map(function (size) { return size / largest; }), ratio: sizes[0] / sizes[sizes.length - 1] };
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  moving.figure("norm-depth", function (data) {
    var bars = moving.bars("auto 1fr auto", "Each layer's gradient");

    function show(values) {
      var depth = data.depths[values.place], now = compute(data, values.rule, depth);
      moving.drawBars(bars, ["layer", "largest = 1"], now.shares.map(function (share, i) { return [String(i + 1), share]; }).reverse(), "var(--m-query)");
      return data.rules[values.rule] + ", " + depth + " layers: the first layer (next to the input, at the bottom) gets " +
        now.ratio.toPrecision(2) + " times the last one\u2019s gradient.";
    }

    return {
      title: "Who gets the gradient?",
      controls: [
        { kind: "select", name: "rule", label: "norm", value: "post", options: Object.keys(data.rules).map(function (rule) { return [rule, data.rules[rule]]; }) },
        { kind: "range", name: "place", label: "layers", min: 0, max: data.depths.length - 1, value: data.depths.indexOf(6), says: function (place) { return data.depths[place]; } }
      ],
      body: [bars],
      show: show
    };
  });
})();
