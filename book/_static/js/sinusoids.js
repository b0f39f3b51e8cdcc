// The moving figure of chapter 04: sinusoidal positions; the base, the width, the pair and the offset are yours.
// It computes what transformer_lib.visualisation.sinusoids computes (a test compares them). Needs moving.js.
(function () {
  "use strict";

  var LENGTH = 128, REACH = 50; // positions drawn, offsets to either side

  // PE(p) holds sin(p w) and cos(p w) for each pair i, with w = base^(-2i / d_model) radians per position.
  function compute(base, dModel, pair, offset) {
    function frequency(i) { return Math.pow(base, -2 * i / dModel); }
    var own = frequency(pair), sine = [], cosine = [], products = [], angle = offset * own;
    for (var position = 0; position < LENGTH; position++) { sine.push(Math.sin(position * own)); cosine.push(Math.cos(position * own)); }
    for (var k = -REACH; k <= REACH; k++) { // sin a sin b + cos a cos b = cos(a - b): no position is left in it
      var sum = 0;
      for (var i = 0; i < dModel / 2; i++) { sum += Math.cos(k * frequency(i)); }
      products.push(sum);
    }
    return { frequency: own, wavelength: 2 * Math.PI / own, sine: sine, cosine: cosine, products: products,
      rotation: [[Math.cos(angle), Math.sin(angle)], [-Math.sin(angle), Math.cos(angle)]] };
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  function signed(number, digits) { return number.toFixed(digits).replace("-", "\u2212"); }
  function path(points) { return "M" + points.map(function (p) { return p[0].toFixed(1) + " " + p[1].toFixed(1); }).join("L"); }

  moving.figure("sinusoids", function (data, change, holder) {
    var svg = moving.svg, turnSize = 210, waves = moving.element("div"), turn = moving.element("div"), products = moving.element("div");

    // Axes from x[0] to x[1] and y[0] to y[1]; `draw` gets the functions that place a number.
    function axes(node, width, height, x, y, labels, draw) {
      var left = 38, bottom = 34, top = 20;
      function across(value) { return left + (value - x[0]) / (x[1] - x[0]) * (width - left - 8); }
      function up(value) { return height - bottom - (value - y[0]) / (y[1] - y[0]) * (height - bottom - top); }
      var parts = [svg("text", { x: left, y: 13, "font-weight": 600 }, [labels.title])];
      labels.x.forEach(function (value, i) {
        parts.push(svg("line", { x1: across(value), x2: across(value), y1: top, y2: height - bottom, stroke: "var(--m-track)" }));
        parts.push(svg("text", { x: across(value), y: height - bottom + 14, "text-anchor": i === labels.x.length - 1 ? "end" : "middle" }, [signed(value, 0)]));
      });
      labels.y.forEach(function (value) {
        parts.push(svg("line", { x1: left, x2: width - 8, y1: up(value), y2: up(value), stroke: value === 0 ? "var(--m-line)" : "var(--m-track)" }));
        parts.push(svg("text", { x: left - 5, y: up(value) + 4, "text-anchor": "end" }, [signed(value, 0)]));
      });
      parts.push(svg("text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, [labels.below]));
      node.replaceChildren(svg("svg", { viewBox: "0 0 " + width + " " + height, width: width, height: height, "aria-hidden": "true" }, parts.concat(draw(across, up))));
    }

    function line(points, colour, dashed) {
      return svg("path", { d: path(points), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dashed ? "6 4" : "none" });
    }
    function dot(x, y, colour, hollow) {
      return svg("circle", { cx: x, cy: y, r: 5, fill: hollow ? "none" : colour, stroke: colour, "stroke-width": 2 });
    }

    function drawWaves(now, values, width) {
      var labels = { title: "the pair over the positions: sine (solid), cosine (dashed)", x: [0, 32, 64, 96, 127], y: [-1, 0, 1], below: "position" };
      if (width < 430) { labels.title = "sine (solid), cosine (dashed)"; }
      axes(waves, width, 170, [0, LENGTH - 1], [-1.1, 1.1], labels, function (across, up) {
        function curve(series) { return series.map(function (value, p) { return [across(p), up(value)]; }); }
        var marks = [];
        [values.position, values.position + values.offset].forEach(function (p, i) {
          if (p < 0 || p >= LENGTH) { return; }
          marks.push(svg("line", { x1: across(p), x2: across(p), y1: up(1.1), y2: up(-1.1), stroke: "var(--m-line)" }));
          marks.push(dot(across(p), up(now.sine[p]), "var(--m-query)", i));
          marks.push(dot(across(p), up(now.cosine[p]), "var(--m-key)", i));
        });
        return [line(curve(now.sine), "var(--m-query)"), line(curve(now.cosine), "var(--m-key)", true)].concat(marks);
      });
    }

    function drawTurn(now, values) {
      var size = turnSize, middle = 105, r = 72, from = values.position * now.frequency, to = from + values.offset * now.frequency;
      function place(angle, radius) { return [middle + radius * Math.cos(angle), middle + 8 - radius * Math.sin(angle)]; }
      var arc = [], steps = 60;
      for (var i = 0; i <= steps; i++) { arc.push(place(from + (to - from) * i / steps, r * 0.55)); }
      var a = place(from, r), b = place(to, r);
      turn.replaceChildren(svg("svg", { viewBox: "0 0 " + size + " " + size, width: size, height: size, "aria-hidden": "true" }, [
        svg("text", { x: 4, y: 13, "font-weight": 600 }, ["the point (cosine, sine)"]),
        svg("circle", { cx: middle, cy: middle + 8, r: r, fill: "none", stroke: "var(--m-line)" }),
        svg("path", { d: path([[middle, middle + 8], a]), stroke: "var(--m-output)", "stroke-width": 2, fill: "none" }),
        svg("path", { d: path([[middle, middle + 8], b]), stroke: "var(--m-output)", "stroke-width": 2, "stroke-dasharray": "5 4", fill: "none" }),
        svg("path", { d: path(arc), stroke: "var(--m-value)", "stroke-width": 3, fill: "none" }),
        dot(a[0], a[1], "var(--m-output)"), dot(b[0], b[1], "var(--m-output)", true),
        svg("text", { x: middle, y: size - 4, "text-anchor": "middle" }, ["filled: p, hollow: p + k"])]));
    }

    function drawProducts(now, values, width) {
      var half = values.dModel / 2;
      var labels = { title: "PE(p) \u00B7 PE(p + k), at every p", x: [-50, -25, 0, 25, 50], y: [0, half], below: "offset k (positions)" };
      axes(products, width, 210, [-REACH, REACH], [Math.min.apply(null, now.products.concat(0)) - half * 0.05, half * 1.08], labels, function (across, up) {
        var points = now.products.map(function (value, i) { return [across(i - REACH), up(value)]; });
        var here = points[values.offset + REACH];
        return [line(points, "var(--m-value)"), svg("line", { x1: here[0], x2: here[0], y1: up(0), y2: here[1], stroke: "var(--m-line)" }), dot(here[0], here[1], "var(--m-value)")];
      });
    }

    turn.style.flex = "0 0 " + turnSize + "px";

    function show(values) {
      var now = compute(values.base, values.dModel, values.pair, values.offset), room = Math.max(holder.clientWidth - 34, 250);
      drawWaves(now, values, Math.min(room, 700));
      drawTurn(now, values);
      drawProducts(now, values, Math.min(room > 520 ? room - 240 : room, 440));
      var wave = now.wavelength, turned = values.offset * now.frequency * 180 / Math.PI;
      return "Pair " + values.pair + " (dimensions " + 2 * values.pair + " and " + (2 * values.pair + 1) + ") has a wavelength of " +
        (wave < 100 ? wave.toFixed(1) : Math.round(wave).toLocaleString("en")) + " positions. From any position to the one " +
        Math.abs(values.offset) + (values.offset < 0 ? " before" : " after") + " it turns by " + signed(turned, 1) +
        "\u00B0. PE(p) \u00B7 PE(p + k) = " + signed(now.products[values.offset + REACH], 1) + " of at most " + values.dModel / 2 + ", whatever p is.";
    }

    return {
      title: "Sinusoidal positions",
      controls: [
        { kind: "select", name: "base", label: "base", options: [100, 1000, 10000, 500000].map(function (b) { return [b, b.toLocaleString("en")]; }), value: 10000 },
        { kind: "select", name: "dModel", label: "d_model", options: [16, 64, 128, 512], value: 64 },
        { kind: "range", name: "pair", label: "pair", min: 0, max: 31, value: 4 },
        { kind: "range", name: "position", label: "position p", min: 0, max: LENGTH - 1, value: 20 },
        { kind: "range", name: "offset", label: "offset k", min: -REACH, max: REACH, value: 6, says: function (k) { return signed(k, 0); } }
      ],
      body: [waves, moving.element("div", { className: "m-columns" }, [turn, products])],
      adjust: function (values, handles) { // fewer dimensions have fewer pairs
        handles.pair.input.max = values.dModel / 2 - 1;
        values.pair = Math.min(values.pair, values.dModel / 2 - 1);
      },
      show: show
    };
  });
})();
