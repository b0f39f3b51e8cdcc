// Filters the ledger's claims by verdict, chapter and words. The page works without it; nothing is loaded from elsewhere.
(function () {
  "use strict";

  function start() {
    var holder = document.querySelector(".ledger-controls");
    var claims = Array.prototype.slice.call(document.querySelectorAll(".claim"));
    if (!holder || !claims.length) { return; }

    function select(label, options) {
      var wrapper = document.createElement("label"), control = document.createElement("select");
      wrapper.append(label, " ", control);
      options.forEach(function (option) { control.append(new Option(option[1], option[0])); });
      holder.append(wrapper);
      return control;
    }

    function value(claim, prefix) {
      var name = Array.prototype.find.call(claim.classList, function (one) { return one.indexOf(prefix) === 0; });
      return name.slice(prefix.length);
    }

    function found(prefix) {
      return claims.map(function (claim) { return value(claim, prefix); })
        .filter(function (one, i, all) { return all.indexOf(one) === i; });
    }

    var verdict = select("Verdict", [["", "all"]].concat(found("verdict-").map(function (name) {
      return [name, name.replace(/-/g, " ")];
    })));
    var chapter = select("Chapter", [["", "all"]].concat(found("chapter-").map(function (name) {
      return [name, name.replace(/^0/, "")];
    })));
    var kind = select("Show", [["", "all claims"], ["core", "core claims"]]);
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
        var keep = (!verdict.value || value(claim, "verdict-") === verdict.value) &&
          (!chapter.value || value(claim, "chapter-") === chapter.value) &&
          (!kind.value || claim.classList.contains("core")) &&
          (!wanted || claim.textContent.toLowerCase().indexOf(wanted) >= 0);
        claim.hidden = !keep;
        left += keep ? 1 : 0;
      });
      document.querySelectorAll("article section section").forEach(function (section) {
        var inside = section.querySelectorAll(".claim");
        section.hidden = inside.length > 0 && !section.querySelector(".claim:not([hidden])");
      });
      says.textContent = left + " of " + claims.length + " claims";
    }

    function reset() { verdict.value = chapter.value = kind.value = words.value = ""; show(); }

    [verdict, chapter, kind].forEach(function (control) { control.addEventListener("change", show); });
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
