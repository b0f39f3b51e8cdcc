// Filters a page of blocks by their classes and by words: the ledger's claims, the index's complaints. The page works
// without it; nothing is loaded from elsewhere.
(function () {
  "use strict";

  function start() {
    var holder = document.querySelector(".ledger-controls");
    var claims = Array.prototype.slice.call(document.querySelectorAll(".claim, .symptom"));
    var FILTERS = { "verdict-": "Verdict", "chapter-": "Chapter", "group-": "About" };
    if (!holder || !claims.length) { return; }
    var noun = holder.dataset.noun || "claims";

    function select(label, options) {
      var wrapper = document.createElement("label"), control = document.createElement("select");
      wrapper.append(label, " ", control);
      options.forEach(function (option) { control.append(new Option(option[1], option[0])); });
      holder.append(wrapper);
      return control;
    }

    function value(claim, prefix) {
      var name = Array.prototype.find.call(claim.classList, function (one) { return one.indexOf(prefix) === 0; });
      return name ? name.slice(prefix.length) : "";
    }

    function found(prefix) {
      return claims.map(function (claim) { return value(claim, prefix); })
        .filter(function (one, i, all) { return one && all.indexOf(one) === i; });
    }

    var chosen = Object.keys(FILTERS).filter(function (prefix) { return found(prefix).length; }).map(function (prefix) {
      return { prefix: prefix, control: select(FILTERS[prefix], [["", "all"]].concat(found(prefix).map(function (name) {
        return [name, name.replace(/^0/, "").replace(/-/g, " ")];
      }))) };
    });
    if (document.querySelector(".claim.core")) {
      chosen.push({ prefix: "core", control: select("Show", [["", "all " + noun], ["core", "core " + noun]]) });
    }
    var wrapper = document.createElement("label"), words = document.createElement("input");
    words.type = "search";
    wrapper.append("Words ", words);
    var says = document.createElement("p");
    says.setAttribute("role", "status");
    holder.append(wrapper, says);
    holder.hidden = false;

    function show() {
      var left = 0, wanted = words.value.trim().toLowerCase();
      claims.forEach(function (claim) {
        var keep = chosen.every(function (one) {
          var name = one.prefix === "core" ? "core" : one.prefix + one.control.value;
          return !one.control.value || claim.classList.contains(name);
        }) && (!wanted || claim.textContent.toLowerCase().indexOf(wanted) >= 0);
        claim.hidden = !keep;
        left += keep ? 1 : 0;
      });
      document.querySelectorAll("article section section").forEach(function (section) {
        var inside = section.querySelectorAll(".claim, .symptom");
        section.hidden = inside.length > 0 && !section.querySelector(".claim:not([hidden]), .symptom:not([hidden])");
      });
      says.textContent = left + " of " + claims.length + " " + noun;
    }

    function reset() {
      chosen.forEach(function (one) { one.control.value = ""; });
      words.value = "";
      show();
    }

    chosen.forEach(function (one) { one.control.addEventListener("change", show); });
    words.addEventListener("input", show);
    window.addEventListener("beforeprint", reset);
    window.addEventListener("hashchange", function () {  // a link to a claim must find it
      var target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (target && (target.hidden || target.closest("[hidden]"))) { reset(); target.scrollIntoView(); }
    });
    show();
  }

  if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", start); } else { start(); }
})();
