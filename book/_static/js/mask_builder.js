// The moving figure of chapter 05: masks, combined by "and"; what each query may see, and what a uniform head weighs.
// It computes what transformer_lib.visualisation.mask_builder computes (a test compares them). Needs moving.js.
(function () {
  "use strict";

  var TOKENS = ["<start>", "a", "small", "dog", "runs", "through", "the", "snow"], PAD = "<pad>";

  // The sentence, its last (or first) tokens replaced by padding.
  function sentence(padding, left) {
    var words = TOKENS.slice(0, TOKENS.length - padding), fill = TOKENS.slice(0, padding).map(function () { return PAD; });
    return left ? fill.concat(words) : words.concat(fill);
  }

  // chosen: causal, prefix, window (true or false), prefixLength, windowLength, padding (how many), left.
  function compute(chosen) {
    var tokens = sentence(chosen.padding, chosen.left);
    var mask = tokens.map(function (_, query) {
      return tokens.map(function (token, key) {
        return (!chosen.causal || key <= query) && (!chosen.prefix || key <= query || key < chosen.prefixLength) &&
          (!chosen.window || (key <= query && key > query - chosen.windowLength)) && token !== PAD;
      });
    });
    var allowed = mask.map(function (row) { return row.filter(Boolean).length; });
    var weights = mask.map(function (row, query) { return row.map(function (may) { return may ? 1 / allowed[query] : 0; }); });
    return { tokens: tokens, mask: mask, allowed: allowed, weights: weights };
  }

  if (typeof module !== "undefined" && module.exports) { module.exports = { compute: compute }; return; }

  moving.figure("mask-builder", function (data, change) {
    var element = moving.element, size = TOKENS.length, table = element("div"), formula = element("code");
    var grid = null, shown = "";

    function name(values) {
      var parts = [];
      if (values.causal) { parts.push("causal_mask(" + size + ")"); }
      if (values.prefix) { parts.push("prefix_mask(" + size + ", prefix=" + values.prefixLength + ")"); }
      if (values.window) { parts.push("sliding_window_mask(" + size + ", window=" + values.windowLength + ")"); }
      return parts.concat("padding_mask(tokens)").join(" & ");
    }

    function show(values) {
      var now = compute(values);
      if (shown !== now.tokens.join()) { // other tokens: another table, with the focus where it was
        var focused = table.contains(document.activeElement) && document.activeElement.tagName === "BUTTON";
        grid = moving.grid(now.tokens, now.tokens, "query \u2193 key \u2192", function (query) { change.to({ query: query }); });
        table.replaceChildren(grid.node);
        shown = now.tokens.join();
        if (focused) { grid.node.querySelectorAll("button")[values.query].focus(); }
      }
      now.mask.forEach(function (row, query) {
        row.forEach(function (may, key) {
          var cell = grid.cells[query][key], weight = now.weights[query][key];
          if (may) { moving.paint(cell, weight, weight === 1 ? "1" : weight.toFixed(2).slice(1)); return; }
          cell.style.background = "var(--m-track)";
          cell.style.color = "inherit";
          cell.replaceChildren(element("span", { "aria-hidden": "true", textContent: "\u00D7" }), moving.hidden("may not"));
        });
      });
      grid.mark(values.query);
      formula.textContent = name(values);
      var keys = now.tokens.filter(function (_, key) { return now.mask[values.query][key]; });
      var who = "Query " + values.query + " (" + now.tokens[values.query] + ") ";
      if (!keys.length) { return who + "may attend to no key at all: its weights are all zero, and so is its output."; }
      return who + "may attend to " + keys.length + " of " + size + " keys: " + keys.join(" ") + ". A uniform head gives each of them " +
        (1 / keys.length).toFixed(2) + ".";
    }

    return {
      title: "Which key may a query attend to?",
      controls: [
        { kind: "check", name: "causal", label: "causal", value: true },
        { kind: "check", name: "prefix", label: "prefix", value: false },
        { kind: "range", name: "prefixLength", beside: true, whose: "prefix", label: "of", min: 0, max: size, value: 3 },
        { kind: "check", name: "window", label: "window", value: false },
        { kind: "range", name: "windowLength", beside: true, whose: "window", label: "of", min: 1, max: size, value: 3 },
        { kind: "range", name: "padding", label: "padding tokens", min: 0, max: 4, value: 2 },
        { kind: "check", name: "left", beside: true, label: "padding first", value: false }
      ],
      values: { query: 3 },
      body: [element("p", {}, [formula]), table],
      adjust: function (values, handles) { // a length without its mask does nothing
        handles.prefixLength.input.disabled = !values.prefix;
        handles.windowLength.input.disabled = !values.window;
      },
      show: show
    };
  });
})();
