// The moving figure of chapter 07: the learning rate of every step; warm-up, width, factor and tail are yours.
// It computes what transformer_lib.visualisation.rates computes (a test compares them). Needs moving.js.
(function () {
  "use strict";

  var POINTS = 210;

  // factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), led to 0 over the last steps.
  function compute(steps, warmup, dModel, factor, tail) {
    var last = Math.max(1, Math.round(tail * steps)), shown = { step: [], rate: [], peak: 0, at: 1, mean: 0 }, all = [];
    for (var step = 1; step <= steps; step++) {
      var rate = factor * Math.pow(dModel, -0.5) * Math.min(Math.pow(step, -0.5), step * Math.pow(warmup, -1.5)) *
        Math.min(1, (steps - step + 1) / last);
      all.push(rate);
      shown.mean += rate / steps;
      if (rate > shown.peak) { shown.peak = rate; shown.at = step; }
    }
    for (var point = 0; point <= POINTS; point++) {
      var here = Math.max(1, Math.round(steps * point / POINTS));
      if (here !== shown.step[shown.step.length - 1]) { shown.step.push(here); shown.rate.push(all[here - 1]); }
    }
    return shown;
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  var WARMUPS = [1, 10, 20, 40, 80, 160, 400, 1000, 4000];
  function counted(number) { return number.toLocaleString("en"); }
  function small(number) { return Number(number.toPrecision(3)).toString(); }

  moving.figure("learning-rate", function (data, change, holder) {
    var svg = moving.svg, body = moving.element("div");

    function draw(now, values) {
      var width = Math.min(Math.max(holder.clientWidth - 34, 250), 700), height = 230, left = 58, bottom = 36, top = 22;
      function across(step) { return left + step / values.steps * (width - left - 14); }
      function up(rate) { return height - bottom - rate / (now.peak * 1.08) * (height - bottom - top); }
      var parts = [svg("text", { x: left, y: 13, "font-weight": 600 }, ["learning rate (no unit)"])];
      [0, 0.5, 1].forEach(function (share) {
        var rate = share * now.peak;
        parts.push(svg("line", { x1: left, x2: width - 14, y1: up(rate), y2: up(rate), stroke: share ? "var(--m-track)" : "var(--m-line)" }));
        parts.push(svg("text", { x: left - 5, y: up(rate) + 4, "text-anchor": "end" }, [small(rate)]));
      });
      [0, 0.5, 1].forEach(function (share) {
        parts.push(svg("text", { x: across(share * values.steps), y: height - bottom + 15, "text-anchor": share === 1 ? "end" : "middle" }, [counted(share * values.steps)]));
      });
      parts.push(svg("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, ["step"]));
      var points = now.step.map(function (step, i) { return across(step).toFixed(1) + " " + up(now.rate[i]).toFixed(1); });
      parts.push(svg("path", { d: "M" + points.join("L"), fill: "none", stroke: "var(--m-query)", "stroke-width": 2 }));
      parts.push(svg("circle", { cx: across(now.at), cy: up(now.peak), r: 5, fill: "var(--m-key)" }));
      body.replaceChildren(svg("svg", { viewBox: "0 0 " + width + " " + height, width: width, height: height, "aria-hidden": "true" }, parts));
    }

    function show(values) {
      var warmup = WARMUPS[values.warmup], now = compute(values.steps, warmup, values.dModel, values.factor, values.tail);
      draw(now, values);
      return "The rate is highest at step " + counted(now.at) + ", with " + small(now.peak) + ". Its mean over all " + counted(values.steps) +
        " steps is " + small(now.mean) + ", " + Math.round(100 * now.mean / now.peak) + " % of the peak." +
        (warmup > now.at ? " It falls before the warm-up of " + counted(warmup) + " steps is over." : "");
    }

    return {
      title: "The learning rate of every step",
      controls: [
        { kind: "select", name: "steps", label: "steps", options: [420, 4000, 100000].map(function (n) { return [n, counted(n)]; }), value: 420 },
        { kind: "range", name: "warmup", label: "warm-up", min: 0, max: WARMUPS.length - 1, value: WARMUPS.indexOf(80),
          says: function (place) { return counted(WARMUPS[place]); } },
        { kind: "select", name: "dModel", label: "d_model", options: [64, 128, 256, 512], value: 64 },
        { kind: "range", name: "factor", label: "factor", min: 0.25, max: 4, step: 0.25, value: 1, says: function (f) { return f.toFixed(2); } },
        { kind: "range", name: "tail", label: "tail", min: 0, max: 1, step: 0.25, value: 0.5, says: function (t) { return Math.round(100 * t) + " %"; } }
      ],
      body: [body], show: show
    };
  });
})();
