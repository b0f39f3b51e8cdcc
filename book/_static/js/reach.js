// The moving figure of chapter 01: how far a signal travels in recurrent, convolutional and attention layers.
// It computes what transformer_lib.visualisation.reach computes (a test compares them). Needs moving.js.
(function () {
  "use strict";

  function dilations(depth, dilated) { return Array.from({ length: depth }, function (_, layer) { return dilated ? Math.pow(2, layer) : 1; }); }
  function field(width, all) { return 1 + (width - 1) * all.reduce(function (sum, d) { return sum + d; }, 0); }

  // Where the signal stands after each layer; the upper layers, which reach farther, go as far as they can.
  function hops(position, distance, width, all) {
    var jumps = all.slice().reverse().map(function (dilation) {
      var jump = dilation * Math.min(width - 1, Math.floor(distance / dilation));
      distance -= jump;
      return jump;
    });
    return jumps.reverse().reduce(function (places, jump) { return places.concat(places[places.length - 1] + jump); }, [position]);
  }

  function compute(tokens, distance, depth, width, dilated) {
    var here = tokens - 1 - distance, all = dilations(depth, dilated), seen = field(width, all), needed = 1, each = [];
    while (field(width, dilations(needed, dilated)) <= distance) { needed += 1; }
    for (var place = here; place < tokens; place++) { each.push(place); }
    return {
      RNN: { field: tokens, path: distance + depth, sequential: tokens + depth - 1, layers: 1, hops: each },
      CNN: { field: Math.min(tokens, seen), path: seen > distance ? depth : null, sequential: depth, layers: needed,
        hops: seen > distance ? hops(here, distance, width, all) : [] },
      attention: { field: tokens, path: depth, sequential: depth, layers: 1, hops: [here, tokens - 1] }
    };
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  var LONGEST = 32;

  moving.figure("reach-explorer", function (data, change, holder) {
    var svg = moving.svg, element = moving.element, body = element("div");

    // One square per position: filled where the last one sees it; a dot wherever the signal stands on its way.
    function strip(reach, values) {
      var width = Math.max(Math.min(holder.clientWidth - 34, 640), 240), step = width / LONGEST * Math.min(LONGEST / values.tokens, 1.6), side = step - 2;
      var parts = [];
      for (var place = 0; place < values.tokens; place++) {
        var seen = place >= values.tokens - reach.field;
        parts.push(svg("rect", { x: place * step + 1, y: 22, width: side, height: 20, rx: 2, stroke: "var(--m-line)",
          fill: seen ? "var(--m-query)" : "none", "fill-opacity": 0.35 }));
      }
      function middle(place) { return place * step + 1 + side / 2; }
      reach.hops.slice(1).forEach(function (to, i) {
        var from = reach.hops[i];
        if (to === from) { return; }
        var high = Math.max(3, 20 - (to - from) * 2);
        parts.push(svg("path", { d: "M" + middle(from) + " 22Q" + middle((from + to) / 2) + " " + (high - 14) + " " + middle(to) + " 22", fill: "none", stroke: "var(--m-key)", "stroke-width": 2 }));
      });
      reach.hops.forEach(function (place) { parts.push(svg("circle", { cx: middle(place), cy: 32, r: Math.min(4, side / 3), fill: "var(--m-key)" })); });
      var token = values.tokens - 1 - values.distance;
      parts.push(svg("rect", { x: token * step, y: 21, width: step, height: 22, fill: "none", stroke: "var(--m-key)", "stroke-width": 3 }));
      parts.push(svg("rect", { x: (values.tokens - 1) * step, y: 21, width: step, height: 22, fill: "none", stroke: "var(--m-output)", "stroke-width": 3 }));
      return svg("svg", { viewBox: "0 0 " + width + " 46", width: width, height: 46, "aria-hidden": "true" }, parts);
    }

    function show(values) {
      var now = compute(values.tokens, values.distance, values.depth, values.width, values.dilated);
      body.replaceChildren.apply(body, Object.keys(now).map(function (name) {
        var reach = now[name];
        var numbers = (reach.path === null ? "no path: it needs " + reach.layers + " layers" : "path " + reach.path) +
          ", " + reach.sequential + (reach.sequential === 1 ? " step" : " steps in a row") + ", sees " + reach.field + " of " + values.tokens;
        var line = element("p", {}, [element("strong", { textContent: name + ": " }), numbers]);
        line.style.margin = ".5rem 0 0";
        return element("div", {}, [line, strip(reach, values)]);
      }));
      function counted(count, word) { return count + " " + word + (count === 1 ? "" : "s"); }
      return "A signal from the token " + counted(values.distance, "position") + " back reaches the last output after " + counted(now.RNN.path, "step") +
        " in the RNN and " + counted(now.attention.path, "step") + " in attention; in the CNN " + (now.CNN.path === null ?
          "it doesn\u2019t, since " + counted(values.depth, "layer") + (values.depth === 1 ? " sees" : " see") + " only " + counted(now.CNN.field, "position") + "." :
          "after " + counted(now.CNN.path, "step") + ".");
    }

    return {
      title: "How far is it from one token to another?",
      controls: [
        { kind: "range", name: "tokens", label: "tokens", min: 4, max: LONGEST, value: 16 },
        { kind: "range", name: "distance", label: "distance", min: 1, max: 15, value: 9 },
        { kind: "range", name: "depth", label: "layers", min: 1, max: 6, value: 2 },
        { kind: "range", name: "width", label: "CNN: width", min: 2, max: 5, value: 3 },
        { kind: "check", name: "dilated", beside: true, label: "dilated 1, 2, 4, \u2026", value: true }
      ],
      body: [body],
      adjust: function (values, handles) {
        handles.distance.input.max = values.tokens - 1;
        values.distance = Math.min(values.distance, values.tokens - 1);
      },
      show: show
    };
  });
})();
