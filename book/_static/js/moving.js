// What the book's moving figures share: elements, controls with labels, the sentence below, style, and the first state
// on paper. No dependency, no network. A figure's own script calls `moving.figure`; how is told there.
(function () {
  "use strict";
  if (window.moving) { return; } // a page with several figures names this script several times

  var STYLE =
    ".moving{border:1px solid var(--book-line,#d5dbe3);border-radius:.4rem;padding:.8rem 1rem;margin:1.2rem 0;font-size:.95rem;" +
    "--m-query:#2563a8;--m-key:#c2570c;--m-value:#2f7d4f;--m-output:#6b3fa0;--m-track:#e9edf2;--m-line:#8a8f98}" +
    "html[data-theme=dark] .moving{color-scheme:dark;--m-query:#7fb2ea;--m-key:#f0995a;--m-value:#7cc79a;--m-output:#b99be8;--m-track:#2c3442}" +
    ".reveal .moving{margin-right:90px}" + // beside the slides' arrows
    ".moving fieldset{border:0;margin:0 0 .7rem;padding:0;min-width:0;display:flex;flex-wrap:wrap;gap:.5rem 1.4rem;align-items:center}" +
    ".moving legend{font-weight:600;padding:0;margin-bottom:.3rem;font-size:1rem;float:none}" +
    ".moving label{display:inline-flex;align-items:center;gap:.5rem;min-height:2rem;margin:0;max-width:100%}" +
    ".moving .m-beside{display:inline-flex;flex-wrap:wrap;gap:.2rem 1rem;max-width:100%}" +
    ".moving input[type=range]{width:8.5rem;height:1.6rem;min-height:24px}" +
    ".moving input[type=checkbox]{width:max(1.5rem,24px);height:max(1.5rem,24px)}" +
    ".moving :is(select,button){font:inherit;color:inherit;min-height:max(2rem,24px);min-width:24px;max-width:100%;" +
    "border:1px solid currentColor;border-radius:.3rem;background:transparent}" +
    ".moving button{padding:.25rem .7rem}.moving select{padding:.1rem .3rem;min-width:0;flex:0 1 auto}" +
    ".moving option{color:#1b1b1b;background:#fff}" +
    ".moving button:disabled,.moving label:has(:disabled){opacity:.55}" +
    ".moving :is(button,select,input):focus-visible{outline:3px solid var(--m-key);outline-offset:1px}" +
    ".moving output{font-variant-numeric:tabular-nums;min-width:2.4em}" +
    ".moving .m-says{margin:.7rem 0}.moving .m-says:last-child{margin-bottom:0}" +
    ".moving .m-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}" +
    ".moving .m-track{position:relative;height:.95rem;background:var(--m-track);border-radius:2px;overflow:hidden}" +
    ".moving .m-fill{position:absolute;top:0;bottom:0;left:0}" +
    ".moving .m-bars{display:grid;gap:.15rem .5rem;align-items:center}" +
    ".moving .m-row{display:contents}" +
    ".moving .m-head{font-weight:600}" +
    ".moving .m-number{text-align:right;font-variant-numeric:tabular-nums;min-width:3.1em}" +
    ".moving svg{display:block;max-width:100%;height:auto}.moving svg text{fill:currentColor;font-size:12px}" +
    ".moving table.m-grid{border-collapse:separate;border-spacing:2px;table-layout:fixed;width:100%;max-width:34rem;margin:0;font-size:.85rem}" +
    ".moving .m-grid :is(th,td){border:0;padding:0;background:transparent;position:relative;height:1.6rem;vertical-align:middle;text-align:center}" +
    ".moving .m-grid col:first-child{width:6.4rem}" +
    ".moving .m-grid thead th{height:auto;vertical-align:bottom;font-weight:400}" +
    ".moving .m-grid thead th:first-child{text-align:left;font-size:.8rem}" +
    ".moving .m-grid .m-key{writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap;line-height:1.1}" +
    ".moving .m-grid th button{width:100%;min-height:max(1.6rem,24px);padding:0 .3rem;text-align:right;border-color:transparent;" +
    "white-space:nowrap;overflow:hidden;text-overflow:ellipsis;font-weight:400;font-size:inherit}" +
    ".moving .m-grid th button[aria-pressed=true]{border-color:var(--m-query);font-weight:700}" +
    ".moving .m-grid td{font-variant-numeric:tabular-nums;font-size:.72rem;border-radius:2px}" +
    ".moving .m-grid tr.m-chosen td{outline:2px solid var(--m-query)}" +
    ".moving .m-columns{display:flex;flex-wrap:wrap;gap:.8rem 1.6rem;align-items:flex-start}.moving .m-columns>*{flex:1 1 17rem;min-width:0}" +
    "@media (max-width:480px){.moving{padding:.6rem .5rem;font-size:.85rem}.moving .m-bars{gap:.15rem .3rem}.moving .m-number{min-width:2.6em}" +
    ".moving .m-grid{font-size:.78rem}.moving .m-grid thead th:first-child{font-size:.66rem;white-space:nowrap}.moving .m-grid col:first-child{width:4.9rem}.moving .m-grid td{font-size:.62rem}}" +
    "@media (pointer:coarse){.moving :is(label,select,button,input[type=range]){min-height:44px}.moving :is(select,button){min-width:44px}" +
    ".moving .m-grid th button{min-height:30px}}" +
    "@media print{.moving button:not(.m-grid button){display:none}" +
    ".moving :is(.m-fill,.m-track,td){print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

  // The colours of attention weights from 0 to 1, as in the book's other maps (YlGnBu).
  var WEIGHTS = ["ffffd9", "edf8b1", "c7e9b4", "7fcdbb", "41b6c4", "1d91c0", "225ea8", "253494", "081d58"].map(function (hex) {
    return [0, 2, 4].map(function (i) { return parseInt(hex.slice(i, i + 2), 16); });
  });

  function heat(weight) {
    var place = Math.min(Math.max(weight, 0), 1) * (WEIGHTS.length - 1), low = Math.min(Math.floor(place), WEIGHTS.length - 2);
    return "rgb(" + WEIGHTS[low].map(function (from, i) {
      return Math.round(from + (place - low) * (WEIGHTS[low + 1][i] - from));
    }).join(",") + ")";
  }

  function element(tag, properties, children) {
    var made = document.createElement(tag);
    Object.keys(properties || {}).forEach(function (name) {
      if (name !== "role" && name in made) { made[name] = properties[name]; } else { made.setAttribute(name, properties[name]); }
    });
    (children || []).forEach(function (child) { made.append(child); });
    return made;
  }

  function svg(tag, attributes, children) {
    var made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.keys(attributes || {}).forEach(function (name) { made.setAttribute(name, attributes[name]); });
    (children || []).forEach(function (child) { made.append(child); });
    return made;
  }

  function hidden(text) { return element("span", { className: "m-hidden", textContent: text }); }
  function track(parts) { return element("span", { className: "m-track", "aria-hidden": "true" }, parts); } // drawn, not read

  // Each control: its node, how to put a value into it, and what the user chose.
  var CONTROLS = {
    range: function (wanted, changed) {
      var input = element("input", { type: "range", min: wanted.min, max: wanted.max, step: wanted.step || 1 });
      var output = element("output", { "aria-live": "off" }), whose = wanted.whose ? wanted.whose + " " : ""; // read aloud only
      function say(value) {
        var text = String(wanted.says ? wanted.says(value) : value);
        output.textContent = text;
        input.setAttribute("aria-valuetext", whose + wanted.label + " " + text);
      }
      input.addEventListener("input", function () { changed(+input.value); });
      return { node: element("label", {}, (whose ? [hidden(whose)] : []).concat([wanted.label, input, output])), input: input, put: function (value) { input.value = value; say(value); } };
    },
    check: function (wanted, changed) {
      var input = element("input", { type: "checkbox" });
      input.addEventListener("change", function () { changed(input.checked); });
      return { node: element("label", {}, [input, wanted.label]), input: input, put: function (value) { input.checked = value; } };
    },
    select: function (wanted, changed) { // options: [value, text], or values alone; `fill` changes them
      var input = element("select"), values = [];
      function fill(options) {
        values = options.map(function (option) { return Array.isArray(option) ? option[0] : option; });
        input.replaceChildren.apply(input, options.map(function (option) {
          return element("option", { textContent: Array.isArray(option) ? option[1] : option });
        }));
      }
      fill(wanted.options);
      input.addEventListener("change", function () { changed(values[input.selectedIndex]); });
      return { node: element("label", {}, [wanted.label, input]), input: input, fill: fill, put: function (value) { input.selectedIndex = values.indexOf(value); } };
    },
    button: function (wanted, changed) {
      var input = element("button", { type: "button", textContent: wanted.label });
      input.addEventListener("click", function () { changed(); });
      return { node: input, input: input, put: function () {} };
    }
  };

  // A table of queries and keys. Its row names are buttons, which a finger, a key or (by `hover`) a mouse may choose.
  function grid(queries, keys, says, choose) {
    var cells = [], rows = [], names = [];
    var top = element("tr", {}, [element("th", { scope: "col" }, [element("span", { textContent: says })])].concat(keys.map(function (key) {
      return element("th", { scope: "col" }, [element("span", { className: "m-key", textContent: key })]);
    })));
    queries.forEach(function (query, i) {
      var name = element("button", { type: "button", textContent: query, title: query });
      cells.push(keys.map(function () { return element("td"); }));
      rows.push(element("tr", {}, [element("th", { scope: "row" }, [name])].concat(cells[i])));
      names.push(name);
      name.addEventListener("click", function () { choose(i); });
      name.addEventListener("focus", function () { choose(i); });
      rows[i].addEventListener("pointerenter", function (event) { if (event.pointerType === "mouse") { choose(i); } });
      rows[i].addEventListener("click", function () { choose(i); });
    });
    var columns = element("colgroup", {}, [element("col")].concat(keys.map(function () { return element("col"); })));
    var node = element("table", { className: "m-grid" }, [columns, element("thead", {}, [top]), element("tbody", {}, rows)]);
    function mark(chosen) {
      rows.forEach(function (row, i) {
        row.classList.toggle("m-chosen", i === chosen);
        names[i].setAttribute("aria-pressed", i === chosen);
      });
    }
    return { node: node, cells: cells, mark: mark };
  }

  // Colour a cell by its weight, with a number that is shown or only read aloud.
  function paint(cell, weight, text) {
    cell.style.background = heat(weight);
    cell.style.color = weight < 0.68 ? "#000" : "#fff"; // whichever is easier to read
    cell.replaceChildren(text === undefined ? hidden(weight.toFixed(2)) : text);
  }

  function bars(columns, label) {
    var node = element("div", { className: "m-bars", role: "table", "aria-label": label });
    node.style.gridTemplateColumns = columns;
    return node;
  }

  // Draw each row [name, weight] as a bar with its number.
  function drawBars(node, heads, rows, colour) {
    node.replaceChildren.apply(node, [element("div", { className: "m-row", role: "row" }, [
      element("span", { className: "m-head", role: "columnheader", textContent: heads[0] }),
      element("span", { "aria-hidden": "true" }),
      element("span", { className: "m-head m-number", role: "columnheader", textContent: heads[1] })])].concat(rows.map(function (row) {
      var fill = element("span", { className: "m-fill" });
      fill.style.cssText = "background:" + colour + ";width:" + row[1] * 100 + "%";
      return element("div", { className: "m-row", role: "row" }, [element("span", { role: "rowheader", textContent: row[0] }),
        track([fill]), element("span", { className: "m-number", role: "cell", textContent: row[1].toFixed(3) })]);
    })));
  }

  function run(holder, wanted, change) {
    var first = Object.assign({}, wanted.values), values, kept = null, handles = {}, width = 0;
    var says = element("p", { className: "m-says", "aria-live": "polite" });

    function refresh() {
      if (wanted.adjust) { wanted.adjust(values, handles); }
      Object.keys(handles).forEach(function (name) { handles[name].put(values[name]); });
      width = holder.clientWidth;
      var sentence = wanted.show(values);
      if (says.textContent !== sentence) { says.textContent = sentence; }
    }
    function change_to(changes) { Object.assign(values, changes); refresh(); }
    change.to = change_to;

    var nodes = [];
    wanted.controls.forEach(function (control) {
      var made = CONTROLS[control.kind](control, function (value) {
        if (control.kind === "button") { control.press(values); } else { values[control.name] = value; }
        refresh();
      });
      if (control.name) { handles[control.name] = made; first[control.name] = control.value; }
      if (control.beside) { nodes.push(element("span", { className: "m-beside" }, [nodes.pop(), made.node])); } else { nodes.push(made.node); }
    });
    holder.replaceChildren.apply(holder, [element("fieldset", {}, [element("legend", { textContent: wanted.title })].concat(nodes))]
      .concat(wanted.saysFirst ? [says] : [], wanted.body, wanted.saysFirst ? [] : [says]));
    window.addEventListener("beforeprint", function () { kept = values; values = Object.assign({}, first); refresh(); });
    window.addEventListener("afterprint", function () { if (kept) { values = kept; kept = null; refresh(); } });
    if (window.ResizeObserver) { // what is drawn to fit is drawn anew when the page gets wider or narrower
      new ResizeObserver(function () { if (Math.abs(holder.clientWidth - width) > 1) { refresh(); } }).observe(holder);
    }
    values = Object.assign({}, first);
    refresh();
  }

  // Bring every holder of class `name` on the page to life. `make(data, change, holder)` returns
  //   title, controls [{kind: range | check | select | button, name, label, value, ..., beside: the one before,
  //   whose: a word read aloud before a short label}], body [elements],
  //   values {what has no control}, adjust(values, handles) before each drawing, show(values), which draws and
  //   returns the sentence below (above, if `saysFirst`). `change.to({name: value})` is for what else can be chosen. The data are the global
  //   variable that the holder names in `data-source`.
  function figure(name, make) {
    var own = name.replace(/-(.)/g, function (_, letter) { return letter.toUpperCase(); }) + "Data";
    function start() {
      if (!document.getElementById("moving-style")) { document.head.append(element("style", { id: "moving-style", textContent: STYLE })); }
      document.querySelectorAll("." + name).forEach(function (holder) {
        if (holder.classList.contains("moving")) { return; } // this script is on the page twice
        holder.classList.add("moving");
        var change = {};
        run(holder, make(window[holder.dataset.source || own], change, holder), change);
      });
    }
    if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", start); } else { start(); }
  }

  window.moving = { figure: figure, element: element, svg: svg, hidden: hidden, track: track, heat: heat, grid: grid,
    paint: paint, bars: bars, drawBars: drawBars };
})();
